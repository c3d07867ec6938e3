//! Where replies end and how their requests fared, whatever the protocol.

use psp_protocols::memcached::MemcachedSkipper;
use psp_protocols::resp::RespSkipper;
use psp_protocols::rpc::RpcSkipper;
use psp_protocols::skip::{NotAReply, Outcome, ReplySkipper, Skipped};

use crate::target::Protocol;

/// The kind of error of a server that had no room for a request.
const BUSY: &str = "BUSY";

/// The place in the replies of one connection.
#[derive(Debug)]
pub(crate) enum Replies {
    Resp(RespSkipper),
    Memcached(MemcachedSkipper),
    Rpc(RpcSkipper),
}

impl Replies {
    /// The start of a stream, or of what the datagrams of a reply make up. Those of
    /// [`Protocol::PspUdp`] are not read here.
    pub(crate) fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Redis | Protocol::PspUdp => Self::Resp(RespSkipper::default()),
            Protocol::Memcached | Protocol::MemcachedMeta | Protocol::MemcachedUdp => {
                Self::Memcached(MemcachedSkipper::default())
            }
            Protocol::Protobuf => Self::Rpc(RpcSkipper::default()),
        }
    }

    /// Forgets a reply that goes on.
    pub(crate) fn restart(&mut self) {
        match self {
            Self::Resp(skipper) => *skipper = RespSkipper::default(),
            Self::Memcached(skipper) => *skipper = MemcachedSkipper::default(),
            Self::Rpc(skipper) => *skipper = RpcSkipper::default(),
        }
    }

    /// Takes the next bytes, up to the end of the reply that they belong to.
    pub(crate) fn skip(&mut self, input: &[u8]) -> Result<Skipped, NotAReply> {
        match self {
            Self::Resp(skipper) => skipper.skip(input),
            Self::Memcached(skipper) => skipper.skip(input),
            Self::Rpc(skipper) => skipper.skip(input),
        }
    }

    /// Whether replies come in the order of their requests.
    pub(crate) const fn are_ordered(&self) -> bool {
        !matches!(self, Self::Rpc(_))
    }

    /// The id that the last reply names; `None` where replies come in the order of their requests.
    pub(crate) fn id(&self) -> Option<u64> {
        match self {
            Self::Resp(_) | Self::Memcached(_) => None,
            Self::Rpc(skipper) => Some(skipper.reply().id),
        }
    }

    /// The kind of error that the last reply is; `None` when it is none.
    pub(crate) fn error_kind(&self, outcome: Outcome) -> Option<&str> {
        if !matches!(outcome, Outcome::Error | Outcome::Busy) {
            return None;
        }
        Some(match self {
            Self::Resp(skipper) => skipper.error_kind(),
            // Its first word is that of any failure.
            Self::Memcached(_) if outcome == Outcome::Busy => BUSY,
            Self::Memcached(skipper) => skipper.error_kind(),
            Self::Rpc(skipper) => skipper.error_kind(),
        })
    }
}
