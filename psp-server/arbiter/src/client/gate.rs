//! Where a thread sleeps until it has a core.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::cores::CoreId;

/// Where one thread sleeps until it has a core: the paper's `blockUntilCoreAvailable`. The thread offers itself, or is
/// [released](super::Arbiter::release), before it comes here; the owner of the [`Arbiter`](super::Arbiter) opens the
/// gate when the thread is granted a core.
#[derive(Debug, Default)]
pub struct Gate {
    granted: Mutex<Option<Option<CoreId>>>,
    changed: Condvar,
}

impl Gate {
    /// Sleeps until the gate is opened. Returns the core, or `None` if the thread is to end.
    pub fn block_until_core(&self) -> Option<CoreId> {
        let granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_shut = |granted: &mut Option<Option<CoreId>>| granted.is_none();
        let granted = self.changed.wait_while(granted, is_shut);
        granted.unwrap_or_else(PoisonError::into_inner).take().flatten()
    }

    /// Wakes the thread, which has this core now; or tells it to end.
    pub fn open(&self, core: Option<CoreId>) {
        *self.granted.lock().unwrap_or_else(PoisonError::into_inner) = Some(core);
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_thread_passes_when_the_gate_is_opened_before_or_after_it_comes() {
        let gate = Arc::new(Gate::default());
        let core = CoreId::new(3);
        gate.open(core);
        assert_eq!(gate.block_until_core(), core);
        let sleeper = std::thread::spawn({
            let gate = Arc::clone(&gate);
            move || gate.block_until_core()
        });
        gate.open(None);
        assert_eq!(sleeper.join().unwrap(), None);
    }
}
