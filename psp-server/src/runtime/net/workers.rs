//! Workers with threads of their own: what the net worker sends them and receives from them, the requests that are
//! stuck there, and the cores that an arbiter grants to the threads.

use std::io;
use std::time::Duration;

use psp_arbiter::ThreadId;
use psp_policy::{RequestId, WorkerId};
use psp_protocols::Framing;

use super::granted_cores::GrantedCores;
use super::net_worker::{ACTIONS_PER_TURN, NetWorker};
use super::pauses::Paused;
use super::time_sharing::{Patience, TimeSharing};
use crate::handler::Handler;
use crate::runtime::channel::message::{Message, Report};
use crate::runtime::worker::contexts::ContextTask;
use crate::runtime::worker_link::{WorkerLink, wake_parked};
use crate::shared::Shared;

/// See the [module](self).
pub(crate) struct Workers<F: Framing, H: Handler<F::Head>> {
    /// The first of them.
    first: WorkerId,
    links: Vec<WorkerLink<ContextTask<F, H>>>,
    /// Those that were sent a message since [`wake_parked`](Self::wake_parked).
    sent_to: Vec<WorkerId>,
    /// Requests that are stuck.
    sharing: TimeSharing,
    /// If an arbiter is asked.
    cores: Option<GrantedCores>,
}

impl<F: Framing, H: Handler<F::Head>> Workers<F, H> {
    /// The workers from `first` on.
    pub(crate) fn new(first: WorkerId, links: Vec<WorkerLink<ContextTask<F, H>>>, shared: &Shared) -> Self {
        Self {
            first,
            links,
            sent_to: Vec::with_capacity(ACTIONS_PER_TURN),
            sharing: TimeSharing::new(shared.workers, shared.config.net_budget_us),
            cores: None,
        }
    }

    #[inline]
    fn link(&mut self, worker: WorkerId) -> Option<&mut WorkerLink<ContextTask<F, H>>> {
        let at = worker.index().checked_sub(self.first.index())?;
        self.links.get_mut(at)
    }

    fn ids(&self) -> impl Iterator<Item = WorkerId> + use<F, H> {
        (self.first.0..).map(WorkerId).take(self.links.len())
    }

    /// Asks the request that runs on `worker` to yield. One on the net thread itself is complete by now.
    pub(super) fn preempt(&mut self, worker: WorkerId) {
        if let Some(link) = self.link(worker) {
            link.preempt();
        }
    }

    /// Wakes workers that fell asleep while messages were sent to them.
    #[inline]
    pub(super) fn wake_parked(&mut self) {
        if self.sent_to.is_empty() {
            return;
        }
        let (first, links) = (self.first.index(), &self.links);
        let sent_to = self.sent_to.iter();
        wake_parked(sent_to.map(|worker| &links[worker.index() - first]));
        self.sent_to.clear();
    }

    /// A request begins or goes on, on whichever worker.
    #[inline]
    pub(super) fn note_work(&mut self, now_ns: u64) {
        if let Some(cores) = &mut self.cores {
            cores.work(now_ns);
        }
    }
}

/// What they do together with the net worker.
impl<F: Framing, H: Handler<F::Head>> Workers<F, H> {
    /// Asks the arbiter, if there is to be one, for cores for these threads: those of all workers, and that of the net
    /// thread, if it is no worker.
    pub(crate) fn ask_for_cores<K>(
        &mut self,
        net: &NetWorker<F, K, H>,
        net_thread: Option<ThreadId>,
        workers: &[ThreadId],
    ) -> io::Result<()> {
        if let Some(path) = &net.shared.config.arbiter {
            let registry = net.ports.home().queue().poll().registry();
            let shared = net.shared.shared().clone();
            self.cores = Some(GrantedCores::new(path, net_thread, workers, shared, registry)?);
        }
        Ok(())
    }

    /// Waits for events, for as long as there is nothing to do.
    pub(super) fn wait<K>(&mut self, net: &mut NetWorker<F, K, H>) -> io::Result<()> {
        let Some(mut timeout) = net.timeout() else {
            return Ok(());
        };
        if !timeout.is_zero() {
            net.ports.announce_sleep();
            timeout = timeout.min(net.until_deadline(self.deadline_ns(net)));
            // Others give places back.
            if self.receive(net) > 0 || net.shared.buffers.room.is_asked() || net.admit_held() {
                timeout = Duration::ZERO;
            }
        }
        let waited = net.ports.wait(timeout);
        net.ports.awake();
        if waited? && net.note_events(!timeout.is_zero()) {
            self.cores.as_mut().map(GrantedCores::on_event);
        }
        Ok(())
    }

    /// When they have something to do without an event.
    fn deadline_ns<K>(&self, net: &NetWorker<F, K, H>) -> Option<u64> {
        let deadlines_ns = [
            self.sharing.due_ns(),
            self.ask_at_ns(net),
            self.cores.as_ref().and_then(GrantedCores::deadline_ns),
        ];
        deadlines_ns.into_iter().flatten().min()
    }

    /// Receives a report of each worker, the wakes of requests that wait, connections that come back, deferred
    /// replies, and what was pushed. Returns the number of all.
    pub(super) fn receive<K>(&mut self, net: &mut NetWorker<F, K, H>) -> usize {
        net.timers.wake_due();
        let of_workers = match net.lent.count() {
            0 => 0,
            _ => net.receive_wakes() + self.receive_reports(net),
        };
        of_workers + net.receive_mail()
    }

