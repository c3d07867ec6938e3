use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::thread::{JoinHandle, spawn};
use std::time::Instant;

use mio::{Poll, Token, Waker};

use super::*;
use crate::runtime::channel::{Doorbell, WorkerLink, channel};
use crate::runtime::cores::Cores;
use crate::runtime::scheduling::can_be_raised;

/// What a test gives its workers: a job that gets its thread's place in the team.
type Job = Box<dyn FnOnce(&Team, Seat) -> u64 + Send>;

enum Work {
    Todo(Job),
    Done(u64),
}

/// A team with its link, in the place of a net thread.
struct Rig {
    team: Arc<Team>,
    link: WorkerLink<Work>,
    turn: u64,
    threads: Vec<JoinHandle<()>>,
    _poll: Poll,
}

impl Rig {
    fn new(threads: usize) -> Self {
        Self::with(threads, can_be_raised())
    }

    fn with(threads: usize, lowers: bool) -> Self {
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(0)).unwrap();
        let (mut link, port) = channel(Arc::new(Doorbell::new(Arc::new(waker))));
        let start = Arc::new(TurnStart::new());
        let team = Arc::new(Team::new(threads, lowers, Clock::new(), start));
        link.attach_team(team.clone());
        let port = Arc::new(Mutex::new(port));
        let cores = Cores::discover();
        let threads = (0..threads).map(|seat| {
            let (team, port, cores) = (team.clone(), port.clone(), cores.clone());
            spawn(move || {
                cores.pin_shared(1);
                team.serve(seat, &port, Duration::ZERO, |work| {
                    let Work::Todo(job) = std::mem::replace(work, Work::Done(0)) else {
                        unreachable!("what is done is not sent again");
                    };
                    *work = Work::Done(job(&team, seat));
                });
            })
        });
        let rig = Self {
            team: team.clone(),
            link,
            turn: 0,
            threads: threads.collect(),
            _poll: poll,
        };
        until(|| team.is_complete());
        rig
    }

    fn run(&mut self, request: u32, job: impl FnOnce(&Team, Seat) -> u64 + Send + 'static) {
        let request = RequestId(request);
        let task = Work::Todo(Box::new(job));
        assert!(self.link.send(Message::Run { request, task }).is_ok());
        self.turn += 1;
    }

    fn resume(&mut self, request: u32) {
        let message = Message::Resume(RequestId(request));
        assert!(self.link.send(message).is_ok());
        self.turn += 1;
    }

    /// The next report: a result, or nothing for a request that yielded.
    fn report(&mut self) -> Option<u64> {
        let mut report = None;
        until(|| {
            report = self.link.receive();
            report.is_some()
        });
        match report? {
            Report::Completed(Work::Done(result)) => Some(result),
            Report::Completed(Work::Todo(_)) => unreachable!("a job that completed was run"),
            Report::Yielded { .. } => None,
        }
    }

    /// Stops the team, whose requests are all complete.
    fn stop(mut self) {
        assert!(self.link.send(Message::Stop).is_ok());
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

fn preemptible<R>(team: &Team, seat: Seat, body: impl FnOnce() -> R) -> R {
    team.open(seat);
    let result = body();
    team.close(seat);
    result
}

fn until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "it never happens");
        std::thread::yield_now();
    }
}

/// A job that runs until it is told to end, preemptible anywhere.
fn spinner(
    begun: &Arc<AtomicBool>,
    end: &Arc<AtomicBool>,
    result: u64,
) -> impl FnOnce(&Team, Seat) -> u64 + use<> {
    let (begun, end) = (begun.clone(), end.clone());
    move |team, seat| {
        preemptible(team, seat, || {
            begun.store(true, Ordering::Release);
            while !end.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            result
        })
    }
}

fn flags() -> [Arc<AtomicBool>; 2] {
    std::array::from_fn(|_| Arc::new(AtomicBool::new(false)))
}

