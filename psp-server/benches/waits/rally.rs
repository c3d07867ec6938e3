//! Two sides that signal each other in turn.
//!
//! ```text
//!   first side ── there ──► second side
//!        ▲                      │
//!        └──────── back ────────┘
//! ```

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What one side tells the other. There is one wait for each `send`.
pub(crate) trait Signal: Default {
    async fn send(&self);

    async fn wait(&self);
}

/// So many rounds of a signal there and one back.
pub(crate) struct Rally<S> {
    there: S,
    back: S,
    rounds: u64,
    took: OnceLock<Duration>,
}

impl<S: Signal> Rally<S> {
    pub(crate) fn new(rounds: u64) -> Self {
        Self {
            there: S::default(),
            back: S::default(),
            rounds,
            took: OnceLock::new(),
        }
    }

    /// The side that begins, and measures.
    pub(crate) async fn first(&self) {
        let started = Instant::now();
        for _ in 0..self.rounds {
            self.there.send().await;
            self.back.wait().await;
        }
        self.took.get_or_init(|| started.elapsed());
    }

    pub(crate) async fn second(&self) {
        for _ in 0..self.rounds {
            self.there.wait().await;
            self.back.send().await;
        }
    }

    /// The time of one signal for each round, when both sides have ended.
    pub(crate) fn of_signals(&self) -> Duration {
        *self.took.get().expect("the first side has ended") / 2
    }
}
