//! Where the cores of a machine are: which are hardware threads of one physical core, which share a cache, and which a NUMA
//! node. From `/sys/devices/system`, so that nothing is assumed of how a machine numbers its cores.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::cores::{CoreId, CoreSet};

/// Levels of caches are below this.
const CACHES_MAX: usize = 10;

/// Where a core is. What several cores have in common is named by the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    node: usize,
    /// The cores that share the largest cache.
    cache: CoreId,
    /// The hardware threads of a physical core.
    physical: CoreId,
}

/// The places of cores, as far as the system tells them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    places: BTreeMap<CoreId, Place>,
}

impl Topology {
    /// The places of these cores on this machine.
    #[must_use]
    pub fn discover(cores: &CoreSet) -> Self {
        Self::read(Path::new("/sys/devices/system"), cores)
    }

    /// The places of these cores as a tree like `/sys/devices/system` has them. A core whose place is not known is as good
    /// as any other.
    #[must_use]
    pub fn read(root: &Path, cores: &CoreSet) -> Self {
        let set = |path: String| -> Option<CoreSet> { fs::read_to_string(root.join(path)).ok()?.trim().parse().ok() };
        let first = |path: String| set(path)?.iter().next();
        let nodes = set("node/online".to_owned()).unwrap_or_default();
        let nodes = nodes.iter().map(CoreId::number);
        let nodes: Vec<_> = nodes.filter_map(|node| Some((node, set(format!("node/node{node}/cpulist"))?))).collect();
        let place = |core: CoreId| {
            let topology = format!("cpu/cpu{core}/topology");
            let physical = first(format!("{topology}/core_cpus_list"));
            let physical = physical.or_else(|| first(format!("{topology}/thread_siblings_list")))?;
            let shared = |index| first(format!("cpu/cpu{core}/cache/index{index}/shared_cpu_list"));
            // The largest is the last.
            let cache = { 0..CACHES_MAX }.map_while(shared).last().unwrap_or(physical);
            let node = nodes.iter().find(|(_, cores)| cores.contains(core));
            Some(Place { node: node.map_or(0, |(node, _)| *node), cache, physical })
        };
        Self {
            places: cores.iter().filter_map(|core| Some((core, place(core)?))).collect(),
        }
    }

    /// The order in which the threads of a server take these cores: the first core with the most cores on its node, then
    /// those of the same node, a thread of each physical core before the second ones. The other threads of the first core
    /// come last of all: a net thread has its core for itself as long as there are others.
    #[must_use]
    pub fn order(&self, cores: &CoreSet) -> Vec<CoreId> {
        let place = |core: CoreId| {
            let alone = Place { node: 0, cache: core, physical: core };
            self.places.get(&core).copied().unwrap_or(alone)
        };
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        cores.iter().for_each(|core| *sizes.entry(place(core).node).or_default() += 1);
        let mut threads: BTreeMap<CoreId, usize> = BTreeMap::new();
        let ranked = cores.iter().map(|core| {
            let Place { node, cache, physical } = place(core);
            let thread = threads.entry(physical).or_default();
            *thread += 1;
            ((Reverse(sizes[&node]), node, *thread, cache, core), core)
        });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_unstable();
        let order = ranked.into_iter().map(|(_, core)| core);
        let mut order: Vec<_> = order.collect();
        let Some(&first) = order.first() else {
            return order;
        };
        order.sort_by_key(|&core| core != first && place(core).physical == place(first).physical);
        order
    }

    /// The core of `free` that suits a server with the cores `held` best: one of a physical core that no other server has a
    /// thread of, as two such threads slow each other down. Then a hardware thread beside one that the server has, a core
    /// with the same cache, one of the same node, and one that it had before. Among equals the last one, because interrupts
    /// and everything unmanaged prefer the first cores.
    pub(crate) fn best(
        &self,
        free: &CoreSet,
        held: &CoreSet,
        of_others: &CoreSet,
        was_its_own: impl Fn(CoreId) -> bool,
    ) -> Option<CoreId> {
        let any = |cores: &CoreSet, like: &dyn Fn(&Place) -> bool| {
            let mut places = cores.iter().filter_map(|core| self.places.get(&core));
            places.any(like)
        };
        let merit = |&core: &CoreId| {
            let place = self.places.get(&core);
            let shares = |cores: &CoreSet| any(cores, &|other| Some(other.physical) == place.map(|it| it.physical));
            let same_cache = any(held, &|other| Some(other.cache) == place.map(|it| it.cache));
            let same_node = any(held, &|other| Some(other.node) == place.map(|it| it.node));
            (!shares(of_others), shares(held), same_cache, same_node, was_its_own(core), core)
        };
        free.iter().max_by_key(merit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each core's node, and the lists of those that share its largest cache and its physical core.
    type Machine<'a> = &'a [(usize, &'a str, &'a str)];

    /// One node; the second threads of four physical cores come behind the first ones.
    const SPLIT: Machine<'_> = &[
        (0, "0-7", "0,4"),
        (0, "0-7", "1,5"),
        (0, "0-7", "2,6"),
        (0, "0-7", "3,7"),
        (0, "0-7", "0,4"),
        (0, "0-7", "1,5"),
        (0, "0-7", "2,6"),
        (0, "0-7", "3,7"),
    ];

    /// One node with two caches; the threads of a physical core have adjacent numbers.
    const ADJACENT: Machine<'_> = &[
        (0, "0-3", "0-1"),
        (0, "0-3", "0-1"),
        (0, "0-3", "2-3"),
        (0, "0-3", "2-3"),
        (0, "4-7", "4-5"),
        (0, "4-7", "4-5"),
        (0, "4-7", "6-7"),
        (0, "4-7", "6-7"),
    ];

