//! At which rate servers saturate by the cycles of their stages: one dispatcher for all workers, and workers that
//! receive for themselves.
//!
//! This is a model, and no simulation. The rate is that of the slower of the dispatcher and all workers together. The
//! stages were measured on a polled port that costs nothing (`docs/dpdk.md`), on one core, so the lines that
//! move between the cores of a real server come on top on both sides.

use crate::chart::{Axis, Panel};

use super::job::{Job, Point};

/// Cycles per second of the machine on which the stages were measured.
const HZ: f64 = 2.3e9;
/// One way of a message of a cache line between two cores, in cycles: half of a measured round trip.
const ONE_WAY: f64 = 383.0;

/// Cycles that one request costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stages {
    /// Name of the line.
    pub(super) name: &'static str,
    /// On the dispatcher; 0 if there is none.
    dispatcher: f64,
    /// On the worker, without the service.
    worker: f64,
}

/// Receive, parse and classify.
const RECEIVE: f64 = 46.0 + 99.0 + 28.0;
/// The handler's frame: clock, lock, reply and transmission.
const HANDLE: f64 = 292.0;
/// Queue, decide and profile, under DARC.
const DECIDE: f64 = 39.0 + 172.0 + 52.0;

/// The lines of the figure.
pub(super) const LINES: &[Stages] = &[
    Stages { name: "dispatcher, c-FCFS", dispatcher: 391.0, worker: 353.0 },
    Stages { name: "dispatcher, DARC", dispatcher: 485.0, worker: 357.0 },
    Stages {
        name: "own queues, none handed over",
        dispatcher: 0.0,
        worker: RECEIVE + DECIDE + HANDLE,
    },
    Stages {
        name: "own queues, all handed over",
        dispatcher: 0.0,
        worker: RECEIVE + DECIDE + HANDLE + 2.0 * ONE_WAY,
    },
];

impl Stages {
    /// Requests per second of `workers` that serve each for so many nanoseconds.
    pub(super) fn rate_rps(&self, workers: u32, service_ns: f64) -> f64 {
        let per_worker = self.worker + service_ns * HZ / 1e9;
        let of_workers = f64::from(workers) * HZ / per_worker;
        if self.dispatcher > 0.0 {
            of_workers.min(HZ / self.dispatcher)
        } else {
            of_workers
        }
    }
}

/// A panel for each service time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saturation {
    /// Numbers of workers.
    pub(super) workers: &'static [u32],
    /// Title and service time of each panel, in nanoseconds.
    pub(super) panels: &'static [(&'static str, f64)],
}

impl Saturation {
    pub(super) fn panels(&self) -> Vec<Panel> {
        let last = self.workers.last().copied().unwrap_or_default();
        let panel = |&(title, _): &(&str, f64)| Panel {
            title: title.to_owned(),
            x: Axis::linear("Workers", 0.0, f64::from(last)),
            y: Axis::log("Million requests/s", 0.1, 100.0),
            lines: vec![Vec::new(); LINES.len()],
            target: None,
            stretches: Vec::new(),
            steps: false,
        };
        self.panels.iter().map(panel).collect()
    }

    pub(super) fn series(&self) -> Vec<String> {
        LINES.iter().map(|line| line.name.to_owned()).collect()
    }

    pub(super) fn conditions(&self) -> String {
        format!(
            "Computed, not simulated: the slower of a dispatcher and all workers, by the cycles of docs/dpdk.md at \
             {} GHz; a request that is handed over crosses between cores twice.",
            HZ / 1e9
        )
    }

    pub(super) fn jobs(&self) -> Vec<Job> {
        let (workers, panels) = (self.workers, self.panels);
        let points = move || {
            let series = LINES.iter().enumerate();
            series.flat_map(move |(series, line)| {
                panels.iter().enumerate().flat_map(move |(panel, &(_, service_ns))| {
                    workers.iter().map(move |&count| Point {
                        panel,
                        series,
                        at: (f64::from(count), line.rate_rps(count, service_ns) / 1e6),
                    })
                })
            })
        };
        vec![Job::new(1, move |_| Ok(points().collect()))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dispatcher_saturates_and_own_queues_do_not() {
        let rate = |line: &Stages, workers| line.rate_rps(workers, 500.0);
        let [_, darc, own, handed_over] = LINES else {
            panic!("four lines");
        };
        assert!(rate(darc, 2) > rate(own, 2), "two workers are the limit");
        assert!(rate(darc, 4) < rate(own, 4), "the dispatcher is");
        assert_eq!(rate(darc, 16).to_bits(), rate(darc, 64).to_bits());
        assert!(rate(own, 64) > 4.0 * rate(darc, 64));
        assert!(rate(handed_over, 64) > rate(darc, 64));
        assert_eq!(rate(own, 64).to_bits(), (16.0 * rate(own, 4)).to_bits());
    }
}