/// If a turn were asked to give way when it was sent, the next one would be, too, before the thread ran.
#[test]
fn a_request_that_is_asked_when_its_turn_had_its_quantum_gets_on() {
    const QUANTUM_NS: u64 = 10_000;
    const TURNS: u64 = 100;
    let mut rig = Rig::new(2);
    let clock = rig.team.clock.clone();
    let mut got_on = 0;
    let done = Arc::new(AtomicU64::new(0));
    let end = Arc::new(AtomicBool::new(false));
    let job = {
        let (done, end) = (done.clone(), end.clone());
        move |team: &Team, seat| {
            preemptible(team, seat, || {
                while !end.load(Ordering::Acquire) {
                    done.fetch_add(1, Ordering::Relaxed);
                }
                7
            })
        }
    };
    rig.run(1, job);
    for turn in 1..=TURNS {
        let before = done.load(Ordering::Relaxed);
        let start = rig.team.start.clone();
        until(|| start.had_ns(turn, clock.now_ns()) >= Some(QUANTUM_NS));
        let after = done.load(Ordering::Relaxed);
        got_on += u64::from(after > before);
        rig.link.preempt();
        assert_eq!(rig.report(), None, "it yields");
        rig.resume(1);
    }
    // A thread that gets no core for a millisecond is taken for one that sleeps, which is most of them on a busy
    // machine.
    assert!(got_on >= TURNS / 20, "in {got_on} turns of {TURNS}");
    end.store(true, Ordering::Release);
    assert_eq!(rig.report(), Some(7));
    rig.stop();
}

#[test]
fn a_turn_begins_when_a_thread_takes_it_up() {
    let mut rig = Rig::new(2);
    let (start, clock) = (rig.team.start.clone(), rig.team.clock.clone());
    let (hold, go) = std::sync::mpsc::channel::<()>();
    rig.run(7, move |_, _| {
        go.recv().unwrap();
        70
    });
    until(|| start.had_ns(1, clock.now_ns()).is_some());
    rig.run(8, |_, _| 80);
    assert_eq!(start.had_ns(2, clock.now_ns()), None, "it was sent only");
    let let_go_ns = clock.now_ns();
    hold.send(()).unwrap();
    assert_eq!(rig.report(), Some(70));
    assert_eq!(rig.report(), Some(80));
    assert!(start.had_ns(2, clock.now_ns()).is_some() && start.began_ns() >= let_go_ns);
    rig.stop();
}

#[test]
fn a_request_gives_way_and_goes_on() {
    let mut rig = Rig::new(2);
    let [begun, end] = flags();
    rig.run(7, spinner(&begun, &end, 70));
    until(|| begun.load(Ordering::Acquire));
    rig.link.preempt();
    assert_eq!(rig.report(), None, "it yields");
    rig.run(8, |team, seat| preemptible(team, seat, || 80));
    assert_eq!(rig.report(), Some(80), "another runs meanwhile");
    rig.resume(7);
    end.store(true, Ordering::Release);
    assert_eq!(rig.report(), Some(70));
    assert_eq!(rig.team.undone(), 0);
    rig.stop();
}

#[test]
fn what_finishes_while_it_waits_is_reported_in_its_turn() {
    let mut rig = Rig::new(2);
    let [begun, end] = flags();
    rig.run(7, spinner(&begun, &end, 70));
    until(|| begun.load(Ordering::Acquire));
    rig.link.preempt();
    assert_eq!(rig.report(), None);
    // The worker has nothing to do, so the core is free for the preempted thread.
    end.store(true, Ordering::Release);
    rig.run(8, |_, _| 80);
    assert_eq!(rig.report(), Some(80));
    rig.resume(7);
    assert_eq!(rig.report(), Some(70));
    rig.stop();
}

