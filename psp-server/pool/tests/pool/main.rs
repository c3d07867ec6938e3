//! A pool from outside: what comes back, in which order, and what is left.

mod checkpoints;
mod studies;

use std::future::{Future, pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_lite::future::{block_on, yield_now};
use psp_harness::{hold, wait_until as until};
use psp_pool::policy::Policy;
use psp_pool::{BuildError, Pool, PoolError, RequestType, Running, TypeSnapshot, TypeSpec};

const SHORT: RequestType = RequestType::new(0);
const LONG: RequestType = RequestType::new(1);
const PATIENCE: Duration = Duration::from_secs(30);

fn types() -> [TypeSpec; 2] {
    let spec = |name, micros| TypeSpec::new(name).service_time(Duration::from_micros(micros));
    [spec("short", 1), spec("long", 1_000)]
}

fn pool(workers: usize, policy: impl Into<Policy>) -> Pool {
    let pool = Pool::builder().types(types()).workers(workers).spare_threads(0);
    pool.policy(policy).build().unwrap()
}

#[test]
fn results_come_back_under_every_policy() {
    for name in Policy::help().map(|(name, _)| name) {
        let policy: Policy = name.parse().unwrap();
        let pool = pool(2, policy);
        let running: Vec<_> = (0..200_usize)
            .map(|task| match task % 3 {
                0 => pool.run(SHORT, move || task),
                1 => pool.spawn(LONG, async move {
                    yield_now().await;
                    task
                }),
                _ => pool.run(RequestType::UNKNOWN, move || task),
            })
            .collect();
        for (task, running) in running.into_iter().enumerate() {
            assert_eq!(block_on(running), Ok(task), "{name}");
        }
        // A result may be there before its worker has told the pool.
        until("all are counted", || pool.snapshot().unfinished == 0);
        let snapshot = pool.snapshot();
        let completed: Vec<u64> = snapshot.types.iter().map(|it| it.completed).collect();
        assert_eq!((completed, snapshot.unfinished), (vec![67, 67, 66], 0), "{name}");
        assert_eq!(pool.close(PATIENCE).abandoned, 0);
    }
}

#[test]
fn short_tasks_overtake_long_ones_by_the_policy() {
    let pool = pool(1, Policy::fixed_priority());
    let (gate, held) = hold(&pool, LONG);
    let order = Arc::new(Mutex::new(Vec::new()));
    let running: Vec<_> = [LONG, SHORT, LONG, SHORT]
        .into_iter()
        .map(|request_type| {
            let order = order.clone();
            pool.run(request_type, move || {
                order.lock().unwrap().push(request_type);
            })
        })
        .collect();
    drop(gate);
    running.into_iter().for_each(|it| block_on(it).unwrap());
    block_on(held).unwrap();
    assert_eq!(*order.lock().unwrap(), [SHORT, SHORT, LONG, LONG]);
}

/// Wakes whoever waits for it, once it is open.
#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Gate {
    fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap());
        wakers.into_iter().for_each(Waker::wake);
    }

    fn passed(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        poll_fn(move |context: &mut Context<'_>| {
            self.wakers.lock().unwrap().push(context.waker().clone());
            match self.is_open.load(Ordering::SeqCst) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
    }
}

#[test]
fn a_future_that_is_pending_has_no_worker() {
    let pool = pool(1, Policy::c_fcfs());
    let gate = Arc::new(Gate::default());
    let waiting: Vec<_> = (0..50).map(|_| pool.spawn(LONG, gate.clone().passed())).collect();
    until("all have begun", || pool.snapshot().types[1].begun == 50);
    assert_eq!(block_on(pool.run(SHORT, || 5)), Ok(5));
    gate.open();
    waiting.into_iter().for_each(|it| block_on(it).unwrap());
    until("all are counted", || pool.snapshot().types[1].completed == 50);
}

