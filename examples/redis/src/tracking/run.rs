//! What surrounds a command while somebody tracks: its keys go into the table before it reads, and those who have
//! copies hear of its changes after it has written.

use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use psp_protocols::Sink;
use psp_protocols::resp::{Encoder, Version};
use psp_server::no_preempt;

use super::Tracking;
use super::changed::{Changed, Gathered, read_by};
use super::message::{Invalidation, Stale};
use crate::client::ClientInfo;
use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::keyspace_events::{self, Peeked};
use crate::parse::Result;
use crate::pubsub::Outbox;

/// Runs a command, and tells of its changes. In transactions and scripts that waits until these are carried out.
///
/// # Errors
/// Those of the command.
#[inline]
pub(crate) fn run(
    spec: &CommandSpec,
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let tracking = &context.server.clients.tracking;
    if tracking.is_any() {
        return tracked(spec, context, args, out);
    }
    let result = keyspace_events::run(spec, context, args, out);
    // A client may have begun to track, and may have read before the command wrote.
    if let Some(outbox) = context.outbox {
        if spec.flags.contains(Flag::Write) {
            outbox.gathered().note_others();
        }
    } else if tracking.is_any() || (spec.keys.first == 0 && tracking.keys() > 0) {
        tell(spec, context, args);
    }
    result
}

#[cold]
fn tell(spec: &CommandSpec, context: &Context<'_>, args: &[&[u8]]) {
    drop(Changes::of(spec, context, args));
}

#[cold]
fn tracked(spec: &CommandSpec, context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    remember(context, || read_by(spec, args));
    let result = match Changes::of(spec, context, args) {
        None => keyspace_events::run(spec, context, args, out),
        Some(mut changes) => {
            let version = out.version();
            let mut sink = Peeked::at(out);
            let peeked: &mut dyn Sink = &mut sink;
            let result = keyspace_events::run(spec, context, args, &mut Encoder::new(peeked, version));
            if result.is_err() || !keyspace_events::may_have_changed(spec, args, &sink.head) {
                changes.changed = None;
            }
            result
        }
    };
    let (client, is_over) = (context.client, context.outbox.is_none());
    let is_queueing = client.transaction.queued().is_some();
    if is_over && !is_queueing && spec.name != "client" {
        client.tracking.end_caching();
    }
    result
}

/// The context's client is about to read these keys.
pub(crate) fn remember<'k>(context: &Context<'_>, keys: impl FnOnce() -> Vec<&'k [u8]>) {
    if context.client.tracking.remembers_reads() {
        let tracking = &context.server.clients.tracking;
        tracking.remember(context.client, &keys());
    }
}

/// The changes of a command that runs. Others hear of them when this is dropped, even if the command panics.
struct Changes<'c> {
    tracking: &'c Tracking,
    outbox: Option<&'c Outbox>,
    author: u64,
    changed: Option<Changed<'c>>,
}

impl<'c> Changes<'c> {
    /// `None` for a command that does not write.
    fn of(spec: &CommandSpec, context: &Context<'c>, args: &'c [&'c [u8]]) -> Option<Self> {
        Some(Self {
            tracking: &context.server.clients.tracking,
            outbox: context.outbox,
            author: context.client.id,
            changed: Some(Changed::of(spec, args)?),
        })
    }
}

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        let Some(changed) = &self.changed else {
            return;
        };
        let tell = || match self.outbox {
            Some(outbox) => outbox.gathered().add(changed),
            None => self.tracking.tell(Some(self.author), changed, None),
        };
        if thread::panicking() {
            // What unwinds cannot yield.
            no_preempt(tell);
        } else {
            tell();
        }
    }
}

/// What a command did whose client had waited for a key, to be told of when its reply is sent.
pub(crate) struct LateChanges {
    tracking: Arc<Tracking>,
    client: Arc<ClientInfo>,
    changed: Gathered,
    /// What it read. The reply may come behind messages about these keys.
    read: Vec<Box<[u8]>>,
}

impl LateChanges {
    /// A call of `client`; `None` while no client tracks.
    pub(crate) fn of(
        tracking: &Arc<Tracking>,
        client: &Arc<ClientInfo>,
        spec: &CommandSpec,
        args: &[&[u8]],
    ) -> Option<Self> {
        if !tracking.is_any() {
            return None;
        }
        let mut gathered = Gathered::default();
        if let Some(changed) = Changed::of(spec, args) {
            gathered.add(&changed);
        }
        Some(Self {
            tracking: Arc::clone(tracking),
            client: Arc::clone(client),
            changed: gathered,
            read: read_by(spec, args).into_iter().map(Box::from).collect(),
        })
    }

    /// Tells of the changes. Returns what the client itself gets behind its reply.
    pub(crate) fn tell(self) -> Vec<Bytes> {
        let mut own = Vec::new();
        let (author, changed) = (Some(self.client.id), self.changed.changed());
        self.tracking.tell(author, &changed, Some(&mut own));
        if !self.read.is_empty() && hears_itself(&self.client) {
            let keys: Vec<&[u8]> = self.read.iter().map(|key| &**key).collect();
            own.push(Invalidation::of(Stale::Keys(&keys)).encoded(Version::Resp3));
        }
        own
    }
}

/// What follows a reply that was not written while the client's request had its connection: messages may have come
/// before it. So the client forgets all keys.
pub(crate) fn behind_late_reply(client: &ClientInfo) -> Option<Bytes> {
    hears_itself(client).then(|| Invalidation::of(Stale::All).encoded(Version::Resp3))
}

/// Whether the client gets its messages on its own connection.
fn hears_itself(client: &ClientInfo) -> bool {
    let tracking = &client.tracking;
    tracking.is_on() && client.version() == Version::Resp3 && tracking.redirect().is_none()
}
