//! Checkpoints of loops: one in so many turns.

use std::time::{Duration, Instant};

use super::thread_state::checkpoint;

/// Turns between two checkpoints, to begin with.
const TURNS: u32 = 64;
const TURNS_MAX: u32 = 1 << 16;
/// The time between two checkpoints is between these, where a turn takes less.
const AT_LEAST: Duration = Duration::from_micros(1);
const AT_MOST: Duration = Duration::from_micros(4);
/// One in so many checkpoints looks at the clock.
const LOOK_EVERY: u32 = 8;

/// Passes a [`checkpoint`] in one of so many turns of a loop, which are as many as take some microseconds.
///
/// ```
/// let mut pace = psp_server::Pace::new();
/// let mut sum = 0_u64;
/// for number in 0..100_000 {
///     pace.turn();
///     sum += number;
/// }
/// # assert_eq!(sum, 4_999_950_000);
/// ```
///
/// The attribute `preemptible` (feature `macros`) writes this into the loops of a function.
#[derive(Debug, Clone)]
pub struct Pace {
    left: u32,
    turns: u32,
    unseen: u32,
    seen_at: Option<Instant>,
}

impl Pace {
    /// One checkpoint in 64 turns, until the time that these take is known.
    #[must_use]
    pub const fn new() -> Self {
        Self { left: TURNS, turns: TURNS, unseen: 0, seen_at: None }
    }

    /// A turn of the loop begins.
    #[inline]
    pub fn turn(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.pass();
        }
    }

    #[cold]
    fn pass(&mut self) {
        checkpoint();
        self.unseen += 1;
        if self.seen_at.is_none() || self.unseen == LOOK_EVERY {
            self.adapt(Instant::now());
        }
        self.left = self.turns;
    }

    /// It is `now`, so many checkpoints after the last look.
    fn adapt(&mut self, now: Instant) {
        if let Some(seen_at) = self.seen_at.replace(now) {
            let each = now.saturating_duration_since(seen_at) / self.unseen;
            if each < AT_LEAST {
                self.turns = (2 * self.turns).min(TURNS_MAX);
            } else if each > AT_MOST {
                self.turns = (self.turns / 2).max(1);
            }
        }
        self.unseen = 0;
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The turns between two checkpoints of a loop whose turns take so long.
    fn turns_after(looks: u32, turn: Duration) -> u32 {
        let mut pace = Pace::new();
        let mut now = Instant::now();
        pace.adapt(now);
        for _ in 0..looks {
            now += turn * pace.turns * LOOK_EVERY;
            pace.unseen = LOOK_EVERY;
            pace.adapt(now);
        }
        pace.turns
    }

    #[test]
    fn the_time_between_two_checkpoints_is_that_of_some_microseconds() {
        for (turn_ns, between) in [(1, 1_000..=4_000), (10, 100..=400), (500, 2..=8), (100_000, 1..=1)] {
            let turns = turns_after(20, Duration::from_nanos(turn_ns));
            assert!(between.contains(&turns), "{turn_ns} ns: {turns} turns");
        }
        assert_eq!(turns_after(40, Duration::ZERO), TURNS_MAX);
    }

    #[test]
    fn a_turn_is_counted_down() {
        let mut pace = Pace::new();
        (1..TURNS).for_each(|_| pace.turn());
        assert_eq!((pace.left, pace.seen_at), (1, None));
        pace.turn();
        assert_eq!(pace.left, TURNS);
        assert!(pace.seen_at.is_some());
    }
}
