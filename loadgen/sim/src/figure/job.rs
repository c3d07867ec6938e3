//! The computations behind figures, on all cores.

use std::ops::ControlFlow;

use crate::parallel;
use crate::simulator::{Outcome, SimError, SimPlan, simulate};

/// How much is simulated for a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Requests measured in each simulation.
    pub requests: u64,
    /// Seed of all simulations of a figure.
    pub seed: u64,
}

/// A point of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) panel: usize,
    pub(super) series: usize,
    pub(super) at: (f64, f64),
}

pub(super) type Progress<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;
type Work = dyn Fn(&mut Progress<'_>) -> Result<Vec<Point>, SimError> + Send + Sync;

/// One computation of a figure.
pub(super) struct Job {
    /// The final value of its progress.
    pub(super) steps: u64,
    work: Box<Work>,
}

impl Job {
    pub(super) fn new(
        steps: u64,
        work: impl Fn(&mut Progress<'_>) -> Result<Vec<Point>, SimError> + Send + Sync + 'static,
    ) -> Self {
        Self { steps, work: Box::new(work) }
    }

    /// Simulates `plan` and draws points from the outcome.
    pub(super) fn of_plan(plan: SimPlan, points: impl Fn(&Outcome) -> Vec<Point> + Send + Sync + 'static) -> Self {
        let steps = plan.warmup + plan.requests;
        Self::new(steps, move |progress| Ok(points(&simulate(&plan, progress)?)))
    }
}

/// Runs all jobs. Returns the points of each; `None` for a job that was stopped.
pub(super) fn run<Observer: FnMut(u64) -> ControlFlow<()>>(
    jobs: &[Job],
    observe: impl Fn() -> Observer + Sync,
) -> Result<Vec<Option<Vec<Point>>>, SimError> {
    let results = parallel::map(jobs, parallel::cores(), |job| {
        let mut observer = observe();
        if observer(0).is_break() {
            return Ok(None);
        }
        let points = (job.work)(&mut observer)?;
        let ended_early = observer(job.steps).is_break();
        Ok((!ended_early).then_some(points))
    });
    results.into_iter().collect()
}
