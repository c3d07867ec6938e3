//! The figures that exporters get: names, what they mean, and where a snapshot has them.

use self::Figure::{Counter, Gauge, Seconds, Span};
use super::histogram::HistogramSnapshot;
use super::snapshot::{DropSnapshot, NetSnapshot, Parts, RefusedSnapshot, Snapshot, TypeSnapshot, WorkerSnapshot};

/// A figure of a part `S` of a snapshot.
pub(super) struct Row<S> {
    /// Names of counters end with `_total`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) part: Part,
    pub(super) figure: Figure<S>,
}

/// What kind of figure it is, and how it is read.
pub(super) enum Figure<S> {
    /// It only grows.
    Counter(fn(&S) -> u64),
    /// A counter of nanoseconds, which exporters get in seconds.
    Seconds(fn(&S) -> u64),
    /// It grows and shrinks.
    Gauge(fn(&S) -> u64),
    /// It grows and shrinks, in nanoseconds, which exporters get in seconds.
    Span(fn(&S) -> u64),
}

/// Which servers have a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    All,
    Tls,
    Datagrams,
    PolledPort,
    Elastic,
    Arbiter,
    Admission,
}

impl Part {
    pub(super) const fn is_in(self, parts: &Parts) -> bool {
        match self {
            Self::All => true,
            Self::Tls => parts.tls,
            Self::Datagrams => parts.datagrams,
            Self::PolledPort => parts.polled_port,
            Self::Elastic => parts.elastic,
            Self::Arbiter => parts.arbiter,
            Self::Admission => parts.admission,
        }
    }
}

/// A histogram of a type's times.
pub(super) struct HistogramRow {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) of: fn(&TypeSnapshot) -> &HistogramSnapshot,
}

const fn row<S>(name: &'static str, part: Part, figure: Figure<S>, help: &'static str) -> Row<S> {
    Row { name, help, part, figure }
}

/// Of connections and datagrams.
#[rustfmt::skip]
pub(super) const NET: &[Row<NetSnapshot>] = &[
    row("psp_connections_open", Part::All, Gauge(|net| net.connections_open), "Connections that are open."),
    row("psp_connections_accepted_total", Part::All, Counter(|net| net.connections_accepted),
        "Connections that were accepted."),
    row("psp_connections_refused_total", Part::All, Counter(|net| net.connections_refused),
        "Connections over connections-max, or refused by the handler."),
    row("psp_connections_refused_by_handler_total", Part::All, Counter(|net| net.connections_refused_by_handler),
        "Connections that the handler refused."),
    row("psp_connections_over_address_limit_total", Part::All, Counter(|net| net.connections_over_address_limit),
        "Connections over connections-per-address-max."),
    row("psp_connections_timed_out_total", Part::All, Counter(|net| net.connections_timed_out),
        "Connections closed by a timeout."),
    row("psp_connections_over_budget_total", Part::All, Counter(|net| net.connections_over_budget),
        "Connections closed because of buffered-bytes-max."),
    row("psp_connections_over_output_limit_total", Part::All, Counter(|net| net.connections_over_output_limit),
        "Connections closed because their peers sent requests and read no replies."),
    row("psp_connections_abandoned_total", Part::All, Counter(|net| net.connections_abandoned),
        "Connections that peers left while a request waited or ran."),
    row("psp_handshakes_total", Part::Tls, Counter(|net| net.handshakes), "TLS handshakes that succeeded."),
    row("psp_handshakes_failed_total", Part::Tls, Counter(|net| net.handshakes_failed), "TLS handshakes that failed."),
    row("psp_buffered_bytes", Part::All, Gauge(|net| net.buffered_bytes), "Bytes of memory held for all peers."),
    row("psp_received_bytes_total", Part::All, Counter(|net| net.bytes_received), "Bytes received."),
    row("psp_sent_bytes_total", Part::All, Counter(|net| net.bytes_sent), "Bytes sent."),
    row("psp_malformed_total", Part::All, Counter(|net| net.malformed),
        "Peers that broke the protocol: connections closed and datagrams dropped for it."),
    row("psp_replies_deferred", Part::All, Gauge(|net| net.replies_deferred),
        "Replies that are deferred: their handlers have returned."),
    row("psp_deferred_failed_total", Part::All, Counter(|net| net.deferred_failed),
        "Deferred replies that failed, were dropped or could not be sent."),
    row("psp_datagrams_received_total", Part::Datagrams, Counter(|net| net.datagrams_received), "Datagrams received."),
    row("psp_datagrams_reflected_total", Part::Datagrams, Counter(|net| net.datagrams_reflected),
        "Datagrams dropped that only a forged source explains."),
    row("psp_datagrams_over_budget_total", Part::Datagrams, Counter(|net| net.datagrams_over_budget),
        "Datagrams over their source's datagram-bytes-per-source-per-s."),
    row("psp_frames_received_total", Part::PolledPort, Counter(|net| net.packets.frames),
        "Frames that the polled port received."),
    row("psp_arp_answered_total", Part::PolledPort, Counter(|net| net.packets.arp_answered),
        "ARP requests that it answered."),
    row("psp_echoes_answered_total", Part::PolledPort, Counter(|net| net.packets.echoes_answered),
        "Pings that it answered."),
    row("psp_packet_overflows_total", Part::PolledPort, Counter(|net| net.packets.overflows),
        "Datagrams that no buffer was left for."),
    row("psp_packets_unsent_total", Part::PolledPort, Counter(|net| net.packets.unsent),
        "Frames that it could not send."),
];

