//! A progress bar for simulations on several threads, and their end on a signal.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::failure::Failure;
use crate::cli::interrupt::stop_on_signals;
use indicatif::{ProgressBar, ProgressStyle};

/// Counts simulated arrivals, on standard error when that is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Starts a bar that ends at `arrivals`, and handles signals from now on.
    pub(super) fn start(what: &'static str, arrivals: u64) -> Result<Self, Failure> {
        let stop = Arc::default();
        stop_on_signals(&stop).map_err(Failure::work)?;
        let bar = ProgressBar::new(arrivals);
        let style =
            ProgressStyle::with_template("{msg} {bar:40} {human_pos}/{human_len} requests, {per_sec}, {eta} left")
                .expect("the template is fixed");
        bar.set_style(style);
        bar.set_message(what);
        Ok(Self { bar, stop })
    }

    /// The observer of one simulation: it gets the number of arrivals so far.
    pub(super) fn observer(&self) -> impl FnMut(u64) -> ControlFlow<()> {
        let mut before = 0;
        move |arrivals: u64| {
            self.bar.inc(arrivals.saturating_sub(before));
            before = arrivals;
            if self.is_interrupted() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
