//! How long threads of a server poll before they sleep.

use std::time::Duration;

use super::cores::Cores;

/// About what it takes to sleep and be woken. Who polls for as long and then sleeps after all loses no more
/// than it would have by sleeping at once.
const WAKE: Duration = Duration::from_micros(5);

/// See the [module](self). Nobody polls where threads share cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spin {
    /// The net thread when nothing comes. It has a core to itself then, and one is left for others.
    pub(crate) idle: Duration,
    /// A worker for its next request; the net thread for a worker, while requests wait.
    pub(crate) turn: Duration,
}

impl Spin {
    /// That of a server of `threads` threads, which may poll for `longest`. With `inline`, threads beside the
    /// net thread are for the background, and sleep.
    pub(crate) fn new(cores: &Cores, threads: usize, inline: bool, longest: Duration) -> Self {
        let none = Duration::ZERO;
        let (idle, turn) = if cores.spare_for(threads) {
            (longest, longest)
        } else if !inline && threads <= cores.count {
            (none, longest.min(WAKE))
        } else {
            (none, none)
        };
        Self { idle, turn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_core_to_itself_does_not_poll_and_nobody_for_long_where_none_is_left() {
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
        assert_eq!(of(cores.count, true), (none, none));
        let asleep = Spin::new(&cores, cores.count, false, none);
        assert_eq!(asleep.turn, none, "as the setting says");
    }
}