#[test]
fn a_wish_that_comes_before_its_turn_is_kept() {
    let mut rig = Rig::new(2);
    let [begun, end] = flags();
    let (hold, go) = std::sync::mpsc::channel::<()>();
    let run = spinner(&begun, &end, 1);
    rig.run(7, move |team, seat| {
        go.recv().unwrap();
        run(team, seat)
    });
    rig.link.preempt();
    hold.send(()).unwrap();
    assert_eq!(rig.report(), None, "it yields before its handler starts");
    rig.resume(7);
    end.store(true, Ordering::Release);
    assert_eq!(rig.report(), Some(1));
    rig.stop();
}

#[test]
fn without_an_idle_thread_the_request_runs_on() {
    let mut rig = Rig::new(1);
    let [begun, end] = flags();
    rig.run(7, spinner(&begun, &end, 70));
    until(|| begun.load(Ordering::Acquire));
    rig.link.preempt();
    assert_eq!(rig.team.undone(), 1);
    end.store(true, Ordering::Release);
    assert_eq!(rig.report(), Some(70));
    rig.stop();
}

#[test]
fn a_request_outside_of_preemptible_code_gives_way_at_a_checkpoint_only() {
    let mut rig = Rig::new(2);
    let [begun, end] = flags();
    let passed = Arc::new(AtomicU64::new(0));
    {
        let (begun, end, passed) = (begun.clone(), end.clone(), passed.clone());
        rig.run(7, move |team, seat| {
            begun.store(true, Ordering::Release);
            while !end.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            team.give_way(seat);
            passed.fetch_add(1, Ordering::Release);
            team.give_way(seat);
            70
        });
    }
    until(|| begun.load(Ordering::Acquire));
    rig.link.preempt();
    assert!(rig.link.receive().is_none());
    end.store(true, Ordering::Release);
    assert_eq!(rig.report(), None);
    assert_eq!(
        passed.load(Ordering::Acquire),
        0,
        "it waits in the checkpoint"
    );
    rig.resume(7);
    assert_eq!(
        rig.report(),
        Some(70),
        "the next one is of a turn that was not asked"
    );
    rig.stop();
}

/// The preempted thread holds a lock that the worker's next request needs: the worker blocks, the
/// preempted thread gets the core, and lets go.
#[test]
fn a_lock_held_by_a_preempted_request_is_let_go() {
    let mut rig = Rig::new(2);
    let lock = Arc::new(Mutex::new(0_u64));
    let begun = Arc::new(AtomicBool::new(false));
    {
        let (lock, begun) = (lock.clone(), begun.clone());
        rig.run(7, move |team, seat| {
            preemptible(team, seat, || {
                let mut held = lock.lock().unwrap();
                begun.store(true, Ordering::Release);
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(20) {
                    std::hint::spin_loop();
                }
                *held += 1;
                *held
            })
        });
    }
    until(|| begun.load(Ordering::Acquire));
    rig.link.preempt();
    assert_eq!(rig.report(), None);
    {
        let lock = lock.clone();
        rig.run(8, move |team, seat| {
            preemptible(team, seat, || {
                let mut held = lock.lock().unwrap();
                *held += 10;
                *held
            })
        });
    }
    assert_eq!(
        rig.report(),
        Some(11),
        "after the preempted one, which held it"
    );
    rig.resume(7);
    assert_eq!(rig.report(), Some(1));
    rig.stop();
}

/// A handler that sleeps gives way at once: the taker needs no core of its own.
#[test]
fn a_handler_that_blocks_is_preempted() {
    let mut rig = Rig::new(2);
    let begun = Arc::new(AtomicBool::new(false));
    let (wake, woken) = std::sync::mpsc::channel::<u64>();
    {
        let begun = begun.clone();
        rig.run(7, move |team, seat| {
            preemptible(team, seat, || {
                begun.store(true, Ordering::Release);
                woken.recv().unwrap()
            })
        });
    }
    until(|| begun.load(Ordering::Acquire));
    rig.link.preempt();
    assert_eq!(rig.report(), None);
    rig.run(8, |_, _| 80);
    assert_eq!(rig.report(), Some(80));
    wake.send(70).unwrap();
    rig.resume(7);
    assert_eq!(rig.report(), Some(70));
    rig.stop();
}

