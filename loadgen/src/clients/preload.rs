//! Fills a server before a run: keys, and collections for slow commands.

use std::io::{self, Read, Write};
use std::time::Duration;

use psp_protocols::skip::{NotAReply, Skipped};
use psp_sim::keys::Keyspace;

use super::channel::Channel;
use super::connection::connect_and_greet;
use crate::wire::{Arguments, CommandTemplate, Protocol, Replies, RequestWriter, Target, TemplateError};

/// Commands sent before their replies are read.
const BATCH_COMMANDS: usize = 256;

/// Bytes sent before replies are read. Socket buffers hold more, so the client and the server never
/// wait for each other for ever.
const BATCH_BYTES: usize = 64 * 1024;

/// Elements that one command adds to a collection.
const ELEMENTS_PER_COMMAND: u64 = 200;

/// The contents to create.
#[derive(Debug, Clone)]
pub struct PreloadPlan {
    /// The server.
    pub target: Target,
    /// The keyspace: all of its keys are set. `None` for collections alone.
    pub keyspace: Option<Keyspace>,
    /// Collections. Existing ones are replaced.
    pub collections: Vec<Collection>,
}

/// A collection with elements `0` to `len - 1`, in a scattered order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// The kind.
    pub kind: CollectionKind,
    /// Its key.
    pub key: String,
    /// Number of its elements.
    pub len: u64,
}

/// Kinds of collections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectionKind {
    /// A list of numbers.
    List,
    /// A sorted set whose members' scores are their numbers.
    SortedSet,
}

