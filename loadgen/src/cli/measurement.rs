//! One measurement, of a live server or of a simulated one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use psp_loadgen::engine;
use psp_loadgen::plan::RunPlan;
use psp_loadgen::report::Report;
use psp_loadgen::sim_run::SimRun;

use super::Failure;
use super::measure::RunObserver;

/// All that is known before the first request.
#[derive(Debug, Clone)]
pub(super) enum Measurement {
    Live(Box<RunPlan>),
    Simulated(Box<SimRun>),
}

impl Measurement {
    pub(super) fn type_names(&self) -> Vec<String> {
        match self {
            Self::Live(plan) => plan.types.iter().map(|ty| ty.name.clone()).collect(),
            Self::Simulated(run) => run.type_names().map(str::to_owned).collect(),
        }
    }

    /// The next run is another one of the same kind.
    pub(super) fn advance_seed(&mut self) {
        let seed = match self {
            Self::Live(plan) => &mut plan.seed,
            Self::Simulated(run) => &mut run.seed,
        };
        *seed = seed.wrapping_add(1);
    }

    pub(super) fn run(
        &self,
        stop: &Arc<AtomicBool>,
        mut observer: RunObserver<'_>,
    ) -> Result<Report, Failure> {
        match self {
            Self::Live(plan) => {
                let result = engine::run(plan, stop, &mut observer).map_err(Failure::work)?;
                observer.finish().context("--hdr").map_err(Failure::work)?;
                Ok(Report::new(plan, &result))
            }
            Self::Simulated(run) => run.run(stop).map_err(Failure::work),
        }
    }
}
