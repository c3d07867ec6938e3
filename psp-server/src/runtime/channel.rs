//! Tasks between the net worker and one worker: two SPSC rings and a way to wake either end.
//!
//! ```text
//!   net worker ── Run, Resume, Stop ──► ring ──► worker    wakes it with unpark, if it sleeps
//!              ◄── ring ◄── Completed, Yielded ──          wakes it through its event queue, likewise
//! ```
//!
//! A task is a tagged pointer of 16 bytes; the payload it points to never moves. One that yielded
//! stays with its worker until it was resumed and is complete.
//!
//! `Run` and `Resume` begin a *turn*. Both ends number the turns of a link alike, from 1, so that a
//! request to give way which comes too late can be told from one that is meant.
//!
//! The worker may be a team of threads: then the port is with the one that holds the baton.

use std::sync::Arc;
use std::thread::Thread;
use std::time::{Duration, Instant};

use mio::Waker;
use ringbuf::traits::{Consumer, Producer, Split};
use ringbuf::{CachingCons, CachingProd, HeapRb};

use super::sleep_flag::{SleepFlag, fence_after_publishing};
use super::team::Team;
use crate::policy::RequestId;

/// Tasks that one ring holds. A scheduler gives a worker one task at a time; the second place is
/// for the message that stops it.
const RING_LEN: usize = 4;
/// How often one who polls looks before it reads the clock.
const LOOKS_PER_READING: usize = 8;

/// What the net worker tells a worker.
#[derive(Debug)]
pub(crate) enum Message<T> {
    /// Run this and send it back.
    Run {
        /// The name under which it would be resumed.
        request: RequestId,
        /// What to run.
        task: T,
    },
    /// Go on with a task that yielded.
    Resume(RequestId),
    /// Return from the thread.
    Stop,
}

/// What a worker tells the net worker. The worker is idle then.
#[derive(Debug)]
pub(crate) enum Report<T> {
    /// The task of this turn is done.
    Completed(T),
    /// The task of this turn waits for another turn.
    Yielded {
        /// For how long it ran in this one.
        served_ns: u64,
    },
}

/// A way to make what runs on a worker give way.
pub(crate) trait Preempter: Send {
    /// Asks the task of the turn with this number to yield; a turn that is over is left alone.
    fn preempt(&self, turn: u64);
}

type Ring<T> = Arc<HeapRb<T>>;

/// The net worker's end.
pub(crate) struct WorkerLink<T> {
    to_worker: CachingProd<Ring<Message<T>>>,
    from_worker: CachingCons<Ring<Report<T>>>,
    receiver: Option<Receiver>,
    /// Says whether the worker has to be woken.
    sleeper: Arc<SleepFlag>,
    preempter: Option<Box<dyn Preempter>>,
    /// Number of the turn that began last.
    turn: u64,
}

/// Who reads the messages.
enum Receiver {
    Thread(Thread),
    Team(Arc<Team>),
}

/// The worker's end.
pub(crate) struct TaskPort<T> {
    messages: CachingCons<Ring<Message<T>>>,
    reports: CachingProd<Ring<Report<T>>>,
    sleeper: Arc<SleepFlag>,
    doorbell: Arc<Doorbell>,
}

/// Makes both ends.
pub(crate) fn channel<T>(doorbell: Arc<Doorbell>) -> (WorkerLink<T>, TaskPort<T>) {
    let (to_worker, messages) = HeapRb::new(RING_LEN).split();
    let (reports, from_worker) = HeapRb::new(RING_LEN).split();
    let sleeper = Arc::<SleepFlag>::default();
    (
        WorkerLink {
            to_worker,
            from_worker,
            receiver: None,
            sleeper: sleeper.clone(),
            preempter: None,
            turn: 0,
        },
        TaskPort {
            messages,
            reports,
            sleeper,
            doorbell,
        },
    )
}

impl<T> WorkerLink<T> {
    /// Says which thread to wake.
    pub(crate) fn attach(&mut self, thread: Thread) {
        self.receiver = Some(Receiver::Thread(thread));
    }

    /// Says which team reads the messages, and that its running request can be preempted.
    pub(crate) fn attach_team(&mut self, team: Arc<Team>) {
        self.preempter = Some(Box::new(team.clone()));
        self.receiver = Some(Receiver::Team(team));
    }

    /// Says how to make what runs there give way.
    pub(crate) fn attach_preempter(&mut self, preempter: Box<dyn Preempter>) {
        self.preempter = Some(preempter);
    }

