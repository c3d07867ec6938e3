//! Spans of the crate `tracing`, of some requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use psp_server::{Config, Policy, Topology};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::common::{start_tcp, until};

/// Keeps what spans of requests say.
#[derive(Clone, Default)]
struct Kept {
    ids: Arc<AtomicU64>,
    said: Arc<Mutex<Vec<String>>>,
}

struct Words<'a>(&'a mut Vec<String>);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push(format!("{field}={value:?}"));
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "psp::request"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        attributes.record(&mut Words(&mut self.said.lock().unwrap()));
        Id::from_u64(self.ids.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Words(&mut self.said.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn one_request_in_so_many_has_a_span_with_its_times() {
    let kept = Kept::default();
    // Other servers of this process have no spans.
    tracing::subscriber::set_global_default(kept.clone()).unwrap();
    let config = Config::default().workers(1).span_every(3);
    let server = start_tcp(Policy::c_fcfs(), Topology::Dedicated, config);
    let mut client = server.connect();
    for _ in 0..9 {
        client.ask("one");
    }
    // The last span may end behind its reply.
    until("three spans", || kept.said.lock().unwrap().len() == 3 * 4);
    let said = kept.said.lock().unwrap();
    for words in said.chunks(4) {
        let names = words.iter().map(|word| word.split('=').next().unwrap());
        let names: Vec<_> = names.collect();
        assert_eq!(names, ["request_type", "worker", "wait_us", "service_us"]);
        assert_eq!((words[0].as_str(), words[1].as_str()), ("request_type=\"short\"", "worker=0"));
    }
}
