//! Records measurements, for the engine and the ideals alike.

use hdrhistogram::Histogram;
use psp_policy::admission::Reason;

use super::outcome::{Completion, Outcome, Slowdowns, TENANTS_MAX, TenantOutcome, TypeOutcome};
use super::plan::SimPlan;
use super::snapshot::Snapshot;
use super::timeline::Timeline;
use crate::measure::{SLOWDOWN_STEPS, new_histogram};
use crate::workload::WorkloadType;

struct TypeRecord {
    completed: u64,
    rejected: u64,
    refused: [u64; Reason::ALL.len()],
    dropped: u64,
    in_time: u64,
    /// Service of those.
    good_ns: u64,
    /// The SLO, and how long clients wait; `None` for what follows from the service time, and for ever.
    slo_ns: Option<u64>,
    timeout_ns: Option<u64>,
    latency_ns: Histogram<u64>,
    slowdown: Histogram<u64>,
}

/// The requests of one tenant, or of one priority.
struct SenderRecord {
    unserved: u64,
    good_ns: u64,
    slowdown: Histogram<u64>,
}

impl SenderRecord {
    /// So many of them, unless that are too many to tell apart.
    fn several(number: usize) -> Vec<Self> {
        let record = || Self { unserved: 0, good_ns: 0, slowdown: new_histogram() };
        (0..number)
            .map(|_| record())
            .take(if number <= TENANTS_MAX { number } else { 0 })
            .collect()
    }

    fn into_outcome(self, goodput: &impl Fn(u64) -> f64) -> TenantOutcome {
        TenantOutcome {
            completed: self.slowdown.len(),
            unserved: self.unserved,
            goodput: goodput(self.good_ns),
            slowdown: Slowdowns::new(self.slowdown),
        }
    }
}

/// The time of the measurement.
struct Window {
    started_ns: u64,
    at_start: Snapshot,
    ended_ns: u64,
    at_end: Snapshot,
}

impl Window {
    fn duration_ns(&self) -> u64 {
        self.ended_ns - self.started_ns
    }

    /// By how much this grew in each nanosecond, of each of so many workers; 0 for a window that is empty.
    fn mean(&self, of: impl Fn(&Snapshot) -> u64, workers: f64) -> f64 {
        match self.duration_ns() {
            0 => 0.0,
            duration_ns => (of(&self.at_end) - of(&self.at_start)) as f64 / (duration_ns as f64 * workers),
        }
    }

    /// Per worker: the part of the time in which it served.
    fn worker_utilization(&self) -> Vec<f64> {
        let workers = if self.duration_ns() == 0 {
            0
        } else {
            self.at_end.served_each_ns.len()
        };
        (0..workers)
            .map(|worker| self.mean(|snapshot| snapshot.served_each_ns[worker], 1.0))
            .collect()
    }
}

/// See the [module](self).
pub(super) struct Recorder {
    types: Vec<TypeRecord>,
    priorities: Vec<SenderRecord>,
    tenants: Vec<SenderRecord>,
    timeline: Option<Timeline>,
    each: Option<Vec<Completion>>,
    network_ns: u64,
    /// Slowdown of an answer in time whose type has no SLO.
    slo_slowdown: f64,
    /// Requests that left, for clients that may ask again.
    ended: Option<Vec<Ended>>,
    /// Measured attempts after the first.
    retried: u64,
    window: Option<Window>,
    /// Arrivals, warm-up included.
    arrivals: u64,
    warmup: u64,
    arrived: u64,
    in_system: u64,
    /// Integral of the number in the system over the window, up to `in_system_since_ns`.
    in_system_ns: f64,
    in_system_since_ns: u64,
}

impl Recorder {
    pub(super) fn new(plan: &SimPlan) -> Self {
        Self {
            types: plan.workload.types.iter().map(|ty| TypeRecord::new(plan, ty)).collect(),
            priorities: SenderRecord::several(plan.workload.clients.priorities.len()),
            tenants: SenderRecord::several(plan.workload.clients.tenants.len()),
            timeline: plan.timeline_ns.map(|width_ns| {
                let types = plan.workload.types.len();
                Timeline::new(width_ns, types, plan.workers_of_all())
            }),
            each: plan.each.then(Vec::new),
            network_ns: plan.costs.network_ns,
            slo_slowdown: plan.overload.slo_slowdown,
            ended: (plan.workload.clients.retries > 0).then(Vec::new),
            retried: 0,
            window: None,
            arrivals: 0,
            warmup: plan.warmup,
            arrived: 0,
            in_system: 0,
            in_system_ns: 0.0,
            in_system_since_ns: 0,
        }
    }

    /// Requests in the system.
    pub(super) const fn in_system(&self) -> u64 {
        self.in_system
    }

    /// Measured requests that arrived so far.
    pub(super) const fn measured(&self) -> u64 {
        self.arrived
    }

