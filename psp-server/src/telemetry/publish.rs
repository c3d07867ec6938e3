//! Publishes snapshots through the [`metrics`] facade.

use super::snapshot::Snapshot;

/// Hands the figures of `snapshot` to the installed [`metrics`] recorder, under names that start with `psp_`
/// and with labels `type` and `worker`. The application that owns the exporter calls it every second or so. It
/// is not on the path of a request.
pub fn publish(snapshot: &Snapshot) {
    let net = &snapshot.net;
    metrics::gauge!("psp_connections_open").set(net.connections_open as f64);
    metrics::gauge!("psp_buffered_bytes").set(net.buffered_bytes as f64);
    metrics::gauge!("psp_replies_deferred").set(net.replies_deferred as f64);
    for (name, value) in [
        ("psp_connections_accepted_total", net.connections_accepted),
        ("psp_connections_refused_total", net.connections_refused),
        (
            "psp_connections_refused_by_handler_total",
            net.connections_refused_by_handler,
        ),
        (
            "psp_connections_over_address_limit_total",
            net.connections_over_address_limit,
        ),
        ("psp_connections_timed_out_total", net.connections_timed_out),
        (
            "psp_connections_over_budget_total",
            net.connections_over_budget,
        ),
        ("psp_connections_abandoned_total", net.connections_abandoned),
        ("psp_handshakes_total", net.handshakes),
        ("psp_handshakes_failed_total", net.handshakes_failed),
        ("psp_bytes_received_total", net.bytes_received),
        ("psp_bytes_sent_total", net.bytes_sent),
        ("psp_datagrams_received_total", net.datagrams_received),
        ("psp_datagrams_reflected_total", net.datagrams_reflected),
        ("psp_datagrams_over_budget_total", net.datagrams_over_budget),
        ("psp_malformed_total", net.malformed),
        ("psp_deferred_failed_total", net.deferred_failed),
        ("psp_frames_received_total", net.packets.frames),
        ("psp_arp_answered_total", net.packets.arp_answered),
        ("psp_echoes_answered_total", net.packets.echoes_answered),
        ("psp_packet_overflows_total", net.packets.overflows),
        ("psp_packets_unsent_total", net.packets.unsent),
        (
            "psp_reservation_updates_total",
            snapshot.reservation_updates,
        ),
        ("psp_workers_came_total", snapshot.elastic.came),
        ("psp_workers_went_total", snapshot.elastic.went),
        ("psp_arbiter_grants_total", snapshot.arbiter.grants),
        ("psp_arbiter_recalls_total", snapshot.arbiter.recalls),
        ("psp_arbiter_takings_total", snapshot.arbiter.takings),
    ] {
        metrics::counter!(name).absolute(value);
    }
    for (name, value) in [
        ("psp_workers_present", snapshot.elastic.present),
        ("psp_arbiter_registered", snapshot.arbiter.registered),
        ("psp_arbiter_cores", snapshot.arbiter.cores),
        ("psp_arbiter_cores_wanted", snapshot.arbiter.wanted),
    ] {
        metrics::gauge!(name).set(value as f64);
    }
    for dropped in &net.packets.dropped {
        let label = [("reason", dropped.reason)];
        metrics::counter!("psp_frames_dropped_total", &label).absolute(dropped.frames);
    }
    for ty in &snapshot.types {
        let label = [("type", ty.name.clone())];
        metrics::counter!("psp_arrivals_total", &label).absolute(ty.arrivals);
        metrics::counter!("psp_completions_total", &label).absolute(ty.completions);
        metrics::counter!("psp_held_total", &label).absolute(ty.held);
        metrics::counter!("psp_rejections_total", &label).absolute(ty.rejections);
        metrics::counter!("psp_abandoned_total", &label).absolute(ty.abandoned);
        metrics::counter!("psp_expired_total", &label).absolute(ty.expired);
        metrics::counter!("psp_steals_total", &label).absolute(ty.steals);
        metrics::counter!("psp_relieved_total", &label).absolute(ty.relieved);
        metrics::counter!("psp_service_ns_total", &label).absolute(ty.service_ns_total);
        metrics::counter!("psp_turns_total", &label).absolute(ty.turns.turns);
        metrics::counter!("psp_preemptions_asked_total", &label)
            .absolute(ty.turns.preemptions_asked);
        metrics::counter!("psp_preemptions_honoured_total", &label)
            .absolute(ty.turns.preemptions_honoured);
        metrics::counter!("psp_preemptions_late_total", &label).absolute(ty.turns.preemptions_late);
        metrics::counter!("psp_stuck_total", &label).absolute(ty.turns.stuck);
        metrics::counter!("psp_waits_total", &label).absolute(ty.waits.waits);
        metrics::counter!("psp_wait_ns_total", &label).absolute(ty.waits.wait_ns_total);
        metrics::gauge!("psp_blocked", &label).set(ty.waits.blocked as f64);
        metrics::gauge!("psp_queue_length", &label).set(ty.queued as f64);
        metrics::gauge!("psp_workers_reserved", &label).set(ty.workers_reserved as f64);
    }
    for (index, worker) in snapshot.workers.iter().enumerate() {
        let label = [("worker", index.to_string())];
        metrics::counter!("psp_worker_completions_total", &label).absolute(worker.completions);
        metrics::counter!("psp_worker_service_ns_total", &label).absolute(worker.service_ns_total);
        metrics::counter!("psp_worker_panics_total", &label).absolute(worker.panics);
        metrics::counter!("psp_worker_failures_total", &label).absolute(worker.failures);
        metrics::counter!("psp_worker_replies_too_large_total", &label)
            .absolute(worker.replies_too_large);
        metrics::counter!("psp_worker_replies_over_budget_total", &label)
            .absolute(worker.replies_over_budget);
        metrics::counter!("psp_worker_replies_unsent_total", &label)
            .absolute(worker.replies_unsent);
        metrics::counter!("psp_worker_preemptions_honoured_total", &label)
            .absolute(worker.turns.preemptions_honoured);
        metrics::counter!("psp_worker_preemptions_missed_total", &label)
            .absolute(worker.preemptions_missed);
        metrics::counter!("psp_worker_contexts_exhausted_total", &label)
            .absolute(worker.contexts_exhausted);
        metrics::counter!("psp_worker_stolen_total", &label).absolute(worker.stolen);
        metrics::counter!("psp_worker_handed_over_total", &label).absolute(worker.handed_over);
    }
}
