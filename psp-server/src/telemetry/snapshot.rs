//! A readable copy of all counters.

use psp_policy::TypeTable;
use psp_policy::admission::{AdmissionStatus, Reason};
use psp_protocols::packet::DropReason;

use super::counter::Counter;
use super::counters::{
    DispatchCounters, NetCounters, PacketCounters, ReceiverCounters, Telemetry, TurnCounters, WaitCounters,
    WorkCounters,
};
use super::histogram::{Histogram, HistogramSnapshot};
use super::log_lines::dropped_log_lines;

/// All counters of a server at about one moment: each figure is exact, but two figures may be some
/// events apart.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// Connections, datagrams and buffers.
    pub net: NetSnapshot,
    /// One entry for each registered type, in a server with TLS one for handshakes, and `UNKNOWN` last.
    pub types: Vec<TypeSnapshot>,
    /// One entry for each worker. Where the net thread is none of them, and types are
    /// [control](psp_policy::TypeSpec::control) types, another one at the end for the net thread, which runs their
    /// requests.
    pub workers: Vec<WorkerSnapshot>,
    /// How often reservations were computed.
    pub reservation_updates: u64,
    /// Studies of what arrived that have ended; only [`Portfolio`](psp_policy::Portfolio) asks for any.
    pub studies: u64,
    /// Net threads whose loop has not turned for a second: nothing that they own is served.
    pub net_threads_stalled: u64,
    /// How often a net thread stood still for a second.
    pub net_stalls: u64,
    /// For how long net threads stood still beyond that second, in nanoseconds.
    pub net_stalled_ns_total: u64,
    /// Log lines that were [dropped](super::count_dropped_log_lines), of the whole process.
    pub log_lines_dropped: u64,
    /// Workers that come and go.
    pub elastic: ElasticSnapshot,
    /// Cores that an arbiter grants. Without an arbiter all figures are 0.
    pub arbiter: ArbiterSnapshot,
    /// Which of these figures the server has.
    pub parts: Parts,
}

/// What a server consists of beside its connections and workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Parts {
    /// It speaks TLS.
    pub tls: bool,
    /// It receives datagrams, from sockets or from a polled port.
    pub datagrams: bool,
    /// It polls a port.
    pub polled_port: bool,
    /// Its workers come and go.
    pub elastic: bool,
    /// It asks an arbiter for cores.
    pub arbiter: bool,
    /// It has [admission](crate::Config::admission).
    pub admission: bool,
}

/// Workers that come and go with the load. If they do not, all are present.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ElasticSnapshot {
    /// Workers that are present now.
    pub present: u64,
    /// How often a worker came.
    pub came: u64,
    /// How often a worker went.
    pub went: u64,
}

/// Cores that an arbiter grants to the server's threads.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ArbiterSnapshot {
    /// 1 while an arbiter knows the server.
    pub registered: u64,
    /// Cores that the server has now.
    pub cores: u64,
    /// Cores that it wants.
    pub wanted: u64,
    /// How often a thread was granted a core.
    pub grants: u64,
    /// How often the arbiter asked for cores back.
    pub recalls: u64,
    /// How often it took a core that was not released in time.
    pub takings: u64,
}

