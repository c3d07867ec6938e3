//! Names of connections and datagrams, packed into the scheduler's [`RequestId`].
//!
//! ```text
//!   0 ─────────── connections ─────────── 2^30 ─────────── datagrams ─────────── 2^32
//! ```

use psp_policy::RequestId;

use crate::limits::CONNECTION_INDEX_LIMIT;

/// Number of an event queue with its connections: that of the worker to which it belongs in the topology
/// `distributed`. A server with a net thread has one, number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PortNumber(u32);

impl PortNumber {
    pub(crate) fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("ports are counted in u32"))
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index of a connection in its port's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionIndex(u32);

impl ConnectionIndex {
    /// `None` beyond [`CONNECTION_INDEX_LIMIT`].
    #[inline]
    pub(crate) fn new(index: usize) -> Option<Self> {
        let index = u32::try_from(index).ok()?;
        (index < CONNECTION_INDEX_LIMIT).then_some(Self(index))
    }

    #[inline]
    pub(crate) fn get(self) -> usize {
        self.0 as usize
    }

    /// The scheduler's name for a run of this connection's requests.
    #[inline]
    pub(crate) fn request_id(self) -> RequestId {
        RequestId(self.0)
    }
}

/// Index of a datagram in its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatagramIndex(u32);

impl DatagramIndex {
    /// `None` if the index does not fit beside those of connections.
    #[inline]
    pub(crate) fn new(index: usize) -> Option<Self> {
        let index = u32::try_from(index).ok()?;
        (index <= u32::MAX - CONNECTION_INDEX_LIMIT).then_some(Self(index))
    }

    #[inline]
    pub(crate) fn get(self) -> usize {
        self.0 as usize
    }

    /// The scheduler's name for the request in this datagram.
    #[inline]
    pub(crate) fn request_id(self) -> RequestId {
        RequestId(CONNECTION_INDEX_LIMIT + self.0)
    }
}

/// The request that a [`RequestId`] names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKey {
    Connection(ConnectionIndex),
    Datagram(DatagramIndex),
}

impl From<RequestId> for RequestKey {
    #[inline]
    fn from(RequestId(id): RequestId) -> Self {
        match id.checked_sub(CONNECTION_INDEX_LIMIT) {
            None => Self::Connection(ConnectionIndex(id)),
            Some(index) => Self::Datagram(DatagramIndex(index)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_the_scheduler() {
        const LIMIT: usize = CONNECTION_INDEX_LIMIT as usize;
        for index in [0, 1, LIMIT - 1] {
            let index = ConnectionIndex::new(index).unwrap();
            assert_eq!(
                RequestKey::from(index.request_id()),
                RequestKey::Connection(index)
            );
        }
        for index in [0, 1, u32::MAX as usize - LIMIT] {
            let index = DatagramIndex::new(index).unwrap();
            assert_eq!(
                RequestKey::from(index.request_id()),
                RequestKey::Datagram(index)
            );
        }
        assert_eq!(ConnectionIndex::new(LIMIT), None);
        assert_eq!(DatagramIndex::new(u32::MAX as usize - LIMIT + 1), None);
    }
}
