//! What the system offers to the threads of a server.

pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod cores;
pub(crate) mod scheduling;
pub(crate) mod spin;
