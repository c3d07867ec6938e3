//! A user's framing, whose faults cost the connection on which they show, and nothing else.
//!
//! A panic counts as input that breaks the protocol, and so does a frame that is empty or longer than its input. The
//! first fault is logged. A datagram is dropped if `head_of` or `is_reply` panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::Duration;

use psp_protocols::envelope::Envelope;
use psp_protocols::{FrameError, Framing, Rejection, Sink};

const FAULT: FrameError = FrameError::new("the server cannot read this request");

/// See the [module](self).
pub(crate) struct GuardedFraming<F> {
    framing: F,
    logged: Once,
}

impl<F: Framing> GuardedFraming<F> {
    pub(crate) const fn new(framing: F) -> Self {
        Self { framing, logged: Once::new() }
    }

    /// The framing itself, for calls within [`catch`](Self::catch).
    pub(crate) const fn unguarded(&self) -> &F {
        &self.framing
    }

    /// What `calls` of the framing return, or an error if one panics.
    #[inline]
    pub(crate) fn catch<R>(&self, calls: impl FnOnce() -> Result<R, FrameError>) -> Result<R, FrameError> {
        catch_unwind(AssertUnwindSafe(calls)).unwrap_or_else(|_| Err(self.log("it panicked")))
    }

    /// The frame of `len` bytes at the start of `input`, and what comes after it.
    #[inline]
    pub(crate) fn split<'a>(&self, input: &'a [u8], len: usize) -> Result<(&'a [u8], &'a [u8]), FrameError> {
        match input.split_at_checked(len) {
            Some(frame_and_rest) if len > 0 => Ok(frame_and_rest),
            _ => Err(self.log("it found a frame that is empty or longer than its input")),
        }
    }

    /// What `call` returns, or `otherwise` if it panics.
    #[inline]
    fn call<R>(&self, otherwise: R, call: impl FnOnce(&F) -> R) -> R {
        self.catch(|| Ok(call(&self.framing))).unwrap_or(otherwise)
    }

    /// Logs the first fault.
    #[cold]
    fn log(&self, fault: &str) -> FrameError {
        let framing = std::any::type_name::<F>();
        self.logged.call_once(|| {
            tracing::error!(framing, "the framing has a fault: {fault}; connections on which it shows are closed");
        });
        FAULT
    }
}

/// The calls of a framing besides those that make a run.
impl<F: Framing> GuardedFraming<F> {
    #[inline]
    pub(crate) fn head_of(&self, message: &[u8]) -> Option<F::Head> {
        self.call(None, |framing| framing.head_of(message))
    }

    #[inline]
    pub(crate) fn deadline(&self, head: &F::Head) -> Option<Duration> {
        self.call(None, |framing| framing.deadline(head))
    }

    #[inline]
    pub(crate) fn is_reply(&self, message: &[u8], head: &F::Head) -> bool {
        self.call(true, |framing| framing.is_reply(message, head))
    }

    pub(crate) fn replies_in_order(&self) -> bool {
        self.framing.replies_in_order()
    }

    pub(crate) fn envelope(&self) -> &dyn Envelope {
        self.framing.envelope()
    }

    pub(crate) fn encode_interim(&self, cursor: &mut F::Cursor, out: &mut dyn Sink) {
        self.call((), |framing| framing.encode_interim(cursor, out));
    }

    pub(crate) fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        self.call((), |framing| framing.encode_rejection(rejection, request, out));
    }
}
