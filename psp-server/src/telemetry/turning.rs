//! Whether the loops turn that drive sockets.
//!
//! ```text
//!   net worker   sleeps, turns, runs a request ──► words of its port ◄── four times a second ── watchdog
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use psp_policy::WorkerId;

/// Whoever drives a port is awake.
const AWAKE: u64 = 1;

/// What one port's driver does. Whoever drives the port writes it.
#[derive(Debug, Default)]
pub(crate) struct Turning {
    /// Another number after each turn, with [`AWAKE`] in its lowest bit.
    turn: AtomicU64,
    /// The worker and the slot of the type that the turn runs, each plus 1; 0 if it runs none.
    runs: AtomicU64,
}

impl Turning {
    /// A turn begins.
    #[inline]
    pub(crate) fn turns(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.runs.store(0, Ordering::Relaxed);
        self.turn.store((turn | AWAKE) + 2, Ordering::Relaxed);
    }

    /// The driver is about to sleep, or drives the port no more.
    #[inline]
    pub(crate) fn sleeps(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn & !AWAKE, Ordering::Relaxed);
    }

    /// The driver, which is `worker`, runs a request of the type at `slot`.
    #[inline]
    pub(crate) fn runs(&self, worker: WorkerId, slot: usize) {
        let runs = (u64::from(worker.0) + 1) << 32 | (slot as u64 + 1);
        self.runs.store(runs, Ordering::Relaxed);
    }

    /// The turn that the driver is awake in, if it is.
    pub(crate) fn turn(&self) -> Option<u64> {
        let turn = self.turn.load(Ordering::Relaxed);
        (turn & AWAKE == AWAKE).then_some(turn)
    }

    /// The worker that runs a request of the type at this slot, if one does.
    pub(crate) fn running(&self) -> Option<(WorkerId, usize)> {
        let runs = self.runs.load(Ordering::Relaxed);
        let worker = u32::try_from(runs >> 32).ok()?.checked_sub(1)?;
        let slot = (runs as u32).checked_sub(1)?;
        Some((WorkerId(worker), slot as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_differ_and_a_sleeper_has_none() {
        let turning = Turning::default();
        assert_eq!(turning.turn(), None, "it has not begun");
        turning.turns();
        let first = turning.turn();
        assert!(first.is_some() && turning.running().is_none());
        turning.runs(WorkerId(7), 0);
        assert_eq!(turning.running(), Some((WorkerId(7), 0)));
        assert_eq!(turning.turn(), first);
        turning.sleeps();
        turning.sleeps();
        assert_eq!(turning.turn(), None);
        turning.turns();
        assert!(turning.turn().is_some() && turning.turn() != first);
        assert_eq!(turning.running(), None);
    }
}