/// What the net worker counts.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct NetSnapshot {
    /// Connections accepted since the start.
    pub connections_accepted: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Connections refused before their first request: there were too many, or the handler refused them.
    pub connections_refused: u64,
    /// How many of these [`Handler::accept`](crate::Handler::accept) refused.
    pub connections_refused_by_handler: u64,
    /// How many of these came from an address that had
    /// [`Config::connections_per_address_max`](crate::Config::connections_per_address_max).
    pub connections_over_address_limit: u64,
    /// Connections closed because they were idle or took no output for too long.
    pub connections_timed_out: u64,
    /// Connections closed because they exceeded the budget for buffered bytes.
    pub connections_over_budget: u64,
    /// Connections closed because their peers sent requests and read no replies, up to
    /// [`output_bytes_max`](crate::Config::output_bytes_max).
    pub connections_over_output_limit: u64,
    /// Connections that their peers left while a request waited or ran.
    pub connections_abandoned: u64,
    /// TLS handshakes completed.
    pub handshakes: u64,
    /// TLS handshakes that did not come to their end: the peer broke the protocol, left, or took longer than
    /// [`handshake_timeout_s`](crate::Config::handshake_timeout_s), or too many handshakes waited.
    pub handshakes_failed: u64,
    /// Bytes received on connections; with TLS as they came from the network.
    pub bytes_received: u64,
    /// Bytes sent, by the net worker and by workers.
    pub bytes_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams dropped that only a forged source explains: their source is the server's own address, or they
    /// have the shape of replies.
    pub datagrams_reflected: u64,
    /// Datagrams dropped because replies have used up the bytes of their source
    /// ([`datagram_bytes_per_source_per_s`](crate::Config::datagram_bytes_per_source_per_s)).
    pub datagrams_over_budget: u64,
    /// Peers that broke the protocol: connections closed and datagrams dropped for it.
    pub malformed: u64,
    /// Bytes of memory held for peers: incomplete requests, replies of more than 64 KiB that grow, and replies that
    /// wait for a slow reader.
    pub buffered_bytes: u64,
    /// Times the rest of a long reply was handed to a worker because its socket had blocked.
    pub background_flushes: u64,
    /// Runs of requests that left their connection, so that others of it need not wait.
    pub runs_detached: u64,
    /// Replies that are deferred now: their handlers have returned.
    pub replies_deferred: u64,
    /// Deferred replies that failed, were dropped, or were datagrams that could not be sent.
    pub deferred_failed: u64,
    /// Frames of a polled port; all 0 on servers without one.
    pub packets: PacketSnapshot,
}

/// What the net worker counts about a polled port.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct PacketSnapshot {
    /// Frames received.
    pub frames: u64,
    /// ARP questions for the server's address that were answered.
    pub arp_answered: u64,
    /// ICMP echoes that were answered.
    pub echoes_answered: u64,
    /// Requests dropped because there was no room for more requests that wait or are in flight.
    pub overflows: u64,
    /// Frames of threads that receive which were dropped because the transmit queue was full: their answers, and their
    /// replies as workers.
    pub unsent: u64,
    /// Frames dropped, by reason.
    pub dropped: Vec<DropSnapshot>,
}

/// How many frames were dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct DropSnapshot {
    /// The reason's [name](DropReason::name).
    pub reason: &'static str,
    /// How many.
    pub frames: u64,
}

impl PacketSnapshot {
    fn sum<'a>(counters: impl IntoIterator<Item = &'a PacketCounters> + Clone) -> Self {
        let all = |counter: &dyn Fn(&'a PacketCounters) -> &'a Counter| {
            let counters = counters.clone().into_iter();
            sum(counters.map(counter))
        };
        let dropped = DropReason::ALL.iter().enumerate();
        Self {
            frames: all(&|counters| &counters.frames),
            arp_answered: all(&|counters| &counters.arp_answered),
            echoes_answered: all(&|counters| &counters.echoes_answered),
            overflows: all(&|counters| &counters.overflows),
            unsent: all(&|counters| &counters.unsent),
            dropped: dropped
                .map(|(index, reason)| DropSnapshot {
                    reason: reason.name(),
                    frames: all(&|counters| &counters.dropped[index]),
                })
                .collect(),
        }
    }
}

/// The figures of one request type.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct TypeSnapshot {
    /// Its registered name.
    pub name: String,
    /// Requests that arrived.
    pub arrivals: u64,
    /// Requests that completed.
    pub completions: u64,
    /// Requests that found the typed queue full and waited for a place in it, for
    /// [`Config::backpressure_ms`](crate::Config::backpressure_ms) at most.
    pub held: u64,
    /// Requests refused because the typed queue stayed full, or by admission.
    pub rejections: u64,
    /// Requests that did not run because their connection had been closed when their turn came.
    pub abandoned: u64,
    /// Requests that did not run because they had waited too long when their turn came: longer than
    /// [`TypeSpec::max_wait`](crate::TypeSpec::max_wait) or their own
    /// [deadline](crate::protocols::Framing::deadline).
    pub expired: u64,
    /// Entries in the typed queue now; one entry may be a run of pipelined requests.
    pub queued: u64,
    /// Service time of all completed requests, in nanoseconds.
    pub service_ns_total: u64,
    /// Longest service time, in nanoseconds.
    pub service_ns_max: u64,
    /// From the arrival of a request to the beginning of its handler.
    pub wait: HistogramSnapshot,
    /// Service times of completed requests.
    pub service: HistogramSnapshot,
    /// From the arrival of a request to the end of its handler, with its wait and all that it waited for. A reply that
    /// its handler deferred comes later.
    pub sojourn: HistogramSnapshot,
    /// The scheduler's profiled mean, in nanoseconds; 0 while unknown.
    pub service_ns_profiled: u64,
    /// Workers reserved for the type's group.
    pub workers_reserved: u64,
    /// The first reserved worker.
    pub worker_first: Option<u64>,
    /// Times a request of the type ran on a worker reserved for a longer group.
    pub steals: u64,
    /// Times a request of the type began on a worker that is not its own because those ran
    /// [stuck](crate::Config::stuck_after_ms) requests.
    pub relieved: u64,
    /// Turns of its requests on workers.
    pub turns: TurnSnapshot,
    /// Waits of its requests in their handlers.
    pub waits: WaitSnapshot,
    /// What [admission](crate::Config::admission) says of it.
    pub admission: AdmissionSnapshot,
}