#[test]
fn a_full_queue_refuses_its_type_only() {
    let types = types().map(|spec| spec.queue_capacity(3));
    let pool = Pool::builder().types(types).workers(1).spare_threads(0).build().unwrap();
    let (gate, held) = hold(&pool, LONG);
    let long: Vec<_> = (0..5).map(|_| pool.run(LONG, || ())).collect();
    let short = pool.run(SHORT, || ());
    drop(gate);
    block_on(held).unwrap();
    let busy = Err(PoolError::Busy { type_name: "long".to_owned() });
    let results: Vec<_> = long.into_iter().map(block_on).collect();
    assert_eq!(results, [Ok(()), Ok(()), Ok(()), busy.clone(), busy]);
    assert_eq!(block_on(short), Ok(()));
    let snapshot = pool.snapshot();
    assert_eq!((snapshot.types[1].busy, snapshot.types[0].busy), (2, 0));
}

#[test]
fn a_queue_without_a_place_is_refused() {
    let without = Pool::builder().types(types()).queue_capacity(0);
    let of_a_type = Pool::builder().types(types().map(|spec| spec.queue_capacity(0)));
    for builder in [without, of_a_type] {
        assert!(matches!(builder.build(), Err(BuildError::NoQueue)));
    }
}

#[test]
fn a_task_whose_result_is_dropped_does_not_begin() {
    let pool = pool(1, Policy::c_fcfs());
    let (gate, held) = hold(&pool, LONG);
    let has_run = Arc::new(AtomicBool::new(false));
    let runs = has_run.clone();
    drop(pool.run(SHORT, move || runs.store(true, Ordering::SeqCst)));
    let detached = has_run.clone();
    let after = pool.run(SHORT, move || detached.load(Ordering::SeqCst));
    drop(gate);
    block_on(held).unwrap();
    assert_eq!(block_on(after), Ok(false));
    assert_eq!(pool.snapshot().types[0].cancelled, 1);
    // One that is pending goes, too, and one that is detached does not.
    drop(pool.spawn(SHORT, pending::<()>()));
    let runs = has_run.clone();
    pool.run(SHORT, move || runs.store(true, Ordering::SeqCst)).detach();
    until("the detached one runs", || has_run.load(Ordering::SeqCst));
    until("all are gone", || pool.snapshot().unfinished == 0);
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn a_cancelled_task_goes_at_once_and_leaves_its_place_to_others() {
    let types = types().map(|spec| spec.queue_capacity(3));
    let pool = Pool::builder().types(types).workers(1).spare_threads(0).build().unwrap();
    let (gate, held) = hold(&pool, LONG);
    let order = Arc::new(Mutex::new(Vec::new()));
    let run = |task: u32| {
        let order = order.clone();
        pool.run(LONG, move || order.lock().unwrap().push(task))
    };
    let mut running: Vec<_> = (0..3).map(run).collect();
    let _other = pool.run(SHORT, || ());
    drop(running.drain(1..));
    assert_eq!(Arc::strong_count(&order), 2, "what they held is gone");
    let queued = || pool.snapshot().types[1].queued;
    assert_eq!(queued(), 1);
    running.extend([3, 4].map(run));
    assert_eq!(queued(), 3);
    let busy = block_on(run(5));
    assert!(matches!(busy, Err(PoolError::Busy { .. })), "{busy:?}");
    drop(gate);
    block_on(held).unwrap();
    running.into_iter().for_each(|it| block_on(it).unwrap());
    let mut ran = order.lock().unwrap().clone();
    assert_eq!(ran[0], 0);
    ran.sort_unstable();
    assert_eq!(ran, [0, 3, 4]);
    until("all are counted", || pool.snapshot().unfinished == 0);
    let long = &pool.snapshot().types[1];
    assert_eq!((long.cancelled, long.busy, long.completed), (2, 1, 4));
}

#[test]
fn cancelled_tasks_fill_no_queue_under_any_policy() {
    let mut policies = 0;
    for name in Policy::help().map(|(name, _)| name) {
        let policy: Policy = name.parse().unwrap();
        if policy.validate(1).is_err() {
            continue;
        }
        policies += 1;
        let types = types().map(|spec| spec.queue_capacity(4));
        let pool = Pool::builder().types(types).workers(1).spare_threads(0);
        let pool = pool.policy(policy).build().unwrap();
        let (gate, held) = hold(&pool, SHORT);
        for task in 0..200 {
            let request_type = RequestType::new(task % 2);
            drop(pool.run(request_type, || panic!("it was cancelled")));
        }
        let last = [SHORT, LONG].map(|it| (0..4).map(|task| pool.run(it, move || task)).collect());
        drop(gate);
        block_on(held).unwrap();
        for running in last {
            let running: Vec<Running<usize>> = running;
            for (task, running) in running.into_iter().enumerate() {
                assert_eq!(block_on(running), Ok(task), "{name}");
            }
        }
        until("all are counted", || pool.snapshot().unfinished == 0);
        let types = pool.snapshot().types;
        let counted = |slot: usize| {
            let TypeSnapshot { cancelled, busy, completed, .. } = types[slot];
            (cancelled, busy, completed)
        };
        assert_eq!([0, 1].map(counted), [(100, 0, 5), (100, 0, 4)], "{name}");
        assert_eq!(pool.close(PATIENCE).abandoned, 0);
    }
    assert!(policies > 5, "{policies}");
}

#[test]
fn another_policy_takes_over_where_tasks_were_cancelled() {
    let types = types().map(|spec| spec.queue_capacity(4));
    let pool = Pool::builder().types(types).workers(1).spare_threads(0).build().unwrap();
    let (gate, held) = hold(&pool, LONG);
    let mut running: Vec<_> = (0..4_u32).map(|task| pool.run(LONG, move || task)).collect();
    drop(running.drain(..3));
    pool.set_policy(&Policy::darc()).unwrap();
    running.extend((4..7).map(|task| pool.run(LONG, move || task)));
    drop(running.remove(1));
    pool.set_policy(&Policy::sjf()).unwrap();
    drop(gate);
    block_on(held).unwrap();
    let results: Vec<_> = running.into_iter().map(|it| block_on(it).unwrap()).collect();
    assert_eq!(results, [3, 5, 6]);
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

/// A pool of one worker that hands off tasks after a millisecond.
fn handing_off(spare_threads: usize) -> Pool {
    // The long one begins, as it came first.
    let pool = Pool::builder().types(types()).workers(1).policy(Policy::c_fcfs());
    let after = Duration::from_millis(1);
    let pool = pool.hand_off_after(after).spare_threads(spare_threads);
    pool.build().unwrap()
}

#[test]
fn by_default_a_task_that_computes_holds_up_no_other() {
    let pool = Pool::builder().types(types()).workers(1).build().unwrap();
    let (gate, held) = hold(&pool, LONG);
    for _ in 0..3 {
        assert_eq!(block_on(pool.run(LONG, || 7)), Ok(7));
    }
    drop(gate);
    block_on(held).unwrap();
    // A short one that its core left for a while was handed off, too.
    assert!(pool.snapshot().types[1].handed_off >= 1);
}

#[test]
fn a_short_task_does_not_wait_as_long_as_long_ones_that_wait_too() {
    let pool = Pool::builder().types(types()).workers(1).policy(Policy::sjf()).build().unwrap();
    block_on(pool.run(SHORT, || ())).unwrap();
    let began = Instant::now();
    block_on(pool.run(LONG, || std::thread::sleep(Duration::from_millis(600)))).unwrap();
    let long_time = began.elapsed();
    let (gate, held) = hold(&pool, LONG);
    let waits = pool.run(LONG, || ());
    // By now the timer waits for as long as a long one may run while only long ones wait: twice that time.
    std::thread::sleep(Duration::from_millis(20));
    let began = Instant::now();
    block_on(pool.run(SHORT, || ())).unwrap();
    assert!(began.elapsed() < long_time);
    drop(gate);
    block_on(held).unwrap();
    block_on(waits).unwrap();
}

/// The nice value of the calling thread.
#[cfg(target_os = "linux")]
fn nice() -> i32 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, behind_the_name) = stat.rsplit_once(')').unwrap();
    let field = behind_the_name.split_whitespace().nth(16).unwrap();
    field.parse().unwrap()
}

