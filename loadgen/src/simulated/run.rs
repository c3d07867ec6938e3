//! Runs of simulated servers. Their reports have the form of live runs.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use psp_sim::simulator::{Outcome, SimError, SimPlan, TypeOutcome, simulate};
use psp_sim::workload::{PhaseLength, Workload, service_ns_mean};

use super::target::SimTarget;
use crate::record::{ErrorCounts, TypeRecord};
use crate::report::{Client, Mode, Offers, Report, SCHEMA, SCHEMA_VERSION, SimulationReport, Summary, TypeReport};
use crate::schedule::{OfferedLoad, Pacing};

/// The error kind of requests whose typed queue is full, as psp's servers name it.
const BUSY: &str = "BUSY";

/// A simulated run.
#[derive(Debug, Clone)]
pub struct SimRun {
    /// The simulated server.
    pub target: SimTarget,
    /// Seed of arrivals, service times and the policy's random choices.
    pub seed: u64,
    plan: SimPlan,
    warmup: Duration,
}

impl SimRun {
    /// A run of `duration` after `warmup`, with the number of requests that a live server would get
    /// on average.
    ///
    /// # Errors
    /// [`SimError`] when the plan is not valid.
    pub fn new(
        target: SimTarget,
        mut workload: Workload,
        offered: OfferedLoad,
        seed: u64,
        warmup: Duration,
        duration: Duration,
    ) -> Result<Self, SimError> {
        let mean_ns = workload.service_ns_mean();
        let workers_of_all = (target.workers * target.settings.cluster.servers).max(1) as f64;
        let load = match offered {
            OfferedLoad::Rate(rate_rps) => {
                // A phase keeps the rate, independent of its service times. The simulator keeps the
                // load.
                for phase in &mut workload.phases {
                    phase.load *= service_ns_mean(&phase.types) / mean_ns;
                }
                rate_rps * mean_ns / 1e9 / workers_of_all
            }
            OfferedLoad::Workers { load, workers } => load * workers as f64 / workers_of_all,
        };
        let mut plan = SimPlan::new(workload, target.policy.clone(), target.workers, load);
        target.settings.apply(&mut plan);
        plan.requests = arrivals(&plan, duration);
        let rate_rps = rates(&plan)[0].1;
        plan.warmup = whole(rate_rps * warmup.as_secs_f64());
        plan.validate()?;
        Ok(Self { target, seed, plan, warmup })
    }

    /// Names of the types.
    pub fn type_names(&self) -> impl Iterator<Item = &str> {
        self.plan.workload.types.iter().map(|ty| ty.name.as_str())
    }