/// What admission says of one type. Without admission all figures are 0, and there are no reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct AdmissionSnapshot {
    /// Requests (or runs of pipelined requests) that were refused, by reason.
    pub refused: Vec<RefusedSnapshot>,
    /// How far expected waits have been from real ones lately, on average, in nanoseconds.
    pub expectation_error_ns: u64,
    /// Whether the SLO is shorter than two mean service times, and therefore counts as two.
    pub slo_infeasible: bool,
}

/// How many requests of one type were refused for one reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct RefusedSnapshot {
    /// The reason's [name](psp_policy::admission::Reason::name).
    pub reason: &'static str,
    /// How many.
    pub requests: u64,
}

impl AdmissionSnapshot {
    fn of(status: &AdmissionStatus) -> Self {
        let refused = Reason::ALL.iter().zip(status.refused);
        Self {
            refused: refused
                .map(|(reason, requests)| RefusedSnapshot { reason: reason.name(), requests })
                .collect(),
            expectation_error_ns: status.expectation_error_ns as u64,
            slo_infeasible: status.slo_infeasible,
        }
    }
}

/// Waits of one type's requests in their handlers: requests that [`wait`](crate::wait()) without their workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct WaitSnapshot {
    /// Requests that wait now.
    pub blocked: u64,
    /// How often a request began to wait. A request may wait several times.
    pub waits: u64,
    /// Time of all waits that have ended, until what they waited for was ready, in nanoseconds.
    pub wait_ns_total: u64,
}

impl WaitSnapshot {
    /// How many waits have ended.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.waits.saturating_sub(self.blocked)
    }

    fn sum<'a>(counters: impl IntoIterator<Item = &'a WaitCounters> + Clone) -> Self {
        let all = |counter: fn(&WaitCounters) -> &Counter| {
            let counters = counters.clone().into_iter();
            sum(counters.map(counter))
        };
        Self {
            blocked: all(|counters| &counters.blocked),
            waits: all(|counters| &counters.waits),
            wait_ns_total: all(|counters| &counters.wait_ns),
        }
    }
}

/// Turns on workers: of one type's requests (or runs), or on one worker. A request that is never
/// preempted has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct TurnSnapshot {
    /// Turns that began.
    pub turns: u64,
    /// Times a request was asked to yield.
    pub preemptions_asked: u64,
    /// Times the request did. The other requests were complete before.
    pub preemptions_honoured: u64,
    /// Times a request had not yielded after [`Config::preempt_warn_ms`](crate::Config::preempt_warn_ms).
    pub preemptions_late: u64,
    /// Turns that lasted for so long that their request may never end:
    /// [`Config::stuck_after_ms`](crate::Config::stuck_after_ms).
    pub stuck: u64,
    /// Times a request gave a thread that owns sockets back: it had had that for
    /// [`Config::net_budget_us`](crate::Config::net_budget_us).
    pub pauses: u64,
}

impl TurnSnapshot {
    fn sum<'a>(counters: impl IntoIterator<Item = &'a TurnCounters> + Clone) -> Self {
        let all = |counter: fn(&TurnCounters) -> &Counter| {
            let counters = counters.clone().into_iter();
            sum(counters.map(counter))
        };
        Self {
            turns: all(|counters| &counters.turns),
            preemptions_asked: all(|counters| &counters.preemptions_asked),
            preemptions_honoured: all(|counters| &counters.preemptions_honoured),
            preemptions_late: all(|counters| &counters.preemptions_late),
            stuck: all(|counters| &counters.stuck),
            pauses: all(|counters| &counters.pauses),
        }
    }
}

