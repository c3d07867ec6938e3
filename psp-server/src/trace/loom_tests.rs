//! Models of traces: what a thread records goes into the trace that it saw, whole, in order, and into no other.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use psp_policy::RequestId;

use super::recorder::Trace;
use super::recording::Recording;
use super::ring::Ring;

fn model() -> Builder {
    let mut model = Builder::new();
    model.preemption_bound = Some(3);
    model
}

/// A writer that adds events to the trace that it sees, while a reader makes two traces and reads each when it is over.
#[test]
fn a_ring_has_whole_events_of_one_trace() {
    model().check(|| {
        let ring = Arc::new(Ring::new(2));
        ring.make();
        let session = Arc::new(AtomicU64::new(1));
        let writer = {
            let (ring, session) = (ring.clone(), session.clone());
            thread::spawn(move || {
                for number in 1..=2 {
                    let session = session.load(Ordering::Relaxed);
                    if session != 0 {
                        ring.push(session, [session, number, session * number]);
                    }
                }
            })
        };
        for number in [1, 2] {
            session.store(number, Ordering::Release);
            session.store(0, Ordering::Release);
            let recorded = ring.read(number);
            let mut last = 0;
            for [session, number_of, product] in recorded.events {
                assert_eq!((session, product), (number, number * number_of));
                assert!(number_of > last);
                last = number_of;
            }
        }
        writer.join().unwrap();
    });
}

/// Two readers want a trace at once, while a thread records: each has its own events, or is refused.
#[test]
fn two_traces_never_share_the_rings() {
    model().check(|| {
        let trace = Arc::new(Trace::new(1, 1));
        trace.run_by(|| 0);
        let other = {
            let trace = trace.clone();
            thread::spawn(move || record(&trace))
        };
        trace.arrived(0, RequestId(1), 0);
        let mine = record(&trace);
        let others = other.join().unwrap();
        assert!(mine.is_some() || others.is_some());
    });
}

/// Makes a trace, unless there is one. It has what the receiver's thread recorded meanwhile.
fn record(trace: &Arc<Trace>) -> Option<usize> {
    let recording = Recording::begin(Shared(trace.clone())).ok()?;
    let recorded = recording.end();
    assert_eq!(recorded.dropped, 0);
    assert!(recorded.events.len() <= 1);
    Some(recorded.events.len())
}

struct Shared(Arc<Trace>);

impl AsRef<Trace> for Shared {
    fn as_ref(&self) -> &Trace {
        &self.0
    }
}
