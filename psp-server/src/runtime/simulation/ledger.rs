//! What the handler did: which requests ran, each once, and in their order if replies come in order, which run until
//! they are killed, and which replies are still to come.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use super::faults::Fault;
use super::losses::Losses;
use super::protocol::{Head, Kind};
use crate::reply::DeferredReply;
use crate::simulated::random::Random;
use crate::simulated::{self};

thread_local! {
    static LEDGER: RefCell<Ledger> = const { RefCell::new(Ledger::new()) };
}

/// What is known of the requests of a client.
#[derive(Debug, Default, Clone)]
pub(super) struct Executed {
    /// The client that has this slot.
    pub(super) client: u32,
    /// The requests that ran.
    pub(super) ran: BTreeSet<u32>,
    /// Those whose replies the client has not read.
    pub(super) unread: VecDeque<u32>,
    /// Those that were said to be of another type.
    pub(super) reclassified: BTreeSet<u32>,
}

/// A reply that is written later.
pub(super) struct Later {
    pub(super) at_ns: u64,
    pub(super) reply: DeferredReply,
    pub(super) head: Head,
}

/// A request that runs until it is killed.
#[derive(Debug, Clone, Copy)]
struct Endless {
    client: u32,
    number: u32,
    is_killed: bool,
}

/// See the [module](self).
pub(super) struct Ledger {
    pub(super) slots: Vec<Executed>,
    /// Requests of a connection run in their order.
    pub(super) in_order: bool,
    pub(super) later: Vec<Later>,
    pub(super) random: Option<Random>,
    /// The longest time until a deferred reply.
    pub(super) later_ns_max: u64,
    /// How many times as long requests take as with values of the least size.
    pub(super) size: u64,
    /// How long the endless request took that a simulated worker completes.
    pub(super) endless_ns: u64,
    endless: Vec<Endless>,
    /// Endless requests that were killed by others.
    pub(super) killed: u64,
    /// Those of the net thread.
    pub(super) losses: Losses,
    pub(super) ran: u64,
    pub(super) fault: Fault,
    /// The next worker that has to make its state anew cannot.
    pub(super) is_deadly: bool,
    /// What went wrong first.
    pub(super) failure: Option<String>,
}

impl Ledger {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            in_order: true,
            later: Vec::new(),
            random: None,
            later_ns_max: 0,
            size: 1,
            endless_ns: 0,
            endless: Vec::new(),
            killed: 0,
            losses: Losses { every_ns: 0, pieces: 0, ns_max: 0 },
            ran: 0,
            fault: Fault::None,
            is_deadly: false,
            failure: None,
        }
    }

    /// A request begins. Returns whether it is one of a client that is still there.
    pub(super) fn begin(&mut self, head: &Head, request: &[u8]) -> bool {
        let slot = slot_of(head.client);
        let Some(executed) = self.slots.get_mut(slot) else {
            self.fail(format!("a request of no client: {head:?}"));
            return false;
        };
        if executed.client != head.client {
            return false;
        }
        if !head.is_whole(request) {
            self.fail(format!("a request with other bytes than were sent: {head:?}"));
            return true;
        }
        let last = executed.ran.last().copied();
        let is_next = match self.in_order {
            true => last.is_none_or(|last| last < head.number),
            false => !executed.ran.contains(&head.number),
        };
        if !is_next {
            self.fail(format!("request {head:?} runs after request {last:?}"));
        }
        true
    }

    /// Whether the request is one of a client that is still there.
    pub(super) fn has_client(&self, head: &Head) -> bool {
        let executed = self.slots.get(slot_of(head.client));
        executed.is_some_and(|executed| executed.client == head.client)
    }

    /// It ran to its end.
    pub(super) fn note(&mut self, head: &Head) {
        self.ran += 1;
        let executed = &mut self.slots[slot_of(head.client)];
        executed.ran.insert(head.number);
        executed.unread.push_back(head.number);
    }

    pub(super) fn fail(&mut self, failure: String) {
        self.failure.get_or_insert(failure);
        simulated::stop();
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random.as_mut().map_or(0, |random| random.below(bound))
    }

    /// What a request takes that begins now and has an end.
    pub(super) fn service_ns(&self, head: &Head) -> u64 {
        let least_ns = u64::from(head.service_ns);
        match head.kind {
            Kind::Sized => least_ns * self.size,
            _ => least_ns,
        }
    }

    /// How long the net thread waits for its core in a piece of a request.
    pub(super) fn loss_ns(&mut self) -> u64 {
        let Losses { pieces, ns_max, .. } = self.losses;
        match pieces > 0 && self.below(pieces) == 0 {
            true => self.below(ns_max + 1),
            false => 0,
        }
    }

    fn endless(&self, head: &Head) -> Option<usize> {
        let is_it = |endless: &Endless| (endless.client, endless.number) == (head.client, head.number);
        self.endless.iter().position(is_it)
    }

    /// An endless request begins.
    pub(super) fn begin_endless(&mut self, head: &Head) {
        if self.endless(head).is_none() {
            self.endless.push(Endless { client: head.client, number: head.number, is_killed: false });
        }
    }

    /// Whether it runs on: it was not killed, and somebody waits for it.
    pub(super) fn runs_on(&self, head: &Head) -> bool {
        let endless = self.endless(head).map(|at| self.endless[at]);
        endless.is_some_and(|endless| !endless.is_killed) && self.has_client(head) && self.failure.is_none()
    }

    pub(super) fn end_endless(&mut self, head: &Head) {
        if let Some(at) = self.endless(head) {
            self.endless.swap_remove(at);
        }
    }

    /// Whether any endless request was not killed.
    pub(super) fn any_endless(&self) -> bool {
        self.endless.iter().any(|endless| !endless.is_killed)
    }

    /// Kills all endless requests that run. Returns how many these are.
    pub(super) fn kill(&mut self) -> u64 {
        let mut count = 0;
        for endless in &mut self.endless {
            count += u64::from(!std::mem::replace(&mut endless.is_killed, true));
        }
        // Workers look.
        simulated::due(0);
        count
    }
}

/// Clients' numbers have their slot in the lower bits.
pub(super) const SLOT_BITS: u32 = 10;

pub(super) fn slot_of(client: u32) -> usize {
    (client & ((1 << SLOT_BITS) - 1)) as usize
}

/// Calls `body` with the ledger of this thread.
pub(super) fn with_ledger<T>(body: impl FnOnce(&mut Ledger) -> T) -> T {
    LEDGER.with(|ledger| body(&mut ledger.borrow_mut()))
}
