//! The net worker's end of a channel to one worker.

use std::sync::Arc;
use std::thread::Thread;

use ringbuf::traits::{Consumer, Producer, Split};
use ringbuf::{CachingCons, CachingProd, HeapRb};

use super::channel::doorbell::Doorbell;
use super::channel::message::{Message, Report};
use super::channel::preempter::Preempter;
use super::channel::sleep_flag::{SleepFlag, fence_after_publishing};
use super::channel::task_port::{Ring, TaskPort};
use super::team::Team;

/// Tasks that one ring holds. A scheduler gives a worker one task at a time; the second slot is
/// for the message that stops the worker.
const RING_LEN: usize = 4;

/// See the [module](self).
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

/// The reader of the messages.
enum Receiver {
    Thread(Thread),
    Team(Arc<Team>),
}

/// Makes both ends of a channel.
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
        TaskPort::new(messages, reports, sleeper, doorbell),
    )
}

impl<T> WorkerLink<T> {
    /// Sets the thread to wake.
    pub(crate) fn attach(&mut self, thread: Thread) {
        self.receiver = Some(Receiver::Thread(thread));
    }

    /// Sets the team that reads the messages. Its running request can be preempted.
    pub(crate) fn attach_team(&mut self, team: Arc<Team>) {
        self.preempter = Some(Box::new(team.clone()));
        self.receiver = Some(Receiver::Team(team));
    }

    /// Sets how a running request is made to yield.
    pub(crate) fn attach_preempter(&mut self, preempter: Box<dyn Preempter>) {
        self.preempter = Some(preempter);
    }

    /// Asks the running request to yield. The request may complete before it notices. A request that
    /// [sleeps](crate::sleep) is woken to notice.
    pub(crate) fn preempt(&mut self) {
        if let Some(preempter) = &self.preempter {
            preempter.preempt(self.turn);
        }
        // In a team another thread takes over, whatever this one does.
        if let Some(Receiver::Thread(thread)) = &self.receiver {
            thread.unpark();
        }
    }

    /// Sends a message. Gives the message back if the ring is full. A worker that is just falling asleep may
    /// not notice the message before the next [`wake_parked`].
    #[inline]
    pub(crate) fn send(&mut self, message: Message<T>) -> Result<(), Message<T>> {
        let begins_turn = !matches!(message, Message::Stop);
        self.to_worker.try_push(message)?;
        self.turn += u64::from(begins_turn);
        match &self.receiver {
            // The team's active thread may change.
            Some(Receiver::Team(team)) => team.wake(),
            Some(Receiver::Thread(_)) | None => self.wake_if_seen(),
        }
        Ok(())
    }

    /// Wakes a worker of one thread if the caller sees that it sleeps.
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

/// Tells the worker to stop.
impl<T> Drop for WorkerLink<T> {
    fn drop(&mut self) {
        // A full ring means that the worker is stuck; it is left behind.
        let _ = self.send(Message::Stop);
        wake_parked(std::iter::once(&*self));
    }
}

/// Wakes workers that fell asleep while messages were sent to them. Callers pass all links on which they have
/// sent something since the last call, before they sleep or do anything that takes long.
pub(crate) fn wake_parked<'a, T: 'a>(links: impl Iterator<Item = &'a WorkerLink<T>>) {
    fence_after_publishing();
    links.for_each(WorkerLink::wake_if_seen);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use mio::{Poll, Token, Waker};
    use psp_policy::RequestId;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    /// Sends every worker `rounds` numbers. Each worker sends every number back, doubled.
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
            wake_parked(links.iter());
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
        wake_parked(links.iter());
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
