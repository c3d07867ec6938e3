//! Figures of requests that wait for other servers, by clients that send one request after the other.
//!
//! The simulator's arrivals do not depend on its answers. The number of clients follows from Little's law: a server
//! that has so many requests in the system on average has as many clients that wait for an answer.

use std::ops::ControlFlow;

use serde::Deserialize;

use crate::chart::{Axis, Panel, grouped};
use crate::simulator::{Outcome, SimError, SimPlan, simulate};
use crate::workload::{Distribution, Workload, WorkloadType};

use super::error::FigureError;
use super::job::{Job, Point, Progress, Scale};
use super::kind::Kind;
use super::system::System;

/// Bisections for the load that a number of clients offers.
const PROBES: u32 = 7;

/// Reads and writes. A write is served, and waits for other servers when it is half done.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Waits {
    workers: usize,
    /// Service times of reads and writes.
    service_ns: u64,
    /// For how long a write waits.
    wait_ns: u64,
    systems: Vec<Waiter>,
    across: Across,
    /// End of the axis of throughput, in thousand requests per second.
    most_krps: f64,
}

/// What happens to a write's worker while the write waits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiter {
    system: System,
    /// Whether the write keeps it.
    #[serde(default)]
    keeps: bool,
    /// What each request costs beside its service.
    #[serde(default)]
    cost_ns: u64,
}

/// The horizontal axis.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Across {
    /// Numbers of clients, all of which write.
    Clients {
        /// The end of the axis.
        last: f64,
        /// Those of the points.
        loads: Vec<f64>,
    },
    /// Shares of writes, with so many clients.
    Writes { clients: f64, shares: Vec<f64> },
}

impl Waits {
    fn workload(&self, waiter: &Waiter, writes: f64) -> Workload {
        let service_ns = self.service_ns + waiter.cost_ns;
        let ty = |name: &str, share, wait_ns: u64| WorkloadType {
            name: name.to_owned(),
            share,
            service_ns: service_ns + if waiter.keeps { wait_ns } else { 0 },
            distribution: Distribution::Fixed,
            wait_ns: if waiter.keeps { 0 } else { wait_ns },
            slo_ns: None,
            weight: None,
        };
        let types = vec![ty("READ", 1.0 - writes, 0), ty("WRITE", writes, self.wait_ns)];
        Workload::of_types("waits", types)
    }
}

impl Kind for Waits {
    fn series(&self) -> Vec<String> {
        self.systems.iter().map(|waiter| waiter.system.name.clone()).collect()
    }

    fn panels(&self, _: &Scale) -> Result<Vec<Panel>, FigureError> {
        let (title, x) = match self.across {
            Across::Clients { last, .. } => {
                ("Writes".to_owned(), Axis::linear("Clients with a request in the system", 0.0, last))
            }
            Across::Writes { clients, .. } => {
                (format!("{clients} clients"), Axis::linear("Writes (% of requests)", 0.0, 100.0))
            }
        };
        let y = Axis::linear("Throughput (thousand requests/s)", 0.0, self.most_krps);
        Ok(vec![Panel::new(title, x, y)])
    }

    fn conditions(&self, scale: &Scale) -> Vec<String> {
        let [service_us, wait_us] = [self.service_ns, self.wait_ns].map(|ns| ns as f64 / 1e3);
        let requests = grouped(scale.requests as f64);
        let costs = self.systems.iter().filter(|waiter| waiter.cost_ns > 0);
        let policy = self.systems.first().map_or("no policy", |waiter| waiter.system.policy.name());
        let conditions = format!(
            "Simulated: {} workers under {}, requests of {service_us} us, writes wait for {wait_us} us, {requests} \
             requests a point, seed {}.",
            self.workers, policy, scale.seed
        );
        let costs = costs.map(|waiter| {
            let cost_us = waiter.cost_ns as f64 / 1e3;
            format!("{}: {cost_us} us more for each request.", waiter.system.name)
        });
        std::iter::once(conditions).chain(costs).collect()
    }

    fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        let mut jobs = Vec::new();
        for (series, waiter) in self.systems.iter().enumerate() {
            let plan = |writes, load| {
                let workload = self.workload(waiter, writes);
                waiter.system.plan(&workload, self.workers.into(), load, &[], scale)
            };
            match self.across {
                Across::Clients { last, ref loads } => {
                    for &load in loads {
                        jobs.push(Job::of_plan(plan(1.0, load)?, move |outcome| {
                            let clients = outcome.in_system_mean;
                            let point = at(series, clients, outcome);
                            (clients <= last).then_some(point).into_iter().collect()
                        }));
                    }
                }
                Across::Writes { clients, ref shares } => {
                    for &writes in shares {
                        let plan = plan(writes, 1.0)?;
                        let steps = (plan.warmup + plan.requests) * u64::from(PROBES);
                        jobs.push(Job::new(steps, move |progress| {
                            let outcome = at_clients(&plan, clients, progress)?;
                            Ok(vec![at(series, writes * 100.0, &outcome)])
                        }));
                    }
                }
            }
        }
        Ok(jobs)
    }
}

fn at(series: usize, x: f64, outcome: &Outcome) -> Point {
    Point { panel: 0, series, at: (x, outcome.offered_rps / 1e3) }
}

/// The outcome at the highest load with which no more than `clients` requests are in the system on average.
fn at_clients(plan: &SimPlan, clients: f64, progress: &mut Progress<'_>) -> Result<Outcome, SimError> {
    let (mut low, mut high) = (0.0, 1.0);
    let mut done = 0;
    let mut best = None;
    for _ in 0..PROBES {
        let load = f64::midpoint(low, high);
        let probe = SimPlan { load, ..plan.clone() };
        let outcome = simulate(&probe, &mut |arrivals| progress(done + arrivals))?;
        done += probe.warmup + probe.requests;
        if outcome.in_system_mean <= clients {
            (low, best) = (load, Some(outcome));
        } else {
            high = load;
        }
    }
    match best {
        Some(outcome) => Ok(outcome),
        None => simulate(plan, &mut |_| ControlFlow::Continue(())),
    }
}
