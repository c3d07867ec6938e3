//! Brings another policy from any thread to the net thread.
//!
//! ```text
//!   ServerHandle::set_policy ──► PolicyMailbox ──► net thread: hand_over, take_over, poll
//!     (any thread, checked)       wakes it          (between two turns of its loop)
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mio::Waker;
use psp_policy::Policy;

use crate::late_waker::LateWaker;

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

    /// Sets what wakes the net thread.
    pub(crate) fn attach(&self, waker: Arc<Waker>) {
        self.waker.attach(vec![waker]);
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

    /// The policy that was set since the last call, if any. The net thread calls this in every turn of its loop.
    pub(crate) fn take(&self) -> Option<Policy> {
        // The plain load keeps the usual case, an empty mailbox, free of a read-modify-write.
        let unread = self.unread.load(Ordering::Relaxed) && self.unread.swap(false, Ordering::Acquire);
        unread.then(|| self.policy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_is_taken_once() {
        let mailbox = PolicyMailbox::new(Policy::darc());
        assert_eq!(mailbox.take(), None, "the server starts with darc");
        mailbox.post(Policy::c_fcfs());
        mailbox.post(Policy::sjf());
        assert_eq!(mailbox.policy(), Policy::sjf());
        assert_eq!(mailbox.take(), Some(Policy::sjf()));
        assert_eq!(mailbox.take(), None);
    }
}