/// Of frames that a polled port drops, by reason.
#[rustfmt::skip]
pub(super) const DROPS: &[Row<DropSnapshot>] = &[
    row("psp_frames_dropped_total", Part::PolledPort, Counter(|dropped| dropped.frames),
        "Frames that the polled port dropped, by reason."),
];

/// Of the whole server.
#[rustfmt::skip]
pub(super) const SERVER: &[Row<Snapshot>] = &[
    row("psp_reservation_updates_total", Part::All, Counter(|server| server.reservation_updates),
        "Changes of the workers reserved."),
    row("psp_studies_total", Part::All, Counter(|server| server.studies),
        "Studies of the workload, by which the portfolio chooses a policy."),
    row("psp_net_threads_stalled", Part::All, Gauge(|server| server.net_threads_stalled),
        "Net threads whose loop has not turned for a second."),
    row("psp_net_stalls_total", Part::All, Counter(|server| server.net_stalls),
        "Times that a net thread stood still for a second."),
    row("psp_net_stalled_seconds_total", Part::All, Seconds(|server| server.net_stalled_ns_total),
        "Time for which net threads stood still beyond that second."),
    row("psp_log_lines_dropped_total", Part::All, Counter(|server| server.log_lines_dropped),
        "Log lines of the whole process that were dropped because nobody read them in time."),
    row("psp_workers_present", Part::All, Gauge(|server| server.elastic.present), "Workers that are present."),
    row("psp_workers_came_total", Part::Elastic, Counter(|server| server.elastic.came), "Workers that came."),
    row("psp_workers_went_total", Part::Elastic, Counter(|server| server.elastic.went), "Workers that went."),
    row("psp_arbiter_registered", Part::Arbiter, Gauge(|server| server.arbiter.registered),
        "1 while an arbiter knows the server."),
    row("psp_arbiter_cores", Part::Arbiter, Gauge(|server| server.arbiter.cores),
        "Cores that the arbiter has granted."),
    row("psp_arbiter_cores_wanted", Part::Arbiter, Gauge(|server| server.arbiter.wanted),
        "Cores that the server wants."),
    row("psp_arbiter_grants_total", Part::Arbiter, Counter(|server| server.arbiter.grants), "Cores granted."),
    row("psp_arbiter_recalls_total", Part::Arbiter, Counter(|server| server.arbiter.recalls),
        "Times that the arbiter asked for cores back."),
    row("psp_arbiter_takings_total", Part::Arbiter, Counter(|server| server.arbiter.takings),
        "Cores taken because they were not released in time."),
];

