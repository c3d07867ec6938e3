use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::{JoinHandle, spawn};
use std::time::Instant;

use mio::{Poll, Token, Waker};

use super::*;
use crate::runtime::channel::doorbell::Doorbell;
use crate::runtime::host::cores::Cores;
use crate::runtime::host::scheduling::can_be_raised;
use crate::runtime::worker_link::{WorkerLink, channel};

/// What a test gives its workers: a job that gets its thread's index in the team.
type Job = Box<dyn FnOnce(&Team, TeamThread) -> u64 + Send>;

enum Work {
    Todo(Job),
    Done(u64),
}

/// A team, and its link to the test, which acts as net thread.
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
        let threads = (0..threads).map(|thread| {
            let (team, port, cores) = (team.clone(), port.clone(), cores.clone());
            spawn(move || {
                cores.pin_shared(1);
                team.serve(thread, &port, Duration::ZERO, |work| {
                    let Work::Todo(job) = std::mem::replace(work, Work::Done(0)) else {
                        unreachable!("a job that is done is not sent again");
                    };
                    *work = Work::Done(job(&team, thread));
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
        until(|| team.idle() + 1 == team.members.len());
        rig
    }

    fn run(&mut self, request: u32, job: impl FnOnce(&Team, TeamThread) -> u64 + Send + 'static) {
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

    /// The next report: a result, or `None` for a request that yielded or is blocked.
    fn report(&mut self) -> Option<u64> {
        let mut report = None;
        until(|| {
            report = self.link.receive();
            report.is_some()
        });
        match report? {
            Report::Completed(Work::Done(result)) => Some(result),
            Report::Completed(Work::Todo(_)) => unreachable!("a job that completed was run"),
            Report::Yielded { .. } | Report::Blocked { .. } | Report::Paused { .. } => None,
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

fn preemptible<R>(team: &Team, thread: TeamThread, body: impl FnOnce() -> R) -> R {
    team.open(thread);
    let result = body();
    team.close(thread);
    result
}

fn until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "it never happens");
        std::thread::yield_now();
    }
}

/// A job that runs until `end` is set, preemptible anywhere.
fn spinner(
    begun: &Arc<AtomicBool>,
    end: &Arc<AtomicBool>,
    result: u64,
) -> impl FnOnce(&Team, TeamThread) -> u64 + use<> {
    let (begun, end) = (begun.clone(), end.clone());
    move |team, thread| {
        preemptible(team, thread, || {
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

/// If a turn were asked to yield when it was sent, the next turn would be asked, too, before the thread ran.
#[test]
fn a_request_that_is_asked_when_its_turn_had_its_quantum_makes_progress() {
    const QUANTUM_NS: u64 = 10_000;
    const TURNS: u64 = 100;
    let mut rig = Rig::new(2);
    let clock = rig.team.clock.clone();
    let mut progressed = 0;
    let done = Arc::new(AtomicU64::new(0));
    let end = Arc::new(AtomicBool::new(false));
    let job = {
        let (done, end) = (done.clone(), end.clone());
        move |team: &Team, thread| {
            preemptible(team, thread, || {
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
        progressed += u64::from(after > before);
        rig.link.preempt();
        assert_eq!(rig.report(), None, "it yields");
        rig.resume(1);
    }
    // A thread that gets no core for a millisecond counts as asleep. On a busy machine most turns are like
    // that.
    assert!(progressed >= TURNS / 20, "in {progressed} turns of {TURNS}");
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
fn a_request_yields_and_goes_on() {
    let mut rig = Rig::new(2);
    let [begun, end] = flags();
    rig.run(7, spinner(&begun, &end, 70));
    until(|| begun.load(Ordering::Acquire));
    rig.link.preempt();
    assert_eq!(rig.report(), None, "it yields");
    rig.run(8, |team, thread| preemptible(team, thread, || 80));
    assert_eq!(rig.report(), Some(80), "another runs meanwhile");
    rig.resume(7);
    end.store(true, Ordering::Release);
    assert_eq!(rig.report(), Some(70));
    assert!(!rig.team.is_undone());
    rig.stop();
}

#[test]
fn a_request_that_finishes_between_its_turns_is_reported_in_the_next() {
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
fn a_request_to_yield_before_the_turn_is_kept() {
    let mut rig = Rig::new(2);
    let [begun, end] = flags();
    let (hold, go) = std::sync::mpsc::channel::<()>();
    let run = spinner(&begun, &end, 1);
    rig.run(7, move |team, thread| {
        go.recv().unwrap();
        run(team, thread)
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
    assert!(rig.team.is_undone());
    end.store(true, Ordering::Release);
    assert_eq!(rig.report(), Some(70));
    rig.stop();
}

#[test]
fn a_request_outside_of_preemptible_code_yields_at_a_checkpoint_only() {
    let mut rig = Rig::new(2);
    let [begun, end] = flags();
    let passed = Arc::new(AtomicU64::new(0));
    {
        let (begun, end, passed) = (begun.clone(), end.clone(), passed.clone());
        rig.run(7, move |team, thread| {
            begun.store(true, Ordering::Release);
            while !end.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            team.yield_now(thread);
            passed.fetch_add(1, Ordering::Release);
            team.yield_now(thread);
            70
        });
    }
    until(|| begun.load(Ordering::Acquire));
    rig.link.preempt();
    assert!(rig.link.receive().is_none());
    end.store(true, Ordering::Release);
    assert_eq!(rig.report(), None);
    assert_eq!(passed.load(Ordering::Acquire), 0, "the request waits in the checkpoint");
    rig.resume(7);
    assert_eq!(rig.report(), Some(70), "the next checkpoint is in a turn that was not asked");
    rig.stop();
}

/// The preempted thread holds a lock that the worker's next request needs: the worker blocks, the preempted
/// thread gets the core, and releases the lock.
#[test]
fn a_lock_held_by_a_preempted_request_is_released() {
    let mut rig = Rig::new(2);
    let lock = Arc::new(Mutex::new(0_u64));
    let begun = Arc::new(AtomicBool::new(false));
    let may_end = Arc::new(AtomicBool::new(false));
    {
        let (lock, begun, may_end) = (lock.clone(), begun.clone(), may_end.clone());
        rig.run(7, move |team, thread| {
            preemptible(team, thread, || {
                let mut held = lock.lock().unwrap();
                begun.store(true, Ordering::Release);
                while !may_end.load(Ordering::Acquire) {
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
        rig.run(8, move |team, thread| {
            preemptible(team, thread, || {
                let mut held = lock.lock().unwrap();
                *held += 10;
                *held
            })
        });
    }
    may_end.store(true, Ordering::Release);
    assert_eq!(rig.report(), Some(11), "after the preempted request, which held it");
    rig.resume(7);
    assert_eq!(rig.report(), Some(1));
    rig.stop();
}

/// A handler that sleeps yields at once: the thread that takes over finds the core free.
#[test]
fn a_handler_that_blocks_is_preempted() {
    let mut rig = Rig::new(2);
    let begun = Arc::new(AtomicBool::new(false));
    let (wake, woken) = std::sync::mpsc::channel::<u64>();
    {
        let begun = begun.clone();
        rig.run(7, move |team, thread| {
            preemptible(team, thread, || {
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

/// Work of all kinds that handlers do, with a known result.
fn mixed_work(seed: u64, rounds: u64, sums: &Mutex<Vec<u64>>) -> u64 {
    let mut sum = seed;
    for round in 0..rounds {
        let text = format!("{seed}:{round}:{:.3}", sum as f64 / 7.0);
        let numbers: Vec<u64> = text.bytes().map(u64::from).collect();
        sum = numbers.iter().fold(sum, |sum, number| sum.rotate_left(5) ^ number);
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
            let index = (sum % sums.len() as u64) as usize;
            sums[index] = sums[index].wrapping_add(1);
        }
        if round % 16 == 3 {
            let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(sum)));
            let thrown = caught.expect_err("it was thrown").downcast::<u64>();
            sum ^= *thrown.expect("a number was thrown") >> 3;
        }
    }
    sum
}

/// `preemptions` turns end early. Every result is that of an undisturbed run, and the counts under the lock add
/// up.
fn stress(preemptions: u64, lowers: bool) {
    const ROUNDS: u64 = 2000;
    let mut rig = Rig::with(8, lowers);
    let sums = Arc::new(Mutex::new(vec![0_u64; 97]));
    let undisturbed = Mutex::new(vec![0_u64; 97]);
    let expected: Vec<u64> = (0..16).map(|seed| mixed_work(seed, ROUNDS, &undisturbed)).collect();
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
            rig.run(running, move |team, thread| {
                let result = preemptible(team, thread, || mixed_work(seed, ROUNDS, &sums));
                seed << 56 ^ result & (u64::MAX >> 8)
            });
        } else if let Some(request) = waiting.pop_front() {
            running = request;
            rig.resume(request);
        } else {
            break;
        }
        // From no time at all to well into the request.
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
    if !can_be_raised() {
        return psp_skip::skip("no right to leave SCHED_IDLE again (CAP_SYS_NICE)");
    }
    stress(2_000, true);
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
