//! Log lines that will not be read. A process has one log, so they are counted for all its servers together.

use std::sync::atomic::{AtomicU64, Ordering};

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Counts lines that the program's log has dropped, because whoever reads it is too slow or has gone.
///
/// psp-server writes no log of its own: it hands events to the subscriber of the crate `tracing`. A subscriber that
/// drops lines rather than wait reports them here, and the figure `psp_log_lines_dropped_total` has their number.
pub fn count_dropped_log_lines(lines: u64) {
    DROPPED.fetch_add(lines, Ordering::Relaxed);
}

pub(super) fn dropped_log_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}
