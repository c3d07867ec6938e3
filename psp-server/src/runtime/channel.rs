//! Tasks between the net worker and one worker: two SPSC rings and a way to wake either end.
//!
//! ```text
//!   net worker ── Message::Run ──► ring ──► worker      wakes it with unpark
//!              ◄── ring ◄────────── Task ──             wakes it through its event queue
//! ```
//!
//! A message is a tagged pointer of 16 bytes; the payload it points to never moves.

use std::sync::Arc;
use std::thread::Thread;

use mio::Waker;
use ringbuf::traits::{Consumer, Producer, Split};
use ringbuf::{CachingCons, CachingProd, HeapRb};

use super::sleep_flag::SleepFlag;

/// Tasks that one ring holds. A scheduler gives a worker one task at a time; the second place is
/// for the message that stops it.
const RING_LEN: usize = 4;

/// What the net worker tells a worker.
#[derive(Debug)]
pub(crate) enum Message<T> {
    /// Run this and send it back.
    Run(T),
    /// Return from the thread.
    Stop,
}

type Ring<T> = Arc<HeapRb<T>>;

/// The net worker's end.
pub(crate) struct WorkerLink<T> {
    to_worker: CachingProd<Ring<Message<T>>>,
    from_worker: CachingCons<Ring<T>>,
    thread: Option<Thread>,
}

/// The worker's end.
pub(crate) struct TaskPort<T> {
    tasks: CachingCons<Ring<Message<T>>>,
    completions: CachingProd<Ring<T>>,
    doorbell: Arc<Doorbell>,
}

/// Makes both ends.
pub(crate) fn channel<T>(doorbell: Arc<Doorbell>) -> (WorkerLink<T>, TaskPort<T>) {
    let (to_worker, tasks) = HeapRb::new(RING_LEN).split();
    let (completions, from_worker) = HeapRb::new(RING_LEN).split();
    (
        WorkerLink {
            to_worker,
            from_worker,
            thread: None,
        },
        TaskPort {
            tasks,
            completions,
            doorbell,
        },
    )
}

impl<T> WorkerLink<T> {
    /// Says which thread to wake.
    pub(crate) fn attach(&mut self, thread: Thread) {
        self.thread = Some(thread);
    }

    /// Sends a message and wakes the worker. Gives the message back when the ring is full.
    pub(crate) fn send(&mut self, message: Message<T>) -> Result<(), Message<T>> {
        self.to_worker.try_push(message)?;
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
        Ok(())
    }

    /// The next task that came back.
    pub(crate) fn receive(&mut self) -> Option<T> {
        self.from_worker.try_pop()
    }
}

impl<T> TaskPort<T> {
    /// The next message. The caller parks when there is none: `send` leaves a token, so that a
    /// message sent between the two wakes it at once.
    pub(crate) fn receive(&mut self) -> Option<Message<T>> {
        self.tasks.try_pop()
    }

    /// Sends a task back and wakes the net worker if it sleeps.
    pub(crate) fn complete(&mut self, task: T) {
        let sent = self.completions.try_push(task).is_ok();
        debug_assert!(sent, "a worker has one task at a time");
        self.doorbell.ring();
    }
}

/// Wakes the net worker out of its event queue, at the cost of a system call only while it sleeps.
#[derive(Debug)]
pub(crate) struct Doorbell {
    sleeper: SleepFlag,
    waker: Arc<Waker>,
}

impl Doorbell {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self {
            sleeper: SleepFlag::default(),
            waker,
        }
    }

    /// Announces that the caller is about to sleep. It must look for work once more after this.
    pub(crate) fn announce_sleep(&self) {
        self.sleeper.announce();
    }

    /// The caller is awake again.
    pub(crate) fn awake(&self) {
        self.sleeper.clear();
    }

    fn ring(&self) {
        if self.sleeper.take()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "cannot wake the net worker");
        }
    }
}
