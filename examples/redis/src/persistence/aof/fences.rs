//! Who waits until the log is written, or the disk has it.
//!
//! ```text
//!   a write ─ its record ends at N ─► wait until N is passed ◄─ psp-journal: write, fdatasync ─► passed
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use psp_server::sync::oneshot;

use crate::blocking::LateReply;

/// A position in the log that grows, and who waits for it.
#[derive(Default)]
pub(super) struct Fence {
    passed: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Nothing will be passed any more.
    is_broken: bool,
    requests: Vec<(u64, oneshot::Sender<()>)>,
    replies: Vec<(u64, Box<dyn LateReply>)>,
}

impl std::fmt::Debug for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fence").field("passed", &self.passed).finish_non_exhaustive()
    }
}

impl Fence {
    /// What has been passed.
    pub(super) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Acquire)
    }

    /// Ready when `position` has been passed, with an error if it never will; `None` if it has been.
    pub(super) fn reaches(&self, position: u64) -> Option<oneshot::Receiver<()>> {
        if self.passed() >= position {
            return None;
        }
        let mut waiting = self.waiting.lock();
        if self.passed() >= position {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        // A sender that is dropped is an error.
        if !waiting.is_broken {
            waiting.requests.push((position, sender));
        }
        Some(receiver)
    }

    /// Finishes the reply when `position` has been passed, and never if it never will.
    pub(super) fn finishes(&self, position: u64, reply: Box<dyn LateReply>) {
        let mut waiting = self.waiting.lock();
        if self.passed() >= position {
            drop(waiting);
            return reply.finish();
        }
        if waiting.is_broken {
            drop(waiting);
            return reply.discard();
        }
        waiting.replies.push((position, reply));
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.requests.len() + waiting.replies.len()
    }

    /// All up to `position` has been passed. Returns how many have waited for that.
    pub(super) fn pass(&self, position: u64) -> usize {
        self.passed.store(position, Ordering::Release);
        let mut waiting = self.waiting.lock();
        let requests: Vec<_> = waiting.requests.extract_if(.., |(at, _)| *at <= position).collect();
        let replies: Vec<_> = waiting.replies.extract_if(.., |(at, _)| *at <= position).collect();
        drop(waiting);
        let count = requests.len() + replies.len();
        for (_, sender) in requests {
            let _gone = sender.send(());
        }
        replies.into_iter().for_each(|(_, reply)| reply.finish());
        count
    }

    /// Nothing will be passed: who waits gets an error. `false` mends that.
    pub(super) fn set_broken(&self, is_broken: bool) {
        let mut waiting = self.waiting.lock();
        waiting.is_broken = is_broken;
        let (requests, replies) = match is_broken {
            true => (std::mem::take(&mut waiting.requests), std::mem::take(&mut waiting.replies)),
            false => return,
        };
        drop(waiting);
        drop(requests);
        replies.into_iter().for_each(|(_, reply)| reply.discard());
    }
}

#[cfg(test)]
mod tests {
    use psp_server::wait;

    use super::*;

    #[test]
    fn who_waits_goes_on_when_its_position_is_passed_and_hears_of_an_end() {
        let fence = Fence::default();
        assert!(fence.reaches(0).is_none());
        let [one, two, three] = [1, 2, 3].map(|position| fence.reaches(position).unwrap());
        assert_eq!(fence.pass(2), 2);
        assert!([one, two].into_iter().all(|receiver| wait(receiver).is_ok()));
        assert!(fence.reaches(2).is_none() && fence.waiting() == 1);
        fence.set_broken(true);
        assert!(wait(three).is_err() && fence.waiting() == 0);
        assert!(wait(fence.reaches(4).unwrap()).is_err());
        fence.set_broken(false);
        let four = fence.reaches(4).unwrap();
        fence.pass(4);
        assert!(wait(four).is_ok());
    }
}
