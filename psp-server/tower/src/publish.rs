//! Publishes the figures of a layer through the crate [`metrics`].

use std::sync::Arc;

use metrics::{Label, Unit};
use psp_pool::{Pool, TypeSnapshot as OfPool};

use crate::layer::PspLayer;
use crate::placement::{Place, Thresholds};
use crate::snapshot::TypeSnapshot;
use crate::times::{Counts, Times};
use crate::types::{Type, Types};

/// Hands the figures of a layer to the recorder of the crate [`metrics`], by the names that psp's servers have for
/// them, with the label `type`. The application that owns the exporter calls [`publish`](Self::publish) every second or
/// so. It is not on the path of a request.
///
/// | name | what it counts |
/// | --- | --- |
/// | `psp_arrivals_total` | requests that arrived |
/// | `psp_inline_total` | those that were polled where they arrived |
/// | `psp_pooled_total` | those that went to the pool |
/// | `psp_completions_total` | requests that the service answered, or failed |
/// | `psp_rejections_total` | requests that were refused because the queue of their type was full |
/// | `psp_expired_total` | requests whose deadline passed before there was an answer |
/// | `psp_abandoned_total` | requests whose response nobody awaited any more |
/// | `psp_abandoned_us_total` | microseconds that were computed for requests whose answers no client got |
/// | `psp_slow_frames_total` | polls of responses' bodies that took long |
/// | `psp_panics_total` | requests that panicked |
/// | `psp_handed_off_total` | requests that [ran for too long](psp_pool::Builder::hand_off_after) in their worker |
/// | `psp_preemptions_honoured_total` | times that requests gave way at [checkpoints](psp_pool::checkpoint()) |
/// | `psp_queue_length` | requests that wait for a worker, now |
/// | `psp_inline` | 1 while requests of the type are polled where they arrive |
/// | `psp_wait_seconds` | a histogram: from the arrival of pooled requests to their first poll |
/// | `psp_service_seconds` | a histogram: the polls of a request, added up |
///
/// It has a clone of the pool: drop it with the service.
#[derive(Debug)]
pub struct Publisher {
    pool: Pool,
    types: Arc<Types>,
    thresholds: Thresholds,
    labels: Vec<Label>,
    /// What was published of each type's histograms.
    published: Vec<[Counts; HISTOGRAMS.len()]>,
    is_described: bool,
}

enum Figure {
    Counter(fn(&TypeSnapshot, &OfPool) -> u64),
    Gauge(fn(&TypeSnapshot, &OfPool) -> u64),
}

use Figure::{Counter, Gauge};

#[rustfmt::skip]
const FIGURES: &[(&str, Figure, &str)] = &[
    ("psp_arrivals_total", Counter(|it, _| it.inline + it.pooled), "Requests that arrived."),
    ("psp_inline_total", Counter(|it, _| it.inline), "Requests that were polled where they arrived."),
    ("psp_pooled_total", Counter(|it, _| it.pooled), "Requests that went to the pool."),
    ("psp_completions_total", Counter(|it, _| it.completed), "Requests that the service answered, or failed."),
    ("psp_rejections_total", Counter(|it, _| it.shed), "Requests refused because the queue of their type was full."),
    ("psp_expired_total", Counter(|it, _| it.expired), "Requests whose deadline passed before there was an answer."),
    ("psp_abandoned_total", Counter(|it, _| it.cancelled), "Requests whose response nobody awaited any more."),
    ("psp_abandoned_us_total", Counter(|it, _| it.abandoned_ns / 1000),
        "Microseconds computed for answers that no client got."),
    ("psp_slow_frames_total", Counter(|it, _| it.slow_frames), "Polls of responses' bodies that took long."),
    ("psp_panics_total", Counter(|it, _| it.panicked), "Requests that panicked."),
    ("psp_handed_off_total", Counter(|_, pool| pool.handed_off), "Requests that ran for too long in their worker."),
    ("psp_preemptions_honoured_total", Counter(|_, pool| pool.yielded), "Times that requests gave way at checkpoints."),
    ("psp_queue_length", Gauge(|_, pool| pool.queued as u64), "Requests that wait for a worker."),
    ("psp_inline", Gauge(|it, _| (it.place == Place::Inline).into()),
        "1 while requests of the type are polled where they arrive."),
];

type HistogramRow = (&'static str, fn(&Type) -> &Times, &'static str);

#[rustfmt::skip]
const HISTOGRAMS: [HistogramRow; 2] = [
    ("psp_wait_seconds", |it| &it.waits, "From the arrival of pooled requests to their first poll."),
    ("psp_service_seconds", |it| &it.service_times.times, "The polls of a request, added up."),
];

impl Publisher {
    /// A publisher of the figures of `layer` and its pool.
    #[must_use]
    pub fn new<C>(layer: &PspLayer<C>) -> Self {
        let types = layer.types.clone();
        let published = types.all().map(|_| [Counts::none(), Counts::none()]);
        Self {
            pool: layer.pool.clone(),
            published: published.collect(),
            types,
            thresholds: layer.settings.thresholds,
            labels: Vec::new(),
            is_described: false,
        }
    }

    /// Gives all figures the label `server`, to tell them from those of other services in the process.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.labels = vec![Label::new("server", name.into())];
        self
    }

    /// Hands the figures to the recorder that is installed. The first call describes them, too. Times that were
    /// measured since the last call become samples of histograms, each up to an eighth off.
    pub fn publish(&mut self) {
        if !std::mem::replace(&mut self.is_described, true) {
            describe();
        }
        let of_layer = self.types.snapshot(self.thresholds).types;
        let of_pool = self.pool.snapshot().types;
        let types = self.types.all().zip(&mut self.published);
        for ((it, pool), (ty, published)) in of_layer.iter().zip(&of_pool).zip(types) {
            let own = Label::new("type", it.name.clone());
            let labels: Vec<_> = self.labels.iter().cloned().chain([own]).collect();
            for (name, figure, _) in FIGURES {
                match figure {
                    Counter(read) => {
                        metrics::counter!(*name, labels.clone()).absolute(read(it, pool));
                    }
                    Gauge(read) => {
                        metrics::gauge!(*name, labels.clone()).set(read(it, pool) as f64);
                    }
                }
            }
            for ((name, times, _), published) in HISTOGRAMS.iter().zip(published) {
                let histogram = metrics::histogram!(*name, labels.clone());
                let counts = times(ty).counts();
                for (ns, count) in counts.since(published) {
                    histogram.record_many(ns as f64 / 1e9, count as usize);
                }
                *published = counts;
            }
        }
    }
}

fn describe() {
    for (name, figure, help) in FIGURES {
        match figure {
            Counter(_) => metrics::describe_counter!(*name, *help),
            Gauge(_) => metrics::describe_gauge!(*name, *help),
        }
    }
    for (name, _, help) in HISTOGRAMS {
        metrics::describe_histogram!(name, Unit::Seconds, help);
    }
}