/// Of each type.
#[rustfmt::skip]
pub(super) const TYPES: &[Row<TypeSnapshot>] = &[
    row("psp_arrivals_total", Part::All, Counter(|ty| ty.arrivals), "Requests that arrived."),
    row("psp_completions_total", Part::All, Counter(|ty| ty.completions), "Requests that completed."),
    row("psp_held_total", Part::All, Counter(|ty| ty.held), "Requests that waited for a place in the typed queue."),
    row("psp_rejections_total", Part::All, Counter(|ty| ty.rejections),
        "Requests refused because the typed queue was full, or by admission."),
    row("psp_abandoned_total", Part::All, Counter(|ty| ty.abandoned), "Requests not run because the peer had left."),
    row("psp_expired_total", Part::All, Counter(|ty| ty.expired), "Requests not run because they had waited too long."),
    row("psp_steals_total", Part::All, Counter(|ty| ty.steals), "Requests that ran on workers of longer types."),
    row("psp_relieved_total", Part::All, Counter(|ty| ty.relieved),
        "Requests that ran on workers of other types because their own were stuck."),
    row("psp_turns_total", Part::All, Counter(|ty| ty.turns.turns), "Turns on workers."),
    row("psp_preemptions_asked_total", Part::All, Counter(|ty| ty.turns.preemptions_asked),
        "Requests asked to give way."),
    row("psp_preemptions_honoured_total", Part::All, Counter(|ty| ty.turns.preemptions_honoured),
        "Requests that gave way."),
    row("psp_preemptions_late_total", Part::All, Counter(|ty| ty.turns.preemptions_late),
        "Requests that gave way late."),
    row("psp_stuck_total", Part::All, Counter(|ty| ty.turns.stuck),
        "Requests that ran for longer than stuck-after-ms and may never end."),
    row("psp_paused_total", Part::All, Counter(|ty| ty.turns.pauses),
        "Times a request gave the net thread back after net-budget-us."),
    row("psp_handler_waits_total", Part::All, Counter(|ty| ty.waits.waits), "Waits in handlers that began."),
    row("psp_handler_wait_seconds_total", Part::All, Seconds(|ty| ty.waits.wait_ns_total), "Time of those that ended."),
    row("psp_blocked", Part::All, Gauge(|ty| ty.waits.blocked), "Requests that wait in their handlers."),
    row("psp_queue_length", Part::All, Gauge(|ty| ty.queued),
        "Requests that wait for a worker; a run of pipelined requests counts as one."),
    row("psp_workers_reserved", Part::All, Gauge(|ty| ty.workers_reserved),
        "Workers reserved for the group of the type."),
    row("psp_slo_infeasible", Part::Admission, Gauge(|ty| u64::from(ty.admission.slo_infeasible)),
        "1 while the SLO is shorter than two mean service times."),
    row("psp_expectation_error_seconds", Part::Admission, Span(|ty| ty.admission.expectation_error_ns),
        "How far the waits that admission expects are from real ones, on average."),
];

/// Of requests that admission refuses, by type and reason.
#[rustfmt::skip]
pub(super) const REFUSED: &[Row<RefusedSnapshot>] = &[
    row("psp_refused_total", Part::Admission, Counter(|refused| refused.requests),
        "Requests that admission refused, by reason; a run of pipelined requests counts as one."),
];

/// Times of each type.
#[rustfmt::skip]
pub(super) const HISTOGRAMS: [HistogramRow; 3] = [
    HistogramRow { name: "psp_wait_seconds", of: |ty| &ty.wait,
        help: "From the arrival of a request to the beginning of its handler." },
    HistogramRow { name: "psp_service_seconds", of: |ty| &ty.service, help: "Service times: time with a worker." },
    HistogramRow { name: "psp_sojourn_seconds", of: |ty| &ty.sojourn,
        help: "From the arrival of a request to the end of its handler." },
];