    /// A request arrives. Returns whether it is measured. `snapshot` is called rarely.
    #[inline]
    pub(super) fn arrived(&mut self, now_ns: u64, snapshot: impl Fn() -> Snapshot) -> bool {
        self.count_in_system(now_ns);
        self.in_system += 1;
        self.arrivals += 1;
        if self.arrivals <= self.warmup {
            return false;
        }
        self.arrived += 1;
        if self.window.is_none() {
            self.in_system_ns = 0.0;
            self.window = Some(Window {
                started_ns: now_ns,
                at_start: snapshot(),
                ended_ns: now_ns,
                at_end: Snapshot::default(),
            });
        }
        if let Some(timeline) = &mut self.timeline {
            if timeline.is_behind(now_ns) {
                timeline.advance(now_ns, &snapshot());
            }
            timeline.arrived(now_ns);
        }
        true
    }

    /// The last request has arrived.
    pub(super) fn end(&mut self, now_ns: u64, snapshot: Snapshot) {
        self.count_in_system(now_ns);
        if let Some(timeline) = &mut self.timeline {
            timeline.end(now_ns, &snapshot);
        }
        if let Some(window) = &mut self.window {
            window.ended_ns = now_ns;
            window.at_end = snapshot;
        }
        self.in_system_since_ns = u64::MAX;
    }

    /// A client sends a request again.
    pub(super) fn arrived_again(&mut self, now_ns: u64, measured: bool, snapshot: impl Fn() -> Snapshot) {
        self.count_in_system(now_ns);
        self.in_system += 1;
        if !measured {
            return;
        }
        self.retried += 1;
        if let Some(timeline) = &mut self.timeline {
            if timeline.is_behind(now_ns) {
                timeline.advance(now_ns, &snapshot());
            }
            timeline.arrived(now_ns);
        }
    }

    /// The requests that left since the last call, for clients that may ask again.
    pub(super) fn take_ended(&mut self) -> Option<Ended> {
        self.ended.as_mut().and_then(Vec::pop)
    }

    /// A request leaves without having run.
    pub(super) fn left(&mut self, now_ns: u64, request: &Measured, unserved: Unserved) {
        self.count_in_system(now_ns);
        self.in_system -= 1;
        if let Some(ended) = &mut self.ended {
            ended.push(Ended { serial: request.serial, is_done: false });
        }
        if !request.measured {
            return;
        }
        let kind = request.kind as usize;
        let record = &mut self.types[kind];
        match unserved {
            Unserved::Rejected => record.rejected += 1,
            Unserved::Refused(reason) => record.refused[reason as usize] += 1,
            Unserved::Dropped => record.dropped += 1,
        }
        for sender in self.senders(request) {
            sender.unserved += 1;
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.rejected(kind, request.arrived_ns);
        }
    }