#[test]
fn a_task_that_runs_for_too_long_gives_its_worker_to_those_that_wait() {
    let pool = handing_off(1);
    let (gate, opened): (Sender<()>, Receiver<()>) = channel();
    #[cfg(target_os = "linux")]
    let own_nice = nice();
    // It ends when the next task has run, for which there is no other worker.
    let long = pool.run(LONG, move || {
        assert!(opened.recv().is_err());
        #[cfg(target_os = "linux")]
        assert_eq!(nice(), own_nice, "it gets as much of the processor as before");
        7
    });
    let short = pool.run(SHORT, move || drop(gate));
    block_on(short).unwrap();
    assert_eq!(block_on(long), Ok(7));
    until("all are counted", || pool.snapshot().unfinished == 0);
    let [short, long] = [0, 1].map(|it| pool.snapshot().types[it].clone());
    assert_eq!((long.handed_off, long.completed, long.begun), (1, 1, 1));
    assert!(long.service_ns > 0);
    assert_eq!((short.handed_off, short.completed), (0, 1));
    assert_eq!(block_on(pool.run(SHORT, || 3)), Ok(3));
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn only_so_many_tasks_are_handed_off_at_a_time() {
    let pool = handing_off(1);
    let (first_gate, first) = hold(&pool, LONG);
    // The first one is handed off for this one to begin.
    let (second_gate, second) = hold(&pool, LONG);
    assert_eq!(pool.snapshot().types[1].handed_off, 1);
    let short = pool.run(SHORT, || ());
    drop(first_gate);
    block_on(first).unwrap();
    // And this one now, as there is a place.
    block_on(short).unwrap();
    assert_eq!(pool.snapshot().types[1].handed_off, 2);
    drop(second_gate);
    block_on(second).unwrap();
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn a_future_that_was_handed_off_goes_on_as_others_do() {
    let pool = handing_off(2);
    let gate = Arc::new(Gate::default());
    for wakes_early in [true, false] {
        let (opens, opened): (Sender<()>, Receiver<()>) = channel();
        let passed = gate.clone().passed();
        let long = pool.spawn(LONG, async move {
            if wakes_early {
                // It is woken while a thread that is no worker polls it.
                poll_fn(|context: &mut Context<'_>| {
                    context.waker().wake_by_ref();
                    Poll::Ready(())
                })
                .await;
            }
            let _ = opened.recv();
            yield_now().await;
            passed.await;
            8
        });
        let short = pool.run(SHORT, move || drop(opens));
        block_on(short).unwrap();
        gate.open();
        assert_eq!(block_on(long), Ok(8));
    }
    until("all are counted", || pool.snapshot().unfinished == 0);
    let long = &pool.snapshot().types[1];
    assert_eq!((long.completed, long.begun), (2, 2));
    assert!(long.handed_off >= 2);
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn the_policy_knows_the_deadlines_of_tasks() {
    let pool = pool(1, Policy::edf());
    let (gate, held) = hold(&pool, LONG);
    let order = Arc::new(Mutex::new(Vec::new()));
    let running: Vec<_> = [3, 1, 2]
        .map(|number| {
            let order = order.clone();
            let at = Instant::now() + PATIENCE * number;
            pool.spawn_by(LONG, at, async move { order.lock().unwrap().push(number) })
        })
        .into();
    drop(gate);
    block_on(held).unwrap();
    running.into_iter().for_each(|it| block_on(it).unwrap());
    assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
}

#[cfg(target_os = "linux")]
#[test]
fn threads_have_the_nice_value_that_was_asked_for() {
    let pool = Pool::builder().types(types()).workers(1).nice(7);
    assert_eq!(block_on(pool.build().unwrap().run(SHORT, nice)), Ok(7));
}

#[test]
fn a_turn_behind_the_deadline_is_none() {
    let pool = pool(1, Policy::edf());
    let (gate, held) = hold(&pool, LONG);
    let late = pool.run(SHORT, || ()).deadline(Instant::now());
    let in_time = pool.run(SHORT, || ()).deadline(Instant::now() + PATIENCE);
    std::thread::sleep(Duration::from_millis(1));
    drop(gate);
    block_on(held).unwrap();
    assert_eq!(block_on(late), Err(PoolError::Expired));
    assert_eq!(block_on(in_time), Ok(()));
    assert_eq!(pool.snapshot().types[0].expired, 1);
}

#[test]
fn a_type_may_say_how_long_its_tasks_wait() {
    let [short, long] = types();
    let types = [short.max_wait(Duration::from_nanos(1)), long];
    let pool = Pool::builder().types(types).workers(1).spare_threads(0).build().unwrap();
    let (gate, held) = hold(&pool, LONG);
    let late = pool.run(SHORT, || ());
    std::thread::sleep(Duration::from_millis(1));
    drop(gate);
    block_on(held).unwrap();
    assert_eq!(block_on(late), Err(PoolError::Expired));
}

#[test]
fn a_panic_goes_on_where_the_result_is_awaited_and_costs_no_worker() {
    let pool = pool(1, Policy::c_fcfs());
    let failing = pool.run(SHORT, || -> u32 { panic!("the test asked for it") });
    let awaited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block_on(failing)));
    let message = *awaited.unwrap_err().downcast::<&str>().unwrap();
    assert_eq!(message, "the test asked for it");
    assert_eq!(block_on(pool.run(SHORT, || 3)), Ok(3));
    until("all are counted", || pool.snapshot().unfinished == 0);
    let snapshot = pool.snapshot();
    assert_eq!((snapshot.types[0].panicked, snapshot.types[0].completed), (1, 1));
}

