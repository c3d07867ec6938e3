//! The ports that a net worker drives: its own, and in the topology `distributed` those of workers that run long
//! requests.
//!
//! ```text
//!                ┌─ event queue of the own port ◄── sockets, alarm, doorbell
//!   net worker ◄─┤
//!                └─ event queue of another port ◄── sockets, its doorbell
//! ```
//!
//! The net worker sleeps until one of them has events.

use std::io;
use std::time::Duration;

use psp_policy::{RequestId, WorkerId};
use psp_protocols::Framing;

use super::lease::Leases;
use super::port::Port;
use crate::handler::Handler;
use crate::runtime::channel::doorbell::Doorbell;
use crate::runtime::host::event_queue;
use crate::transport::request_key::PortNumber;

/// The leases of the ports of a server whose workers receive for themselves.
pub(crate) type PortLeases<F, H> = Leases<Box<Port<F, H>>, Doorbell>;

/// See the [module](self).
pub(super) struct Driven<F: Framing, H: Handler<F::Head>> {
    number: PortNumber,
    /// The own port first, if it is here.
    #[expect(clippy::vec_box, reason = "a lease passes the box on")]
    ports: Vec<Box<Port<F, H>>>,
    /// The port that is next to do something.
    next: usize,
}

impl<F: Framing, H: Handler<F::Head>> Driven<F, H> {
    /// The own port alone.
    pub(super) fn new(home: Port<F, H>) -> Self {
        Self { number: home.number(), ports: vec![Box::new(home)], next: 0 }
    }

    /// The own port. It is here whenever no long request runs.
    #[inline]
    pub(super) fn home(&self) -> &Port<F, H> {
        &self.ports[0]
    }

    /// The own port. It is here whenever no long request runs.
    #[inline]
    pub(super) fn home_mut(&mut self) -> &mut Port<F, H> {
        &mut self.ports[0]
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Port<F, H>> {
        self.ports.iter().map(|port| &**port)
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Port<F, H>> {
        self.ports.iter_mut().map(|port| &mut **port)
    }

    /// How many ports are here.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.ports.len()
    }

    /// One of the ports that are here.
    #[inline]
    pub(super) fn at(&mut self, index: usize) -> &mut Port<F, H> {
        &mut self.ports[index]
    }

    /// The ports of others.
    #[inline]
    pub(super) fn others_mut(&mut self) -> impl Iterator<Item = &mut Port<F, H>> {
        self.iter_mut().skip(1)
    }

    /// The port of this number, if it is here.
    #[inline]
    pub(super) fn find(&mut self, number: PortNumber) -> Option<&mut Port<F, H>> {
        self.iter_mut().find(|port| port.number() == number)
    }

    /// The port of a request, if it is here.
    #[inline]
    pub(super) fn port_of(&mut self, request: RequestId) -> Option<&mut Port<F, H>> {
        self.iter_mut().find(|port| port.has(request))
    }

    /// The next port that has something to do, each in its turn.
    #[inline]
    pub(super) fn next_ready(&mut self) -> Option<&mut Port<F, H>> {
        let count = self.ports.len();
        let at = (self.next..self.next + count).map(|at| at % count);
        let has_something = |port: &Port<F, H>| port.has_ready() || port.has_pushed();
        let at = { at }.find(|&at| has_something(&self.ports[at]))?;
        self.next = at + 1;
        Some(&mut self.ports[at])
    }

    /// The last time by which all event queues had been asked.
    pub(super) fn looked_ns(&self) -> u64 {
        let looked_ns = self.iter().map(Port::looked_ns);
        looked_ns.min().unwrap_or(0)
    }

    /// The net worker is about to sleep.
    pub(super) fn announce_sleep(&self) {
        for port in self.iter() {
            port.turning().sleeps();
            port.doorbell().announce_sleep();
        }
    }

    /// The net worker is awake again.
    pub(super) fn awake(&self) {
        for port in self.iter() {
            port.doorbell().awake();
            port.turning().turns();
        }
    }

    /// The net worker, which is `worker`, runs a request of the type at `slot`.
    #[inline]
    pub(super) fn note_run(&self, worker: WorkerId, slot: usize) {
        self.iter().for_each(|port| port.turning().runs(worker, slot));
    }

    /// Whether the owner of a port waits for it.
    #[inline]
    pub(super) fn is_wanted(&self, leases: &PortLeases<F, H>) -> bool {
        let mut others = self.ports.iter().skip(1);
        others.any(|port| leases.is_wanted(port.number()))
    }

    /// Waits for events of all ports. Returns whether the wait was not interrupted.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        if self.ports.len() == 1 || timeout.is_zero() {
            return self.home_mut().wait(timeout);
        }
        let has_waited = event_queue::sleep(self.iter().map(Port::queue), timeout)?;
        Ok(has_waited && self.home_mut().wait(Duration::ZERO)?)
    }

    /// Gives ports to owners that wait for them, and takes those that no worker drives. No run of their connections may
    /// wait in the dispatcher. Returns whether there were any of these.
    #[cold]
    pub(super) fn exchange(&mut self, leases: &PortLeases<F, H>) -> bool {
        for at in (1..self.ports.len()).rev() {
            if leases.is_wanted(self.ports[at].number()) {
                self.leave_at(at, leases);
            }
        }
        let kept = self.ports.len();
        while let Some((_, port)) = leases.take() {
            self.ports.push(port);
        }
        self.ports.len() > kept
    }

    /// Gives all ports up before a long request, and wakes a worker that sleeps for them. Replies that are complete
    /// leave before: there may be no such worker.
    #[cold]
    pub(super) fn leave(&mut self, leases: &PortLeases<F, H>) {
        for port in self.iter_mut() {
            port.requests.connections.send_replies();
            port.flush();
        }
        self.leave_from(0, leases);
    }

    /// The net worker ends. Ports of others outlive it.
    pub(super) fn leave_others(&mut self, leases: &PortLeases<F, H>) {
        self.iter().for_each(|port| port.turning().sleeps());
        self.leave_from(1, leases);
    }

    fn leave_from(&mut self, first: usize, leases: &PortLeases<F, H>) {
        for at in (first..self.ports.len()).rev() {
            self.leave_at(at, leases);
        }
        leases.wake_one(self.number);
    }

    fn leave_at(&mut self, at: usize, leases: &PortLeases<F, H>) {
        let port = self.ports.remove(at);
        leases.leave(port.number(), port);
    }

    /// Takes the own port back after a long request. Waits for the worker that drives it to end its turn, for
    /// `patience` at most. Returns whether the port is here.
    #[cold]
    pub(super) fn return_home(&mut self, leases: &PortLeases<F, H>, patience: Duration) -> bool {
        self.ports.extend(leases.take_back(self.number, patience));
        self.is_home()
    }

    /// Whether the own port is here. If it is not, no port is.
    #[inline]
    pub(super) fn is_home(&self) -> bool {
        !self.ports.is_empty()
    }
}

impl<F: Framing, H: Handler<F::Head>> Drop for Driven<F, H> {
    fn drop(&mut self) {
        self.iter().for_each(|port| port.turning().sleeps());
    }
}
