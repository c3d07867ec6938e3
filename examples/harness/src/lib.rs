//! Test harness of the example servers' end-to-end tests: runs a server in a process of its own, and
//! client programs.
//!
//! ```text
//!   suite ── its own connections ──TCP──> server process (ServerProcess: started, watched, killed)
//!     └───── run_program ──> client process ──TCP──┘
//! ```
//!
//! `PSP_TEST_SERVER=redis-server` or `=memcached` runs a suite against another server program, to show
//! that the suite expects the behaviour of that server. Functions here panic when the test must fail.

mod descriptors;
mod flood;
mod forged;
mod load;
#[cfg(feature = "dpdk")]
mod memif;
mod memory_group;
#[cfg(feature = "pool")]
mod pool;
mod program;
mod reload;
mod server_process;
mod socket;
mod tap;
mod twemproxy;

pub use descriptors::raise_descriptor_limit;
pub use flood::{answered_beside, survives_unfinished, unfinished};
pub use forged::send_from_its_own_port;
pub use load::Load;
#[cfg(feature = "dpdk")]
pub use memif::{Wire, WireClient};
pub use memory_group::{GROUPS_MIB, MemoryGroup, NO_MEMORY_GROUP};
#[cfg(feature = "pool")]
pub use pool::{hold, until};
pub use program::run_program;
pub use psp_skip::skip;
pub use reload::{Exchange, reloads_under_load};
pub use server_process::{ServerProcess, Start, free_port, free_udp_port, other_server};
pub use socket::{RawConnection, connect, read_to_close};
pub use tap::{TAP_FLAGS, TAP_SERVER, in_own_network, raise_tap};
pub use twemproxy::{Protocol, start_twemproxy};

use std::time::{Duration, Instant};

/// Why a test of what only psp does is skipped beside [`other_server`].
pub const NOT_PSP: &str = "the server is not psp's";

/// How long a test waits for a condition before it fails.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Skips the rest of a test of what only psp does, where the suite runs against [`other_server`].
#[macro_export]
macro_rules! only_psp {
    () => {
        if $crate::other_server().is_some() {
            return $crate::skip($crate::NOT_PSP);
        }
    };
}

/// Lets a type of a suite do what the field does that it wraps: `dereferences!(Server => process: ServerProcess)`.
#[macro_export]
macro_rules! dereferences {
    ($outer:ty => $field:ident: $inner:ty) => {
        impl std::ops::Deref for $outer {
            type Target = $inner;

            fn deref(&self) -> &$inner {
                &self.$field
            }
        }

        impl std::ops::DerefMut for $outer {
            fn deref_mut(&mut self) -> &mut $inner {
                &mut self.$field
            }
        }
    };
}

/// Polls `condition` until it holds.
///
/// # Panics
/// When the condition does not hold within [`DEADLINE`]. `what` names it in the message.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < give_up, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
