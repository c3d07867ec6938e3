//! What the net worker lends to a worker.

use super::channel::message::Report;
use crate::transport::datagram::Datagram;
use crate::transport::run::Stream;

/// A connection with its run, or a datagram, lent to a worker, with the heads `D` of its requests: a tag and a
/// pointer, 16 bytes.
pub(crate) enum Task<C, D> {
    Stream(Box<Stream<C, D>>),
    Datagram(Box<Datagram<C, D>>),
}

const _: () = assert!(size_of::<Task<(), ()>>() == 16 && size_of::<Report<Task<(), ()>>>() == 16);
