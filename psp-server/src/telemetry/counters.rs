//! All counters of a server, by their writers.

use psp_policy::TypeStatus;
use psp_protocols::packet::DropReason;

use super::counter::Counter;
use super::histogram::Histogram;
use super::turning::Turning;

/// All counters of one server.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// One entry for each thread that receives requests.
    pub(crate) receivers: Vec<ReceiverCounters>,
    pub(crate) workers: Vec<WorkerCounters>,
    /// One entry for each worker.
    pub(crate) turns: Vec<Padded<TurnCounters>>,
    pub(crate) reservation_updates: Counter,
    /// Studies that ended.
    pub(crate) studies: Counter,
    /// Times that a net thread stood still. Written by the watchdog, as the next.
    pub(crate) stalls: Counter,
    /// For how long net threads stood still beyond a second.
    pub(crate) stalled_ns: Counter,
    pub(crate) elastic: ElasticCounters,
    pub(crate) arbiter: ArbiterCounters,
}

/// Workers that come and go. Written by the net worker.
#[derive(Debug, Default)]
pub(crate) struct ElasticCounters {
    pub(crate) present: Counter,
    pub(crate) came: Counter,
    pub(crate) went: Counter,
}

impl ElasticCounters {
    /// So many workers are present from now on.
    pub(crate) fn changed_to(&self, present: usize) {
        let (before, present) = (self.present.get(), present as u64);
        self.came.add(present.saturating_sub(before));
        self.went.add(before.saturating_sub(present));
        self.present.set(present);
    }
}

/// Cores that an arbiter grants and takes. Written by the net worker.
#[derive(Debug, Default)]
pub(crate) struct ArbiterCounters {
    pub(crate) registered: Counter,
    pub(crate) cores: Counter,
    pub(crate) wanted: Counter,
    pub(crate) grants: Counter,
    pub(crate) recalls: Counter,
    pub(crate) takings: Counter,
}

/// Keeps the counters of different writers on different cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// Written by one thread that receives requests: by its net worker, and by its dispatcher.
#[derive(Debug)]
pub(crate) struct ReceiverCounters {
    pub(crate) net: Padded<NetCounters>,
    /// One entry for each registered type, and the last one for `UNKNOWN`.
    pub(crate) types: Vec<Padded<DispatchCounters>>,
    pub(crate) turning: Padded<Turning>,
    /// For how long the driver of the port has stood still; 0 if it turns. Written by the watchdog.
    pub(crate) stalled_ns: Counter,
}

/// Written by the net worker.
#[derive(Debug, Default)]
pub(crate) struct NetCounters {
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_open: Counter,
    pub(crate) connections_refused: Counter,
    pub(crate) connections_refused_by_handler: Counter,
    pub(crate) connections_over_address_limit: Counter,
    pub(crate) connections_timed_out: Counter,
    pub(crate) connections_over_budget: Counter,
    pub(crate) connections_over_output_limit: Counter,
    pub(crate) connections_abandoned: Counter,
    pub(crate) handshakes: Counter,
    pub(crate) handshakes_failed: Counter,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    pub(crate) datagrams_received: Counter,
    pub(crate) datagrams_reflected: Counter,
    pub(crate) datagrams_over_budget: Counter,
    pub(crate) malformed: Counter,
    pub(crate) background_flushes: Counter,
    pub(crate) runs_detached: Counter,
    pub(crate) deferred_failed: Counter,
    pub(crate) packets: PacketCounters,
}

/// Written by the net worker, about a polled port.
#[derive(Debug, Default)]
pub(crate) struct PacketCounters {
    pub(crate) frames: Counter,
    pub(crate) arp_answered: Counter,
    pub(crate) echoes_answered: Counter,
    pub(crate) overflows: Counter,
    pub(crate) unsent: Counter,
    /// By the index of each reason.
    pub(crate) dropped: [Counter; DropReason::ALL.len()],
}

/// Written by the dispatcher, for one type.
#[derive(Debug, Default)]
pub(crate) struct DispatchCounters {
    pub(crate) arrivals: Counter,
    pub(crate) held: Counter,
    pub(crate) rejections: Counter,
    pub(crate) abandoned: Counter,
    pub(crate) expired: Counter,
    pub(crate) queued: Counter,
    pub(crate) workers_reserved: Counter,
    pub(crate) worker_first: Counter,
    pub(crate) steals: Counter,
    pub(crate) relieved: Counter,
    pub(crate) service_ns_profiled: Counter,
    pub(crate) turns: TurnCounters,
    pub(crate) waits: WaitCounters,
}

/// Written by the dispatcher, for one type.
#[derive(Debug, Default)]
pub(crate) struct WaitCounters {
    pub(crate) blocked: Counter,
    pub(crate) waits: Counter,
    pub(crate) wait_ns: Counter,
}

/// Written by the dispatcher, for one type or one worker.
#[derive(Debug, Default)]
pub(crate) struct TurnCounters {
    pub(crate) turns: Counter,
    pub(crate) preemptions_asked: Counter,
    pub(crate) preemptions_honoured: Counter,
    pub(crate) preemptions_late: Counter,
    pub(crate) stuck: Counter,
    pub(crate) pauses: Counter,
}

