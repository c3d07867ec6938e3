//! A user's framing, whose faults cost the connection on which they show, and nothing else.
//!
//! A panic counts as input that breaks the protocol, and so does a frame that is empty or longer than its input. The
//! first fault is logged.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::Duration;

use psp_protocols::envelope::Envelope;
use psp_protocols::{FrameError, Framing, Rejection, Sink, Step};

const FAULT: FrameError = FrameError::new("the server cannot read this request");

/// See the [module](self).
pub(crate) struct Guarded<F> {
    framing: F,
    logged: Once,
}

impl<F: Framing> Guarded<F> {
    pub(crate) const fn new(framing: F) -> Self {
        Self { framing, logged: Once::new() }
    }

    /// What `call` returns, or `otherwise` if it panics.
    #[inline]
    fn call<R>(&self, otherwise: R, call: impl FnOnce(&F) -> R) -> R {
        let result = catch_unwind(AssertUnwindSafe(|| call(&self.framing)));
        result.unwrap_or_else(|_| {
            self.log("it panicked");
            otherwise
        })
    }

    /// What `next` says of input of `input_len` bytes.
    #[inline]
    fn step(
        &self,
        input_len: usize,
        next: impl FnOnce(&F) -> Result<Step<F::Head>, FrameError>,
    ) -> Result<Step<F::Head>, FrameError> {
        let step = self.call(Err(FAULT), next)?;
        if let Step::Frame { len, .. } = step
            && !(1..=input_len).contains(&len)
        {
            self.log("it found a frame that is empty or longer than its input");
            return Err(FAULT);
        }
        Ok(step)
    }

    #[cold]
    fn log(&self, fault: &str) {
        let framing = std::any::type_name::<F>();
        self.logged.call_once(|| {
            tracing::error!(framing, "the framing has a fault: {fault}; connections on which it shows are closed");
        });
    }
}

impl<F: Framing> Framing for Guarded<F> {
    type Cursor = F::Cursor;
    type Head = F::Head;

    #[inline]
    fn next_frame(&self, cursor: &mut F::Cursor, input: &[u8]) -> Result<Step<F::Head>, FrameError> {
        self.step(input.len(), |framing| framing.next_frame(cursor, input))
    }

    #[inline]
    fn next_frame_unauthenticated(&self, cursor: &mut F::Cursor, input: &[u8]) -> Result<Step<F::Head>, FrameError> {
        self.step(input.len(), |framing| framing.next_frame_unauthenticated(cursor, input))
    }

    #[inline]
    fn head_of(&self, message: &[u8]) -> Option<F::Head> {
        self.call(None, |framing| framing.head_of(message))
    }

    #[inline]
    fn discard_after(&self, frame: &[u8], head: &F::Head) -> u64 {
        self.call(0, |framing| framing.discard_after(frame, head))
    }

    #[inline]
    fn closes_after(&self, frame: &[u8], head: &F::Head) -> bool {
        self.call(true, |framing| framing.closes_after(frame, head))
    }

    #[inline]
    fn deadline(&self, head: &F::Head) -> Option<Duration> {
        self.call(None, |framing| framing.deadline(head))
    }

    fn replies_in_order(&self) -> bool {
        self.framing.replies_in_order()
    }

    #[inline]
    fn is_reply(&self, message: &[u8], head: &F::Head) -> bool {
        self.call(true, |framing| framing.is_reply(message, head))
    }

    fn encode_interim(&self, cursor: &mut F::Cursor, out: &mut dyn Sink) {
        self.call((), |framing| framing.encode_interim(cursor, out));
    }

    fn envelope(&self) -> &dyn Envelope {
        self.framing.envelope()
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        self.call((), |framing| {
            framing.encode_rejection(rejection, request, out);
        });
    }
}
