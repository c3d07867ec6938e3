//! Work of a given length.

use std::time::{Duration, Instant};

/// Time between two calls of the caller's function.
const SLICE: Duration = Duration::from_nanos(200);
/// A slice that took longer was interrupted, and counts as [`SLICE`].
const SLICE_MAX: Duration = Duration::from_nanos(800);

/// Keeps the core busy for `run_time`, and calls `between` after every 200 ns, for example a
/// [`checkpoint`](psp_server::checkpoint). Only time on the core counts: not while another request runs after a
/// checkpoint, a signal or on another thread, nor while the kernel runs something else.
///
/// # Errors
/// The first error of `between`, which ends the work.
pub fn spin<E>(run_time: Duration, mut between: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    let mut left = run_time;
    while !left.is_zero() {
        let slice = left.min(SLICE);
        let started = Instant::now();
        let mut spun = Duration::ZERO;
        while spun < slice {
            std::hint::spin_loop();
            spun = started.elapsed();
        }
        left = left.saturating_sub(if spun > SLICE_MAX { slice } else { spun });
        between()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_ends_after_its_time_or_at_the_first_error() {
        let mut slices = 0;
        let spun = spin(Duration::from_micros(20), || {
            slices += 1;
            Ok::<_, ()>(())
        });
        assert!(spun.is_ok() && slices >= 20, "{slices} slices");
        let stopped = spin(Duration::MAX, || Err("enough"));
        assert_eq!(stopped, Err("enough"));
    }
}
