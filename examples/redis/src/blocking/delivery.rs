//! Replies with elements, on their way to clients that waited.
//!
//! They are sent without the lock of those who wait: a long reply may have to wait until the net thread makes room for
//! it, and the net thread may need the lock.

use std::sync::Arc;

use psp_protocols::Sink;
use psp_protocols::resp::{Encoder, Version};
use psp_store::Databases;

use super::LateReply;
use crate::persistence::Log;
use crate::state::ServerState;
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
pub(super) struct Deliveries {
    all: Vec<Delivery>,
    /// What their elements are gone from, if that is logged.
    log: Option<(Arc<Log>, Arc<Databases>)>,
}

impl Deliveries {
    pub(super) fn of(server: &ServerState) -> Self {
        let log = &server.persistence.log;
        let log = log.is_on().then(|| (Arc::clone(log), Arc::clone(&server.databases)));
        Self { all: Vec::new(), log }
    }

    pub(super) fn extend(&mut self, delivery: Option<Delivery>) {
        self.all.extend(delivery);
    }

    pub(super) fn send(&mut self) {
        for delivery in self.all.drain(..) {
            let Delivery { mut reply, version, text, served } = delivery;
            let out: &mut dyn Sink = &mut *reply;
            let mut out = Encoder::new(out, version);
            text.copy_to(&mut out);
            let own = served.map_or_else(Vec::new, LateChanges::tell);
            own.into_iter().for_each(|message| out.raw_shared(message));
            match &self.log {
                None => reply.finish(),
                Some((log, databases)) => log.finish(databases.journal(), reply),
            }
        }
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.send();
    }
}