    /// Asks what runs there to give way. It may be done before it hears of it. One that
    /// [sleeps](crate::sleep) is woken to hear it.
    pub(crate) fn preempt(&mut self) {
        if let Some(preempter) = &self.preempter {
            preempter.preempt(self.turn);
        }
        // Of a team another thread takes over, whatever this one does.
        if let Some(Receiver::Thread(thread)) = &self.receiver {
            thread.unpark();
        }
    }

    /// Sends a message. Gives the message back when the ring is full. A worker that just falls asleep may
    /// not hear of it before the next [`settle`].
    #[inline]
    pub(crate) fn send(&mut self, message: Message<T>) -> Result<(), Message<T>> {
        let begins_turn = !matches!(message, Message::Stop);
        self.to_worker.try_push(message)?;
        self.turn += u64::from(begins_turn);
        match &self.receiver {
            // Which of its threads is the worker may change.
            Some(Receiver::Team(team)) => team.wake(),
            Some(Receiver::Thread(_)) | None => self.wake_if_seen(),
        }
        Ok(())
    }

    /// Wakes a worker that is one thread if it is seen to sleep.
    #[inline]
    fn wake_if_seen(&self) {
        if let Some(Receiver::Thread(thread)) = &self.receiver
            && self.sleeper.take_seen()
        {
            thread.unpark();
        }
    }

    /// The next report.
    pub(crate) fn receive(&mut self) -> Option<Report<T>> {
        self.from_worker.try_pop()
    }
}

/// Sees to it that workers which fell asleep while messages were sent to them are woken. To be called before
/// the caller sleeps, or does anything that takes long, with all links that were sent something since.
pub(crate) fn settle<'a, T: 'a>(links: impl Iterator<Item = &'a WorkerLink<T>>) {
    fence_after_publishing();
    links.for_each(WorkerLink::wake_if_seen);
}

impl<T> TaskPort<T> {
    /// The next message, if there is one.
    pub(crate) fn receive(&mut self) -> Option<Message<T>> {
        self.messages.try_pop()
    }

    /// The next message. Polls for `spin` and then parks.
    pub(crate) fn next(&mut self, spin: Duration) -> Message<T> {
        loop {
            if let Some(message) = self.receive().or_else(|| self.poll(spin)) {
                return message;
            }
            self.sleeper.announce();
            let message = self.receive();
            if message.is_none() {
                // Whoever takes the announcement leaves a token, if it comes between the two.
                std::thread::park();
            }
            self.sleeper.clear();
            if let Some(message) = message {
                return message;
            }
        }
    }

    fn poll(&mut self, spin: Duration) -> Option<Message<T>> {
        if spin.is_zero() {
            return None;
        }
        let start = Instant::now();
        while start.elapsed() < spin {
            for _ in 0..LOOKS_PER_READING {
                std::hint::spin_loop();
                if let Some(message) = self.receive() {
                    return Some(message);
                }
            }
        }
        None
    }

    /// Ends a turn, and wakes the net worker if it sleeps.
    #[inline]
    pub(crate) fn report(&mut self, report: Report<T>) {
        let sent = self.reports.try_push(report).is_ok();
        debug_assert!(sent, "a worker has one turn at a time");
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

    #[inline]
    fn ring(&self) {
        if self.sleeper.take()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "cannot wake the net worker");
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mio::{Poll, Token};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    /// Workers that give every number back, doubled, and how often each was sent one.
    fn echo(workers: usize, spin: Duration, rounds: u64) {
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(0)).unwrap();
        let doorbell = Arc::new(Doorbell::new(Arc::new(waker)));
        let mut links = Vec::new();
        let mut threads = Vec::new();
        for _ in 0..workers {
            let (mut link, mut port) = channel(doorbell.clone());
            let thread = std::thread::spawn(move || {
                while let Message::Run { task, .. } = port.next(spin) {
                    port.report(Report::Completed(2_u64 * task));
                }
            });
            link.attach(thread.thread().clone());
            links.push(link);
            threads.push(thread);
        }
        let deadline = Instant::now() + DEADLINE;
        for task in 0..rounds {
            let request = RequestId(0);
            for link in &mut links {
                assert!(link.send(Message::Run { request, task }).is_ok());
            }
            settle(links.iter());
            for link in &mut links {
                let report = loop {
                    if let Some(report) = link.receive() {
                        break report;
                    }
                    assert!(Instant::now() < deadline, "a worker sleeps on a message");
                    std::thread::yield_now();
                };
                assert!(matches!(report, Report::Completed(double) if double == 2 * task));
            }
        }
        for link in &mut links {
            assert!(link.send(Message::Stop).is_ok());
        }
        settle(links.iter());
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn no_worker_sleeps_on_a_message() {
        for spin_ns in [0, 300, 20_000] {
            echo(3, Duration::from_nanos(spin_ns), 3_000);
        }
    }
}
