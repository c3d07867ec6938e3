//! Models of the steal and the hand-over: nothing is lost, nothing runs twice, and no request waits for a worker that
//! sleeps; nor does one that was preempted. And of the timer core: it asks no turn but the one whose quantum is over,
//! and hears of all who wait.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use psp_policy::distributed::{Board, LaneSet, Line, Quantum, Runs, Watch, Ways, Word};
use psp_policy::{RequestId, RequestType, WorkerId};

use super::moving::WaitQueue;
use super::own_queue::{OwnQueue, Waiting};
use super::sleepers::Sleepers;
use crate::fiber::PreemptFlag;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::host::shared_alarm::{Countdown, SharedAlarm};

/// What the board shows, as loom sees it.
#[derive(Debug, Default)]
struct Shown(AtomicU64);

impl Word for Shown {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}

fn waiting(id: u32) -> Waiting {
    Waiting {
        request: RequestId(id),
        request_type: RequestType::new(0),
        slot: 0,
        arrived_ns: id.into(),
        rank_ns: id.into(),
        handed_over: true,
        has_begun: false,
        served_ns: 0,
        blocked_ns: 0,
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
        assert!(self.is_put(id), "there is room");
    }

    /// Puts a request in, if there is room.
    fn is_put(&self, id: u32) -> bool {
        self.queue.put(&self.line, 0, waiting(id)).is_ok()
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
        assert!(found.is_some() || woken.is_some(), "it sleeps beside a request");
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
                place.sleepers.take(|worker| worker == WorkerId(0)).is_some()
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
        let woken = place.sleepers.take(|worker| worker == WorkerId(0)).is_some();
        let also_woken = other.join().unwrap();
        assert!(!(woken && also_woken), "one sleeper is woken once");
        let found = sleeper.join().unwrap();
        assert!(found || woken || also_woken, "a request waits for a sleeper");
        assert_eq!([place.take(), place.take()], [Some(0), Some(1)]);
    });
}

/// A worker goes on to another policy while two requests are put into its queue.
#[test]
fn a_request_stays_with_its_sender_or_goes_on_with_its_worker() {
    loom::model(|| {
        let place = Place::new();
        let senders = [0, 1].map(|request| {
            let place = place.clone();
            thread::spawn(move || place.is_put(request))
        });
        let gone_on = place.queue.close(&place.line).len();
        let put = senders.map(|sender| sender.join().unwrap());
        let put = put.into_iter().filter(|&is_put| is_put).count();
        assert_eq!(gone_on, put);
        assert!(place.line.waiting().is_empty() && place.take().is_none());
    });
}

/// A worker preempts a request, which any worker may resume, and begins another. A second worker goes to sleep.
#[test]
fn a_preempted_request_is_found_by_a_worker_that_goes_to_sleep_or_wakes_it() {
    loom::model(|| {
        let suspended = Arc::new(WaitQueue::new());
        let sleepers = Arc::new(Sleepers::new(2));
        let preempting = thread::spawn({
            let (suspended, sleepers) = (suspended.clone(), sleepers.clone());
            move || {
                suspended.put(waiting(7));
                sleepers.take(|_| true)
            }
        });
        sleepers.announce(WorkerId(1));
        let found = suspended.has_any();
        let taken = found.then(|| suspended.take()).flatten();
        let woken = preempting.join().unwrap();
        assert!(taken.is_some() || woken.is_some(), "it sleeps beside it");
        let left = suspended.take();
        let requests = taken.into_iter().chain(left).map(|it| it.request.0);
        assert_eq!(requests.collect::<Vec<_>>(), [7], "once");
        assert!(!suspended.has_any());
    });
}

/// A turn with a quantum ends while the timer core asks it to yield. The next one has none.
#[test]
fn a_turn_that_ends_meanwhile_does_not_have_the_next_one_preempted() {
    const WORKER: WorkerId = WorkerId(0);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let board = Arc::new(Board::<Shown>::new(1));
        let start = Arc::new(TurnStart::new());
        let flag = Arc::new(PreemptFlag::new());
        let worker = thread::spawn({
            let (board, start, flag) = (board.clone(), start.clone(), flag.clone());
            move || {
                let line = board.line(WORKER);
                let (slot, long) = (0, true);
                line.begin(0, 0, Runs { slot, long });
                let (ns, yields_to) = (10, LaneSet::ALL);
                line.set_quantum(0, Some(Quantum { ns, yields_to }));
                start.announce(line.turn(), 0);
                line.end(5);
                line.begin(5, 0, Runs { slot, long });
                start.announce(line.turn(), 5);
                assert!(!flag.asks(line.turn()), "it has no quantum");
            }
        });
        let mut watch = Watch::new(1, Ways::default());
        watch.set_unread(WORKER, true);
        if let Some(expired) = watch.expired(100, &*board)
            && start.left_ns(expired.turn, expired.quantum_ns, 100, 100) == 0
        {
            flag.ask(expired.turn);
        }
        worker.join().unwrap();
        assert!(!flag.asks(3), "it has no quantum");
    });
}

/// A timer that does nothing but know whether it will ring.
#[derive(Debug, Default)]
struct Rings(AtomicU64);

impl Countdown for Rings {
    fn start(&self, _in_ns: u64) -> std::io::Result<()> {
        self.0.store(1, Ordering::Relaxed);
        Ok(())
    }

    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Two workers put something where the timer core looks, while it goes to sleep until later.
#[test]
fn the_timer_core_sees_who_waits_or_is_woken_for_it() {
    loom::model(|| {
        let alarm = Arc::new(SharedAlarm::new(Rings::default()));
        let waits = Arc::new([Shown::default(), Shown::default()]);
        let workers = [0, 1].map(|index| {
            let (alarm, waits) = (alarm.clone(), waits.clone());
            thread::spawn(move || {
                waits[index].set(1);
                alarm.set(0, 10);
            })
        });
        alarm.rang();
        let seen = [0, 1].map(|index| waits[index].get() == 1);
        alarm.set(0, 1_000_000);
        for worker in workers {
            worker.join().unwrap();
        }
        let is_early = alarm.at_ns() == Some(10) && alarm.countdown().0.load(Ordering::Relaxed) == 1;
        assert!(seen == [true, true] || is_early, "the timer core sleeps");
    });
}
