//! Stages of a turn in which requests run: on which thread is up to the topology.

use psp_policy::{Action, HandOff, RequestId, RequestType, WorkerId};
use psp_protocols::Framing;

use crate::classifier::Classifier;
use crate::handler::Handler;
use crate::runtime::net::net_worker::{ACTIONS_PER_TURN, CONNECTIONS_PER_TURN, NetWorker};
use crate::runtime::net::port::Port;

const DATAGRAMS_PER_TURN: usize = 64;
/// Time after which a turn of the loop starts no more actions.
pub(super) const TURN_NS_MAX: u64 = 200_000;
/// Time for requests that the last turn left, before the net worker reads further ones. Without it, a pipeline of
/// shorter requests, of which each turn reads more, would hold up longer requests until it ends.
const LEFT_NS_MAX: u64 = TURN_NS_MAX / 2;

/// See the [module](self).
pub(super) trait Stages<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> {
    /// Time that control requests have in a turn before others, where more of them wait.
    const CONTROL_NS_MAX: u64 = TURN_NS_MAX / 2;

    fn net(&mut self) -> &mut NetWorker<F, K, H>;

    /// Runs a request on `worker`, or resumes it there if it yielded. Drops a request that no client waits for.
    fn run(&mut self, worker: WorkerId, request: RequestId, request_type: RequestType, hand_off: HandOff);

    /// Runs a turn of a control request, as the worker that the net thread is.
    fn run_control(&mut self, request: RequestId, request_type: RequestType);

    /// Asks the request that runs on `worker` to yield.
    fn preempt(&mut self, _worker: WorkerId) {}

    /// Refuses a request that found no room.
    fn reject(&mut self, request: RequestId, request_type: RequestType) {
        self.net().reject(request, request_type);
    }

    /// The scheduler's next decision.
    #[inline]
    fn next_action(&mut self) -> Option<Action> {
        let net = self.net();
        net.dispatcher.poll(net.now_ns)
    }

    /// Wakes workers that were sent something.
    fn wake_workers(&mut self) {}

    /// Takes completed requests back and gives workers their next ones, so that no worker waits for the end of a burst.
    /// Does nothing if the net thread is a worker itself: its own request would hold up the burst, and the most urgent
    /// request of the burst is known only at its end.
    fn look_at_workers(&mut self) {}

    /// Whether the owner of a port waits for this worker to leave it.
    fn holds_up_an_owner(&self) -> bool {
        false
    }

    /// Whether ports are to come or to go.
    fn can_exchange(&self) -> bool {
        false
    }

    /// Whether what waits does so in its port.
    fn takes_one_by_one(&self) -> bool {
        false
    }

    /// The request that paused last goes on at once if there is no other that may be short, and else is away.
    #[inline]
    fn settle_pause(&mut self) {
        let net = self.net();
        if let Some(paused) = net.pauses.take_latest() {
            let for_others = net.is_needed_after(&paused);
            { &mut net.dispatcher }.paused(net.now_ns, paused.worker, paused.served_ns);
            net.settle(paused, for_others);
        }
    }

    /// Accepts connections and receives datagrams, unless the ports drain.
    fn receive_requests(&mut self) {
        self.net().accept();
        if !self.takes_one_by_one() {
            self.receive_datagrams();
        }
        if !self.net().ports.home().is_draining() {
            self.receive_frames();
        }
    }

    /// Takes a burst of frames from each port that is polled, and reads it unless requests are taken one by one.
    fn receive_frames(&mut self) {
        for at in 0..self.net().ports.count() {
            let any = self.net().receive_burst(at);
            while any && !self.takes_one_by_one() && self.net().read_frames(at) {
                self.look_at_workers();
            }
        }
    }

    /// Receives a bounded number of datagrams from each socket.
    fn receive_datagrams(&mut self) {
        for at in 0..self.net().ports.count() {
            for socket in 0..self.net().ports.at(at).datagram_sockets() {
                for _ in 0..DATAGRAMS_PER_TURN {
                    if !self.net().receive_datagram(at, socket) {
                        break;
                    }
                    self.look_at_workers();
                }
            }
        }
    }

    /// Has requests run that the last turn left, unless one has yielded: it did so to what lies in the sockets.
    #[inline]
    fn serve_left(&mut self) {
        let net = self.net();
        if net.unfinished && !net.yielded {
            let end_ns = net.now_ns + LEFT_NS_MAX;
            self.carry_out(end_ns);
        }
    }

    /// Reads requests, has them run and sends replies until nothing is left to do or it is past `end_ns`.
    fn serve_ready(&mut self, end_ns: u64) {
        loop {
            let net = self.net();
            for port in net.ports.iter_mut() {
                let connections = &mut port.requests.connections;
                connections.advance_ready(CONNECTIONS_PER_TURN, &mut net.dispatcher, net.now_ns);
            }
            self.settle_pause();
            self.carry_out(end_ns);
            let net = self.net();
            let is_over = net.yielded || net.now_ns > end_ns;
            if !net.ports.iter().any(Port::has_ready) || is_over || self.can_exchange() {
                return;
            }
            let net = self.net();
            net.now_ns = net.clock.now_ns();
        }
    }

    /// Carries out the scheduler's decisions. That includes the requests of the worker that the net thread is.
    fn carry_out(&mut self, end_ns: u64) {
        self.net().unfinished = !self.act(end_ns);
        self.wake_workers();
    }

    /// Returns whether all decisions were carried out.
    fn act(&mut self, end_ns: u64) -> bool {
        let net = self.net();
        net.admit_held();
        net.yielded = false;
        let before_ns = net.now_ns;
        let has_run_control = net.dispatcher.control_at_hand() == 0 || self.run_all_control();
        let end_ns = end_ns.saturating_add(self.net().now_ns.saturating_sub(before_ns));
        for _ in 0..ACTIONS_PER_TURN {
            let net = self.net();
            if net.now_ns > end_ns || net.yielded || self.holds_up_an_owner() {
                return false;
            }
            match self.next_action() {
                None if self.net().admit_held() => {}
                None => return has_run_control,
                Some(action) => self.carry_out_one(action),
            }
        }
        false
    }

    fn carry_out_one(&mut self, action: Action) {
        match action {
            Action::Reject { request, request_type } => {
                self.net().note_rejection(request, request_type);
                self.reject(request, request_type);
            }
            Action::Preempt { worker, .. } => self.preempt(worker),
            Action::Run { worker, request, request_type, hand_off } => {
                self.run(worker, request, request_type, hand_off);
            }
        }
    }

    /// Runs the control requests that are at hand, before anything that the scheduler has decided. Returns whether all
    /// have run.
    #[cold]
    fn run_all_control(&mut self) -> bool {
        let end_ns = self.net().now_ns.saturating_add(Self::CONTROL_NS_MAX);
        // One that yields goes on in the next turn.
        for _ in 0..self.net().dispatcher.control_at_hand() {
            if let Some((request, request_type)) = self.net().dispatcher.next_control() {
                self.run_control(request, request_type);
            }
            if self.net().now_ns > end_ns {
                break;
            }
        }
        self.net().dispatcher.control_at_hand() == 0
    }
}
