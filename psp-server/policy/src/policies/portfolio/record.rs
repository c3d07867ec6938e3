//! What arrived lately, and how long requests took: all that a study knows of a workload.

use crate::request_type::TypeTable;

/// Latest arrivals that are kept.
pub(super) const ARRIVALS_MAX: usize = 65_536;
/// Latest service times of each type that are kept.
const SERVICES_MAX: usize = 4_096;

/// An arrival: its type's slot, and the time since the one before, at most some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) gap_ns: u32,
    pub(super) slot: u16,
}

/// See the [module](self). Both rings are full once they have as many entries as they may.
#[derive(Debug, Clone)]
pub(super) struct Record {
    arrivals: Vec<Arrival>,
    oldest: usize,
    last_ns: Option<u64>,
    /// Per type slot: how many of the arrivals.
    counts: Vec<u32>,
    /// Per type slot, `UNKNOWN` last.
    services: Vec<Services>,
}

/// The latest service times of a type, in nanoseconds, at most some seconds.
#[derive(Debug, Clone)]
struct Services {
    times_ns: Vec<u32>,
    oldest: usize,
    total_ns: u64,
}

impl Record {
    pub(super) fn new(types: &TypeTable) -> Self {
        let services = Services {
            times_ns: Vec::with_capacity(SERVICES_MAX),
            oldest: 0,
            total_ns: 0,
        };
        Self {
            arrivals: Vec::with_capacity(ARRIVALS_MAX),
            oldest: 0,
            last_ns: None,
            counts: vec![0; types.len() + 1],
            services: vec![services; types.len() + 1],
        }
    }

    #[inline]
    pub(super) fn arrived(&mut self, now_ns: u64, slot: usize) {
        let gap_ns = now_ns - self.last_ns.unwrap_or(now_ns);
        self.last_ns = Some(now_ns);
        let arrival = Arrival {
            gap_ns: u32::try_from(gap_ns).unwrap_or(u32::MAX),
            slot: slot as u16,
        };
        self.counts[slot] += 1;
        let gone = push(&mut self.arrivals, &mut self.oldest, ARRIVALS_MAX, arrival);
        if let Some(gone) = gone {
            self.counts[usize::from(gone.slot)] -= 1;
        }
    }

    #[inline]
    pub(super) fn took(&mut self, slot: usize, service_ns: u64) {
        let Services { times_ns, oldest, total_ns } = &mut self.services[slot];
        let service_ns = u32::try_from(service_ns).unwrap_or(u32::MAX).max(1);
        let gone = push(times_ns, oldest, SERVICES_MAX, service_ns);
        *total_ns += u64::from(service_ns);
        *total_ns -= u64::from(gone.unwrap_or_default());
    }

    /// The arrivals, the oldest first.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = Arrival> + Clone + '_ {
        let (newer, older) = self.arrivals.split_at(self.oldest);
        older.iter().chain(newer).copied()
    }

    /// The service times of a type, in no order that matters.
    pub(super) fn services_ns(&self, slot: usize) -> &[u32] {
        &self.services[slot].times_ns
    }

    /// The mean of the type's service times; `None` if it has none.
    pub(super) fn mean_ns(&self, slot: usize) -> Option<f64> {
        let Services { times_ns, total_ns, .. } = &self.services[slot];
        (!times_ns.is_empty()).then(|| *total_ns as f64 / times_ns.len() as f64)
    }

    /// The type's part of the arrivals.
    pub(super) fn share(&self, slot: usize) -> f64 {
        f64::from(self.counts[slot]) / self.arrivals.len().max(1) as f64
    }

    /// How many of the arrivals each type slot has.
    pub(super) fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Per type slot: its part of the demand, of so many requests of each.
    pub(super) fn demand_shares(&self, counts: &[u32]) -> Vec<f64> {
        let demand = |(slot, count): (usize, &u32)| f64::from(*count) * self.mean_ns(slot).unwrap_or_default();
        let demands: Vec<f64> = counts.iter().enumerate().map(demand).collect();
        let total = demands.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        demands.iter().map(|demand| demand / total).collect()
    }

    /// The mean service time of all arrivals of which it is known.
    pub(super) fn mean_of_all_ns(&self) -> f64 {
        let known = (0..self.counts.len()).filter_map(|slot| {
            let share = self.share(slot);
            Some((share, share * self.mean_ns(slot)?))
        });
        let (shares, times_ns) =
            known.fold((0.0, 0.0), |(shares, times_ns), (share, time_ns)| (shares + share, times_ns + time_ns));
        times_ns / f64::max(shares, f64::MIN_POSITIVE)
    }
}

/// Appends to a ring, in place of its oldest entry if it is full. Returns that.
#[inline]
fn push<T>(ring: &mut Vec<T>, oldest: &mut usize, max: usize, entry: T) -> Option<T> {
    if ring.len() < max {
        ring.push(entry);
        return None;
    }
    let gone = std::mem::replace(&mut ring[*oldest], entry);
    *oldest = (*oldest + 1) % max;
    Some(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_type::TypeSpec;

    #[test]
    fn the_latest_are_kept_in_their_order() {
        let types: TypeTable = [TypeSpec::new("ONE")].into_iter().collect();
        let mut record = Record::new(&types);
        let all = ARRIVALS_MAX as u64 + 10;
        for number in 0..all {
            record.arrived(number * number, (number % 2) as usize);
            record.took(1, number);
        }
        let gaps: Vec<u32> = record.arrivals().map(|arrival| arrival.gap_ns).collect();
        assert_eq!(gaps.len(), ARRIVALS_MAX);
        assert_eq!(gaps[0], 2 * 10 - 1);
        assert!(gaps.is_sorted());
        assert_eq!(record.services_ns(1).len(), SERVICES_MAX);
        let oldest_kept = all as u32 - SERVICES_MAX as u32;
        assert_eq!(record.services_ns(1).iter().min(), Some(&oldest_kept));
        assert_eq!(record.mean_ns(0), None);
        let mean_ns = f64::from(oldest_kept + all as u32 - 1) / 2.0;
        assert_eq!(record.mean_ns(1), Some(mean_ns));
        assert_eq!(record.share(0), 0.5);
        assert_eq!(record.mean_of_all_ns(), mean_ns);
    }

    #[test]
    fn means_are_of_the_types_whose_service_times_are_known() {
        let types: TypeTable = ["ONE", "OTHER"].map(TypeSpec::new).into_iter().collect();
        let mut record = Record::new(&types);
        assert_eq!((record.mean_of_all_ns(), record.share(0)), (0.0, 0.0));
        assert_eq!(record.demand_shares(&[1, 1, 1]), [0.0; 3]);
        for slot in [0, 0, 0, 1, 2, 2, 2, 2] {
            record.arrived(0, slot);
        }
        record.took(0, 10);
        record.took(0, 30);
        record.took(1, 140);
        assert_eq!(record.counts(), [3, 1, 4]);
        assert_eq!([0, 1, 2].map(|slot| record.mean_ns(slot)), [Some(20.0), Some(140.0), None]);
        assert_eq!([0, 1, 2].map(|slot| record.share(slot)), [0.375, 0.125, 0.5]);
        assert_eq!(record.mean_of_all_ns(), 50.0);
        assert_eq!(record.demand_shares(record.counts()), [0.3, 0.7, 0.0]);
        assert_eq!(record.demand_shares(&[7, 3, 9]), [0.25, 0.75, 0.0]);
    }
}
