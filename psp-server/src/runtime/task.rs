//! What travels between threads.

use super::channel::Report;
use crate::transport::datagram::Datagram;
use crate::transport::stream::Stream;

/// A connection or datagram lent to a worker: a tag and a pointer, 16 bytes.
pub(crate) enum Task<C> {
    Stream(Box<Stream<C>>),
    Datagram(Box<Datagram<C>>),
}

const _: () = assert!(size_of::<Task<()>>() == 16 && size_of::<Report<Task<()>>>() == 16);