/// Of each worker.
#[rustfmt::skip]
pub(super) const WORKERS: &[Row<WorkerSnapshot>] = &[
    row("psp_worker_completions_total", Part::All, Counter(|worker| worker.completions),
        "Requests that the worker completed."),
    row("psp_worker_service_seconds_total", Part::All, Seconds(|worker| worker.service_ns_total),
        "Time that it spent in handlers."),
    row("psp_worker_panics_total", Part::All, Counter(|worker| worker.panics), "Handlers that panicked."),
    row("psp_worker_failures_total", Part::All, Counter(|worker| worker.failures), "Requests that the handler failed."),
    row("psp_worker_replies_too_large_total", Part::All, Counter(|worker| worker.replies_too_large),
        "Replies over the limit."),
    row("psp_worker_replies_over_budget_total", Part::All, Counter(|worker| worker.replies_over_budget),
        "Replies that buffered-bytes-max had no room for."),
    row("psp_worker_replies_unsent_total", Part::Datagrams, Counter(|worker| worker.replies_unsent),
        "Datagrams that could not be sent."),
    row("psp_worker_preemptions_honoured_total", Part::All, Counter(|worker| worker.turns.preemptions_honoured),
        "Requests that gave way."),
    row("psp_worker_preemptions_missed_total", Part::All, Counter(|worker| worker.preemptions_missed),
        "Requests that were asked to give way and ran to their end."),
    row("psp_worker_contexts_exhausted_total", Part::All, Counter(|worker| worker.contexts_exhausted),
        "How many of these found no idle context."),
    row("psp_worker_stolen_total", Part::All, Counter(|worker| worker.stolen),
        "Requests that it took from another worker's queue."),
    row("psp_worker_handed_over_total", Part::All, Counter(|worker| worker.handed_over),
        "Requests that another worker received and handed over to it."),
    row("psp_worker_datagrams_received_total", Part::Datagrams, Counter(|worker| worker.datagrams_received),
        "Datagrams that came to its own port, in the topology distributed."),
];

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_PAGE: &str = include_str!("../lib.rs");

    fn lines<S>(rows: &[Row<S>], label: &str) -> Vec<String> {
        let line = |row: &Row<S>| {
            let servers = match row.part {
                Part::All => "",
                Part::Tls => "TLS",
                Part::Datagrams => "datagrams",
                Part::PolledPort => "polled port",
                Part::Elastic => "range of workers",
                Part::Arbiter => "arbiter",
                Part::Admission => "admission",
            };
            format!("//! | `{}` | {label} | {servers} | {} |", row.name, row.help)
        };
        rows.iter().map(line).collect()
    }

    #[test]
    fn the_first_page_has_every_figure() {
        let histograms = HISTOGRAMS.iter().map(|row| format!("//! | `{}` | `type` |  | {} |", row.name, row.help));
        let expected = [
            lines(NET, ""),
            lines(DROPS, "`reason`"),
            lines(SERVER, ""),
            lines(TYPES, "`type`"),
            lines(REFUSED, "`type`, `reason`"),
            histograms.collect(),
            lines(WORKERS, "`worker`"),
        ];
        let listed: Vec<&str> = FIRST_PAGE.lines().filter(|line| line.starts_with("//! | `psp_")).collect();
        assert_eq!(listed, expected.concat());
    }

    #[test]
    fn names_have_their_units_last_and_counters_end_with_total() {
        fn check<S>(rows: &[Row<S>]) {
            for Row { name, figure, .. } in rows {
                assert!(!name.contains("_ns") && !name.contains("_us"), "{name}");
                let is_counter = !matches!(figure, Figure::Gauge(_) | Figure::Span(_));
                assert_eq!(name.ends_with("_total"), is_counter, "{name}");
                let in_seconds = matches!(figure, Figure::Seconds(_));
                assert_eq!(name.contains("_seconds_"), in_seconds, "{name}");
            }
        }
        check(NET);
        check(DROPS);
        check(SERVER);
        check(TYPES);
        check(REFUSED);
        check(WORKERS);
    }
}
