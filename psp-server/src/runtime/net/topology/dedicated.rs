//! The net worker of the topology `dedicated`: all workers have threads of their own. If there are control types, the
//! net thread runs their requests, as a worker behind all.

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

/// See the [module](self).
pub(crate) struct Dedicated<F: Framing, K, H: Handler<F::Head>> {
    pub(crate) net: NetWorker<F, K, H>,
    /// The worker of control requests, if there are such types.
    pub(crate) own: Option<InlineWorker<F, H>>,
    pub(crate) workers: Workers<F, H>,
}

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Dedicated<F, K, H> {
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

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Stages<F, K, H> for Dedicated<F, K, H> {
    #[inline]
    fn net(&mut self) -> &mut NetWorker<F, K, H> {
        &mut self.net
    }

    #[inline]
    fn run(&mut self, worker: WorkerId, request: RequestId, _: RequestType, _: HandOff) {
        let net = &mut self.net;
        let Ok(task) = net.lend(request) else {
            return net.dispatcher.dropped(net.now_ns, worker);
        };
        self.workers.note_work(net.now_ns);
        self.workers.run(net, worker, request, task);
    }

    fn run_control(&mut self, request: RequestId, request_type: RequestType) {
        let net = &mut self.net;
        let (Ok(task), Some(own)) = (net.lend(request), &mut self.own) else {
            return;
        };
        self.workers.wake_parked();
        let worker = WorkerId(net.shared.workers as u32);
        let ended = net.run_here(own, worker, request, task);
        net.ran_control(worker, request, request_type, ended);
    }

    fn preempt(&mut self, worker: WorkerId) {
        self.workers.preempt(worker);
    }

    fn wake_workers(&mut self) {
        self.workers.wake_parked();
    }

    fn look_at_workers(&mut self) {
        self.net.now_ns = self.net.clock.now_ns();
        self.workers.receive(&mut self.net);
        self.carry_out(u64::MAX);
    }
}
