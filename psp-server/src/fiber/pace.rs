//! Checkpoints of loops: one in so many turns.

use std::time::{Duration, Instant};

use super::thread_state::checkpoint;

const TURNS_MAX: u32 = 1 << 16;
/// The time between two checkpoints is between these, where a turn takes less.
const AT_LEAST: Duration = Duration::from_micros(1);
const AT_MOST: Duration = Duration::from_micros(4);
/// Where a turn takes little, one in so many checkpoints looks at the clock.
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
    /// A checkpoint in each turn, until the time that these take is known.
    #[must_use]
    pub const fn new() -> Self {
        Self { left: 1, turns: 1, unseen: 0, seen_at: None }
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
        if self.turns == 1 || self.unseen == LOOK_EVERY {
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
                let too_many = (each.as_nanos() / AT_MOST.as_nanos()).max(2);
                self.turns = (u128::from(self.turns) / too_many).max(1) as u32;
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
    fn turns_that_become_long_are_seen_at_the_next_look() {
        let mut pace = Pace {
            left: 1,
            turns: 4_096,
            unseen: LOOK_EVERY,
            seen_at: Some(Instant::now()),
        };
        let later = pace.seen_at.unwrap() + Duration::from_micros(100) * pace.turns * LOOK_EVERY;
        pace.adapt(later);
        assert_eq!(pace.turns, 1);
    }

    #[test]
    fn a_turn_is_counted_down() {
        let mut pace = Pace { left: 5, turns: 5, unseen: 0, seen_at: None };
        (1..5).for_each(|_| pace.turn());
        assert_eq!((pace.left, pace.unseen), (1, 0));
        pace.turn();
        assert_eq!((pace.left, pace.unseen), (5, 1));
    }
}
