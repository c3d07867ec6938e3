//! Independent simulations on several threads, behind a progress bar, until a signal ends them.

use std::ops::ControlFlow;

use psp_sim::parallel;

use crate::cli::failure::Failure;
use crate::cli::progress::Progress;

/// Observes the progress of a simulation and may stop it.
pub(super) type Observer<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// What came of the jobs.
pub(super) struct Jobs<Done> {
    /// The results in the order of the jobs, without those of jobs that failed or were interrupted.
    pub(super) done: Vec<Done>,
    /// The error of the first job that failed.
    pub(super) failure: Option<anyhow::Error>,
    /// Whether jobs were interrupted.
    pub(super) interrupted: bool,
}

/// Runs `work` for each of `jobs`, several at a time.
pub(super) fn run_jobs<Job: Sync, Done: Send + Sync>(
    what: &'static str,
    jobs: &[Job],
    threads: usize,
    arrivals_per_job: u64,
    work: impl Fn(&Job, Observer<'_>) -> anyhow::Result<Done> + Sync,
) -> Result<Jobs<Done>, Failure> {
    let arrivals = arrivals_per_job.saturating_mul(jobs.len() as u64);
    let progress = Progress::start(what, arrivals)?;
    let results = parallel::map(jobs, threads, |job| {
        if progress.is_interrupted() {
            return None;
        }
        let mut observer = progress.observer();
        let mut flow = ControlFlow::Continue(());
        let result = work(job, &mut |arrivals| {
            flow = observer(arrivals);
            flow
        });
        flow.is_continue().then_some(result)
    });
    progress.finish();
    let mut jobs = Jobs { done: Vec::new(), failure: None, interrupted: false };
    for result in results {
        match result {
            Some(Ok(one)) => jobs.done.push(one),
            Some(Err(error)) => jobs.failure = jobs.failure.take().or(Some(error)),
            None => jobs.interrupted = true,
        }
    }
    Ok(jobs)
}
