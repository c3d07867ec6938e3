//! How long threads of a server poll before they sleep.

use std::time::Duration;

use crate::runtime::host::cores::Cores;

/// About the time to sleep and be woken. A thread that polls for as long and then sleeps anyway loses at most
/// the cost of one wake-up.
const WAKE: Duration = Duration::from_micros(5);

/// See the [module](self). Threads that share cores do not poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spin {
    /// The net thread, while nothing comes. It has a core to itself then, and one core is left over.
    pub(crate) idle: Duration,
    /// A worker, for its next request; the net thread, for a worker while requests wait.
    pub(crate) turn: Duration,
}

impl Spin {
    /// For a server of `threads` threads, which may poll for `longest`. With `inline` a worker may be the only one for
    /// a type whose requests wait, and have several turns in a millisecond. Each would cost two wake-ups, so the
    /// threads poll for one another for as long as they may.
    pub(crate) fn new(cores: &Cores, threads: usize, inline: bool, longest: Duration) -> Self {
        let none = Duration::ZERO;
        let (idle, turn) = if cores.spare_for(threads) {
            (longest, longest)
        } else if threads > cores.count {
            (none, none)
        } else if inline {
            (none, longest)
        } else {
            (none, longest.min(WAKE))
        };
        Self { idle, turn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_poll_as_long_as_their_cores_allow() {
        let cores = Cores::discover();
        let longest = Duration::from_micros(50);
        let of = |threads, inline| {
            let Spin { idle, turn } = Spin::new(&cores, threads, inline, longest);
            (idle, turn)
        };
        let none = Duration::ZERO;
        for inline in [false, true] {
            assert_eq!(of(cores.count - 1, inline), (longest, longest));
            assert_eq!(of(cores.count + 1, inline), (none, none));
        }
        assert_eq!(of(cores.count, false), (none, WAKE));
        assert_eq!(of(cores.count, true), (none, longest));
        let asleep = Spin::new(&cores, cores.count, false, none);
        assert_eq!(asleep.turn, none, "as the setting says");
    }
}
