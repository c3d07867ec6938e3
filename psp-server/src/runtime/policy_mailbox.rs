//! A policy on its way to the net thread, from whoever wants another one in force.
//!
//! ```text
//!   ServerHandle::set_policy ──► PolicyMailbox ──► net thread: hand_over, take_over, poll
//!     (any thread, checked)       wakes it          (between two turns)
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mio::Waker;

use super::late_waker::LateWaker;
use crate::policy::Policy;

/// Holds the policy that was set last; see the [module](self).
#[derive(Debug)]
pub(crate) struct PolicyMailbox {
    policy: Mutex<Policy>,
    /// The net thread has not seen `policy` yet.
    unread: AtomicBool,
    waker: LateWaker,
}

impl PolicyMailbox {
    /// Holds the policy that the server starts with.
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy: Mutex::new(policy),
            unread: AtomicBool::new(false),
            waker: LateWaker::default(),
        }
    }

    pub(crate) fn attach(&self, waker: Arc<Waker>) {
        self.waker.attach(waker);
    }

    /// The policy that was set last.
    pub(crate) fn policy(&self) -> Policy {
        let policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        policy.clone()
    }

    /// Sets another policy and wakes the net thread.
    pub(crate) fn post(&self, policy: Policy) {
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner) = policy;
        self.unread.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// A policy that was set since the last call. For the net thread, in every turn.
    pub(crate) fn take(&self) -> Option<Policy> {
        // A load first: it costs nothing while nobody posts.
        let unread =
            self.unread.load(Ordering::Relaxed) && self.unread.swap(false, Ordering::Acquire);
        unread.then(|| self.policy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_is_taken_once() {
        let mailbox = PolicyMailbox::new(Policy::darc());
        assert_eq!(mailbox.take(), None, "it starts with that one");
        mailbox.post(Policy::c_fcfs());
        mailbox.post(Policy::sjf());
        assert_eq!(mailbox.policy(), Policy::sjf());
        assert_eq!(mailbox.take(), Some(Policy::sjf()));
        assert_eq!(mailbox.take(), None);
    }
}
