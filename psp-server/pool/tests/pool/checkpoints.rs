//! Tasks that yield at checkpoints: who runs meanwhile, how they go on, and what is left.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use futures_lite::future::{block_on, yield_now};
use psp_pool::policy::{Policy, PreemptPolicy};
use psp_pool::{Builder, Pool, PoolError, RequestType, Running, TypeSnapshot, checkpoint, is_cancelled, suspended};

use super::{LONG, PATIENCE, SHORT, hold, types, until};

fn builder(policy: &str) -> Builder {
    let policy: Policy = policy.parse().unwrap();
    Pool::builder().types(types()).workers(1).policy(policy).spare_threads(0)
}

fn sharing() -> Pool {
    builder("mq quantum-us=200").build().unwrap()
}

/// Calls checkpoints until `condition`.
fn work_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "worked in vain");
        checkpoint();
    }
}

/// A long task that calls checkpoints until it may end, and has begun when this returns. `end` is its end.
fn begin<T: Send + 'static>(pool: &Pool, end: impl FnOnce() -> T + Send + 'static) -> (Arc<AtomicBool>, Running<T>) {
    let may_end = Arc::new(AtomicBool::new(false));
    let ends = may_end.clone();
    let (begins, begun) = channel();
    let running = pool.run(LONG, move || {
        begins.send(()).unwrap();
        work_until(|| ends.load(Ordering::SeqCst));
        end()
    });
    begun.recv_timeout(PATIENCE).unwrap();
    (may_end, running)
}

/// A long task that yielded, and a short one that holds the only worker until its gate is dropped.
struct Suspended<T> {
    may_end: Arc<AtomicBool>,
    long: Running<T>,
    gate: Sender<()>,
    short: Running<()>,
}

impl<T: Send + 'static> Suspended<T> {
    fn new(pool: &Pool, end: impl FnOnce() -> T + Send + 'static) -> Self {
        let (may_end, long) = begin(pool, end);
        // There is no other worker.
        let (gate, short) = hold(pool, SHORT);
        assert_eq!(of(pool, LONG).yielded, 1);
        Self { may_end, long, gate, short }
    }

    /// Lets both end.
    fn release(self) -> Result<T, PoolError> {
        self.may_end.store(true, Ordering::SeqCst);
        drop(self.gate);
        block_on(self.short).unwrap();
        block_on(self.long)
    }
}

fn of(pool: &Pool, request_type: RequestType) -> TypeSnapshot {
    pool.snapshot().types[request_type.index().unwrap()].clone()
}

fn all_are_counted(pool: &Pool) {
    until("all are counted", || pool.snapshot().unfinished == 0);
}

