//! One measurement of a live or a simulated server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use psp_loadgen::clients;
use psp_loadgen::report::{Condition, Report};
use psp_loadgen::schedule::RunPlan;
use psp_loadgen::simulated::SimRun;

use crate::cli::failure::Failure;
use crate::cli::observer::{Logs, RunObserver};

/// The plan of the measurement.
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

    /// Moves to the next seed for another run of the same kind.
    pub(super) fn advance_seed(&mut self) {
        let seed = match self {
            Self::Live(plan) => &mut plan.seed,
            Self::Simulated(run) => &mut run.seed,
        };
        *seed = seed.wrapping_add(1);
    }

    pub(super) fn run(&self, stop: &Arc<AtomicBool>, mut observer: RunObserver<'_>) -> Result<Report, Failure> {
        match self {
            Self::Live(plan) => {
                let result = clients::run(plan, stop, &mut observer).map_err(Failure::work)?;
                observer.finish().map_err(Failure::work)?;
                Ok(Report::new(plan, &result))
            }
            Self::Simulated(run) => run.run(stop).map_err(Failure::work),
        }
    }

    /// Checks that the measurement has the types of the conditions.
    pub(super) fn require_types(&self, conditions: &[Condition]) -> Result<(), Failure> {
        let names = self.type_names();
        let names = names.iter().map(String::as_str);
        conditions
            .iter()
            .try_for_each(|condition| condition.require_subject(names.clone()))
            .map_err(Failure::usage)
    }

    /// One run of a sweep or a comparison.
    pub(super) fn run_once(&self, title: &str, stop: &Arc<AtomicBool>) -> Result<Report, Failure> {
        let mut no_logs = Logs::default();
        let observer = RunObserver::new(self.type_names(), &mut no_logs);
        observer.live.announce(title);
        self.run(stop, observer)
    }
}
