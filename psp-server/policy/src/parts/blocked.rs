//! Blocked requests: they wait for something outside of the scheduler, and are found by their ids.
//!
//! A hash table of chains that share one pool of entries. To put a request in and to find it takes a
//! step or two, whatever ids the driver uses. The table doubles when there are more requests than
//! chains, and never shrinks.

use crate::event::{RequestId, WorkerId};
use crate::parts::lists::{List, Lists};
use crate::parts::waiting::Waiting;

/// Chains at the start, and requests for which memory is set aside.
const CHAINS_MIN_LOG2: u32 = 8;
/// 2^32 divided by the golden ratio: spreads ids over the chains (Knuth, TAOCP 3, 6.4).
const SPREAD: u32 = 0x9E37_79B9;

/// A blocked request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockedRequest {
    pub(crate) waiting: Waiting,
    /// The worker where it ran last.
    pub(crate) home: WorkerId,
    pub(crate) since_ns: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Blocked {
    /// A power of two of them.
    chains: Vec<List>,
    lists: Lists<BlockedRequest>,
    len: usize,
}

impl Blocked {
    /// No requests, and memory for some.
    pub(crate) fn new() -> Self {
        let chains = 1 << CHAINS_MIN_LOG2;
        Self {
            chains: vec![List::EMPTY; chains],
            lists: Lists::with_capacity(chains),
            len: 0,
        }
    }

    /// Adds a request that is not there yet.
    pub(crate) fn insert(&mut self, blocked: BlockedRequest) {
        if self.len == self.chains.len() {
            self.double();
        }
        let chain = self.chain(blocked.waiting.request);
        self.lists.push(&mut self.chains[chain], blocked);
        self.len += 1;
    }

    /// Takes a request.
    pub(crate) fn take(&mut self, request: RequestId) -> Option<BlockedRequest> {
        let chain = self.chain(request);
        let is_it = |blocked: &BlockedRequest| blocked.waiting.request == request;
        let taken = self.lists.remove(&mut self.chains[chain], is_it)?;
        self.len -= 1;
        Some(taken)
    }

