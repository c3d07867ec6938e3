//! Models of turns that carriers have: a request that ends at the instant of its preemption has ended or yielded, and one
//! that goes on at another worker finds its turn there.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use psp_policy::WorkerId;

use super::carrier::{Seat, SeatWord};
use super::post::CARRIER;
use crate::runtime::team::FIRST;
use crate::runtime::team::active_thread::{ActiveThread, Phase};

/// Workers, and the seat of one carrier.
struct Scene {
    workers: [ActiveThread; 2],
    seat: SeatWord,
}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            workers: [ActiveThread::new(), ActiveThread::new()],
            seat: SeatWord::new(),
        })
    }

    /// A worker lends a turn, in which the request may be preempted.
    fn lend(&self, worker: usize, turn: u64) {
        let active = &self.workers[worker];
        active.rest(FIRST);
        active.resume_as(CARRIER, turn, Phase::Preemptible);
        self.seat.set(Seat::new(WorkerId(worker as u32), turn));
    }

    /// The request ends: returns the seat in which it does.
    fn close(&self) -> Seat {
        loop {
            let seat = self.seat.get();
            if self.workers[seat.worker.index()].leave_turn(CARRIER, seat.turn) {
                return seat;
            }
            // It sleeps until its seat is another one.
            while self.seat.get() == seat {
                thread::yield_now();
            }
        }
    }
}

/// The handler returns while the turn is taken away and another worker lends one.
#[test]
fn a_carrier_ends_its_request_in_the_turn_that_it_has() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let scene = Scene::new();
        scene.lend(0, 7);
        let carrier = thread::spawn({
            let scene = scene.clone();
            move || scene.close()
        });
        let first = &scene.workers[0];
        let moved = first.take_away(7);
        if moved {
            first.take_over(FIRST);
            scene.lend(1, 3);
        }
        let ended = carrier.join().unwrap();
        let expected = if moved { (1, 3) } else { (0, 7) };
        assert_eq!((ended.worker.0, ended.turn), expected);
        let state = scene.workers[ended.worker.index()].state();
        assert_eq!((state.thread, state.phase), (CARRIER, Phase::Serving));
    });
}

/// A carrier that has lost its turn does not end that of the carrier that came behind it at the same worker.
#[test]
fn a_carrier_leaves_no_turn_of_another() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let scene = Scene::new();
        scene.lend(0, 7);
        let left = Arc::new(AtomicUsize::new(0));
        let carrier = thread::spawn({
            let (scene, left) = (scene.clone(), left.clone());
            move || {
                let has_left = scene.workers[0].leave_turn(CARRIER, 7);
                left.fetch_add(usize::from(has_left), Ordering::Relaxed);
            }
        });
        let worker = &scene.workers[0];
        if worker.take_away(7) {
            worker.take_over(FIRST);
            worker.rest(FIRST);
            worker.resume_as(CARRIER, 9, Phase::Preemptible);
            carrier.join().unwrap();
            assert_eq!(left.load(Ordering::Relaxed), 0);
            assert!(worker.leave_turn(CARRIER, 9), "the other one has it still");
        } else {
            carrier.join().unwrap();
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
        let wanted = active.resume_as(CARRIER, 3, Phase::Preemptible);
        let by_worker = wanted && active.take_away(3);
        let by_timer = timer.join().unwrap();
        assert!(by_worker != by_timer, "{by_worker} {by_timer}");
        assert_eq!(active.state().thread, FIRST);
    });
}

/// The request closes and opens again, as in `no_preempt`, while the timer core asks its turn: it is taken away by one of
/// them in the end, however often each finds that the other has the worker's thread in hand.
#[test]
fn no_request_to_give_way_is_lost_while_a_request_closes_and_opens() {
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
        let mut by_carrier = false;
        for _ in 0..2 {
            if by_carrier || !active.leave_turn(CARRIER, 7) {
                break;
            }
            by_carrier = active.enter(CARRIER) && active.take_away(7);
        }
        let by_timer = timer.join().unwrap();
        assert!(by_carrier != by_timer, "{by_carrier} {by_timer}");
        assert_eq!(active.state().thread, FIRST);
    });
}
