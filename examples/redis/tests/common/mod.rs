//! What every end-to-end suite shares: a server in a process of its own, and a blocking client that
//! sees the bytes.
//!
//! ```text
//!   suite ── Connection ──TCP──> server process (Server: started, watched and killed from here)
//! ```
//!
//! The suites run against psp-redis. `PSP_TEST_SERVER=redis-server` runs them against another
//! server program, which shows that what they expect is what Redis does.

// Every suite compiles this module and uses its own part of it.
#![allow(dead_code, unused_imports)]

mod connection;
mod program;
mod reply;
mod server;

pub(crate) use connection::{Connection, encode, encode_line};
pub(crate) use program::run_program;
pub(crate) use reply::Reply;
pub(crate) use server::{Options, Server};

use std::time::{Duration, Instant};

/// How long a condition may take to become true before a test gives up.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Polls `condition` until it holds.
///
/// # Panics
/// When it does not hold within [`DEADLINE`]; `what` names it in the message.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < give_up, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
