//! Preloads a server behind a progress bar.

use indicatif::{ProgressBar, ProgressStyle};

use psp_loadgen::clients::{self, PreloadPlan};

use crate::cli::failure::Failure;

/// Preloads a server.
pub(super) fn with_progress(plan: &PreloadPlan) -> Result<(), Failure> {
    let bar = ProgressBar::new(plan.values());
    let style = ProgressStyle::with_template("preload {bar:40} {human_pos}/{human_len} {per_sec}")
        .expect("the template is fixed");
    bar.set_style(style);
    let outcome = clients::preload(plan, &mut |values| bar.set_position(values));
    bar.finish_and_clear();
    outcome.map_err(Failure::work)
}
