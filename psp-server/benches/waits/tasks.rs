//! Tasks of tokio.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::rally::{Rally, Signal};
use crate::threads;

/// All tasks run on the thread that calls `block_on`.
fn of_one_thread() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

/// Begins `count` tasks, one after the other, and waits for each.
async fn create_in_turn(count: u64) -> Duration {
    let started = Instant::now();
    for _ in 0..count {
        tokio::spawn(async {}).await.unwrap();
    }
    started.elapsed()
}

pub(crate) fn create(count: u64) -> Duration {
    of_one_thread().block_on(create_in_turn(count))
}

/// The runtime's one thread runs the tasks, not the one that begins them.
pub(crate) fn create_elsewhere(count: u64) -> Duration {
    let runtime = Builder::new_multi_thread().worker_threads(1).build();
    runtime.unwrap().block_on(create_in_turn(count))
}

/// `count` yields of all `tasks` together.
fn yield_in(tasks: u64, count: u64) -> Duration {
    of_one_thread().block_on(async move {
        let started = Instant::now();
        let yields = |_| {
            tokio::spawn(async move {
                for _ in 0..count.div_ceil(tasks) {
                    yield_now().await;
                }
            })
        };
        let yielding: Vec<_> = (0..tasks).map(yields).collect();
        for task in yielding {
            task.await.unwrap();
        }
        started.elapsed()
    })
}

pub(crate) fn yield_between(count: u64) -> Duration {
    yield_in(2, count)
}

pub(crate) fn yield_alone(count: u64) -> Duration {
    yield_in(1, count)
}

impl Signal for Notify {
    async fn send(&self) {
        self.notify_one();
    }

    async fn wait(&self) {
        self.notified().await;
    }
}

pub(crate) fn signal(rounds: u64) -> Duration {
    let rally = Arc::new(Rally::<Notify>::new(rounds));
    let (one, other) = (rally.clone(), rally.clone());
    of_one_thread().block_on(async {
        let first = tokio::spawn(async move { one.first().await });
        let second = tokio::spawn(async move { other.second().await });
        first.await.unwrap();
        second.await.unwrap();
    });
    rally.of_signals()
}

pub(crate) fn signal_across(rounds: u64) -> Duration {
    threads::rally::<Notify>(rounds, [0, 1], |side| of_one_thread().block_on(side))
}