/// What one worker counts.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct WorkerSnapshot {
    /// Requests that the worker completed.
    pub completions: u64,
    /// Time spent in the handler, in nanoseconds.
    pub service_ns_total: u64,
    /// Panics of the handler that the worker survived.
    pub panics: u64,
    /// Requests that the handler failed with a text for the peer.
    pub failures: u64,
    /// Bytes that the worker sent itself.
    pub bytes_sent: u64,
    /// Replies that were longer than the limit or, in a datagram, than the frame. Their peers got an error
    /// instead.
    pub replies_too_large: u64,
    /// Replies for which the [budget](crate::Config::buffered_bytes_max) had no room. Their peers got an error instead.
    pub replies_over_budget: u64,
    /// Replies in datagrams that were dropped because the socket or transmit queue took no more.
    pub replies_unsent: u64,
    /// Turns whose request was asked to yield and ran to its end instead: it was nearly done, reached no
    /// checkpoint, stayed in `no_preempt`, or there was no idle context.
    pub preemptions_missed: u64,
    /// How many of these found no idle context; and under `kernel-thread` in the topology `distributed` requests that
    /// found no thread when they began, and cannot be asked.
    pub contexts_exhausted: u64,
    /// Requests that the worker took from another worker's queue; in the topology `distributed`.
    pub stolen: u64,
    /// Requests that the worker ran for another one which had received them and handed them over; in the topology
    /// `distributed`.
    pub handed_over: u64,
    /// Datagrams that came to the worker's own port, whichever worker read them; in the topology `distributed`.
    pub datagrams_received: u64,
    /// Turns of requests on this worker.
    pub turns: TurnSnapshot,
}

