//! Which hardware threads share a core, and which cores share a socket; and which free core suits a server best.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cores::{CoreId, CoreSet};

/// Where a hardware thread is: its socket, and its core there.
type Place = (u32, u32);

/// Where the cores of a machine are.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    places: BTreeMap<CoreId, Place>,
}

impl Topology {
    /// Reads `/sys/devices/system/cpu`. A core whose place is not known is as good as any other.
    #[must_use]
    pub fn discover(cores: &CoreSet) -> Self {
        let number = |core: CoreId, file: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{core}/topology/{file}");
            let text = std::fs::read_to_string(Path::new(&path)).ok()?;
            text.trim().parse().ok()
        };
        let place = |core| Some((number(core, "physical_package_id")?, number(core, "core_id")?));
        let places = cores.iter().filter_map(|core| Some((core, place(core)?)));
        Self { places: places.collect() }
    }

    /// Cores at these places, as `(core, socket, core of the socket)`.
    #[cfg(test)]
    pub(super) fn of(places: &[(usize, u32, u32)]) -> Self {
        let places = places.iter();
        Self {
            places: places
                .map(|&(core, socket, physical)| (CoreId::new(core).unwrap(), (socket, physical)))
                .collect(),
        }
    }

    /// The core of `free` that suits a server with the cores `held` best: a hardware thread beside one that it has,
    /// then a core of a socket where it has one, then one that it had before. Among equals the last one, because
    /// interrupts and everything unmanaged prefer the first cores.
    pub(super) fn best(
        &self,
        free: &CoreSet,
        held: impl Iterator<Item = CoreId> + Clone,
        was_its_own: impl Fn(CoreId) -> bool,
    ) -> Option<CoreId> {
        let merit = |&core: &CoreId| {
            let place = self.places.get(&core);
            let mut places = held.clone().filter_map(|held| self.places.get(&held));
            let beside = place.is_some_and(|place| places.clone().any(|held| held == place));
            let near = place.is_some_and(|place| places.any(|held| held.0 == place.0));
            (beside, near, was_its_own(core), core)
        };
        free.iter().max_by_key(merit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(number: usize) -> CoreId {
        CoreId::new(number).unwrap()
    }

    #[test]
    fn a_server_gets_the_nearest_core() {
        // Two sockets of two cores of two hardware threads.
        let places = [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1), (4, 0, 0), (5, 0, 1), (6, 1, 0), (7, 1, 1)];
        let topology = Topology::of(&places);
        let best = |free: &str, held: &[usize], before: usize| {
            let held = held.iter().map(|&number| core(number));
            let best = topology.best(&free.parse().unwrap(), held, |core| core.number() == before);
            best.map(CoreId::number)
        };
        assert_eq!(best("0-7", &[], 99), Some(7));
        assert_eq!(best("1-7", &[0], 99), Some(4), "the other thread of core 0");
        assert_eq!(best("1-3,5-7", &[0, 4], 99), Some(5), "another core of the socket");
        assert_eq!(best("0-7", &[], 3), Some(3), "the one that it had before");
        assert_eq!(best("", &[], 3), None);
    }

    #[test]
    fn a_machine_that_says_nothing_has_equal_cores() {
        let free = "0-3".parse().unwrap();
        let best = Topology::default().best(&free, [core(0)].into_iter(), |core| core.number() == 1);
        assert_eq!(best, Some(core(1)));
    }
}
