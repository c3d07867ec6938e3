//! What clients did and saw.

use std::fmt;

use crate::model::Operation;

/// The end of a call whose reply its client never read. It may have happened at any time since, or not at all.
pub const PENDING: u64 = u64::MAX;

/// One operation of one client.
#[derive(Debug, Clone)]
pub struct Call<O: Operation> {
    /// The connection that sent it.
    pub session: u64,
    /// Its place among the requests of its connection, which happen in this order.
    pub sequence: u64,
    /// When the client began to send it. Times of a history are all different.
    pub begun: u64,
    /// When the client had read the reply, or [`PENDING`].
    pub ended: u64,
    /// What it does.
    pub operation: O,
    /// What the client read; `None` while it is pending.
    pub reply: Option<O::Reply>,
}

impl<O: Operation> Call<O> {
    /// The call as it looked at `time`, if it had begun.
    pub(crate) fn at(&self, time: u64) -> Option<Self> {
        let pending = Self { ended: PENDING, reply: None, ..self.clone() };
        match self {
            call if call.begun > time => None,
            call if call.ended > time => Some(pending),
            call => Some(call.clone()),
        }
    }
}

impl<O: Operation> fmt::Display for Call<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, begun, .. } = self;
        write!(f, "{begun:>9} ")?;
        match self.ended {
            PENDING => write!(f, "{:>9}", "..")?,
            ended => write!(f, "{ended:>9}")?,
        }
        write!(f, "  session {session:<5} {:?}", self.operation)?;
        match &self.reply {
            Some(reply) => write!(f, " -> {reply:?}"),
            None => write!(f, " -> pending"),
        }
    }
}
