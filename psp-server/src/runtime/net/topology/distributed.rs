//! The net worker of the topology `distributed`: each worker receives requests and runs them. Ports
//! [move](super::super) from worker to worker, and in a worker group requests do, too.

mod running;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use psp_policy::{Action, HandOff, RequestId, RequestType, WorkerId};
use psp_protocols::Framing;

use super::stages::{Stages, TURN_NS_MAX};
use crate::classifier::Classifier;
use crate::error::RunError;
use crate::fiber;
use crate::handler::Handler;
use crate::runtime::dispatch::dispatcher::Arrived;
use crate::runtime::dispatch::lengths::Length;
use crate::runtime::distributed::{Joined, Peers};
use crate::runtime::host::scheduling::Demotion;
use crate::runtime::net::driven::PortLeases;
use crate::runtime::net::net_worker::{NetWorker, PUSHED_PER_TURN};
use crate::runtime::worker::contexts::ContextTask;
use crate::runtime::worker::inline::InlineWorker;
use crate::shutdown::Shutdown;
use crate::transport::run::TurnedDown;

/// The worker, by its number in its scheduler.
const OWN: WorkerId = WorkerId(0);

/// See the [module](self).
pub(crate) struct Distributed<F: Framing, K, H: Handler<F::Head>> {
    pub(crate) net: NetWorker<F, K, H>,
    pub(crate) own: InlineWorker<F, H>,
    /// The place among workers that run each other's requests.
    pub(crate) peers: Peers<ContextTask<F, H>>,
    pub(crate) leases: Arc<PortLeases<F, H>>,
    /// How the worker steps back while it runs a long request, if it shares its core.
    pub(crate) demotion: Option<Demotion>,
}

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Distributed<F, K, H> {
    /// Serves until the shutdown is triggered and everything in flight is answered, or the drain timeout is over.
    /// Returns the number of connections and datagrams that were given up.
    pub(crate) fn serve(mut self, shutdown: &Shutdown) -> Result<usize, RunError> {
        loop {
            self.wait().map_err(RunError::Events)?;
            self.net.begin_turn(shutdown);
            self.exchange_ports().map_err(RunError::Events)?;
            self.receive();
            // Before anything else is read: no request may wait here that came through a port which leaves.
            self.settle_pause();
            self.net.resume_paused();
            if self.peers.is_behind() {
                self.succeed();
            }
            self.receive_requests();
            self.net.look_after();
            if self.takes_one_by_one() {
                self.serve_ports();
            } else {
                self.serve_ready(self.net.now_ns + TURN_NS_MAX);
                self.net.send_pushed();
            }
            self.net.end_turn();
            if self.net.is_overdue() || (self.net.is_done() && self.peers.may_leave()) {
                return Ok(self.net.given_up());
            }
        }
    }

    /// Waits for events, for as long as there is nothing to do.
    fn wait(&mut self) -> io::Result<()> {
        let Some(mut timeout) = self.net.timeout() else {
            return Ok(());
        };
        if !timeout.is_zero() {
            self.net.ports.announce_sleep();
            self.peers.announce_sleep();
            timeout = timeout.min(self.net.until_deadline(None));
            if self.receive() > 0
                || self.net.shared.buffers.room.is_asked()
                || self.can_exchange()
                // Others give places back.
                || self.net.admit_held()
                || self.helps_others()
            {
                timeout = Duration::ZERO;
            }
        }
        let waited = self.net.ports.wait(timeout);
        self.awake();
        let slept = !timeout.is_zero();
        if waited? {
            self.net.note_events(slept);
        }
        self.look_at_others(slept)
    }

    fn awake(&self) {
        self.net.ports.awake();
        self.peers.awake();
    }

    /// Receives wakes of requests that wait, and what other threads left for the ports. Returns the number of all.
    fn receive(&mut self) -> usize {
        self.net.timers.wake_due();
        let woken = match self.net.lent.count() {
            0 => 0,
            _ => self.net.receive_wakes(),
        };
        woken + self.net.receive_mail()
    }

    /// Asks the event queues of others' ports.
    fn look_at_others(&mut self, slept: bool) -> io::Result<()> {
        for port in self.net.ports.others_mut() {
            if port.wait(Duration::ZERO)? && port.note_events(slept, self.net.clock.now_ns()).any {
                self.net.busy_at_ns = self.net.now_ns;
            }
        }
        Ok(())
    }

    /// Before it sleeps, a worker looks once more for requests that others have put where it finds them: they may not
    /// have seen that it was about to. Returns whether there was one.
    fn helps_others(&mut self) -> bool {
        if !self.peers.has_group() {
            return false;
        }
        self.net.now_ns = self.net.clock.now_ns();
        let Some(action) = self.next_action() else {
            return false;
        };
        self.awake();
        self.carry_out_one(action);
        true
    }

    /// Gives ports to owners that wait for them, and takes those that no worker drives.
    #[inline]
    fn exchange_ports(&mut self) -> io::Result<()> {
        if self.can_exchange() {
            self.offer_arrived();
            if self.net.ports.exchange(&self.leases) {
                // What lies there comes before a request that yielded to it.
                self.look_at_others(false)?;
            }
        }
        Ok(())
    }

    /// Goes on under the policy that is in force, as a worker among others.
    #[cold]
    fn succeed(&mut self) {
        self.offer_arrived();
        let Joined { policy, member, left } = self.peers.join();
        let places = member.as_ref().map(|_| self.peers.places().clone());
        let scheduler = Joined::scheduler(&self.net.shared, &policy, member);
        let (dispatcher, now_ns) = (&mut self.net.dispatcher, self.net.now_ns);
        dispatcher.succeed(now_ns, scheduler, places);
        for waiting in left {
            dispatcher.adopt(now_ns, waiting.request, waiting.request_type);
        }
        self.offer_arrived();
        // The scheduler may have decided something.
        self.net.unfinished = true;
    }

    /// Puts what has arrived where all workers find it. From then on its port may move.
    #[inline]
    fn offer_arrived(&mut self) {
        while let Some(Arrived { request, slot }) = self.net.dispatcher.next_offered() {
            let port = self.net.ports.port_of(request);
            if let Some(task) = port.and_then(|port| port.requests.lend(request)) {
                self.peers.offer(slot, request, task);
            }
        }
    }

    /// Reads requests that wait in ports, and has each run before the next is read: one connection, or one datagram,
    /// after the other. The dispatcher has no more than the request that is next, and requests that began here.
    fn serve_ports(&mut self) {
        let end_ns = self.net.now_ns + TURN_NS_MAX;
        let mut pushed = 0;
        loop {
            self.carry_out(u64::MAX);
            let is_over = self.net.now_ns > end_ns || self.net.pauses.has_latest();
            if is_over || pushed == PUSHED_PER_TURN || self.can_exchange() {
                return;
            }
            if self.net.dispatcher.any_waiting() {
                self.net.now_ns = self.net.clock.now_ns();
                continue;
            }
            let Some(port) = self.net.ports.next_ready() else {
                return;
            };
            let has_sent = port.advance_one(&mut self.net.dispatcher, self.net.now_ns);
            pushed += usize::from(has_sent);
            self.carry_out(u64::MAX);
            self.net.now_ns = self.net.clock.now_ns();
        }
    }
}

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Stages<F, K, H> for Distributed<F, K, H> {
    /// A port that moves leaves none of its connections in the dispatcher, so all control requests run.
    const CONTROL_NS_MAX: u64 = u64::MAX;

    #[inline]
    fn net(&mut self) -> &mut NetWorker<F, K, H> {
        &mut self.net
    }

    #[inline]
    fn run(&mut self, worker: WorkerId, request: RequestId, request_type: RequestType, hand_off: HandOff) {
        if self.peers.has_group() {
            self.note_hand_off(request, request_type, hand_off);
        }
        if let Ok(task) = self.task_of(worker, request) {
            self.run_task(request, request_type, task);
        }
    }

    fn run_control(&mut self, request: RequestId, request_type: RequestType) {
        let Ok(task) = self.net.lend(request) else {
            return;
        };
        let was_home = self.net.ports.is_home();
        let turn = fiber::turn();
        let ended = self.run_here(request, request_type, Length::Short, task);
        if self.peers.has_group() {
            // The numbers of turns are those of the board, which has not shown this one.
            fiber::set_turn(turn);
        }
        self.net.ran_control(OWN, request, request_type, ended);
        self.go_home(was_home);
    }

    fn reject(&mut self, request: RequestId, request_type: RequestType) {
        match self.peers.take(request) {
            Some(task) => self.turn_down(task, TurnedDown::Rejected),
            None => self.net.reject(request, request_type),
        }
    }

    /// What has arrived is where other workers find it by then.
    #[inline]
    fn next_action(&mut self) -> Option<Action> {
        self.offer_arrived();
        self.net.dispatcher.poll(self.net.now_ns)
    }

    /// What has arrived in its port waits where all workers find it.
    #[inline]
    fn holds_up_an_owner(&self) -> bool {
        self.peers.has_group() && self.net.ports.is_wanted(&self.leases)
    }

    #[inline]
    fn can_exchange(&self) -> bool {
        self.leases.any_free() || self.net.ports.is_wanted(&self.leases)
    }

    /// Requests do not move. So what waits goes with its port.
    #[inline]
    fn takes_one_by_one(&self) -> bool {
        !self.peers.has_group()
    }

    /// The scheduler knows already that the request paused.
    #[inline]
    fn settle_pause(&mut self) {
        if let Some(paused) = self.net.pauses.take_latest() {
            let for_others = self.net.is_needed_after(&paused) || self.peers.has_queue();
            self.net.settle(paused, for_others);
        }
    }
}

/// Ports of others outlive this net worker.
impl<F: Framing, K, H: Handler<F::Head>> Drop for Distributed<F, K, H> {
    fn drop(&mut self) {
        self.net.ports.leave_others(&self.leases);
    }
}
