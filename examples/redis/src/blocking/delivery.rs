//! Replies with elements, on their way to clients that waited.
//!
//! They are sent without the lock of those who wait: a long reply may have to wait until the net thread makes room for
//! it, and the net thread may need the lock.

use psp_protocols::Sink;
use psp_protocols::resp::{Encoder, Version};

use super::LateReply;
use crate::tracking::LateChanges;
use crate::transcript::Transcript;

/// A reply that is complete.
pub(super) struct Delivery {
    pub(super) reply: Box<dyn LateReply>,
    pub(super) version: Version,
    pub(super) text: Transcript,
    /// What those who track keys have to hear.
    pub(super) served: Option<LateChanges>,
}

/// Replies that have not been sent. They are when this is dropped, even if a command panics.
#[derive(Default)]
pub(super) struct Deliveries(Vec<Delivery>);

impl Deliveries {
    pub(super) fn extend(&mut self, delivery: Option<Delivery>) {
        self.0.extend(delivery);
    }

    pub(super) fn send(&mut self) {
        for delivery in self.0.drain(..) {
            let Delivery { mut reply, version, text, served } = delivery;
            let out: &mut dyn Sink = &mut *reply;
            let mut out = Encoder::new(out, version);
            text.copy_to(&mut out);
            let own = served.map_or_else(Vec::new, LateChanges::tell);
            own.into_iter().for_each(|message| out.raw_shared(message));
            reply.finish();
        }
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.send();
    }
}
