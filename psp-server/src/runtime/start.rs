//! What a server's threads start with.

use std::net::SocketAddr;
use std::sync::Arc;

use mio::{Poll, Waker};
use psp_policy::Scheduler;
use psp_protocols::Framing;

use super::host::cores::Cores;
use super::net::{Polled, WAKER};
use crate::error::BuildError;
use crate::guarded_framing::GuardedFraming;
use crate::handler::Handler;
use crate::shared::Shared;
use crate::transport::endpoint::Endpoint;
use crate::transport::listening::Listening;

/// An event queue and the sockets on which one thread receives.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) poll: Poll,
    pub(crate) waker: Arc<Waker>,
    pub(crate) listeners: Vec<Listening>,
}

impl Port {
    pub(crate) fn new(listeners: Vec<Listening>) -> Result<Self, BuildError> {
        let poll = Poll::new().map_err(BuildError::EventQueue)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(BuildError::Waker)?;
        Ok(Self { poll, waker: Arc::new(waker), listeners })
    }
}

/// What a server's threads start with.
pub(crate) struct Launch<F: Framing, K, H: Handler<F::Head>> {
    /// Of each thread that receives requests.
    pub(crate) ports: Vec<Port>,
    /// Of each of these: its datagram sockets, which may be others' as well.
    pub(crate) endpoints: Vec<Vec<Arc<Endpoint<H::Connection>>>>,
    /// Addresses of all datagram sockets.
    pub(crate) datagram_addrs: Vec<SocketAddr>,
    /// Of each of these: what it polls, if the server has a polled port.
    pub(crate) polled: Vec<Polled<H::Connection>>,
    pub(crate) classifier: K,
    pub(crate) scheduler: Box<dyn Scheduler>,
    pub(crate) handler: Arc<H>,
    pub(crate) framing: Arc<GuardedFraming<F>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) cores: Cores,
    /// Datagrams of sockets, and of the polled port, that may wait or be in flight, at each of those threads.
    pub(crate) datagrams: usize,
}