impl DispatchCounters {
    pub(crate) fn publish(&self, status: &TypeStatus) {
        self.queued.set(status.queued as u64);
        self.workers_reserved.set(status.workers_reserved as u64);
        self.worker_first.set(status.worker_first.map_or(u64::MAX, |worker| worker.0.into()));
        self.steals.set(status.steals);
        self.relieved.set(status.relieved);
        self.service_ns_profiled.set(status.service_ns_mean as u64);
    }
}

/// Written by one worker.
#[derive(Debug)]
pub(crate) struct WorkerCounters {
    pub(crate) types: Vec<Padded<WorkCounters>>,
    pub(crate) panics: Counter,
    pub(crate) failures: Counter,
    pub(crate) bytes_sent: Counter,
    pub(crate) replies_too_large: Counter,
    pub(crate) replies_over_budget: Counter,
    pub(crate) replies_unsent: Counter,
    pub(crate) preemptions_missed: Counter,
    pub(crate) contexts_exhausted: Counter,
    pub(crate) stolen: Counter,
    pub(crate) handed_over: Counter,
}

/// Written by one worker, for one type.
#[derive(Debug, Default)]
pub(crate) struct WorkCounters {
    pub(crate) completions: Counter,
    pub(crate) service_ns: Counter,
    pub(crate) service_ns_max: Counter,
    /// Part of the service time: the worker had stepped back for the request, and others had its core.
    pub(crate) starved_ns: Counter,
    pub(crate) waited: Histogram,
    pub(crate) served: Histogram,
    pub(crate) sojourned: Histogram,
}

/// The times of one request, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// From its arrival to the beginning of its handler.
    pub(crate) waited_ns: u64,
    /// With a worker.
    pub(crate) served_ns: u64,
    /// From its arrival to the end of its handler, with all turns and waits.
    pub(crate) sojourn_ns: u64,
}

impl WorkCounters {
    /// A request has completed.
    #[inline]
    pub(crate) fn completed(&self, times: Times) {
        let Times { waited_ns, served_ns, sojourn_ns } = times;
        self.completions.add(1);
        self.service_ns.add(served_ns);
        if served_ns > self.service_ns_max.get() {
            self.service_ns_max.set(served_ns);
        }
        self.waited.record(waited_ns);
        self.served.record(served_ns);
        self.sojourned.record(sojourn_ns);
    }
}

impl Telemetry {
    /// The mean service time of all requests of the type at `slot`, in nanoseconds; 0 if there was none.
    pub(crate) fn service_ns_mean(&self, slot: usize) -> f64 {
        let work = || self.workers.iter().map(|worker| &worker.types[slot].0);
        let completions: u64 = work().map(|work| work.completions.get()).sum();
        let service_ns: u64 = work().map(|work| work.service_ns.get()).sum();
        service_ns as f64 / completions.max(1) as f64
    }

    /// The same without the time for which requests had no processor because they are long.
    pub(crate) fn length_ns_mean(&self, slot: usize) -> f64 {
        let work = || self.workers.iter().map(|worker| &worker.types[slot].0);
        let completions: u64 = work().map(|work| work.completions.get()).sum();
        let ns = |work: &WorkCounters| work.service_ns.get().saturating_sub(work.starved_ns.get());
        work().map(ns).sum::<u64>() as f64 / completions.max(1) as f64
    }

    /// The mean time from the beginning of the handler to its end, with all turns and waits; 0 if there was none.
    pub(crate) fn handling_ns_mean(&self, slot: usize) -> f64 {
        let work = || self.workers.iter().map(|worker| &worker.types[slot].0);
        let completions: u64 = work().map(|work| work.completions.get()).sum();
        let ns = |work: &WorkCounters| work.sojourned.sum_ns().saturating_sub(work.waited.sum_ns());
        work().map(ns).sum::<u64>() as f64 / completions.max(1) as f64
    }

    /// Connections that are open at all receivers.
    pub(crate) fn connections_open(&self) -> u64 {
        let open = |receiver: &ReceiverCounters| receiver.net.0.connections_open.get();
        self.receivers.iter().map(open).sum()
    }

    pub(crate) fn new(type_slots: usize, receivers: usize, workers: usize) -> Self {
        let receiver = || ReceiverCounters {
            net: Padded::default(),
            types: (0..type_slots).map(|_| Padded::default()).collect(),
            turning: Padded::default(),
            stalled_ns: Counter::default(),
        };
        let worker = || WorkerCounters {
            types: (0..type_slots).map(|_| Padded::default()).collect(),
            panics: Counter::default(),
            failures: Counter::default(),
            bytes_sent: Counter::default(),
            replies_too_large: Counter::default(),
            replies_over_budget: Counter::default(),
            replies_unsent: Counter::default(),
            preemptions_missed: Counter::default(),
            contexts_exhausted: Counter::default(),
            stolen: Counter::default(),
            handed_over: Counter::default(),
        };
        Self {
            receivers: (0..receivers).map(|_| receiver()).collect(),
            workers: (0..workers).map(|_| worker()).collect(),
            turns: (0..workers).map(|_| Padded::default()).collect(),
            reservation_updates: Counter::default(),
            studies: Counter::default(),
            stalls: Counter::default(),
            stalled_ns: Counter::default(),
            elastic: ElasticCounters::default(),
            arbiter: ArbiterCounters::default(),
        }
    }
}