#[test]
fn a_closed_pool_ends_its_tasks_and_takes_no_more() {
    let pool = pool(2, Policy::c_fcfs());
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let done = done.clone();
        let task = async move {
            yield_now().await;
            done.fetch_add(1, Ordering::SeqCst);
        };
        pool.spawn(LONG, task).detach();
    }
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
    assert_eq!(done.load(Ordering::SeqCst), 100);
    assert_eq!(block_on(pool.run(SHORT, || ())), Err(PoolError::Closed));
}

#[test]
fn a_pool_that_must_end_gives_up_what_is_left() {
    let pool = pool(1, Policy::c_fcfs());
    let forever = pool.spawn(SHORT, pending::<()>());
    let (gate, held) = hold(&pool, LONG);
    let waits = pool.run(SHORT, || ());
    assert_eq!(pool.close(Duration::from_millis(5)).abandoned, 3);
    assert_eq!(block_on(waits), Err(PoolError::Closed));
    drop(gate);
    assert_eq!(block_on(held), Ok(()), "its worker ends what it polls");
    assert_eq!(block_on(forever), Err(PoolError::Closed), "no waker would have woken it");
    until("nothing is left", || pool.snapshot().unfinished == 0);
}

/// Says when it is dropped.
struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn what_waits_when_a_pool_must_end_is_dropped_and_so_is_what_waits_later() {
    let pool = pool(1, Policy::c_fcfs());
    let dropped = Arc::new(AtomicUsize::new(0));
    let held = || CountsDrops(dropped.clone());
    let hold_for_ever = |held: CountsDrops| async move {
        pending::<()>().await;
        drop(held);
    };
    let awaited = pool.spawn(SHORT, hold_for_ever(held()));
    pool.spawn(SHORT, hold_for_ever(held())).detach();
    let (waker, wakes) = channel();
    let woken = pool.spawn(SHORT, {
        let held = held();
        async move {
            let mut waker = Some(waker);
            poll_fn(|context| match waker.take() {
                Some(waker) => {
                    waker.send(context.waker().clone()).unwrap();
                    Poll::Pending
                }
                None => Poll::Ready(()),
            })
            .await;
            drop(held);
        }
    });
    let kept = wakes.recv_timeout(PATIENCE).unwrap();
    let (gate, opened): (Sender<()>, Receiver<()>) = channel();
    let (begins, begun) = channel();
    let until_it_waits = pool.spawn(LONG, {
        let held = held();
        async move {
            begins.send(()).unwrap();
            let _ = opened.recv();
            pending::<()>().await;
            drop(held);
        }
    });
    begun.recv_timeout(PATIENCE).unwrap();
    assert_eq!(pool.close(Duration::from_millis(5)).abandoned, 4);
    assert_eq!(block_on(awaited), Err(PoolError::Closed));
    assert_eq!(block_on(woken), Err(PoolError::Closed));
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
    kept.wake();
    drop(gate);
    assert_eq!(block_on(until_it_waits), Err(PoolError::Closed));
    assert_eq!(dropped.load(Ordering::SeqCst), 4);
    assert_eq!(pool.close(PATIENCE).abandoned, 0, "all threads have ended");
    assert_eq!(pool.snapshot().unfinished, 0);
}

