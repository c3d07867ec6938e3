//! The net worker of the topology `inline`: it runs short requests itself, as worker 0. The other workers have threads
//! of a lower standing.

use psp_policy::{HandOff, RequestId, RequestType, WorkerId};
use psp_protocols::Framing;

use super::stages::{Stages, TURN_NS_MAX};
use crate::classifier::Classifier;
use crate::error::RunError;
use crate::handler::Handler;
use crate::runtime::net::net_worker::NetWorker;
use crate::runtime::net::workers::Workers;
use crate::runtime::worker::inline::InlineWorker;
use crate::shutdown::Shutdown;

/// The net thread.
const OWN: WorkerId = WorkerId(0);

/// See the [module](self).
pub(crate) struct Inline<F: Framing, K, H: Handler<F::Head>> {
    pub(crate) net: NetWorker<F, K, H>,
    /// Worker 0.
    pub(crate) own: InlineWorker<F, H>,
    /// Those behind it.
    pub(crate) workers: Workers<F, H>,
}

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Inline<F, K, H> {
    /// Serves until the shutdown is triggered and everything in flight is answered, or the drain timeout is over. Then
    /// the workers stop, too. Returns the number of connections and datagrams that were given up.
    pub(crate) fn serve(mut self, shutdown: &Shutdown) -> Result<usize, RunError> {
        let shared = self.net.shared.clone();
        let _kept = self.net.keep_room(&shared);
        loop {
            { self.workers.wait(&mut self.net) }.map_err(RunError::Events)?;
            self.net.begin_turn(shutdown);
            self.workers.receive(&mut self.net);
            self.net.resume_paused();
            self.net.follow_policy();
            self.receive_requests();
            self.net.look_after();
            let end_ns = self.net.now_ns + TURN_NS_MAX;
            self.serve_left();
            self.serve_ready(end_ns);
            self.net.send_pushed();
            self.workers.share(&mut self.net);
            self.workers.follow_cores(&mut self.net);
            self.net.end_turn();
            if self.net.is_overdue() || self.net.is_done() {
                return Ok(self.net.given_up());
            }
        }
    }
}

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Stages<F, K, H> for Inline<F, K, H> {
    #[inline]
    fn net(&mut self) -> &mut NetWorker<F, K, H> {
        &mut self.net
    }

    #[inline]
    fn run(&mut self, worker: WorkerId, request: RequestId, request_type: RequestType, _hand_off: HandOff) {
        let net = &mut self.net;
        let Ok(task) = net.lend(request) else {
            return net.dispatcher.dropped(net.now_ns, worker);
        };
        self.workers.note_work(net.now_ns);
        if worker != OWN {
            return self.workers.run(net, worker, request, task);
        }
        // The request may take long.
        self.workers.wake_parked();
        let slot = net.dispatcher.slot(request_type);
        net.ports.note_run(OWN, slot);
        let ended = net.run_here(&mut self.own, OWN, request, task);
        net.now_ns = ended.ended_ns;
        if ended.was_asked {
            net.dispatcher.asked(OWN);
        }
        net.ran_here(OWN, request, request_type, ended.report);
    }

    fn run_control(&mut self, request: RequestId, request_type: RequestType) {
        let Ok(task) = self.net.lend(request) else {
            return;
        };
        self.workers.wake_parked();
        let ended = { &mut self.net }.run_here(&mut self.own, OWN, request, task);
        self.net.ran_control(OWN, request, request_type, ended);
    }

    fn preempt(&mut self, worker: WorkerId) {
        self.workers.preempt(worker);
    }

    fn wake_workers(&mut self) {
        self.workers.wake_parked();
    }
}
