//! What all threads of a server and its handles share.
//!
//! | file | job |
//! | --- | --- |
//! | `state.rs` | settings, counters and the way to stop |
//! | `policy_mailbox.rs` | brings another policy to the net thread |
//! | `handle.rs` | what handlers and operators may do with a running server |

mod handle;
mod policy_mailbox;
mod state;

pub use handle::ServerHandle;
pub(crate) use policy_mailbox::PolicyMailbox;
pub(crate) use state::{PollWithin, Shared};