    /// Two nodes whose cores take turns.
    const TWO_NODES: Machine<'_> = &[
        (0, "0,2,4,6", "0,4"),
        (1, "1,3,5,7", "1,5"),
        (0, "0,2,4,6", "2,6"),
        (1, "1,3,5,7", "3,7"),
        (0, "0,2,4,6", "0,4"),
        (1, "1,3,5,7", "1,5"),
        (0, "0,2,4,6", "2,6"),
        (1, "1,3,5,7", "3,7"),
    ];

    fn set(text: &str) -> CoreSet {
        text.parse().unwrap()
    }

    /// Writes the machine as Linux shows it, and reads that.
    fn topology(machine: Machine<'_>) -> Topology {
        let root = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        let mut nodes: BTreeMap<usize, CoreSet> = BTreeMap::new();
        for (core, &(node, cache, physical)) in machine.iter().enumerate() {
            write(format!("cpu/cpu{core}/topology/core_cpus_list"), physical);
            write(format!("cpu/cpu{core}/cache/index0/shared_cpu_list"), physical);
            write(format!("cpu/cpu{core}/cache/index1/shared_cpu_list"), cache);
            nodes.entry(node).or_default().insert(CoreId::new(core).unwrap());
        }
        for (node, cores) in &nodes {
            write(format!("node/node{node}/cpulist"), &cores.to_string());
        }
        write("node/online".to_owned(), &format!("0-{}", nodes.len() - 1));
        Topology::read(root.path(), &set("0-7"))
    }

    #[test]
    fn threads_have_physical_cores_of_their_own_and_one_node_first() {
        let order = |machine, cores: &str| {
            let order = topology(machine).order(&set(cores));
            order.into_iter().map(CoreId::number).collect::<Vec<_>>()
        };
        assert_eq!(order(SPLIT, "0-7"), [0, 1, 2, 3, 5, 6, 7, 4]);
        assert_eq!(order(SPLIT, "0,4,5"), [0, 5, 4], "beside the first one last");
        assert_eq!(order(ADJACENT, "0-7"), [0, 2, 4, 6, 3, 5, 7, 1]);
        assert_eq!(order(ADJACENT, "2-5"), [2, 4, 5, 3], "as far as a server may use them");
        assert_eq!(order(TWO_NODES, "0-7"), [0, 2, 6, 1, 3, 5, 7, 4]);
        assert_eq!(order(TWO_NODES, "0,1,3,5"), [1, 3, 0, 5], "where there are more");
        assert!(order(SPLIT, "").is_empty());
    }

    #[test]
    fn a_server_gets_the_nearest_core_that_it_shares_with_no_other() {
        let best = |machine, free: &str, held: &str, of_others: &str, before: usize| {
            let was_its_own = |core: CoreId| core.number() == before;
            let best = topology(machine).best(&set(free), &set(held), &set(of_others), was_its_own);
            best.map(CoreId::number)
        };
        assert_eq!(best(SPLIT, "0-7", "", "", 99), Some(7));
        assert_eq!(best(SPLIT, "1-7", "0", "", 99), Some(4), "the other thread of core 0");
        assert_eq!(best(SPLIT, "0-6", "", "7", 3), Some(6), "whole, though it had the other one before");
        assert_eq!(best(SPLIT, "3", "", "7", 99), Some(3), "there is no other");
        assert_eq!(best(ADJACENT, "0,2,4,6", "1", "3", 99), Some(0));
        assert_eq!(best(ADJACENT, "2,4,6", "0-1", "", 99), Some(2), "the same cache");
        assert_eq!(best(TWO_NODES, "1-3,5-7", "0,4", "", 99), Some(6), "the same node");
        assert_eq!(best(TWO_NODES, "0-7", "", "", 3), Some(3), "the one that it had before");
        assert_eq!(best(SPLIT, "", "", "", 3), None);
    }

    #[test]
    fn a_machine_that_says_nothing_has_equal_cores() {
        let topology = Topology::read(Path::new("/nowhere"), &set("0-3"));
        assert_eq!(topology, Topology::default());
        assert_eq!(topology.order(&set("1-3")).into_iter().map(CoreId::number).collect::<Vec<_>>(), [1, 2, 3]);
        let best = topology.best(&set("0-3"), &set("0"), &set(""), |core| core.number() == 1);
        assert_eq!(best.map(CoreId::number), Some(1));
    }
}