    /// Simulates until the end, or until `stop` is set.
    ///
    /// # Errors
    /// [`SimError`] when the policy never runs some requests.
    pub fn run(&self, stop: &AtomicBool) -> Result<Report, SimError> {
        let plan = SimPlan { seed: self.seed, ..self.plan.clone() };
        let started = SystemTime::now();
        let outcome = simulate(&plan, &mut |_| {
            if stop.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(self.report(&plan, &outcome, started))
    }

    fn report(&self, plan: &SimPlan, outcome: &Outcome, started: SystemTime) -> Report {
        let duration_s = outcome.duration_ns as f64 / 1e9;
        let offers = Offers { pacing: &Pacing::Drawn, duration_s, dilation: 1 };
        let mut total = TypeRecord::default();
        let mut types = Vec::new();
        for (ty, ended) in plan.workload.types.iter().zip(&outcome.types) {
            let record = record(ended);
            total.add(&record);
            let rate_rps = if plan.workload.phases.is_empty() {
                outcome.offered_rps * ty.share
            } else {
                record.scheduled as f64 / duration_s.max(1e-9)
            };
            types.push(TypeReport {
                name: ty.name.clone(),
                slow_thread: false,
                connections: 0,
                service_us: Some(ty.service_ns as f64 / 1e3),
                summary: Summary::new(&record, rate_rps, true, &offers),
                timeline: Vec::new(),
            });
        }
        let since_1970 = started.duration_since(SystemTime::UNIX_EPOCH);
        let mut report = Report {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            target: self.target.to_string(),
            mode: Mode::Open,
            arrivals: plan.workload.arrivals,
            closed_loop: None,
            trace: None,
            simulation: Some(SimulationReport {
                policy: self.target.policy.clone(),
                workers: plan.workers,
                settings: self.target.settings.clone(),
                utilization: outcome.utilization,
                overhead: outcome.overhead,
                preemptions: outcome.preemptions,
            }),
            seed: plan.seed,
            started_unix_s: since_1970.unwrap_or_default().as_secs_f64(),
            client: Client::simulated(),
            warmup_s: self.warmup.as_secs_f64(),
            duration_s,
            stalled_share: None,
            interrupted: outcome.interrupted,
            dilation: 1,
            overall: Summary::new(&total, outcome.offered_rps, true, &offers),
            types,
            warnings: Vec::new(),
        };
        report.warnings = report.reasons_to_doubt();
        report
    }
}

/// The requests of a type in the form of live runs. No request is sent, so none is late, waits for
/// a connection or is lost.
fn record(ended: &TypeOutcome) -> TypeRecord {
    let arrived = ended.completed + ended.rejected;
    let mut errors = ErrorCounts::default();
    if ended.rejected > 0 {
        errors.add(BUSY, ended.rejected);
    }
    TypeRecord {
        scheduled: arrived,
        sent: arrived,
        sent_in_time: arrived,
        completed: ended.completed,
        errors,
        latency_ns: ended.latency_ns.clone(),
        slowdown: ended.slowdown.histogram().clone(),
        ..TypeRecord::default()
    }
}

/// Lengths and rates of the workload's phases; one open phase if the workload has none.
fn rates(plan: &SimPlan) -> Vec<(PhaseLength, f64)> {
    let per_second = plan.load * plan.workers_of_all() as f64 * 1e9;
    let workload = &plan.workload;
    if workload.phases.is_empty() {
        return vec![(PhaseLength::Open, per_second / workload.service_ns_mean())];
    }
    let phases = workload.phases.iter();
    phases
        .map(|phase| {
            let rate_rps = per_second * phase.load / service_ns_mean(&phase.types);
            (phase.length, rate_rps)
        })
        .collect()
}

/// Mean number of requests that arrive in `duration`, at least 1.
fn arrivals(plan: &SimPlan, duration: Duration) -> u64 {
    let mut left_s = duration.as_secs_f64();
    let mut requests = 0.0;
    let phases = rates(plan);
    for (index, &(length, rate_rps)) in phases.iter().enumerate() {
        let length_s = match length {
            // The last phase lasts to the end.
            _ if index + 1 == phases.len() => left_s,
            PhaseLength::Time { duration_ns } => duration_ns as f64 / 1e9,
            PhaseLength::Requests(count) => count as f64 / rate_rps,
            PhaseLength::Open => left_s,
        };
        let length_s = length_s.min(left_s);
        requests += length_s * rate_rps;
        left_s -= length_s;
    }
    whole(requests).max(1)
}

fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates"
    )]
    let whole = number.round() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sim_run(url: &str, workload: Workload, offered: OfferedLoad) -> SimRun {
        let target: SimTarget = url.parse().unwrap();
        let [warmup, duration] = [0.1, 1.0].map(Duration::from_secs_f64);
        SimRun::new(target, workload, offered, 1, warmup, duration).unwrap()
    }

    fn close(value: f64, expected: f64, part: f64) {
        assert!((value / expected - 1.0).abs() < part, "{value} of {expected}");
    }

    #[test]
    fn a_simulation_has_the_report_of_a_run() {
        let workload = Workload::named("high-bimodal").unwrap();
        let run = sim_run("sim:darc?workers=14", workload, OfferedLoad::Rate(200_000.0));
        let report = run.run(&AtomicBool::new(false)).unwrap();
        close(report.overall.offered_rps, 200_000.0, 1e-9);
        assert_eq!(report.overall.scheduled, 200_000);
        close(report.duration_s, 1.0, 0.02);
        let [short, long] = &report.types[..] else {
            panic!("two types");
        };
        close(short.summary.scheduled as f64, 100_000.0, 0.02);
        assert_eq!((short.service_us, long.service_us), (Some(1.0), Some(100.0)));
        assert!(short.summary.latency_us.unwrap().p50 >= 1.0);
        assert!(long.summary.slowdown.unwrap().p99 >= 1.0);
        for summary in [&report.overall, &short.summary, &long.summary] {
            assert_eq!(summary.lag_us, None, "no generator is late");
            assert_eq!(summary.rate_kept, Some(true));
            assert_eq!(summary.completed, summary.scheduled);
        }
        let simulation = report.simulation.as_ref().unwrap();
        close(simulation.utilization, 200_000.0 * 50.5e-6 / 14.0, 0.02);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        let text = report.to_string();
        assert!(text.contains("simulated: darc on 14 workers"), "{text}");
    }

    #[test]
    fn the_same_load_is_offered_to_any_number_of_workers() {
        let offered = OfferedLoad::Workers { load: 0.5, workers: 14 };
        let rate = |url: &str| {
            let workload = Workload::named("high-bimodal").unwrap();
            sim_run(url, workload, offered).plan.offered_rps()
        };
        close(rate("sim:darc?workers=14"), 7.0 / 50.5e-6, 1e-9);
        close(rate("sim:darc?workers=28"), 7.0 / 50.5e-6, 1e-9);
    }

    #[test]
    fn phases_keep_the_rate_and_refusals_are_busy() {
        let text = "[[type]]\nname='A'\nshare=1\nservice_us=10
            [[phase]]\nduration_ms=500
            [[phase]]\nload=2\n[[phase.type]]\nname='A'\nservice_us=1000";
        let workload = Workload::from_toml("test", text).unwrap();
        let url = "sim:c-fcfs?workers=1&queue-capacity=50";
        let report = sim_run(url, workload, OfferedLoad::Rate(2_000.0));
        let report = report.run(&AtomicBool::new(false)).unwrap();
        // Half a second at 2000 and one at 4000.
        close(report.overall.scheduled as f64, 3_000.0, 1e-9);
        close(report.duration_s, 1.0, 0.1);
        // The second phase offers four times the capacity of the worker.
        let busy = report.overall.errors["BUSY"];
        close(busy as f64, 1_450.0, 0.15);
        assert_eq!(report.overall.completed + busy, report.overall.scheduled);
        assert!(report.warnings.iter().any(|it| it.contains("flatter")));
    }
}