    /// A request is completed.
    #[inline]
    pub(super) fn completed(&mut self, now_ns: u64, request: &Measured) {
        self.count_in_system(now_ns);
        self.in_system -= 1;
        if let Some(ended) = &mut self.ended {
            ended.push(Ended { serial: request.serial, is_done: true });
        }
        if !request.measured {
            return;
        }
        let kind = request.kind as usize;
        let latency_ns = now_ns - request.arrived_ns + self.network_ns;
        let record = &mut self.types[kind];
        record.completed += 1;
        record.latency_ns.saturating_record(latency_ns);
        // What the request would take if it were alone.
        let least_ns = request.service_ns + request.wait_ns;
        let slowdown = latency_ns as f64 / least_ns as f64 * SLOWDOWN_STEPS;
        let slo_ns = record.slo_ns.map_or(self.slo_slowdown * least_ns as f64, |slo_ns| slo_ns as f64);
        let in_time =
            latency_ns as f64 <= slo_ns && record.timeout_ns.is_none_or(|timeout_ns| latency_ns <= timeout_ns);
        record.in_time += u64::from(in_time);
        record.good_ns += if in_time { request.service_ns } else { 0 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is positive, and the conversion saturates"
        )]
        let slowdown = (slowdown + 0.5) as u64;
        record.slowdown.saturating_record(slowdown);
        for sender in self.senders(request) {
            sender.slowdown.saturating_record(slowdown);
            sender.good_ns += if in_time { request.service_ns } else { 0 };
        }
        if let Some(timeline) = &mut self.timeline {
            let good_ns = in_time.then_some(request.service_ns);
            timeline.completed(kind, request.arrived_ns, latency_ns, good_ns);
        }
        if let Some(each) = &mut self.each {
            each.push(Completion { arrived_ns: request.arrived_ns, latency_ns });
        }
    }

    /// The records of whoever sent a request.
    fn senders(&mut self, request: &Measured) -> impl Iterator<Item = &mut SenderRecord> {
        let tenant = (request.tenant as usize).checked_sub(1).and_then(|index| self.tenants.get_mut(index));
        self.priorities.get_mut(usize::from(request.priority)).into_iter().chain(tenant)
    }

    #[inline]
    fn count_in_system(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.in_system_since_ns);
        self.in_system_ns += self.in_system as f64 * passed_ns as f64;
        self.in_system_since_ns = self.in_system_since_ns.max(now_ns);
    }

    /// Assembles the outcome.
    pub(super) fn into_outcome(self, plan: &SimPlan, counts: Counts, last: &Snapshot) -> Outcome {
        let mut slowdown_total = new_histogram();
        for record in &self.types {
            slowdown_total.add(&record.slowdown).expect("all histograms have one range");
        }
        let window = self.window.as_ref();
        let duration_ns = window.map_or(0, Window::duration_ns);
        let workers = plan.workers_of_all() as f64;
        let share = |of: fn(&Snapshot) -> u64| window.map_or(0.0, |window| window.mean(of, workers));
        let all_ns = duration_ns as f64 * workers;
        let goodput = |good_ns: u64| if all_ns > 0.0 { good_ns as f64 / all_ns } else { 0.0 };
        let sum = |of: fn(&TypeRecord) -> u64| self.types.iter().map(of).sum::<u64>();
        let utilization = share(|snapshot| snapshot.served_ns);
        let occupied = share(|snapshot| snapshot.occupied_ns);
        Outcome {
            offered_rps: if plan.workload.phases.is_empty() {
                plan.offered_rps()
            } else {
                self.arrived as f64 * 1e9 / (duration_ns as f64).max(1.0)
            },
            duration_ns,
            arrived: self.arrived,
            completed: sum(|record| record.completed),
            rejected: sum(|record| record.rejected),
            refused: sum(|record| record.refused.iter().sum()),
            dropped: sum(|record| record.dropped),
            retried: self.retried,
            goodput: goodput(sum(|record| record.good_ns)),
            utilization,
            worker_utilization: window.map_or_else(Vec::new, Window::worker_utilization),
            reserved_idle_cores: share(|snapshot| snapshot.idle_ns) * workers,
            overhead: (occupied - utilization).max(0.0),
            workers_mean: window.map_or(0.0, |window| window.mean(|snapshot| snapshot.present_ns, 1.0)),
            worker_changes: last.worker_changes,
            in_system_mean: self.in_system_ns / (duration_ns as f64).max(1.0),
            preemptions: counts.preemptions,
            steals: counts.steals,
            reservation_updates: last.reservation_updates,
            overall: Slowdowns::new(slowdown_total),
            priorities: self.priorities.into_iter().map(|record| record.into_outcome(&goodput)).collect(),
            tenants: self.tenants.into_iter().map(|record| record.into_outcome(&goodput)).collect(),
            types: plan
                .workload
                .types
                .iter()
                .zip(self.types)
                .enumerate()
                .map(|(slot, (ty, record))| {
                    let workers_reserved = last.workers_reserved.get(slot).copied().unwrap_or(0);
                    record.into_outcome(ty, workers_reserved, &goodput)
                })
                .collect(),
            timeline: self.timeline.map_or_else(Vec::new, Timeline::into_buckets),
            each: self.each.unwrap_or_default(),
            trace: None,
            interrupted: counts.interrupted,
        }
    }
}

impl TypeRecord {
    fn new(plan: &SimPlan, ty: &WorkloadType) -> Self {
        Self {
            completed: 0,
            rejected: 0,
            refused: [0; Reason::ALL.len()],
            dropped: 0,
            in_time: 0,
            good_ns: 0,
            slo_ns: ty.slo_ns,
            timeout_ns: plan.workload.clients.timeout_ns(ty.service_ns),
            latency_ns: new_histogram(),
            slowdown: new_histogram(),
        }
    }

    fn into_outcome(self, ty: &WorkloadType, workers_reserved: usize, goodput: &impl Fn(u64) -> f64) -> TypeOutcome {
        TypeOutcome {
            name: ty.name.clone(),
            completed: self.completed,
            rejected: self.rejected,
            refused: self.refused,
            dropped: self.dropped,
            in_time: self.in_time,
            goodput: goodput(self.good_ns),
            workers_reserved,
            latency_ns: self.latency_ns,
            slowdown: Slowdowns::new(self.slowdown),
        }
    }
}

/// Why a request leaves without having run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unserved {
    /// Its queue is full.
    Rejected,
    /// By admission.
    Refused(Reason),
    /// Its turn came too late.
    Dropped,
}

/// A request that left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) serial: u64,
    /// Whether it was answered as its client wants.
    pub(super) is_done: bool,
}

/// A request as the recorder knows it from its arrival on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    pub(super) arrived_ns: u64,
    pub(super) service_ns: u64,
    /// For how long it waits without its worker.
    pub(super) wait_ns: u64,
    /// Index of its type in the workload.
    pub(super) kind: u32,
    pub(super) measured: bool,
    pub(super) priority: u8,
    pub(super) tenant: u32,
    /// When the server need not run it any more, if it knows.
    pub(super) deadline_ns: Option<u64>,
    /// Number of the attempt, if clients may ask again.
    pub(super) serial: u64,
}

/// Counters over the whole simulation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) preemptions: u64,
    pub(super) steals: u64,
    pub(super) interrupted: bool,
}
