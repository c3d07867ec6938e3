//! What the net worker lends to a worker.

use psp_policy::{RequestType, Sample};

use super::channel::message::Report;
use crate::transport::datagram::Datagram;
use crate::transport::request_key::PortNumber;
use crate::transport::run::Stream;

/// A connection with its run, or a datagram, lent to a worker, with the heads `D` of its requests: a tag and a
/// pointer, 16 bytes.
pub(crate) enum Task<C, D> {
    Stream(Box<Stream<C, D>>),
    Datagram(Box<Datagram<C, D>>),
}

impl<C, D> Task<C, D> {
    /// The port that it came from.
    #[inline]
    pub(crate) fn port(&self) -> PortNumber {
        match self {
            Self::Stream(stream) => stream.connection.port,
            Self::Datagram(datagram) => datagram.names.port(),
        }
    }

    /// Whether no client waits for its requests any more, or they have waited for too long.
    pub(crate) fn is_unwanted(&self, now_ns: u64) -> bool {
        match self {
            Self::Stream(stream) => stream.is_unwanted(now_ns),
            Self::Datagram(datagram) => datagram.is_late(now_ns),
        }
    }

    /// Type of its first request; `None` if it has none.
    #[inline]
    pub(crate) fn request_type(&self) -> Option<RequestType> {
        match self {
            Self::Stream(stream) => stream.run.request_type(),
            Self::Datagram(datagram) => Some(datagram.request_type),
        }
    }

    /// How many requests it has, done or not.
    #[inline]
    pub(crate) fn requests(&self) -> usize {
        match self {
            Self::Stream(stream) => stream.run.frames.len(),
            Self::Datagram(_) => 1,
        }
    }

    /// How many of them are done.
    #[inline]
    pub(crate) fn replies(&self) -> usize {
        match self {
            Self::Stream(stream) => stream.run.done,
            Self::Datagram(_) => 1,
        }
    }

    /// What was measured of its requests.
    #[inline]
    pub(crate) fn samples(&self) -> &[Sample] {
        match self {
            Self::Stream(stream) => &stream.run.samples,
            Self::Datagram(datagram) => datagram.sample.as_slice(),
        }
    }
}

const _: () = assert!(size_of::<Task<(), ()>>() == 16 && size_of::<Report<Task<(), ()>>>() == 16);