    fn receive_reports<K>(&mut self, net: &mut NetWorker<F, K, H>) -> usize {
        let mut received = 0;
        for worker in self.ids() {
            let at = worker.index() - self.first.index();
            let Some(report) = self.links[at].receive() else {
                continue;
            };
            received += 1;
            net.lent.ended(worker, &report);
            net.busy_at_ns = net.now_ns;
            let was_asked = self.sharing.turn_ended(worker);
            match report {
                Report::Completed(task) => {
                    if let Some(request) = net.dispatcher.request_on(worker) {
                        self.sharing.end(net.now_ns, worker, request);
                    }
                    net.take_back(task, worker, true);
                }
                Report::Yielded { served_ns } if was_asked => {
                    self.stuck_yielded(net, worker, served_ns);
                }
                Report::Yielded { served_ns } => {
                    net.dispatcher.yielded(net.now_ns, worker, served_ns);
                }
                Report::Blocked { served_ns } => {
                    net.dispatcher.blocked(net.now_ns, worker, served_ns);
                }
                Report::Paused { .. } => unreachable!("it has a thread without sockets"),
            }
        }
        received
    }

    /// Sends a task to its worker, or has the worker resume the task that it holds.
    #[inline]
    pub(super) fn run<K>(
        &mut self,
        net: &mut NetWorker<F, K, H>,
        worker: WorkerId,
        request: RequestId,
        task: Option<ContextTask<F, H>>,
    ) {
        net.lent.begins(worker, task.is_some());
        let message = match task {
            Some(task) => Message::Run { request, task },
            None => Message::Resume(request),
        };
        let link = self.link(worker).expect("it has a thread of its own");
        let sent = link.send(message);
        assert!(sent.is_ok(), "the scheduler gave a busy worker a request");
        self.sent_to.push(worker);
    }

    /// A stuck request on `worker` yielded. Others have its worker now.
    #[cold]
    fn stuck_yielded<K>(&mut self, net: &mut NetWorker<F, K, H>, worker: WorkerId, served_ns: u64) {
        let Some(turn) = net.dispatcher.unasked(net.now_ns, worker) else {
            return net.dispatcher.yielded(net.now_ns, worker, served_ns);
        };
        net.dispatcher.shares(net.now_ns, worker, served_ns);
        self.sharing.put_away(Paused {
            worker,
            request: turn.request,
            request_type: turn.request_type,
            served_ns,
            since_ns: net.now_ns,
        });
    }

    /// Has stuck requests yield to those that wait, and go on when these have had their workers. To be called when
    /// the policy has decided. It may never have, if requests keep the net thread: what is away goes on then when its
    /// time has come, and not because its worker is idle.
    #[inline]
    pub(super) fn share<K>(&mut self, net: &mut NetWorker<F, K, H>) {
        if self.sharing.any_away() {
            self.resume_stuck(net);
        }
        if net.lent.count() > 0 && net.dispatcher.any_waiting() {
            for worker in self.ids() {
                if self.asks_in_ns(net, worker) == Some(0) {
                    self.sharing.ask(worker);
                    net.dispatcher.asked(worker);
                    self.preempt(worker);
                }
            }
        }
    }

    #[cold]
    fn resume_stuck<K>(&mut self, net: &mut NetWorker<F, K, H>) {
        let dispatcher = &net.dispatcher;
        // A worker that the policy has not looked at yet may be for one that waits.
        let has_decided = !net.unfinished;
        let is_idle = |worker| has_decided && dispatcher.request_on(worker).is_none();
        if let Some(paused) = self.sharing.next_due(net.now_ns, is_idle) {
            net.go_on(&paused);
        }
    }

    /// In how long the request that runs on `worker` is asked to yield if others wait.
    fn asks_in_ns<K>(&self, net: &NetWorker<F, K, H>, worker: WorkerId) -> Option<u64> {
        let turn = net.dispatcher.unasked(net.now_ns, worker)?;
        let after_ns = match self.sharing.patience(worker, turn.request)? {
            Patience::Ns(budget_ns) => budget_ns,
            Patience::PartOfStuck(part) => net.dispatcher.stuck_after_ns(turn.request_type) / part,
        };
        Some(after_ns.saturating_sub(turn.for_ns))
    }

    /// When the next stuck request is asked to yield.
    fn ask_at_ns<K>(&self, net: &NetWorker<F, K, H>) -> Option<u64> {
        if net.lent.count() == 0 || !net.dispatcher.any_waiting() {
            return None;
        }
        let asks_in_ns = { self.ids() }.filter_map(|worker| self.asks_in_ns(net, worker));
        Some(net.now_ns.saturating_add(asks_in_ns.min()?))
    }

    /// Has workers come and go with the cores that the arbiter grants, and tells it what the load needs.
    pub(super) fn follow_cores<K>(&mut self, net: &mut NetWorker<F, K, H>) {
        let Some(cores) = &mut self.cores else {
            return;
        };
        if net.lent.count() > 0 {
            cores.work(net.now_ns);
        }
        let (needed, lent) = (net.dispatcher.needed(net.now_ns), &net.lent);
        if let Some(present) = cores.turn(net.now_ns, needed, |at| lent.has_runnable(at)) {
            net.dispatcher.set_present(net.now_ns, present);
            // The scheduler may have decided something.
            net.unfinished = true;
        }
    }
}
