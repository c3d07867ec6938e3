//! What end-to-end tests of the example servers have in common: a server in a process of its own,
//! and client programs.
//!
//! ```text
//!   suite ── its own connections ──TCP──> server process (ServerProcess: started, watched, killed)
//!     └───── run_program ──> client process ──TCP──┘
//! ```
//!
//! `PSP_TEST_SERVER=redis-server` or `=memcached` runs a suite against another server program, which
//! shows that what it expects is what that server does. Everything here panics where a test has to
//! fail.

mod load;
mod program;
mod reload;
mod server_process;
mod socket;
mod tap;
mod twemproxy;

pub use load::Load;
pub use program::run_program;
pub use reload::{Exchange, reloads_under_load};
pub use server_process::{ServerProcess, Start, free_port, free_udp_port, other_server};
pub use socket::{connect, read_to_close};
pub use tap::{TAP_FLAGS, TAP_SERVER, in_own_network, raise_tap};
pub use twemproxy::{Protocol, start_twemproxy};

use std::time::{Duration, Instant};

/// How long a condition may take to become true before a test gives up.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Polls `condition` until it holds.
///
/// # Panics
/// When it does not hold within [`DEADLINE`]; `what` names it in the message.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < give_up, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