impl Snapshot {
    pub(crate) fn read(
        telemetry: &Telemetry,
        table: &TypeTable,
        parts: Parts,
        buffered_bytes: usize,
        replies_deferred: usize,
        admission: &[AdmissionStatus],
        has_histograms: bool,
    ) -> Self {
        let receivers = &telemetry.receivers;
        let types = (0..receivers[0].types.len()).map(|slot| {
            let dispatch = &receivers[0].types[slot].0;
            let of_receivers = receivers.iter().map(|receiver| &receiver.types[slot].0);
            let all = |counter: fn(&DispatchCounters) -> &Counter| -> u64 { sum(of_receivers.clone().map(counter)) };
            let work = || telemetry.workers.iter().map(move |worker| &worker.types[slot].0);
            let histogram = |of: fn(&WorkCounters) -> &Histogram| match has_histograms {
                true => HistogramSnapshot::sum(work().map(of)),
                false => HistogramSnapshot::default(),
            };
            let worker_first = dispatch.worker_first.get();
            let workers_reserved = dispatch.workers_reserved.get();
            TypeSnapshot {
                name: table.name_of_slot(slot).to_owned(),
                arrivals: all(|counters| &counters.arrivals),
                completions: work().map(|work| work.completions.get()).sum(),
                held: all(|counters| &counters.held),
                rejections: all(|counters| &counters.rejections),
                abandoned: all(|counters| &counters.abandoned),
                expired: all(|counters| &counters.expired),
                queued: all(|counters| &counters.queued),
                service_ns_total: work().map(|work| work.service_ns.get()).sum(),
                service_ns_max: work().map(|work| work.service_ns_max.get()).max().unwrap_or(0),
                wait: histogram(|work| &work.waited),
                service: histogram(|work| &work.served),
                sojourn: histogram(|work| &work.sojourned),
                service_ns_profiled: dispatch.service_ns_profiled.get(),
                workers_reserved,
                worker_first: (workers_reserved > 0 && worker_first != u64::MAX).then_some(worker_first),
                steals: all(|counters| &counters.steals),
                relieved: all(|counters| &counters.relieved),
                turns: TurnSnapshot::sum(of_receivers.clone().map(|counters| &counters.turns)),
                waits: WaitSnapshot::sum(of_receivers.clone().map(|counters| &counters.waits)),
                admission: admission.get(slot).map(AdmissionSnapshot::of).unwrap_or_default(),
            }
        });
        // A worker may be a receiver, too.
        let is_receiver = receivers.len() == telemetry.workers.len();
        let workers = telemetry.workers.iter().zip(&telemetry.turns).enumerate();
        let workers = workers.map(|(index, (worker, turns))| WorkerSnapshot {
            completions: worker.types.iter().map(|work| work.0.completions.get()).sum(),
            service_ns_total: worker.types.iter().map(|work| work.0.service_ns.get()).sum(),
            panics: worker.panics.get(),
            failures: worker.failures.get(),
            bytes_sent: worker.bytes_sent.get(),
            replies_too_large: worker.replies_too_large.get(),
            replies_over_budget: worker.replies_over_budget.get(),
            replies_unsent: worker.replies_unsent.get(),
            preemptions_missed: worker.preemptions_missed.get(),
            contexts_exhausted: worker.contexts_exhausted.get(),
            stolen: worker.stolen.get(),
            handed_over: worker.handed_over.get(),
            datagrams_received: { receivers.get(index).filter(|_| is_receiver) }
                .map_or(0, |receiver| receiver.net.0.datagrams_received.get()),
            turns: TurnSnapshot::sum([&turns.0]),
        });
        let is_stalled = |receiver: &&ReceiverCounters| receiver.stalled_ns.get() > 0;
        let net =
            |counter: fn(&NetCounters) -> &Counter| sum(receivers.iter().map(|receiver| counter(&receiver.net.0)));
        Self {
            net: NetSnapshot {
                connections_accepted: net(|net| &net.connections_accepted),
                connections_open: net(|net| &net.connections_open),
                connections_refused: net(|net| &net.connections_refused),
                connections_refused_by_handler: net(|net| &net.connections_refused_by_handler),
                connections_over_address_limit: net(|net| &net.connections_over_address_limit),
                connections_timed_out: net(|net| &net.connections_timed_out),
                connections_over_budget: net(|net| &net.connections_over_budget),
                connections_over_output_limit: net(|net| &net.connections_over_output_limit),
                connections_abandoned: net(|net| &net.connections_abandoned),
                handshakes: net(|net| &net.handshakes),
                handshakes_failed: net(|net| &net.handshakes_failed),
                bytes_received: net(|net| &net.bytes_received),
                bytes_sent: net(|net| &net.bytes_sent) + sum(telemetry.workers.iter().map(|worker| &worker.bytes_sent)),
                datagrams_received: net(|net| &net.datagrams_received),
                datagrams_reflected: net(|net| &net.datagrams_reflected),
                datagrams_over_budget: net(|net| &net.datagrams_over_budget),
                malformed: net(|net| &net.malformed),
                buffered_bytes: buffered_bytes as u64,
                background_flushes: net(|net| &net.background_flushes),
                runs_detached: net(|net| &net.runs_detached),
                replies_deferred: replies_deferred as u64,
                deferred_failed: net(|net| &net.deferred_failed),
                packets: PacketSnapshot::sum(receivers.iter().map(|receiver| &receiver.net.0.packets)),
            },
            types: types.collect(),
            workers: workers.collect(),
            reservation_updates: telemetry.reservation_updates.get(),
            studies: telemetry.studies.get(),
            net_threads_stalled: receivers.iter().filter(is_stalled).count() as u64,
            net_stalls: telemetry.stalls.get(),
            net_stalled_ns_total: telemetry.stalled_ns.get(),
            log_lines_dropped: dropped_log_lines(),
            elastic: ElasticSnapshot {
                present: telemetry.elastic.present.get(),
                came: telemetry.elastic.came.get(),
                went: telemetry.elastic.went.get(),
            },
            arbiter: ArbiterSnapshot {
                registered: telemetry.arbiter.registered.get(),
                cores: telemetry.arbiter.cores.get(),
                wanted: telemetry.arbiter.wanted.get(),
                grants: telemetry.arbiter.grants.get(),
                recalls: telemetry.arbiter.recalls.get(),
                takings: telemetry.arbiter.takings.get(),
            },
            parts,
        }
    }
}

fn sum<'a>(counters: impl Iterator<Item = &'a Counter>) -> u64 {
    // What one receiver counted, another may have taken back.
    counters.map(Counter::get).fold(0, u64::wrapping_add)
}