    /// A request, left in place.
    pub(crate) fn get(&self, request: RequestId) -> Option<&BlockedRequest> {
        let mut chain = self.lists.iter(&self.chains[self.chain(request)]);
        chain.find(|blocked| blocked.waiting.request == request)
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &BlockedRequest> {
        self.chains.iter().flat_map(|chain| self.lists.iter(chain))
    }

    fn chain(&self, request: RequestId) -> usize {
        let bits = self.chains.len().trailing_zeros();
        (request.0.wrapping_mul(SPREAD) >> (u32::BITS - bits)) as usize
    }

    fn double(&mut self) {
        let twice = vec![List::EMPTY; 2 * self.chains.len()];
        for mut before in std::mem::replace(&mut self.chains, twice) {
            while let Some(blocked) = self.lists.pop(&mut before) {
                let chain = self.chain(blocked.waiting.request);
                self.lists.push(&mut self.chains[chain], blocked);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::rehearsal::{ONE, Rehearsal};
    use crate::request_type::TypeSpec;

    /// What all policies have in common, on a worker whose requests arrived in the order of their ids.
    fn with_every_policy(check: impl Fn(&str, Rehearsal)) {
        for name in Policy::NAMES {
            let policy: Policy = name.parse().unwrap();
            let types = [TypeSpec::new("ONE")];
            check(name, Rehearsal::at_home(policy, 1, types, None, 2));
        }
    }

    #[test]
    fn a_blocked_request_leaves_its_worker_to_others_and_goes_on_before_them() {
        with_every_policy(|name, mut policy| {
            assert_eq!(policy.arrives(0, 0, ONE), "0@0", "{name}");
            assert_eq!(policy.arrives(0, 1, ONE), "", "{name}");
            assert_eq!(policy.arrives(0, 2, ONE), "", "{name}");
            assert_eq!(policy.blocks(10, 0, 10), "1@0", "{name}");
            assert_eq!(policy.type_status(0).queued, 1, "{name}");
            assert_eq!(policy.unblocks(20, 0), "", "{name}: the worker is busy");
            assert_eq!(policy.type_status(0).queued, 2, "{name}");
            assert_eq!(policy.completes(30, 0), "0@0", "{name}");
            assert_eq!(policy.blocks(40, 0, 10), "2@0", "{name}: again");
            assert_eq!(policy.completes(50, 0), "", "{name}");
            assert_eq!(policy.unblocks(60, 0), "0@0", "{name}");
            assert_eq!(policy.completes(70, 0), "", "{name}");
        });
    }

    #[test]
    fn a_worker_without_a_context_begins_nothing_but_resumes() {
        with_every_policy(|name, mut policy| {
            for id in 0..4 {
                policy.arrives(0, id, ONE);
            }
            assert_eq!(policy.blocks(10, 0, 10), "1@0", "{name}");
            assert_eq!(policy.blocks(20, 0, 10), "", "{name}: both contexts are blocked");
            assert_eq!(policy.unblocks(30, 1), "1@0", "{name}");
            assert_eq!(policy.unblocks(40, 0), "", "{name}");
            assert_eq!(policy.completes(50, 0), "0@0", "{name}");
            assert_eq!(policy.completes(60, 0), "2@0", "{name}");
        });
    }

    #[test]
    fn what_is_blocked_goes_on_under_another_policy() {
        with_every_policy(|name, mut policy| {
            policy.arrives(0, 0, ONE);
            policy.arrives(0, 1, ONE);
            assert_eq!(policy.blocks(10, 0, 10), "1@0", "{name}");
            for (now_ns, other) in (20..).zip([Policy::mq(), Policy::jsq()]) {
                let next = Rehearsal::at_home(other, 1, [TypeSpec::new("ONE")], None, 2);
                assert_eq!(policy.switches(now_ns, next), "", "{name}");
            }
            assert_eq!(policy.unblocks(30, 0), "", "{name}");
            assert_eq!(policy.arrives(40, 2, ONE), "", "{name}");
            assert_eq!(policy.completes(50, 0), "0@0", "{name}");
            assert_eq!(policy.completes(60, 0), "2@0", "{name}");
        });
    }

    #[test]
    #[should_panic(expected = "request 7 was unblocked and had not been blocked")]
    fn what_is_not_blocked_cannot_be_unblocked() {
        Rehearsal::with_one_type(Policy::darc(), 1).unblocks(0, 7);
    }

    fn blocked(id: u32) -> BlockedRequest {
        BlockedRequest {
            waiting: Waiting { request: RequestId(id), ..Waiting::example() },
            home: WorkerId(0),
            since_ns: u64::from(id),
        }
    }

    #[test]
    fn requests_are_found_by_dense_and_by_sparse_ids() {
        for stride in [1, 1 << 20, 0x9E37_79B9] {
            let mut all = Blocked::new();
            let ids: Vec<u32> = (0..4_000_u32).map(|nth| nth.wrapping_mul(stride)).collect();
            for &id in &ids {
                all.insert(blocked(id));
            }
            assert_eq!((all.len, all.iter().count()), (4_000, 4_000));
            for &id in ids.iter().rev() {
                let since_ns = |found: Option<&BlockedRequest>| found.map(|found| found.since_ns);
                assert_eq!(since_ns(all.get(RequestId(id))), Some(u64::from(id)));
                assert_eq!(since_ns(all.take(RequestId(id)).as_ref()), Some(u64::from(id)));
                assert!(all.take(RequestId(id)).is_none());
            }
            assert_eq!((all.len, all.iter().count()), (0, 0));
        }
    }

    #[test]
    fn chains_stay_short_for_dense_ids() {
        let mut all = Blocked::new();
        for id in 0..4_096 {
            all.insert(blocked(id));
        }
        let longest = all.chains.iter().map(List::len).max();
        assert!(longest <= Some(4), "{longest:?}");
    }
}
