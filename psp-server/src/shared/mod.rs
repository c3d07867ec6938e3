//! What all threads of a server and its handles share.
//!
//! | file | job |
//! | --- | --- |
//! | `state.rs` | settings, counters and the way to stop |
//! | `receiver.rs` | the same, as one of the threads that receive requests sees it, with its own counters |
//! | `policy_mailbox.rs` | brings another policy to the net thread |
//! | `handle.rs` | what handlers and operators may do with a running server |

mod gate;
mod handle;
mod policy_mailbox;
mod receiver;
mod state;

pub(crate) use gate::Gate;
pub use handle::ServerHandle;
pub(crate) use policy_mailbox::PolicyMailbox;
pub(crate) use receiver::Receiver;
#[cfg(feature = "admin")]
pub(crate) use state::MoreMetrics;
pub(crate) use state::{PollWithin, Shared};