#[test]
fn a_long_task_yields_to_a_short_one_and_goes_on() {
    checkpoint();
    let pool = sharing();
    let order = Arc::new(Mutex::new(Vec::new()));
    let ends = order.clone();
    let (may_end, long) = begin(&pool, move || {
        ends.lock().unwrap().push(LONG);
        7
    });
    let runs = order.clone();
    let short = pool.run(SHORT, move || {
        runs.lock().unwrap().push(SHORT);
        // The long one goes on until this has run.
        may_end.store(true, Ordering::SeqCst);
    });
    assert_eq!(block_on(short), Ok(()));
    assert_eq!(block_on(long), Ok(7));
    assert_eq!(*order.lock().unwrap(), [SHORT, LONG]);
    all_are_counted(&pool);
    let [short, long] = [SHORT, LONG].map(|it| of(&pool, it));
    assert_eq!((long.yielded, long.begun, long.completed), (1, 1, 1));
    assert_eq!((short.yielded, short.begun, short.completed), (0, 1, 1));
    assert_eq!(long.yields_missed + short.yields_missed, 0);
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn a_task_is_told_for_how_long_it_was_suspended() {
    let pool = sharing();
    let long = Suspended::new(&pool, suspended);
    let pause = Duration::from_millis(20);
    std::thread::sleep(pause);
    assert!(long.release().unwrap() >= pause);
    assert_eq!(suspended(), Duration::ZERO, "this thread is no pool's");
}

#[test]
fn a_future_yields_in_its_polls() {
    let pool = sharing();
    let flag = Arc::new(AtomicBool::new(false));
    let is_set = flag.clone();
    let (begins, begun) = channel();
    let long = pool.spawn(LONG, async move {
        yield_now().await;
        begins.send(()).unwrap();
        work_until(|| is_set.load(Ordering::SeqCst));
        yield_now().await;
        8
    });
    begun.recv_timeout(PATIENCE).unwrap();
    block_on(pool.run(SHORT, move || flag.store(true, Ordering::SeqCst))).unwrap();
    assert_eq!(block_on(long), Ok(8));
    assert!(of(&pool, LONG).yielded >= 1);
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn a_suspended_task_waits_and_goes_on_at_any_worker() {
    let [short, long] = types();
    // Short tasks are not asked to yield: they would not.
    let types = [short.preempt(PreemptPolicy::None), long];
    let pool = builder("mq quantum-us=200").types(types).workers(2);
    let pool = pool.build().unwrap();
    let (first_gate, first) = hold(&pool, SHORT);
    let suspended = Suspended::new(&pool, || 5);
    let long = of(&pool, LONG);
    assert_eq!((long.queued, long.begun, long.completed), (1, 1, 0));
    assert_eq!(pool.snapshot().unfinished, 3);
    // The worker where it began has another task yet.
    drop(first_gate);
    block_on(first).unwrap();
    suspended.may_end.store(true, Ordering::SeqCst);
    assert_eq!(block_on(suspended.long), Ok(5));
    drop(suspended.gate);
    block_on(suspended.short).unwrap();
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn thread_local_variables_of_a_suspended_task_are_its_own() {
    thread_local! {
        static MINE: Cell<u32> = const { Cell::new(0) };
    }
    let here = || (MINE.get(), std::thread::current().id());
    let pool = sharing();
    let has_run = Arc::new(AtomicBool::new(false));
    let ends = has_run.clone();
    let (begins, begun) = channel();
    let long = pool.run(LONG, move || {
        MINE.set(1);
        let before = here();
        begins.send(()).unwrap();
        work_until(|| ends.load(Ordering::SeqCst));
        (before, here())
    });
    begun.recv_timeout(PATIENCE).unwrap();
    let short = pool.run(SHORT, move || {
        let found = here();
        MINE.set(2);
        has_run.store(true, Ordering::SeqCst);
        found
    });
    let (found, short_thread): (u32, ThreadId) = block_on(short).unwrap();
    let (before, after) = block_on(long).unwrap();
    assert_eq!(before, after);
    assert_eq!((before.0, found), (1, 0));
    assert_ne!(before.1, short_thread);
}

#[test]
fn a_task_that_finds_no_context_runs_on_until_there_is_one() {
    let pool = builder("sq quantum-us=100").contexts_per_worker(1);
    let pool = pool.build().unwrap();
    let (first_may_end, first) = begin(&pool, || 1);
    // Begins as the first one yields, and cannot yield to the last one.
    let (second_may_end, second) = begin(&pool, || 2);
    let last = pool.run(SHORT, || 3);
    until("one misses", || of(&pool, LONG).yields_missed > 0);
    assert_eq!(of(&pool, LONG).yielded, 1);
    assert_eq!(of(&pool, SHORT).begun, 0);
    second_may_end.store(true, Ordering::SeqCst);
    assert_eq!(block_on(second), Ok(2));
    assert_eq!(block_on(last), Ok(3));
    first_may_end.store(true, Ordering::SeqCst);
    assert_eq!(block_on(first), Ok(1));
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

/// Has a long task run while a short one waits, and says which ended first.
fn first_to_end(pool: &Pool) -> RequestType {
    let order = Arc::new(Mutex::new(Vec::new()));
    let ends = order.clone();
    let (begins, begun) = channel();
    let long = pool.run(LONG, move || {
        begins.send(()).unwrap();
        let began = Instant::now();
        work_until(|| began.elapsed() > Duration::from_millis(5));
        ends.lock().unwrap().push(LONG);
    });
    begun.recv_timeout(PATIENCE).unwrap();
    let ends = order.clone();
    let short = pool.run(SHORT, move || ends.lock().unwrap().push(SHORT));
    block_on(long).unwrap();
    block_on(short).unwrap();
    order.lock().unwrap()[0]
}

#[test]
fn tasks_run_to_completion_if_they_must_not_yield() {
    let pool = builder("mq quantum-us=200").contexts_per_worker(0);
    let pool = pool.build().unwrap();
    assert_eq!(first_to_end(&pool), LONG);
    let [short, long] = types();
    let types = [short, long.preempt(PreemptPolicy::None)];
    let pool = builder("mq quantum-us=200").types(types).build().unwrap();
    assert_eq!(first_to_end(&pool), LONG);
    assert_eq!(of(&pool, LONG).yielded, 0);
    let pool = builder("c-fcfs").build().unwrap();
    assert_eq!(first_to_end(&pool), LONG);
}

#[test]
fn a_task_that_was_handed_off_yields_no_more() {
    let pool = builder("mq quantum-us=200").hand_off_after(Duration::from_millis(1)).spare_threads(1);
    let pool = pool.build().unwrap();
    let (opens, opened) = channel::<()>();
    let (begins, begun) = channel();
    let done = Arc::new(AtomicUsize::new(0));
    let seen = done.clone();
    let long = pool.run(LONG, move || {
        begins.send(()).unwrap();
        // Asked to yield, and handed off, since it does not.
        assert!(opened.recv().is_err());
        work_until(|| seen.load(Ordering::SeqCst) == 10);
        9
    });
    begun.recv_timeout(PATIENCE).unwrap();
    block_on(pool.run(SHORT, move || drop(opens))).unwrap();
    for _ in 0..10 {
        let done = done.clone();
        let short = pool.run(SHORT, move || done.fetch_add(1, Ordering::SeqCst));
        block_on(short).unwrap();
    }
    assert_eq!(block_on(long), Ok(9));
    all_are_counted(&pool);
    let long = of(&pool, LONG);
    assert_eq!((long.handed_off, long.yielded, long.completed), (1, 0, 1));
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn a_suspended_task_may_panic_when_it_goes_on() {
    let pool = sharing();
    let suspended = Suspended::new(&pool, || -> u32 { panic!("the test asked for it") });
    let awaited = catch_unwind(AssertUnwindSafe(|| suspended.release()));
    let message = *awaited.unwrap_err().downcast::<&str>().unwrap();
    assert_eq!(message, "the test asked for it");
    assert_eq!(block_on(pool.run(LONG, || 3)), Ok(3));
    all_are_counted(&pool);
    let long = of(&pool, LONG);
    assert_eq!((long.panicked, long.completed), (1, 1));
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn a_suspended_task_whose_result_is_dropped_goes_on_to_its_end() {
    let pool = sharing();
    let has_ended = Arc::new(AtomicBool::new(false));
    let ends = has_ended.clone();
    let suspended = Suspended::new(&pool, move || ends.store(true, Ordering::SeqCst));
    drop(suspended.long);
    suspended.may_end.store(true, Ordering::SeqCst);
    assert!(!has_ended.load(Ordering::SeqCst));
    drop(suspended.gate);
    block_on(suspended.short).unwrap();
    all_are_counted(&pool);
    assert!(has_ended.load(Ordering::SeqCst));
    let long = of(&pool, LONG);
    assert_eq!((long.cancelled, long.completed), (1, 0));
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn other_policies_take_over_a_suspended_task() {
    let pool = sharing();
    let suspended = Suspended::new(&pool, || 4);
    for policy in Policy::help().map(|(name, _)| name.parse::<Policy>().unwrap()) {
        if policy.validate(1).is_ok() {
            pool.set_policy(&policy).unwrap();
        }
    }
    assert_eq!(of(&pool, LONG).queued, 1);
    assert_eq!(suspended.release(), Ok(4));
    all_are_counted(&pool);
    assert_eq!(of(&pool, LONG).completed, 1);
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

/// Threads of this process whose names begin so. Linux leaves some out while others end: ask again.
#[cfg(target_os = "linux")]
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|it| it.starts_with(name)).count()
}

#[test]
fn a_pool_that_is_dropped_ends_its_suspended_tasks_and_threads() {
    let pool = builder("mq quantum-us=200").name("dropped").build();
    let pool = pool.unwrap();
    let suspended = Suspended::new(&pool, || 6);
    #[cfg(target_os = "linux")]
    until("two and the timer", || threads("dropped") == 3);
    drop(pool);
    assert_eq!(suspended.release(), Ok(6));
    #[cfg(target_os = "linux")]
    until("all threads have ended", || threads("dropped") == 0);
}

#[test]
fn a_closed_pool_waits_for_its_suspended_tasks() {
    let pool = sharing();
    let suspended = Suspended::new(&pool, || 6);
    let closing = pool.clone();
    let closed = std::thread::spawn(move || closing.close(PATIENCE).abandoned);
    assert_eq!(suspended.release(), Ok(6));
    assert_eq!(closed.join().unwrap(), 0);
    assert_eq!(of(&pool, LONG).completed, 1);
}

#[test]
fn a_pool_that_must_end_lets_suspended_tasks_go_on_alone() {
    let pool = sharing();
    let suspended = Suspended::new(&pool, || 6);
    let waits = pool.run(SHORT, || ());
    assert_eq!(pool.close(Duration::from_millis(5)).abandoned, 3);
    assert_eq!(block_on(waits), Err(PoolError::Closed));
    // Though the short one has the worker.
    suspended.may_end.store(true, Ordering::SeqCst);
    assert_eq!(block_on(suspended.long), Ok(6));
    drop(suspended.gate);
    assert_eq!(block_on(suspended.short), Ok(()));
    assert_eq!(pool.close(PATIENCE).abandoned, 0, "all threads have ended");
    assert_eq!(of(&pool, LONG).completed, 1);
}

#[test]
fn a_task_of_a_pool_that_was_given_up_yields_no_more() {
    let pool = sharing();
    let (closes, closed) = channel::<()>();
    let (begins, begun) = channel();
    let long = pool.run(LONG, move || {
        begins.send(()).unwrap();
        // Asked to yield meanwhile.
        assert!(closed.recv().is_err());
        (0..100).for_each(|_| checkpoint());
        2
    });
    begun.recv_timeout(PATIENCE).unwrap();
    let short = pool.run(SHORT, || ());
    assert_eq!(pool.close(Duration::from_millis(5)).abandoned, 2);
    drop(closes);
    assert_eq!(block_on(long), Ok(2));
    assert_eq!(block_on(short), Err(PoolError::Closed));
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
    assert_eq!(of(&pool, LONG).yielded, 0);
}

#[test]
fn tasks_run_once_each_under_policies_that_preempt_and_change() {
    const TASKS: usize = 3_000;
    let policies = [
        "mq quantum-us=50",
        "sq quantum-us=20",
        "jbsq quantum-us=20",
        "jsq quantum-us=20",
        "synergy quantum-us=20",
        "darc-lending",
        "c-fcfs",
        "darc-distributed",
        "sq quantum-us=100",
    ];
    let policies = policies.map(|it| it.parse::<Policy>().unwrap());
    let pool = builder("sq quantum-us=20").workers(2);
    let pool = pool.contexts_per_worker(3).build().unwrap();
    let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..TASKS).map(|_| AtomicUsize::new(0)).collect());
    let running: Vec<_> = (0..TASKS)
        .map(|task| {
            if task % 50 == 0 {
                pool.set_policy(&policies[task / 50 % policies.len()]).unwrap();
            }
            until("there is room", || pool.snapshot().unfinished < 100);
            let runs = runs.clone();
            let work = move || {
                let began = Instant::now();
                let micros = if task % 3 == 0 { 150 } else { 5 };
                work_until(|| began.elapsed() > Duration::from_micros(micros));
                runs[task].fetch_add(1, Ordering::Relaxed);
                task
            };
            match task % 3 {
                0 => pool.run(LONG, work),
                1 => pool.run(SHORT, work),
                _ => pool.spawn(LONG, async move {
                    yield_now().await;
                    work()
                }),
            }
        })
        .collect();
    for (task, running) in running.into_iter().enumerate() {
        assert_eq!(block_on(running), Ok(task));
    }
    assert!(runs.iter().all(|it| it.load(Ordering::Relaxed) == 1));
    all_are_counted(&pool);
    let types = pool.snapshot().types;
    let completed: u64 = types.iter().map(|it| it.completed).sum();
    assert_eq!(completed, TASKS as u64);
    assert!(types.iter().map(|it| it.yielded).sum::<u64>() > 0);
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

/// No caller wants what it computes any more: it stops, and the worker is there for others.
#[test]
fn a_task_sees_that_it_is_cancelled_while_it_runs() {
    let pool = sharing();
    let (begins, begun) = channel();
    let (ends, ended) = channel();
    let running = pool.run(LONG, move || {
        begins.send(is_cancelled()).unwrap();
        work_until(is_cancelled);
        ends.send(()).unwrap();
    });
    assert!(!begun.recv_timeout(PATIENCE).unwrap());
    drop(running);
    ended.recv_timeout(PATIENCE).unwrap();
    assert!(!block_on(pool.run(SHORT, is_cancelled)).unwrap() && !is_cancelled());
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}
