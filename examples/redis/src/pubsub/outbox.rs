//! Messages of transactions and scripts. They may have to run again, so what they publish waits until they are carried
//! out.

use std::cell::{RefCell, RefMut};

use bytes::Bytes;

use super::TopicKind;
use crate::client::Registry;
use crate::error::CommandError;
use crate::parse::Result;
use crate::tracking::Gathered;

/// What the messages of one transaction or script may hold, in bytes.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Messages, in order, and what those who track keys have to hear.
#[derive(Debug, Default)]
pub struct Outbox {
    pending: RefCell<Pending>,
    gathered: RefCell<Gathered>,
}

#[derive(Debug, Default)]
struct Pending {
    letters: Vec<Letter>,
    bytes: usize,
}

#[derive(Debug)]
enum Letter {
    Message {
        kind: TopicKind,
        channel: Box<[u8]>,
        text: Box<[u8]>,
    },
    /// A line for monitors.
    Line(Bytes),
}

impl Outbox {
    /// Adds a message.
    ///
    /// # Errors
    /// There are too many.
    pub fn add(&self, kind: TopicKind, channel: &[u8], text: &[u8]) -> Result<()> {
        let mut pending = self.pending.borrow_mut();
        pending.bytes += channel.len() + text.len() + size_of::<Letter>();
        if pending.bytes > HELD_BYTES_MAX {
            return Err(CommandError::line("ERR the messages of one transaction are too long"));
        }
        pending.letters.push(Letter::Message { kind, channel: channel.into(), text: text.into() });
        Ok(())
    }

    /// Adds a line for monitors. They do not see what is too much to keep.
    pub fn add_line(&self, line: Bytes) {
        let mut pending = self.pending.borrow_mut();
        let bytes = pending.bytes + line.len() + size_of::<Letter>();
        if bytes <= HELD_BYTES_MAX {
            pending.bytes = bytes;
            pending.letters.push(Letter::Line(line));
        }
    }

    /// The keys that have changed.
    pub(crate) fn gathered(&self) -> RefMut<'_, Gathered> {
        self.gathered.borrow_mut()
    }

    /// Forgets everything: what sent the messages runs again, or was not carried out.
    pub fn clear(&self) {
        *self.pending.borrow_mut() = Pending::default();
        *self.gathered.borrow_mut() = Gathered::default();
    }

    /// Publishes all messages, shows all lines to monitors, and tells those who track keys what the client with the id
    /// `author` has changed.
    pub fn publish(self, clients: &Registry, author: u64) {
        clients.tracking.invalidate_gathered(author, &self.gathered.into_inner());
        for letter in self.pending.into_inner().letters {
            match letter {
                Letter::Message { kind, channel, text } => drop(clients.pubsub.publish(kind, &channel, &text)),
                Letter::Line(line) => clients.show(&line),
            }
        }
    }
}
