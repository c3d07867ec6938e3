//! Finds the ends of replies and their outcomes, in every protocol.

use super::own::{ReadReplies, Wire};
use super::target::Protocol;
use psp_protocols::memcached::MemcachedSkipper;
use psp_protocols::resp::RespSkipper;
use psp_protocols::rpc::RpcSkipper;
use psp_protocols::skip::{NotAReply, Outcome, ReplySkipper, Skipped};

/// The error kind of a server that had no room for a request.
const BUSY: &str = "BUSY";

/// The position in the replies of one connection.
#[derive(Debug)]
pub(crate) enum Replies {
    Resp(RespSkipper),
    Memcached(MemcachedSkipper),
    Rpc(RpcSkipper),
    Wire(&'static dyn Wire, Box<dyn ReadReplies>),
}

impl Replies {
    /// The start of a stream, or of a reply of several datagrams. Replies of [`Protocol::PspUdp`]
    /// are not read here.
    pub(crate) fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Redis | Protocol::PspUdp => Self::Resp(RespSkipper::default()),
            Protocol::Memcached | Protocol::MemcachedMeta | Protocol::MemcachedUdp => {
                Self::Memcached(MemcachedSkipper::default())
            }
            Protocol::Protobuf => Self::Rpc(RpcSkipper::default()),
            Protocol::Wire(wire) => Self::Wire(wire, wire.replies()),
        }
    }

    /// Forgets an unfinished reply.
    pub(crate) fn restart(&mut self) {
        match self {
            Self::Resp(skipper) => *skipper = RespSkipper::default(),
            Self::Memcached(skipper) => *skipper = MemcachedSkipper::default(),
            Self::Rpc(skipper) => *skipper = RpcSkipper::default(),
            Self::Wire(wire, replies) => *replies = wire.replies(),
        }
    }

    /// Consumes the next bytes, up to the end of their reply.
    pub(crate) fn skip(&mut self, input: &[u8]) -> Result<Skipped, NotAReply> {
        match self {
            Self::Resp(skipper) => skipper.skip(input),
            Self::Memcached(skipper) => skipper.skip(input),
            Self::Rpc(skipper) => skipper.skip(input),
            Self::Wire(_, replies) => replies.skip(input),
        }
    }

    /// The outcome of a reply that ends with its connection, once that has ended.
    pub(crate) fn finish(&mut self) -> Option<Outcome> {
        match self {
            Self::Resp(_) | Self::Memcached(_) | Self::Rpc(_) => None,
            Self::Wire(_, replies) => replies.finish(),
        }
    }

    /// Whether replies come in the order of their requests.
    pub(crate) const fn are_ordered(&self) -> bool {
        !matches!(self, Self::Rpc(_))
    }

    /// The id in the last reply; `None` where replies come in the order of their requests.
    pub(crate) fn id(&self) -> Option<u64> {
        match self {
            Self::Resp(_) | Self::Memcached(_) | Self::Wire(..) => None,
            Self::Rpc(skipper) => Some(skipper.reply().id),
        }
    }

    /// Whether the last reply says that the server takes no more requests on its connection.
    pub(crate) fn closes(&self) -> bool {
        match self {
            Self::Resp(_) | Self::Memcached(_) | Self::Rpc(_) => false,
            Self::Wire(_, replies) => replies.closes(),
        }
    }

    /// The error kind of the last reply; `None` if the reply is not an error.
    pub(crate) fn error_kind(&self, outcome: Outcome) -> Option<&str> {
        if !matches!(outcome, Outcome::Error | Outcome::Busy) {
            return None;
        }
        Some(match self {
            Self::Resp(skipper) => skipper.error_kind(),
            // The skipper knows only the first word, which all failures share.
            Self::Memcached(_) if outcome == Outcome::Busy => BUSY,
            Self::Memcached(skipper) => skipper.error_kind(),
            Self::Rpc(skipper) => skipper.error_kind(),
            Self::Wire(_, replies) => replies.error_kind(),
        })
    }
}
