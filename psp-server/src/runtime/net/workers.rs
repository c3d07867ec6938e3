//! The net worker's links to its workers.

use psp_policy::{RequestId, WorkerId};
use psp_protocols::Framing;

use crate::fiber::TurnWatch;
use crate::handler::Handler;
use crate::runtime::channel::message::{Message, Report};
use crate::runtime::request_threads::RequestThreadNumber;
use crate::runtime::task::Task;
use crate::runtime::worker::inline::{EndedTurn, InlineWorker};
use crate::runtime::worker_link::{WorkerLink, wake_parked};

/// How the net worker reaches one worker.
pub(crate) enum Link<F: Framing, H: Handler<F::Head>> {
    /// The net thread is that worker.
    Inline(InlineWorker<F, H>),
    /// The worker has a thread of its own.
    Thread(WorkerLink<Task<H::Connection, F::Head>>),
}

/// All workers of a server.
pub(super) struct Workers<F: Framing, H: Handler<F::Head>> {
    links: Vec<Link<F, H>>,
    /// The worker that the net thread is, if it is one.
    own: Option<WorkerId>,
    /// Tasks that workers hold.
    lent: usize,
    /// Per worker: those of them that run or wait for their turn, and do not wait for anything else.
    runnable: Vec<i32>,
    /// Workers that were sent a message since [`wake_parked`](Self::wake_parked).
    sent_to: Vec<WorkerId>,
}

impl<F: Framing, H: Handler<F::Head>> Workers<F, H> {
    /// `sends_max` is the number of messages between two calls of [`wake_parked`](Self::wake_parked).
    pub(super) fn new(links: Vec<Link<F, H>>, sends_max: usize) -> Self {
        let mut numbered = (0..).map(WorkerId).zip(&links);
        let own = numbered.find(|(_, link)| matches!(link, Link::Inline(_)));
        Self {
            runnable: vec![0; links.len()],
            own: own.map(|(worker, _)| worker),
            links,
            lent: 0,
            sent_to: Vec::with_capacity(sends_max),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.links.len()
    }

    /// All of them.
    pub(super) fn ids(&self) -> impl Iterator<Item = WorkerId> + use<F, H> {
        (0..).map(WorkerId).take(self.links.len())
    }

    /// Tasks that workers hold.
    pub(super) fn lent(&self) -> usize {
        self.lent
    }

    /// Whether the worker at `index` holds a task that runs, or waits for its turn.
    pub(super) fn has_runnable(&self, index: usize) -> bool {
        self.runnable[index] > 0
    }

    /// A task that the worker holds was woken.
    pub(super) fn woken(&mut self, worker: WorkerId) {
        self.runnable[worker.index()] += 1;
    }

    /// Counts what a worker reports.
    #[inline]
    fn note(&mut self, index: usize, report: &Report<Task<H::Connection, F::Head>>) {
        let is_completed = matches!(report, Report::Completed(_));
        self.lent -= usize::from(is_completed);
        let is_runnable = !is_completed && !matches!(report, Report::Blocked { .. });
        self.runnable[index] -= i32::from(!is_runnable);
    }

    /// The worker that the net thread is. Under a dispatcher that runs nothing else, it is that of control requests, if
    /// there are such types: the one behind those that the scheduler knows.
    #[inline]
    pub(super) fn own(&self) -> Option<WorkerId> {
        self.own
    }

    /// Runs a turn of a task on the net thread, which is that worker: the first, or another one of the task that it
    /// holds.
    #[inline]
    pub(super) fn run_inline(
        &mut self,
        worker: WorkerId,
        request: RequestId,
        task: Option<Task<H::Connection, F::Head>>,
    ) -> EndedTurn<Task<H::Connection, F::Head>> {
        let Link::Inline(inline) = &mut self.links[worker.index()] else {
            unreachable!("another thread is that worker");
        };
        self.lent += usize::from(task.is_some());
        self.runnable[worker.index()] += i32::from(task.is_some());
        let ended = match task {
            Some(task) => inline.run(request, task),
            None => inline.resume(request),
        };
        self.note(worker.index(), &ended.report);
        ended
    }

    /// The same for a task that has a thread of its own, which any worker may resume. No worker holds it while it waits
    /// for its next turn, unless it was blocked. `watch` hears if the turn becomes long.
    pub(super) fn run_on_thread(
        &mut self,
        worker: WorkerId,
        request: RequestId,
        request_thread: RequestThreadNumber,
        task: Option<Task<H::Connection, F::Head>>,
        watch: Option<&dyn TurnWatch>,
    ) -> EndedTurn<Task<H::Connection, F::Head>> {
        let Link::Inline(inline) = &mut self.links[worker.index()] else {
            unreachable!("another thread is that worker");
        };
        let ended = inline.run_on_thread(request, request_thread, task, watch);
        self.lent += usize::from(ended.is_new_here);
        self.runnable[worker.index()] += i32::from(ended.is_new_here);
        self.note(worker.index(), &ended.report);
        if matches!(ended.report, Report::Yielded { .. }) {
            self.lent -= 1;
            self.runnable[worker.index()] -= 1;
        }
        ended
    }

    /// The next report of the worker at `index`.
    #[inline]
    pub(super) fn receive(&mut self, index: usize) -> Option<Report<Task<H::Connection, F::Head>>> {
        let Link::Thread(link) = &mut self.links[index] else {
            return None;
        };
        let report = link.receive()?;
        self.note(index, &report);
        Some(report)
    }

    /// Sends a task to a worker with a thread of its own, or has the worker resume the task that it holds.
    #[inline]
    pub(super) fn run(
        &mut self,
        worker: WorkerId,
        request: RequestId,
        task: Option<Task<H::Connection, F::Head>>,
    ) {
        let Link::Thread(link) = &mut self.links[worker.index()] else {
            unreachable!("the net thread runs its own tasks");
        };
        let message = match task {
            Some(task) => {
                self.lent += 1;
                self.runnable[worker.index()] += 1;
                Message::Run { request, task }
            }
            None => Message::Resume(request),
        };
        let sent = link.send(message);
        assert!(sent.is_ok(), "the scheduler gave a busy worker a request");
        self.sent_to.push(worker);
    }

    /// Asks the request that runs on `worker` to yield.
    pub(super) fn preempt(&mut self, worker: WorkerId) {
        // A request on the net thread itself is complete by now.
        if let Link::Thread(link) = &mut self.links[worker.index()] {
            link.preempt();
        }
    }

    /// Wakes workers that fell asleep while messages were sent to them.
    pub(super) fn wake_parked(&mut self) {
        if self.sent_to.is_empty() {
            return;
        }
        let links = &self.links;
        wake_parked(
            self.sent_to
                .iter()
                .filter_map(|worker| match &links[worker.index()] {
                    Link::Thread(link) => Some(link),
                    Link::Inline(_) => None,
                }),
        );
        self.sent_to.clear();
    }
}
