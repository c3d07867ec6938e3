//! How a worker that receives for itself runs a request: it leaves its ports before a long one, and takes its own back
//! behind it.

use std::time::Duration;

use psp_policy::{HandOff, RequestId, RequestType, WorkerId};
use psp_protocols::Framing;

use super::{Distributed, OWN};
use crate::classifier::Classifier;
use crate::fiber::TurnWatch;
use crate::handler::Handler;
use crate::runtime::channel::message::Report;
use crate::runtime::dispatch::lengths::Length;
use crate::runtime::distributed::Peers;
use crate::runtime::net::long_turn::LongTurn;
use crate::runtime::net::net_worker::{CONNECTIONS_PER_TURN, Dropped, send_replies};
use crate::runtime::net::port::Port;
use crate::runtime::net::topology::stages::{Stages as _, TURN_NS_MAX};
use crate::runtime::request_threads::RequestThreadNumber;
use crate::runtime::task::Task;
use crate::runtime::worker::contexts::ContextTask;
use crate::runtime::worker::inline::EndedTurn;
use crate::trace::Turn;
use crate::transport::run::TurnedDown;

/// For how long a worker waits for its port before it looks for something else to do.
const HOME_PATIENCE: Duration = Duration::from_millis(1);

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Distributed<F, K, H> {
    /// Runs a request that no other worker has, or resumes it if it has no task.
    pub(super) fn run_task(&mut self, request: RequestId, request_type: RequestType, task: Option<ContextTask<F, H>>) {
        let slot = self.net.dispatcher.slot(request_type);
        self.net.ports.note_run(self.net.shared.global(OWN), slot);
        let was_home = self.net.ports.is_home();
        if self.peers.may_yield() {
            self.prepare_to_yield();
        }
        let request_thread = self.peers.request_thread(request, task.is_none());
        let ended = match request_thread {
            Some(number) => self.run_on_thread(request, request_type, number, task),
            None => {
                let length = match self.net.pauses.knows(request) {
                    true => Length::Long,
                    false => self.net.dispatcher.length(request_type),
                };
                self.run_here(request, request_type, length, task)
            }
        };
        self.record_on_thread(request, request_type, &ended);
        let net = &mut self.net;
        net.now_ns = ended.ended_ns;
        self.peers.ran();
        if ended.was_asked {
            net.dispatcher.asked(OWN);
        }
        let yielded = matches!(ended.report, Report::Yielded { .. } | Report::Paused { .. });
        match ended.report {
            Report::Completed(_) if request_thread.is_some() => self.peers.release(request),
            Report::Paused { served_ns } => net.dispatcher.paused(net.now_ns, OWN, served_ns),
            _ => {}
        }
        net.ran_here(OWN, request, request_type, ended.report);
        self.go_home(was_home);
        // Behind the way home, on which other requests may have run.
        self.net.yielded |= yielded;
    }

    /// Sends and says what other threads have to see before a turn that may yield.
    fn prepare_to_yield(&mut self) {
        let net = &mut self.net;
        let mut unserved = false;
        for port in net.ports.iter_mut() {
            let connections = &mut port.requests.connections;
            connections.send_replies();
            unserved |= connections.may_read(CONNECTIONS_PER_TURN);
        }
        self.peers.begins(unserved);
        let has_mail = net.ports.iter().any(Port::has_mail);
        let (due_ns, is_called) = (net.timer_ns(), has_mail || net.wakes.has_any());
        self.peers.runs(net.clock.now_ns(), is_called, due_ns);
    }

    /// Runs a turn of a request on its own thread.
    fn run_on_thread(
        &mut self,
        request: RequestId,
        request_type: RequestType,
        number: RequestThreadNumber,
        task: Option<ContextTask<F, H>>,
    ) -> EndedTurn<ContextTask<F, H>> {
        let (net, own) = (&mut self.net, &mut self.own);
        let length = net.dispatcher.length(request_type);
        let long_us = net.shared.config.long_us;
        let budget = net.pauses.budget(net.now_ns);
        let run = |watch: Option<&dyn TurnWatch>| own.run_on_thread(request, number, task, watch);
        let ended = match long_us {
            0 => run(None),
            _ => {
                let worker = (&mut net.ports, &*self.leases, &mut self.demotion);
                let holds_up = || false;
                LongTurn::new(worker, &net.clock, net.now_ns, long_us, budget, &holds_up).run_elsewhere(length, run)
            }
        };
        net.lent.begins(OWN, ended.is_new_here);
        net.lent.ended(OWN, &ended.report);
        if matches!(ended.report, Report::Yielded { .. }) {
            // Any worker may resume it.
            net.lent.gives_up(OWN);
        }
        ended
    }

    /// Runs a turn of a request of this length on this thread.
    #[inline]
    pub(super) fn run_here(
        &mut self,
        request: RequestId,
        request_type: RequestType,
        length: Length,
        task: Option<ContextTask<F, H>>,
    ) -> EndedTurn<ContextTask<F, H>> {
        let long_us = self.net.shared.config.long_us;
        if long_us == 0 {
            return self.net.run_here(&mut self.own, OWN, request, task);
        }
        let (net, own, peers) = (&mut self.net, &mut self.own, &self.peers);
        net.lent.begins(OWN, task.is_some());
        // Behind a request of a long type there is what the policy has put there, and a policy that preempts does so.
        let pauses = !net.shared.can_preempt() && net.dispatcher.length(request_type) != Length::Long;
        let holds_up = || pauses && Peers::has_queue(peers);
        let (now_ns, budget) = (net.now_ns, net.pauses.budget(net.now_ns));
        let worker = (&mut net.ports, &*self.leases, &mut self.demotion);
        let turn = LongTurn::new(worker, &net.clock, now_ns, long_us, budget, &holds_up);
        let mut ended = turn.run(length, || own.run(request, task));
        net.lent.ended(OWN, &ended.report);
        if turn.has_stepped_back()
            && let Report::Completed(Task::Stream(stream)) = &mut ended.report
        {
            let worker = net.shared.global(OWN);
            send_replies(stream, &net.shared.telemetry.workers[worker.index()]);
        }
        let starved_ns = turn.end();
        if starved_ns > 0 {
            self.count_starved(request_type, &ended.report, starved_ns);
        }
        ended
    }

    /// Records a turn on the thread of its request. Others record theirs as they begin and end.
    #[inline]
    fn record_on_thread(&self, request: RequestId, request_type: RequestType, ended: &EndedTurn<ContextTask<F, H>>) {
        let Some(began_ns) = ended.thread_began_ns else {
            return;
        };
        let turn = Turn {
            worker: self.net.shared.global(OWN),
            request,
            slot: self.net.dispatcher.slot(request_type),
        };
        let trace = &self.net.shared.trace;
        trace.begun(began_ns, turn, 0);
        match &ended.report {
            Report::Completed(task) => trace.completed(ended.ended_ns, turn, task.replies()),
            Report::Yielded { .. } => trace.yielded(ended.ended_ns, turn),
            Report::Blocked { .. } | Report::Paused { .. } => {
                trace.blocked(ended.ended_ns, turn);
            }
        }
    }

    /// The worker had stepped back for a turn, and others had its core for so long. What was not within the service
    /// time does not count.
    #[cold]
    fn count_starved(&self, request_type: RequestType, report: &Report<ContextTask<F, H>>, starved_ns: u64) {
        let served_ns = match report {
            Report::Completed(task) => task.samples().iter().map(|sample| sample.service_ns).sum(),
            Report::Yielded { served_ns } | Report::Blocked { served_ns } | Report::Paused { served_ns } => *served_ns,
        };
        let worker = self.net.shared.global(OWN);
        let slot = self.net.dispatcher.slot(request_type);
        let work = &self.net.shared.telemetry.workers[worker.index()].types[slot].0;
        work.starved_ns.add(starved_ns.min(served_ns));
    }

    /// Takes the own port back, if it `was_home` before a turn in which the request has turned out to be long.
    #[inline]
    pub(super) fn go_home(&mut self, was_home: bool) {
        if was_home && !self.net.ports.is_home() {
            self.return_home();
        }
        self.net.busy_at_ns = self.net.now_ns;
    }

    /// Takes the own port back after a long request. As long as its driver is held up, a worker of a group runs what it
    /// finds in queues.
    #[cold]
    fn return_home(&mut self) {
        let patience = match self.peers.has_group() {
            true => HOME_PATIENCE,
            false => Duration::MAX,
        };
        while !self.net.ports.return_home(&self.leases, patience) {
            self.net.now_ns = self.net.clock.now_ns();
            self.carry_out(self.net.now_ns + TURN_NS_MAX);
        }
        self.net.now_ns = self.net.clock.now_ns();
        // What this worker brought back while its port was elsewhere has a next request, maybe.
        self.net.receive_mail();
    }

    /// The task of a request that begins on `worker`, or `None` if it has begun before. An error if it is dropped: no
    /// client waits for it. The dispatcher knows by then.
    #[inline]
    pub(super) fn task_of(
        &mut self,
        worker: WorkerId,
        request: RequestId,
    ) -> Result<Option<ContextTask<F, H>>, Dropped> {
        let task = match self.peers.take(request) {
            Some(task) if task.is_unwanted(self.net.dispatcher.turn_ns(self.net.now_ns, request)) => {
                // Once its port has the connection again, another request may have the number.
                self.net.dispatcher.dropped(self.net.now_ns, worker);
                self.turn_down(task, TurnedDown::Unwanted);
                return Err(Dropped);
            }
            None if !self.peers.has_group() => self.net.lend(request),
            task => Ok(task),
        };
        task.inspect_err(|_| self.net.dispatcher.dropped(self.net.now_ns, worker))
    }

    /// Brings a request back to its port, here or elsewhere: it is not run.
    #[cold]
    pub(super) fn turn_down(&mut self, mut task: Task<H::Connection, F::Head>, why: TurnedDown) {
        match (&mut task, why) {
            (Task::Stream(stream), why) => stream.run.turned_down = Some(why),
            // Its peer is told nothing.
            (Task::Datagram(datagram), TurnedDown::Rejected) => {
                self.net.dispatcher.count_rejection(datagram.request_type);
            }
            (Task::Datagram(datagram), TurnedDown::Unwanted) => {
                self.net.dispatcher.count_expired(datagram.request_type);
            }
        }
        let net = &mut self.net;
        match net.ports.find(task.port()) {
            Some(port) => { &mut port.requests }.receive(task, &net.dispatcher, net.now_ns),
            None => net.commons.returns.give(task),
        }
    }

    /// Counts and records requests that workers take from each other, or hand over.
    #[inline]
    pub(super) fn note_hand_off(&self, request: RequestId, request_type: RequestType, hand_off: HandOff) {
        let worker = self.net.shared.global(OWN);
        let slot = self.net.dispatcher.slot(request_type);
        let turn = Turn { worker, request, slot };
        self.net.shared.trace.taken(self.net.shared.index(), turn, hand_off);
        let counters = &self.net.shared.telemetry.workers[worker.index()];
        match hand_off {
            HandOff::Stolen => counters.stolen.add(1),
            HandOff::HandedOver => counters.handed_over.add(1),
            HandOff::Own | HandOff::Dispatched => {}
        }
    }
}
