//! How many cores each server gets.
//!
//! Two rounds, each from the highest level to the lowest: first the cores that servers have as their least, then what
//! they want beyond. Within a level, servers get one core in turn (Arachne, section 4: "divides the cores evenly").
//! Where a level's cores do not divide evenly, servers keep what they have.

use std::collections::BTreeMap;

use crate::registration::Priority;

/// What a server asks for, and what it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub(super) user: u32,
    pub(super) priority: Priority,
    /// Of `wanted`, what higher levels leave to it.
    pub(super) least: usize,
    pub(super) wanted: usize,
    pub(super) held: usize,
}

/// How many of `cores` cores each server gets, in the order of `demands`. `cores_of_user` is how many the servers of a
/// user get together.
pub(super) fn allocate(demands: &[Demand], cores: usize, cores_of_user: impl Fn(u32) -> usize) -> Vec<usize> {
    let mut granted = vec![0; demands.len()];
    let mut left = cores;
    let mut left_of_user: BTreeMap<u32, usize> = BTreeMap::new();
    for demand in demands {
        let cores = || cores_of_user(demand.user);
        left_of_user.entry(demand.user).or_insert_with(cores);
    }
    let least = |demand: &Demand| demand.least.min(demand.wanted);
    let wanted = |demand: &Demand| demand.wanted;
    let rounds: [&dyn Fn(&Demand) -> usize; 2] = [&least, &wanted];
    for up_to in rounds {
        for level in Priority::all() {
            while left > 0 {
                let is_next = |&(index, demand): &(usize, &Demand)| {
                    demand.priority == level && granted[index] < up_to(demand) && left_of_user[&demand.user] > 0
                };
                let turn = |&(index, demand): &(usize, &Demand)| {
                    let would_be_moved = demand.held <= granted[index];
                    (granted[index], would_be_moved, index)
                };
                let candidates = demands.iter().enumerate().filter(is_next);
                let Some((index, demand)) = candidates.min_by_key(turn) else {
                    break;
                };
                granted[index] += 1;
                left -= 1;
                *left_of_user.entry(demand.user).or_default() -= 1;
            }
        }
    }
    granted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNLIMITED: fn(u32) -> usize = |_| usize::MAX;

    fn demand(level: u8, least: usize, wanted: usize, held: usize) -> Demand {
        Demand {
            user: 0,
            priority: Priority::new(level).unwrap(),
            least,
            wanted,
            held,
        }
    }

    #[test]
    fn higher_levels_come_first_and_a_level_is_divided_evenly() {
        for (demands, cores, expected) in [
            (vec![demand(0, 0, 5, 0), demand(1, 0, 5, 0)], 7, vec![5, 2]),
            (vec![demand(3, 0, 5, 0), demand(1, 0, 9, 0)], 7, vec![0, 7]),
            (vec![demand(2, 0, 5, 0), demand(2, 0, 5, 0)], 6, vec![3, 3]),
            (vec![demand(2, 0, 1, 0), demand(2, 0, 5, 0)], 6, vec![1, 5]),
            // The least of a lower level comes before what a higher one wants beyond its own.
            (vec![demand(7, 1, 4, 0), demand(0, 0, 9, 0)], 4, vec![1, 3]),
            // An odd core stays where it is.
            (vec![demand(2, 0, 5, 2), demand(2, 0, 5, 3)], 5, vec![2, 3]),
            (vec![demand(2, 0, 5, 3), demand(2, 0, 5, 2)], 5, vec![3, 2]),
            (vec![], 5, vec![]),
        ] {
            assert_eq!(allocate(&demands, cores, UNLIMITED), expected, "{demands:?}");
        }
    }

    #[test]
    fn the_servers_of_a_user_share_its_limit() {
        let of = |user, level, wanted| Demand { user, ..demand(level, 0, wanted, 0) };
        let demands = [of(7, 0, 5), of(8, 0, 5), of(7, 1, 5)];
        let limit = |user| if user == 7 { 3 } else { usize::MAX };
        assert_eq!(allocate(&demands, 10, limit), [3, 5, 0]);
    }

    fn demands() -> impl Strategy<Value = Vec<Demand>> {
        let one = (0..3_u32, 0..8_u8, 0..4_usize, 0..9_usize, 0..9_usize)
            .prop_map(|(user, level, least, wanted, held)| Demand { user, ..demand(level, least, wanted, held) });
        proptest::collection::vec(one, 0..8)
    }

    proptest! {
        #[test]
        fn cores_go_to_those_who_come_first(demands in demands(), cores in 0..20_usize, limit in 0..12_usize) {
            let limit = |user| if user == 0 { limit } else { usize::MAX };
            let granted = allocate(&demands, cores, limit);
            let total: usize = granted.iter().sum();
            prop_assert!(total <= cores);
            for (index, demand) in demands.iter().enumerate() {
                prop_assert!(granted[index] <= demand.wanted);
            }
            let of_user: usize = (0..demands.len()).filter(|&i| demands[i].user == 0).map(|i| granted[i]).sum();
            prop_assert!(of_user <= limit(0));
            // Who would take more, and may.
            let hungry = |i: usize| granted[i] < demands[i].wanted && (demands[i].user != 0 || of_user < limit(0));
            for i in (0..demands.len()).filter(|&i| hungry(i)) {
                prop_assert!(total == cores, "a core is left although {:?} wants it", demands[i]);
                for (j, other) in demands.iter().enumerate() {
                    let beyond_least = granted[j] > other.least.min(other.wanted);
                    if other.priority > demands[i].priority {
                        prop_assert!(!beyond_least, "{other:?} has what {:?} wants", demands[i]);
                    }
                    if other.priority == demands[i].priority && beyond_least {
                        prop_assert!(granted[j] <= granted[i] + 1, "{granted:?} is not even");
                    }
                }
            }
        }

        #[test]
        fn the_same_demands_move_no_core(demands in demands(), cores in 0..20_usize, limit in 0..12_usize) {
            let limit = |user| if user == 0 { limit } else { usize::MAX };
            let granted = allocate(&demands, cores, limit);
            let mut settled = demands.clone();
            for (demand, &granted) in settled.iter_mut().zip(&granted) {
                demand.held = granted;
            }
            prop_assert_eq!(allocate(&settled, cores, limit), granted);
        }
    }
}
