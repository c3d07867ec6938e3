//! Threads of the kernel.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Condvar, Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::cores::Cores;
use crate::rally::{Rally, Signal};

/// Runs one side of a rally to its end.
type BlockOn = fn(Pin<&mut dyn Future<Output = ()>>);

pub(crate) fn create(count: u64) -> Duration {
    let started = Instant::now();
    for _ in 0..count {
        thread::spawn(|| {}).join().unwrap();
    }
    started.elapsed()
}

pub(crate) fn yield_alone(count: u64) -> Duration {
    let started = Instant::now();
    (0..count).for_each(|_| thread::yield_now());
    started.elapsed()
}

/// `count` yields of both threads together. The kernel need not switch at each.
pub(crate) fn yield_between(count: u64) -> Duration {
    let both = Barrier::new(2);
    thread::scope(|scope| {
        let yields = || {
            Cores::discover().pin_shared(0);
            both.wait();
            yield_alone(count.div_ceil(2))
        };
        [(); 2].map(|()| scope.spawn(yields)).map(|thread| thread.join().unwrap())[0]
    })
}

/// A thread that parks, and is unparked.
#[derive(Default)]
struct Token {
    is_sent: AtomicBool,
    waits: OnceLock<Thread>,
}

impl Signal for Token {
    async fn send(&self) {
        self.is_sent.store(true, Ordering::SeqCst);
        if let Some(waits) = self.waits.get() {
            waits.unpark();
        }
    }

    async fn wait(&self) {
        self.waits.get_or_init(thread::current);
        while !self.is_sent.swap(false, Ordering::SeqCst) {
            thread::park();
        }
    }
}

#[derive(Default)]
struct Condition {
    is_sent: Mutex<bool>,
    changed: Condvar,
}

impl Signal for Condition {
    async fn send(&self) {
        *self.is_sent.lock().unwrap() = true;
        self.changed.notify_one();
    }

    async fn wait(&self) {
        let is_sent = self.is_sent.lock().unwrap();
        let mut is_sent = self.changed.wait_while(is_sent, |is_sent| !*is_sent).unwrap();
        *is_sent = false;
    }
}

/// The sides are two threads of these cores.
pub(crate) fn rally<S: Signal + Sync + Send>(rounds: u64, cores: [usize; 2], block_on: BlockOn) -> Duration {
    let (rally, both) = (&Rally::<S>::new(rounds), &Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(move || {
            Cores::discover().pin_shared(cores[0]);
            both.wait();
            block_on(pin!(rally.first()));
        });
        scope.spawn(move || {
            Cores::discover().pin_shared(cores[1]);
            both.wait();
            block_on(pin!(rally.second()));
        });
    });
    rally.of_signals()
}

/// A rally whose waits block their threads.
fn blocking<S: Signal + Sync + Send>(rounds: u64, cores: [usize; 2]) -> Duration {
    rally::<S>(rounds, cores, |side| psp_server::wait(side))
}

pub(crate) fn signal_on_one_core(rounds: u64) -> Duration {
    blocking::<Token>(rounds, [0, 0])
}

pub(crate) fn signal_across(rounds: u64) -> Duration {
    blocking::<Token>(rounds, [0, 1])
}

pub(crate) fn notify_on_one_core(rounds: u64) -> Duration {
    blocking::<Condition>(rounds, [0, 0])
}

pub(crate) fn notify_across(rounds: u64) -> Duration {
    blocking::<Condition>(rounds, [0, 1])
}
