//! Messages of transactions and scripts. They may have to run again, so what they publish waits until they are carried
//! out.

use std::cell::RefCell;

use bytes::Bytes;

use super::{PubSub, TopicKind};
use crate::error::CommandError;
use crate::parse::Result;

/// What the messages of one transaction or script may hold, in bytes.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Messages, in order.
#[derive(Debug, Default)]
pub struct Outbox(RefCell<Held>);

#[derive(Debug, Default)]
struct Held {
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
        let mut held = self.0.borrow_mut();
        held.bytes += channel.len() + text.len() + size_of::<Letter>();
        if held.bytes > HELD_BYTES_MAX {
            return Err(CommandError::line(
                "ERR the messages of one transaction are too long",
            ));
        }
        held.letters.push(Letter::Message {
            kind,
            channel: channel.into(),
            text: text.into(),
        });
        Ok(())
    }

    /// Adds a line for monitors. They do not see what is too much to keep.
    pub fn add_line(&self, line: Bytes) {
        let mut held = self.0.borrow_mut();
        let bytes = held.bytes + line.len() + size_of::<Letter>();
        if bytes <= HELD_BYTES_MAX {
            held.bytes = bytes;
            held.letters.push(Letter::Line(line));
        }
    }

    /// Forgets all messages: what sent them runs again, or was not carried out.
    pub fn clear(&self) {
        *self.0.borrow_mut() = Held::default();
    }

    /// Publishes all messages, and has `show` send all lines.
    pub fn publish(self, pubsub: &PubSub, show: impl Fn(&Bytes)) {
        for letter in self.0.into_inner().letters {
            match letter {
                Letter::Message {
                    kind,
                    channel,
                    text,
                } => drop(pubsub.publish(kind, &channel, &text)),
                Letter::Line(line) => show(&line),
            }
        }
    }
}