#[test]
fn a_task_that_is_woken_while_a_pool_gives_it_up_is_dropped() {
    let pool = pool(1, Policy::c_fcfs());
    let (gate, opened): (Sender<()>, Receiver<()>) = channel();
    let (begins, begun) = channel();
    let yields = pool.spawn(SHORT, async move {
        begins.send(()).unwrap();
        let _ = opened.recv();
        yield_now().await;
    });
    begun.recv_timeout(PATIENCE).unwrap();
    assert_eq!(pool.close(Duration::from_millis(5)).abandoned, 1);
    drop(gate);
    assert_eq!(block_on(yields), Err(PoolError::Closed));
}

#[test]
fn a_pool_that_is_closed_in_a_runtime_of_one_thread_does_not_hold_its_timers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let pool = Pool::builder().types(types()).workers(1);
        let pool = { pool }.tokio(tokio::runtime::Handle::current());
        let pool = pool.build().unwrap();
        let sleeps = pool.spawn(SHORT, async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            7
        });
        let report = pool.close_until(tokio::time::sleep(PATIENCE)).await;
        assert_eq!((sleeps.await, report.abandoned), (Ok(7), 0));
        let pool = Pool::builder().types(types()).workers(1).build().unwrap();
        let forever = pool.spawn(SHORT, pending::<()>());
        let enough = tokio::time::sleep(Duration::from_millis(5));
        assert_eq!(pool.close_until(enough).await.abandoned, 1);
        assert_eq!(forever.await, Err(PoolError::Closed));
    });
}

