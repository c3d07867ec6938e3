//! The loop that drives every ideal.

use crate::simulator::arrivals::Arrivals;
use crate::simulator::outcome::Outcome;
use crate::simulator::plan::SimPlan;
use crate::simulator::recorder::{Counts, Measured, Recorder, Unserved};
use crate::simulator::snapshot::Snapshot;

/// Times are in nanoseconds, with fractions.
pub(crate) trait Ideal {
    /// When the next request completes if nothing arrives before.
    fn next_ns(&self) -> Option<f64>;

    /// Moves time to `now_ns`, which is not after the next completion.
    fn advance(&mut self, now_ns: f64);

    /// A request arrives now.
    fn arrive(&mut self, request: Measured);

    /// The request that completes now.
    fn complete(&mut self) -> Option<Measured>;

    /// Service of all workers so far, and the number of preemptions.
    fn spent(&self) -> (f64, u64);
}

/// Simulates an ideal.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive and less than the hundred days that a float counts exactly"
)]
pub(crate) fn simulate(plan: &SimPlan, mut ideal: impl Ideal, arrivals: &mut Arrivals<'_>) -> Outcome {
    let mut recorder = Recorder::new(plan);
    let mut in_system = vec![0_usize; plan.workload.types.len()];
    let in_system_max = plan.queue_capacity + plan.workers;
    loop {
        let arrival = arrivals.peek().copied();
        let completion_ns = ideal.next_ns();
        let arrives_first = arrival.is_some_and(|arrival| completion_ns.is_none_or(|ns| (arrival.at_ns as f64) < ns));
        if let Some(arrival) = arrival.filter(|_| arrives_first) {
            let now_ns = arrival.at_ns;
            ideal.advance(now_ns as f64);
            let snapshot = || snapshot(&ideal, plan, now_ns);
            let measured = recorder.arrived(now_ns, snapshot);
            arrivals.take();
            if arrivals.peek().is_none() {
                recorder.end(now_ns, snapshot());
            }
            let request = Measured {
                arrived_ns: now_ns,
                service_ns: arrival.service_ns,
                wait_ns: 0,
                kind: arrival.kind,
                measured,
                ..Measured::default()
            };
            let of_type = &mut in_system[arrival.kind as usize];
            if *of_type == in_system_max {
                recorder.left(now_ns, &request, Unserved::Rejected);
            } else {
                *of_type += 1;
                ideal.arrive(request);
            }
        } else if let Some(completion_ns) = completion_ns {
            ideal.advance(completion_ns);
            if let Some(request) = ideal.complete() {
                in_system[request.kind as usize] -= 1;
                // Rounded up, so that no request is faster than its service; a rounding error is
                // not rounded up.
                let now_ns = (completion_ns - 0.01).ceil() as u64;
                recorder.completed(now_ns, &request);
            }
        } else {
            break;
        }
    }
    let counts = Counts {
        preemptions: ideal.spent().1,
        steals: 0,
        interrupted: arrivals.interrupted(),
    };
    recorder.into_outcome(plan, counts, &snapshot(&ideal, plan, 0))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as for all times"
)]
fn snapshot(ideal: &impl Ideal, plan: &SimPlan, now_ns: u64) -> Snapshot {
    let served_ns = ideal.spent().0 as u64;
    Snapshot {
        served_ns,
        occupied_ns: served_ns,
        present_ns: now_ns * plan.workers as u64,
        ..Snapshot::default()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Simulates requests of given arrival and service times. Returns which request completes when.
    pub(crate) fn run(mut ideal: impl Ideal, requests: &[(u64, u64)]) -> Vec<(u32, f64)> {
        let mut coming = (0..).zip(requests).peekable();
        let mut done = Vec::new();
        loop {
            let completion_ns = ideal.next_ns();
            let arrival =
                coming.next_if(|(_, (arrived_ns, _))| completion_ns.is_none_or(|ns| (*arrived_ns as f64) < ns));
            if let Some((kind, &(arrived_ns, service_ns))) = arrival {
                ideal.advance(arrived_ns as f64);
                ideal.arrive(Measured {
                    arrived_ns,
                    service_ns,
                    kind,
                    measured: true,
                    ..Measured::default()
                });
            } else if let Some(completion_ns) = completion_ns {
                ideal.advance(completion_ns);
                done.extend(ideal.complete().map(|request| (request.kind, completion_ns)));
            } else {
                return done;
            }
        }
    }
}
