//! Affinity masks: a thread is pinned to its core, and other programs run there, too. The paper's servers without an
//! arbiter ("NoArbiter", section 7.4) share cores in the same way.

use std::io;

use rustix::io::Errno;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use super::contract::{Mechanism, Scope};
use super::error::MechanismError;
use super::kind::Kind;
use crate::cores::{CoreId, CoreSet};
use crate::thread::ThreadId;

/// Pins threads, and keeps no others off their cores.
#[derive(Debug)]
pub struct Affinity {
    cores: CoreSet,
    /// Cores that are not managed.
    others: CoreSet,
    unmanaged: CoreSet,
}

impl Affinity {
    /// On the cores that this process may use.
    ///
    /// # Errors
    /// The system does not tell which these are.
    pub fn open(scope: &Scope) -> Result<Self, MechanismError> {
        let mask = sched_getaffinity(None).map_err(|errno| MechanismError::File {
            doing: "read the affinity in",
            path: "/proc/self".into(),
            source: errno.into(),
        })?;
        let own = CoreSet::of_mask(&mask);
        let cores = scope.cores.map_or(own, |cores| cores.and(&own));
        Ok(Self { cores, others: own.without(&cores), unmanaged: own })
    }
}

fn pin(thread: ThreadId, cores: CoreSet) -> io::Result<()> {
    Ok(sched_setaffinity(thread.to_pid(), &cores.to_mask())?)
}

impl Mechanism for Affinity {
    fn kind(&self) -> Kind {
        Kind::Affinity
    }

    fn cores(&self) -> CoreSet {
        self.cores
    }

    /// An earlier arbiter leaves nothing that could be found: servers say what they hold.
    fn start(&mut self) -> Result<Vec<(CoreId, ThreadId)>, MechanismError> {
        Ok(Vec::new())
    }

    fn grant(&mut self, core: CoreId, thread: ThreadId) -> io::Result<()> {
        pin(thread, [core].into_iter().collect())
    }

    fn vacate(&mut self, _: CoreId, left: Option<ThreadId>, _: Option<ThreadId>) -> io::Result<()> {
        let Some(thread) = left else {
            return Ok(());
        };
        match pin(thread, self.unmanaged) {
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(()),
            moved => moved,
        }
    }

    /// Threads that leave a core later get these. Others keep the masks that they have.
    fn set_unmanaged(&mut self, cores: CoreSet) -> io::Result<()> {
        self.unmanaged = cores.or(&self.others);
        Ok(())
    }

    /// Servers' threads keep their masks: they go on with what they have.
    fn stop(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_and_let_go() {
        let mut affinity = Affinity::open(&Scope::default()).unwrap();
        let all = affinity.cores();
        let first = all.iter().next().unwrap();
        let this = ThreadId::current();
        let now = || CoreSet::of_mask(&sched_getaffinity(None).unwrap());
        affinity.grant(first, this).unwrap();
        assert_eq!(now(), [first].into_iter().collect());
        affinity.vacate(first, None, None).unwrap();
        assert_eq!(now().len(), 1);
        affinity.vacate(first, Some(this), None).unwrap();
        assert_eq!(now(), all);
        let ended = std::thread::spawn(ThreadId::current).join().unwrap();
        affinity.vacate(first, Some(ended), None).unwrap();
    }
}