#[test]
fn policies_change_under_load_and_nothing_is_lost() {
    const TASKS: usize = 20_000;
    let pool = pool(2, Policy::c_fcfs());
    let done = Arc::new(AtomicUsize::new(0));
    let policies = [Policy::darc(), Policy::sjf(), Policy::fixed_priority(), Policy::c_fcfs()];
    let mut changes = 0;
    let running: Vec<_> = (0..TASKS)
        .map(|task| {
            if task % 500 == 0 {
                let changed = pool.set_policy(&policies[changes % policies.len()]);
                changed.unwrap();
                changes += 1;
            }
            while pool.snapshot().unfinished > 900 {
                std::thread::yield_now();
            }
            let done = done.clone();
            pool.spawn(RequestType::new((task % 2) as u32), async move {
                yield_now().await;
                done.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    running.into_iter().for_each(|it| block_on(it).unwrap());
    assert_eq!(done.load(Ordering::Relaxed), TASKS);
    until("all are counted", || pool.snapshot().unfinished == 0);
    let snapshot = pool.snapshot();
    let completed: u64 = snapshot.types.iter().map(|it| it.completed).sum();
    assert_eq!(completed, TASKS as u64);
}

/// Submits from eight threads, each task with a wake from another thread of its kind.
fn submit_from_many(tasks: usize) {
    const THREADS: usize = 8;
    let pool = pool(2, Policy::darc());
    let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..tasks).map(|_| AtomicUsize::new(0)).collect());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, runs) = (pool.clone(), runs.clone());
            scope.spawn(move || {
                let mine = (thread..tasks).step_by(THREADS).collect::<Vec<_>>();
                for chunk in mine.chunks(100) {
                    let running = chunk.iter().map(|&task| {
                        let runs = runs.clone();
                        pool.spawn(RequestType::new((task % 2) as u32), async move {
                            if task % 3 == 0 {
                                yield_now().await;
                            }
                            runs[task].fetch_add(1, Ordering::Relaxed);
                        })
                    });
                    let running: Vec<_> = running.collect();
                    running.into_iter().for_each(|it| block_on(it).unwrap());
                }
            });
        }
    });
    assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}

#[test]
fn tasks_of_eight_threads_run_once_each() {
    submit_from_many(40_000);
}

#[test]
#[ignore = "takes some seconds in a release build"]
fn a_million_tasks_of_eight_threads_run_once_each() {
    submit_from_many(1_000_000);
}

#[test]
fn a_future_may_use_the_timers_of_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_time().build().unwrap();
    let pool = Pool::builder().types(types()).workers(1);
    let pool = pool.tokio(runtime.handle().clone()).build().unwrap();
    let sleeping = pool.spawn(LONG, async {
        tokio::time::sleep(Duration::from_millis(1)).await;
    });
    assert_eq!(block_on(pool.run(SHORT, || 1)), Ok(1));
    assert_eq!(runtime.block_on(sleeping), Ok(()));
}
