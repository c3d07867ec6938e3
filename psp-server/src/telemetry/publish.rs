//! Publishes snapshots through the [`metrics`] facade.

use metrics::{Label, Unit};

use super::histogram::HistogramSnapshot;
use super::rows::{DROPS, Figure, HISTOGRAMS, NET, REFUSED, Row, SERVER, TYPES, WORKERS};
use super::snapshot::{Parts, Snapshot};

/// Hands the figures of a server to the recorder of the crate [`metrics`], under names that start with `psp_`. The
/// application that owns the exporter calls [`publish`](Self::publish) every second or so. It is not on the path of a
/// request.
///
/// [The first page](crate#metrics) lists the figures. Counters of seconds are gauges here, since the crate's counters
/// are whole numbers. A figure that the server cannot have is left out.
#[derive(Debug, Default)]
pub struct Publisher {
    labels: Vec<Label>,
    /// What was published of each type's histograms.
    published: Vec<[HistogramSnapshot; HISTOGRAMS.len()]>,
    is_described: bool,
}

impl Publisher {
    /// A publisher of the figures of one server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives all figures the label `server`, to tell them from those of other servers in the process.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.labels = vec![Label::new("server", name.into())];
        self
    }

    /// Hands the figures of `snapshot`, the server's latest, to the recorder that is installed. The first call
    /// describes them, too. Times that were measured since the last call become samples of histograms, each up to a
    /// sixteenth off.
    pub fn publish(&mut self, snapshot: &Snapshot) {
        if !std::mem::replace(&mut self.is_described, true) {
            describe(&snapshot.parts);
        }
        let parts = &snapshot.parts;
        let labels = &self.labels;
        let with = |name: &'static str, value: String| -> Vec<Label> {
            let own = Label::new(name, value);
            labels.iter().cloned().chain([own]).collect()
        };
        hand_over(NET, parts, labels, &snapshot.net);
        hand_over(SERVER, parts, labels, snapshot);
        for dropped in &snapshot.net.packets.dropped {
            let labels = with("reason", dropped.reason.to_owned());
            hand_over(DROPS, parts, &labels, dropped);
        }
        for ty in &snapshot.types {
            let of_type = with("type", ty.name.clone());
            hand_over(TYPES, parts, &of_type, ty);
            for refused in &ty.admission.refused {
                let reason = Label::new("reason", refused.reason);
                let labels: Vec<Label> = of_type.iter().cloned().chain([reason]).collect();
                hand_over(REFUSED, parts, &labels, refused);
            }
        }
        for (index, worker) in snapshot.workers.iter().enumerate() {
            hand_over(WORKERS, parts, &with("worker", index.to_string()), worker);
        }
        for (slot, ty) in snapshot.types.iter().enumerate() {
            let labels = with("type", ty.name.clone());
            for (index, row) in HISTOGRAMS.iter().enumerate() {
                let now = (row.of)(ty);
                let fresh = match self.published.get(slot) {
                    Some(before) => &now.since(&before[index]),
                    None => now,
                };
                let histogram = metrics::histogram!(row.name, labels.clone());
                for (ns, count) in fresh.middles_ns() {
                    histogram.record_many(ns as f64 / 1e9, count);
                }
            }
        }
        let histograms = |ty| HISTOGRAMS.each_ref().map(|row| (row.of)(ty).clone());
        self.published = snapshot.types.iter().map(histograms).collect();
    }
}

fn hand_over<S>(rows: &[Row<S>], parts: &Parts, labels: &[Label], of: &S) {
    for row in rows.iter().filter(|row| row.part.is_in(parts)) {
        let labels = labels.to_vec();
        match row.figure {
            Figure::Counter(read) => metrics::counter!(row.name, labels).absolute(read(of)),
            Figure::Gauge(read) => metrics::gauge!(row.name, labels).set(read(of) as f64),
            Figure::Seconds(read) | Figure::Span(read) => metrics::gauge!(row.name, labels).set(read(of) as f64 / 1e9),
        }
    }
}

fn describe(parts: &Parts) {
    fn all<S>(rows: &[Row<S>], parts: &Parts) {
        for row in rows.iter().filter(|row| row.part.is_in(parts)) {
            match row.figure {
                Figure::Counter(_) => metrics::describe_counter!(row.name, row.help),
                Figure::Gauge(_) => metrics::describe_gauge!(row.name, row.help),
                Figure::Seconds(_) | Figure::Span(_) => metrics::describe_gauge!(row.name, Unit::Seconds, row.help),
            }
        }
    }
    all(NET, parts);
    all(DROPS, parts);
    all(SERVER, parts);
    all(TYPES, parts);
    all(REFUSED, parts);
    all(WORKERS, parts);
    for row in HISTOGRAMS {
        metrics::describe_histogram!(row.name, Unit::Seconds, row.help);
    }
}