/// Why a server cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    /// The protocol has no command that sets keys.
    #[error("{target} holds no keys: no datagram sets one")]
    Protocol {
        /// The target.
        target: String,
    },
    /// Only Redis has collections.
    #[error("{target} has no lists and sorted sets")]
    NoCollections {
        /// The target.
        target: String,
    },
    /// No connection.
    #[error("cannot connect to {target}")]
    Connect {
        /// The target.
        target: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection broke")]
    Lost(#[from] io::Error),
    /// The server does not speak the protocol.
    #[error(transparent)]
    NotAReply(#[from] NotAReply),
    /// The protocol cannot set keys.
    #[error(transparent)]
    NoSet(#[from] TemplateError),
    /// The server refused a command.
    #[error("the server refused a command: {kind}")]
    Refused {
        /// First word of its error.
        kind: String,
    },
}

impl PreloadPlan {
    /// Number of values to create, which is the unit of progress.
    #[must_use]
    pub fn values(&self) -> u64 {
        let keys = self.keyspace.as_ref().map_or(0, Keyspace::keys);
        keys + self.collections.iter().map(|each| each.len).sum::<u64>()
    }
}

/// Creates everything in the plan over one pipelined connection. A target with commands in
/// datagrams is filled over TCP. `progress` gets the number of values created so far.
///
/// # Errors
/// When the server cannot be reached or refuses a command.
pub fn preload(plan: &PreloadPlan, progress: &mut dyn FnMut(u64)) -> Result<(), PreloadError> {
    let protocol = plan.target.protocol;
    let set = match protocol {
        Protocol::Redis | Protocol::Memcached | Protocol::MemcachedMeta | Protocol::MemcachedUdp => "SET",
        Protocol::Protobuf => "PUT",
        Protocol::Wire(_) | Protocol::PspUdp => {
            return Err(PreloadError::Protocol { target: plan.target.to_string() });
        }
    };
    if protocol != Protocol::Redis && !plan.collections.is_empty() {
        return Err(PreloadError::NoCollections { target: plan.target.to_string() });
    }
    let (channel, _) = connect_and_greet(&plan.target)
        .map_err(|source| PreloadError::Connect { target: plan.target.to_string(), source })?;
    let template = CommandTemplate::for_protocol(set, protocol)?;
    let writer = RequestWriter::new(protocol, plan.target.authority(), &template, Duration::ZERO)?;
    let mut pipeline = Pipeline::new(channel, writer, Replies::new(protocol), progress);
    if let Some(keyspace) = &plan.keyspace {
        let mut key = Vec::new();
        for index in 0..keyspace.keys() {
            key.clear();
            keyspace.push_key(index, &mut key);
            pipeline.command(&[set.as_bytes(), &key, keyspace.first_value(index)], 1)?;
        }
    }
    for collection in &plan.collections {
        create(collection, &mut pipeline)?;
    }
    pipeline.drain()
}

fn create(collection: &Collection, pipeline: &mut Pipeline<'_>) -> Result<(), PreloadError> {
    let key = collection.key.as_bytes();
    pipeline.command(&[b"DEL", key], 0)?;
    for start in (0..collection.len).step_by(ELEMENTS_PER_COMMAND as usize) {
        let end = collection.len.min(start + ELEMENTS_PER_COMMAND);
        let elements: Vec<String> =
            (start..end).map(|position| scattered(position, collection.len).to_string()).collect();
        let mut arguments: Vec<&[u8]> = Vec::with_capacity(elements.len() * 2 + 2);
        match collection.kind {
            CollectionKind::List => {
                arguments.extend([b"RPUSH", key]);
                arguments.extend(elements.iter().map(String::as_bytes));
            }
            CollectionKind::SortedSet => {
                arguments.extend([&b"ZADD"[..], key]);
                // A member's score is its number.
                arguments.extend(elements.iter().flat_map(|each| [each.as_bytes(); 2]));
            }
        }
        pipeline.command(&arguments, end - start)?;
    }
    Ok(())
}

/// A permutation of `0..len`. Unsorted numbers give a sort some work.
fn scattered(position: u64, len: u64) -> u64 {
    /// A prime beyond any length.
    const STRIDE: u128 = 18_446_744_073_709_551_557;
    u64::try_from(u128::from(position) * STRIDE % u128::from(len)).expect("less than a u64")
}

/// Sends commands in batches and reads their replies.
struct Pipeline<'a> {
    channel: Channel,
    out: Vec<u8>,
    buffer: Vec<u8>,
    arguments: Arguments,
    writer: RequestWriter,
    replies: Replies,
    commands: usize,
    values: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> Pipeline<'a> {
    /// `writer` writes any command. In protocols whose commands differ in form it writes commands
    /// that set keys.
    fn new(channel: Channel, writer: RequestWriter, replies: Replies, progress: &'a mut dyn FnMut(u64)) -> Self {
        Self {
            channel,
            out: Vec::new(),
            buffer: vec![0; BATCH_BYTES],
            arguments: Arguments::default(),
            writer,
            replies,
            commands: 0,
            values: 0,
            progress,
        }
    }

    fn command(&mut self, arguments: &[&[u8]], values: u64) -> Result<(), PreloadError> {
        self.arguments.clear();
        for argument in arguments {
            self.arguments.push(argument);
        }
        self.writer.write(&self.arguments, 0, &mut self.out);
        self.commands += 1;
        self.values += values;
        if self.commands >= BATCH_COMMANDS || self.out.len() >= BATCH_BYTES {
            self.drain()?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), PreloadError> {
        self.channel.write_all(&self.out)?;
        self.out.clear();
        while self.commands > 0 {
            let count = self.channel.read(&mut self.buffer)?;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let mut input = &self.buffer[..count];
            while !input.is_empty() {
                let Skipped::Reply { len, outcome } = self.replies.skip(input)? else {
                    break;
                };
                if let Some(kind) = self.replies.error_kind(outcome) {
                    return Err(PreloadError::Refused { kind: kind.to_owned() });
                }
                input = &input[len..];
                self.commands = self.commands.saturating_sub(1);
            }
        }
        (self.progress)(self.values);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_a_permutation_out_of_order() {
        for len in [1, 2, 7, 1_000] {
            let positions: Vec<u64> = (0..len).map(|position| scattered(position, len)).collect();
            let mut sorted = positions.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..len).collect::<Vec<_>>());
            assert!(len < 3 || positions != sorted);
        }
    }
}
