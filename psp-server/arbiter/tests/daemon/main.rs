//! The arbiter over its socket, on a machine that is only recorded.

mod grants;
mod hostile;
mod rig;
