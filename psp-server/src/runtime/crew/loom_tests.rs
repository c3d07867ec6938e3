//! Models of the steal and the hand-over: nothing is lost, nothing runs twice, and no request waits for a worker that
//! sleeps.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use psp_policy::distributed::{LaneSet, Line, Word};
use psp_policy::{RequestId, RequestType, WorkerId};

use super::own_queue::{OwnQueue, Waiting};
use super::sleepers::Sleepers;

/// What the board shows, as loom sees it.
#[derive(Debug, Default)]
struct Shown(AtomicU64);

impl Word for Shown {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The queue of one worker, its line, and who sleeps.
struct Place {
    queue: OwnQueue,
    line: Line<Shown>,
    sleepers: Sleepers,
}

impl Place {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: OwnQueue::new(1, &[4]),
            line: Line::default(),
            sleepers: Sleepers::new(2),
        })
    }

    fn put(&self, id: u32) {
        let waiting = Waiting {
            request: RequestId(id),
            request_type: RequestType::new(0),
            slot: 0,
            arrived_ns: id.into(),
            rank_ns: id.into(),
            handed_over: true,
        };
        self.queue
            .put(&self.line, 0, waiting)
            .expect("there is room");
    }

    /// Takes a request, if the board shows any.
    fn take(&self) -> Option<u32> {
        if self.line.waiting().is_empty() {
            return None;
        }
        let mut taken = Vec::new();
        self.queue.take(&self.line, LaneSet::ALL, 1, &mut taken);
        taken.first().map(|waiting| waiting.request.0)
    }
}

#[test]
fn each_request_is_taken_once_by_its_worker_or_by_a_thief() {
    loom::model(|| {
        let place = Place::new();
        place.put(0);
        let thief = thread::spawn({
            let place = place.clone();
            move || place.take()
        });
        place.put(1);
        let own = [place.take(), place.take()];
        let stolen = thief.join().unwrap();
        let mut taken: Vec<u32> = own.into_iter().chain([stolen]).flatten().collect();
        taken.extend(place.take());
        taken.sort_unstable();
        assert_eq!(taken, [0, 1]);
        assert_eq!((place.take(), place.line.queued()), (None, 0));
    });
}

#[test]
fn a_request_that_another_could_steal_finds_it_awake_or_wakes_it() {
    loom::model(|| {
        let place = Place::new();
        let receiver = thread::spawn({
            let place = place.clone();
            move || {
                place.put(0);
                // It begins something long now.
                place.sleepers.take(|worker| worker == WorkerId(1))
            }
        });
        place.sleepers.announce(WorkerId(1));
        let found = place.take();
        let woken = receiver.join().unwrap();
        assert!(
            found.is_some() || woken.is_some(),
            "it sleeps beside a request"
        );
    });
}

/// A worker that finds one request stays awake until it finds none.
#[test]
fn hand_overs_of_two_workers_wake_the_third_once_or_are_found() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let place = Place::new();
        let other = thread::spawn({
            let place = place.clone();
            move || {
                place.put(1);
                place
                    .sleepers
                    .take(|worker| worker == WorkerId(0))
                    .is_some()
            }
        });
        let sleeper = thread::spawn({
            let place = place.clone();
            move || {
                place.sleepers.announce(WorkerId(0));
                !place.line.waiting().is_empty()
            }
        });
        place.put(0);
        let woken = place
            .sleepers
            .take(|worker| worker == WorkerId(0))
            .is_some();
        let also_woken = other.join().unwrap();
        assert!(!(woken && also_woken), "one sleeper is woken once");
        let found = sleeper.join().unwrap();
        assert!(
            found || woken || also_woken,
            "a request waits for a sleeper"
        );
        assert_eq!([place.take(), place.take()], [Some(0), Some(1)]);
    });
}
