//! The figures in Prometheus' text format.

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};

use super::histogram::HistogramSnapshot;
use super::rows::{DROPS, Figure, HISTOGRAMS, NET, REFUSED, Row, SERVER, TYPES, WORKERS};
use super::snapshot::{Parts, Snapshot, TypeSnapshot};

/// The content type of [`exposition`].
pub(crate) const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// All figures of `snapshot`, each with the label `server`.
pub(crate) fn exposition(snapshot: &Snapshot, server: &str) -> String {
    let mut page = Page { families: Vec::new(), parts: &snapshot.parts, server };
    page.add(NET, [(Vec::new(), &snapshot.net)]);
    let by_reason = |reason: &str| ("reason", reason.to_owned());
    let drops = snapshot.net.packets.dropped.iter();
    page.add(DROPS, drops.map(|dropped| (vec![by_reason(dropped.reason)], dropped)));
    page.add(SERVER, [(Vec::new(), snapshot)]);
    let types = || snapshot.types.iter();
    let by_type = |name: &String| vec![("type", name.clone())];
    page.add(TYPES, types().map(|ty| (by_type(&ty.name), ty)));
    let refused = types().flat_map(|ty| ty.admission.refused.iter().map(move |refused| (ty, refused)));
    let labels = |ty: &TypeSnapshot, reason| vec![("type", ty.name.clone()), by_reason(reason)];
    page.add(REFUSED, refused.map(|(ty, refused)| (labels(ty, refused.reason), refused)));
    for row in &HISTOGRAMS {
        let metrics = types().map(|ty| {
            page.metric(by_type(&ty.name), |metric| {
                metric.set_histogram(histogram((row.of)(ty)));
            })
        });
        let metrics = metrics.collect();
        page.put(row.name, row.help, MetricType::HISTOGRAM, metrics);
    }
    let workers = snapshot.workers.iter().enumerate();
    page.add(WORKERS, workers.map(|(index, worker)| (vec![("worker", index.to_string())], worker)));
    page.text()
}

type OwnLabels = Vec<(&'static str, String)>;

struct Page<'a> {
    families: Vec<MetricFamily>,
    parts: &'a Parts,
    server: &'a str,
}

impl Page<'_> {
    /// Adds rows of all these parts of the snapshot.
    fn add<'s, S: 's>(&mut self, rows: &[Row<S>], parts: impl IntoIterator<Item = (OwnLabels, &'s S)>) {
        let parts: Vec<_> = parts.into_iter().collect();
        for row in rows.iter().filter(|row| row.part.is_in(self.parts)) {
            let metrics = parts
                .iter()
                .map(|(label, part)| self.metric(label.clone(), |metric| row.figure.put(part, metric)));
            let metrics = metrics.collect();
            self.put(row.name, row.help, row.figure.kind(), metrics);
        }
    }

    fn metric(&self, own: OwnLabels, set: impl FnOnce(&mut Metric)) -> Metric {
        let labels = [("server", self.server.to_owned())].into_iter().chain(own);
        let pairs = labels.map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(value);
            pair
        });
        let mut metric = Metric::default();
        metric.set_label(pairs.collect());
        set(&mut metric);
        metric
    }

    fn put(&mut self, name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) {
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.families.push(family);
    }

    fn text(&self) -> String {
        let mut text = Vec::new();
        let encoded = TextEncoder::new().encode(&self.families, &mut text);
        encoded.expect("all families have a name and metrics");
        String::from_utf8(text).expect("the format is UTF-8")
    }
}

impl<S> Figure<S> {
    const fn kind(&self) -> MetricType {
        match self {
            Self::Counter(_) | Self::Seconds(_) => MetricType::COUNTER,
            Self::Gauge(_) | Self::Span(_) => MetricType::GAUGE,
        }
    }

    fn put(&self, of: &S, metric: &mut Metric) {
        let counter = |value| {
            let mut counter = Counter::default();
            counter.set_value(value);
            counter
        };
        let gauge = |value| {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            gauge
        };
        match self {
            Self::Counter(read) => metric.set_counter(counter(read(of) as f64)),
            Self::Seconds(read) => metric.set_counter(counter(seconds(read(of)))),
            Self::Gauge(read) => metric.set_gauge(gauge(read(of) as f64)),
            Self::Span(read) => metric.set_gauge(gauge(seconds(read(of)))),
        }
    }
}

fn histogram(times: &HistogramSnapshot) -> Histogram {
    let buckets = times.octaves().map(|(bound_ns, count)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(seconds(bound_ns));
        bucket.set_cumulative_count(count);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(times.count());
    histogram.set_sample_sum(seconds(times.sum_ns()));
    histogram
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
