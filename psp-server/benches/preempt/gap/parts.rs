//! The time to make a context, to make a thread, and to switch between two threads of a core, each measured one
//! by one, as whole preemptions are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Thread, park};

use crate::contexts::STACK_BYTES;
use crate::fiber::{self, ContextPool, Pause};
use crate::figures::Figures;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::cores::Cores;

/// Contexts that are made, run and dropped.
pub(crate) fn contexts_made(clock: &Clock, times: usize) -> Figures {
    timed(clock, times, || {
        let pool = ContextPool::new(1, STACK_BYTES, || {
            Ok(|| {
                fiber::pause(Pause::Stop);
            })
        });
        pool.run().unwrap();
    })
}

/// Threads that are made, run and waited for.
pub(crate) fn threads_made(clock: &Clock, times: usize) -> Figures {
    timed(clock, times, || {
        std::thread::spawn(|| {}).join().unwrap();
    })
}

fn timed(clock: &Clock, times: usize, body: impl Fn()) -> Figures {
    let mut figures = Figures::new();
    for _ in 0..times {
        let start_ns = clock.now_ns();
        body();
        figures.push(clock.now_ns() - start_ns);
    }
    figures
}

/// The time from when a thread wakes another of its core, and goes to sleep, until the other runs.
pub(crate) fn thread_switches(clock: &Clock, cores: &Cores, times: u64) -> Figures {
    // Odd numbers are turns of the second thread.
    let (turn, left_ns) = (AtomicU64::new(0), AtomicU64::new(0));
    let wait_for = |number| {
        while turn.load(Ordering::Acquire) != number {
            park();
        }
    };
    let pass_to = |thread: &Thread, number| {
        left_ns.store(clock.now_ns(), Ordering::Relaxed);
        turn.store(number, Ordering::Release);
        thread.unpark();
    };
    let first = std::thread::current();
    std::thread::scope(|scope| {
        cores.pin_shared(1);
        let second = scope.spawn(|| {
            cores.pin_shared(1);
            let mut figures = Figures::new();
            for number in 0..times {
                wait_for(2 * number + 1);
                figures.push(clock.now_ns() - left_ns.load(Ordering::Relaxed));
                pass_to(&first, 2 * number + 2);
            }
            figures
        });
        for number in 0..times {
            pass_to(second.thread(), 2 * number + 1);
            wait_for(2 * number + 2);
        }
        second.join().unwrap()
    })
}