thread_local! {
    static SEEN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// What a request computes when nobody interrupts it, from all that handlers use.
fn mixed_work(seed: u64, rounds: u64, sums: &Mutex<Vec<u64>>) -> u64 {
    let mut sum = seed;
    for round in 0..rounds {
        let text = format!("{seed}:{round}:{:.3}", sum as f64 / 7.0);
        let numbers: Vec<u64> = text.bytes().map(u64::from).collect();
        sum = numbers
            .iter()
            .fold(sum, |sum, number| sum.rotate_left(5) ^ number);
        SEEN.with_borrow_mut(|seen| {
            let before = seen.len();
            seen.push(sum);
            assert_eq!(seen.len(), before + 1);
            if seen.len() > 64 {
                seen.clear();
            }
        });
        {
            let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
            let place = (sum % sums.len() as u64) as usize;
            sums[place] = sums[place].wrapping_add(1);
        }
        if round % 16 == 3 {
            let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(sum)));
            let thrown = caught.expect_err("it was thrown").downcast::<u64>();
            sum ^= *thrown.expect("that is what was thrown") >> 3;
        }
    }
    sum
}

/// `preemptions` turns end early. Every result is that of an undisturbed run, and the places counted
/// under the lock add up.
fn stress(preemptions: u64, lowers: bool) {
    const ROUNDS: u64 = 2000;
    let mut rig = Rig::with(8, lowers);
    let sums = Arc::new(Mutex::new(vec![0_u64; 97]));
    let undisturbed = Mutex::new(vec![0_u64; 97]);
    let expected: Vec<u64> = (0..16)
        .map(|seed| mixed_work(seed, ROUNDS, &undisturbed))
        .collect();
    let mut yielded = 0_u64;
    let mut completed = 0_u64;
    let mut waiting: VecDeque<u32> = VecDeque::new();
    let mut next = 0_u32;
    let mut running;
    loop {
        let is_new = yielded < preemptions && waiting.len() < 6;
        if is_new {
            let (seed, sums) = (u64::from(next % 16), sums.clone());
            running = next;
            next += 1;
            rig.run(running, move |team, seat| {
                let result = preemptible(team, seat, || mixed_work(seed, ROUNDS, &sums));
                seed << 56 ^ result & (u64::MAX >> 8)
            });
        } else if let Some(request) = waiting.pop_front() {
            running = request;
            rig.resume(request);
        } else {
            break;
        }
        // From none at all to well into the request.
        for _ in 0..(yielded + completed) % 251 * 20 {
            std::hint::spin_loop();
        }
        if yielded < preemptions {
            rig.link.preempt();
        }
        match rig.report() {
            Some(result) => {
                completed += 1;
                let seed = u64::from(running % 16);
                let correct = seed << 56 ^ expected[seed as usize] & (u64::MAX >> 8);
                assert_eq!(result, correct, "request {running}");
            }
            None => {
                yielded += 1;
                waiting.push_back(running);
            }
        }
    }
    assert_eq!(completed, u64::from(next));
    assert!(yielded >= preemptions);
    let counted: u64 = sums.lock().unwrap().iter().sum();
    assert_eq!(counted, completed * ROUNDS);
    rig.stop();
}

#[test]
fn handlers_of_all_kinds_survive_preemptions() {
    stress(2_000, can_be_raised());
}

#[test]
fn handlers_survive_preemptions_without_the_privilege() {
    stress(2_000, false);
}

#[test]
#[ignore = "takes minutes"]
fn handlers_of_all_kinds_survive_1_000_000_preemptions() {
    stress(1_000_000, can_be_raised());
}
