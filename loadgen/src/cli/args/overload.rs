//! The options of overload: admission, clients that give up and ask again, steps of load, stalls.

use anyhow::ensure;
use clap::{Args, ValueEnum};
use psp_sim::simulator::AdmissionModel;
use psp_sim::workload::{Clients, Phase, PhaseLength, Workload};

use crate::cli::args::experiment::Experiment;
use crate::cli::args::values::{in_range, positive};

/// More simulated milliseconds than anything lasts.
const MS_MAX: f64 = 1e9;

/// The longest time of a client, in microseconds.
const US_MAX: f64 = 1e10;

#[derive(Debug, Args)]
#[command(next_help_heading = "Overload")]
pub(crate) struct OverloadArgs {
    /// What is let in (docs/overload.md) [default: none]
    #[arg(long, value_enum, value_name = "WHAT")]
    admission: Option<AdmissionArg>,
    /// The SLO of types without --slo-us, in service times: goodput is the share of the workers' time that went to
    /// requests which ended within their SLO [default: 10]
    #[arg(long, value_name = "FACTOR", value_parser = in_range(2.0, 1e9))]
    slo_slowdown: Option<f64>,
    /// Clients give up after this time, in mean service times of the request's type [default: never]
    #[arg(long, value_name = "FACTOR", value_parser = positive)]
    timeout_slowdown: Option<f64>,
    /// Clients give up after this time, in microseconds [default: never]
    #[arg(long, value_name = "US", value_parser = in_range(0.001, US_MAX))]
    timeout_us: Option<f64>,
    /// Requests carry the time at which their clients give up; the server begins none of them later
    #[arg(long)]
    deadlines: bool,
    /// How often clients send a request again that was refused, or on which they gave up [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100))]
    retries: Option<u32>,
    /// How long clients wait before the first retry, in microseconds; twice as long before each further one
    /// [default: 100]
    #[arg(long, value_name = "US", value_parser = in_range(0.0, US_MAX))]
    backoff_us: Option<f64>,
    /// The part of such a wait that is random [default: 0.5]
    #[arg(long, value_name = "PART", value_parser = in_range(0.0, 1.0))]
    jitter: Option<f64>,
    /// Shares of the requests by priority, 0 (first to go) to 7, separated by commas [default: all have 3]
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = in_range(0.0, 1e9))]
    priorities: Option<Vec<f64>>,
    /// Shares of the requests by tenant, separated by commas [default: no tenants]
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = in_range(0.0, 1e9))]
    tenants: Option<Vec<f64>>,
    /// Multiply the load by this for a while [default: 1]
    #[arg(long, value_name = "FACTOR", value_parser = positive)]
    step: Option<f64>,
    /// When the step begins, in simulated milliseconds after the warm-up
    #[arg(long, value_name = "MS", requires = "step", default_value_t = 10.0, value_parser = in_range(0.001, MS_MAX))]
    step_from_ms: f64,
    /// How long the step is, in simulated milliseconds
    #[arg(long, value_name = "MS", requires = "step", default_value_t = 10.0, value_parser = in_range(0.001, MS_MAX))]
    step_ms: f64,
    /// No request begins for this time, in simulated milliseconds, as if the server stood still [default: never]
    #[arg(long, value_name = "MS", value_parser = in_range(0.001, MS_MAX))]
    stall_ms: Option<f64>,
    /// When that begins, in simulated milliseconds after the warm-up [default: 10]
    #[arg(long, value_name = "MS", requires = "stall_ms", value_parser = in_range(0.0, MS_MAX))]
    stall_from_ms: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AdmissionArg {
    /// Everything that finds room in its queue
    None,
    /// What can end within its SLO
    Slo,
}

impl OverloadArgs {
    /// Sets what the options say, in place of what settings and workloads say.
    pub(crate) fn apply(&self, experiment: &mut Experiment) -> anyhow::Result<()> {
        let settings = &mut experiment.conditions.settings;
        if let Some(admission) = self.admission {
            settings.admission = match admission {
                AdmissionArg::None => AdmissionModel::None,
                AdmissionArg::Slo => AdmissionModel::Slo,
            };
        }
        settings.slo_slowdown = self.slo_slowdown.unwrap_or(settings.slo_slowdown);
        settings.stall_ms = self.stall_ms.unwrap_or(settings.stall_ms);
        settings.stall_from_ms = self.stall_from_ms.unwrap_or(settings.stall_from_ms);
        for plan in &mut experiment.plans {
            settings.apply(plan);
            self.clients(&mut plan.workload.clients);
            self.step(&mut plan.workload)?;
        }
        Ok(())
    }

    fn clients(&self, clients: &mut Clients) {
        let own = std::mem::take(clients);
        *clients = Clients {
            timeout_slowdown: self.timeout_slowdown.unwrap_or(own.timeout_slowdown),
            timeout_us: self.timeout_us.unwrap_or(own.timeout_us),
            deadline: self.deadlines || own.deadline,
            retries: self.retries.unwrap_or(own.retries),
            backoff_us: self.backoff_us.unwrap_or(own.backoff_us),
            jitter: self.jitter.unwrap_or(own.jitter),
            priorities: self.priorities.clone().unwrap_or(own.priorities),
            tenants: self.tenants.clone().unwrap_or(own.tenants),
        };
    }

    fn step(&self, workload: &mut Workload) -> anyhow::Result<()> {
        let Some(step) = self.step else {
            return Ok(());
        };
        ensure!(workload.phases.is_empty(), "--step: workload {} has phases of its own", workload.name);
        let time = |ms| PhaseLength::Time { duration_ns: ns(ms) };
        let phases = [(time(self.step_from_ms), 1.0), (time(self.step_ms), step), (PhaseLength::Open, 1.0)];
        let phase = |(length, load)| Phase { length, load, types: workload.types.clone() };
        workload.phases = phases.map(phase).to_vec();
        Ok(())
    }
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6) as u64
}
