//! Models of turns that request threads have: a request that ends at the instant of its preemption has ended or
//! yielded, and one that goes on at another worker finds its turn there.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use psp_policy::WorkerId;

use super::request_thread::{WorkerTurn, WorkerTurnWord};
use super::turn_owner::REQUEST_THREAD;
use crate::runtime::team::FIRST;
use crate::runtime::team::active_thread::{ActiveThread, Phase};

/// Workers, and the word of one request thread that says whose turn it has.
struct Scene {
    workers: [ActiveThread; 2],
    worker_turn: WorkerTurnWord,
}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            workers: [ActiveThread::new(), ActiveThread::new()],
            worker_turn: WorkerTurnWord::new(),
        })
    }

    /// A worker lends a turn, in which the request may be preempted.
    fn lend(&self, worker: usize, turn: u64) {
        let active = &self.workers[worker];
        active.rest(FIRST);
        active.resume_as(REQUEST_THREAD, turn, Phase::Preemptible);
        self.worker_turn.set(WorkerTurn::new(WorkerId(worker as u32), turn));
    }

    /// The request ends: returns the turn in which it does.
    fn close(&self) -> WorkerTurn {
        loop {
            let at = self.worker_turn.get();
            if self.workers[at.worker.index()].leave_turn(REQUEST_THREAD, at.turn) {
                return at;
            }
            // It sleeps until it has another turn.
            while self.worker_turn.get() == at {
                thread::yield_now();
            }
        }
    }
}

/// The handler returns while the turn is taken away and another worker lends one.
#[test]
fn a_request_thread_ends_its_request_in_the_turn_that_it_has() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let scene = Scene::new();
        scene.lend(0, 7);
        let request_thread = thread::spawn({
            let scene = scene.clone();
            move || scene.close()
        });
        let first = &scene.workers[0];
        let moved = first.take_away(7);
        if moved {
            first.take_over(FIRST);
            scene.lend(1, 3);
        }
        let ended = request_thread.join().unwrap();
        let expected = if moved { (1, 3) } else { (0, 7) };
        assert_eq!((ended.worker.0, ended.turn), expected);
        let state = scene.workers[ended.worker.index()].state();
        assert_eq!((state.thread, state.phase), (REQUEST_THREAD, Phase::Serving));
    });
}

/// A request thread that has lost its turn does not end that of the request thread that came behind it at the same
/// worker.
#[test]
fn a_request_thread_leaves_no_turn_of_another() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let scene = Scene::new();
        scene.lend(0, 7);
        let left = Arc::new(AtomicUsize::new(0));
        let request_thread = thread::spawn({
            let (scene, left) = (scene.clone(), left.clone());
            move || {
                let has_left = scene.workers[0].leave_turn(REQUEST_THREAD, 7);
                left.fetch_add(usize::from(has_left), Ordering::Relaxed);
            }
        });
        let worker = &scene.workers[0];
        if worker.take_away(7) {
            worker.take_over(FIRST);
            worker.rest(FIRST);
            worker.resume_as(REQUEST_THREAD, 9, Phase::Preemptible);
            request_thread.join().unwrap();
            assert_eq!(left.load(Ordering::Relaxed), 0);
            assert!(worker.leave_turn(REQUEST_THREAD, 9), "the other one has it still");
        } else {
            request_thread.join().unwrap();
            assert_eq!(left.load(Ordering::Relaxed), 1);
        }
    });
}

/// The timer core asks a turn as another worker lends it: it is taken at once, or the timer core takes it.
#[test]
fn a_turn_that_was_asked_before_it_was_lent_is_taken_once() {
    loom::model(|| {
        let scene = Scene::new();
        let timer = thread::spawn({
            let scene = scene.clone();
            move || scene.workers[1].take_away(3)
        });
        let active = &scene.workers[1];
        active.rest(FIRST);
        let wanted = active.resume_as(REQUEST_THREAD, 3, Phase::Preemptible);
        let by_worker = wanted && active.take_away(3);
        let by_timer = timer.join().unwrap();
        assert!(by_worker != by_timer, "{by_worker} {by_timer}");
        assert_eq!(active.state().thread, FIRST);
    });
}

/// The request closes and opens again, as in `no_preempt`, while the timer core asks its turn: it is taken away by one
/// of them in the end, however often each finds that the other has the worker's thread in hand.
#[test]
fn no_request_to_yield_is_lost_while_a_request_closes_and_opens() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let scene = Scene::new();
        scene.lend(0, 7);
        let timer = thread::spawn({
            let scene = scene.clone();
            move || scene.workers[0].take_away(7)
        });
        let active = &scene.workers[0];
        let mut by_request_thread = false;
        for _ in 0..2 {
            if by_request_thread || !active.leave_turn(REQUEST_THREAD, 7) {
                break;
            }
            by_request_thread = active.enter(REQUEST_THREAD) && active.take_away(7);
        }
        let by_timer = timer.join().unwrap();
        assert!(by_request_thread != by_timer, "{by_request_thread} {by_timer}");
        assert_eq!(active.state().thread, FIRST);
    });
}
