//! A bar for simulations that run on several threads, and their end when a signal asks for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use super::Failure;
use super::interrupt::stop_on_signals;

/// Counts simulated arrivals, on standard error when that is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Starts a bar that ends at `arrivals`, and listens to signals from now on.
    pub(super) fn start(what: &'static str, arrivals: u64) -> Result<Self, Failure> {
        let stop = Arc::default();
        stop_on_signals(&stop).map_err(Failure::work)?;
        let bar = ProgressBar::new(arrivals);
        let style = ProgressStyle::with_template(
            "{msg} {bar:40} {human_pos}/{human_len} requests, {per_sec}, {eta} left",
        )
        .expect("the template is fixed");
        bar.set_style(style);
        bar.set_message(what);
        Ok(Self { bar, stop })
    }

    /// What one simulation tells how many arrivals it has behind it.
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

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
