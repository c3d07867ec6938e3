//! What the handler did: which requests ran, each once and in their order, and which replies are still to come.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::faults::Fault;
use super::protocol::Head;
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
    /// The request that ran last.
    pub(super) last: Option<u32>,
    /// Those whose replies the client has not read.
    pub(super) unread: VecDeque<u32>,
    /// Said to be of another type, and not run yet.
    pub(super) reclassified: Option<u32>,
}

/// A reply that is written later.
pub(super) struct Later {
    pub(super) at_ns: u64,
    pub(super) reply: DeferredReply,
    pub(super) head: Head,
}

/// See the [module](self).
pub(super) struct Ledger {
    pub(super) slots: Vec<Executed>,
    pub(super) later: Vec<Later>,
    pub(super) random: Option<Random>,
    /// The longest time until a deferred reply.
    pub(super) later_ns_max: u64,
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
            later: Vec::new(),
            random: None,
            later_ns_max: 0,
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
            self.fail(format!("a request of nobody: {head:?}"));
            return false;
        };
        if executed.client != head.client {
            return false;
        }
        if !head.is_whole(request) {
            self.fail(format!(
                "a request with other bytes than were sent: {head:?}"
            ));
            return true;
        }
        let is_next = executed.last.is_none_or(|last| last < head.number);
        if !is_next {
            let last = executed.last;
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
        executed.last = Some(head.number);
        executed.unread.push_back(head.number);
    }

    pub(super) fn fail(&mut self, failure: String) {
        self.failure.get_or_insert(failure);
        simulated::stop();
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random.as_mut().map_or(0, |random| random.below(bound))
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
