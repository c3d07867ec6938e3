//! Tests how a program of any protocol handles SIGHUP.

use std::fs;
use std::path::Path;

use crate::{Load, ServerProcess, wait_until};

/// Number of clients of the load.
const CLIENTS: usize = 4;
/// Number of policy changes.
const ROUNDS: usize = 5;

/// The request of the load and its reply, and how a suite asks its server for the policy.
#[derive(Clone, Copy)]
pub struct Exchange<'a> {
    /// A request.
    pub request: &'static [u8],
    /// The only correct reply.
    pub reply: &'static [u8],
    /// Returns the name of the server's policy.
    pub policy: &'a dyn Fn() -> String,
}

/// Under load, changes the policy several times by the configuration file and SIGHUP. Then makes the server
/// read an invalid file.
///
/// # Panics
/// When a request is lost, when a policy does not take effect, or when an invalid file changes the policy or is
/// not logged.
pub fn reloads_under_load(server: &ServerProcess, config_file: &Path, exchange: Exchange<'_>) {
    let Exchange { request, reply, policy } = exchange;
    let load = Load::start(server.address(), CLIENTS, request, reply);
    load.goes_on();
    for round in 0..ROUNDS {
        let name = if round % 2 == 0 { "sjf" } else { "c-fcfs" };
        fs::write(config_file, format!("policy = '{name}'\n")).unwrap();
        server.hang_up();
        wait_until("the policy changes", || policy() == name);
        load.goes_on();
    }
    let in_force = policy();
    for (broken, times) in [("policy = 'best'", 1), ("policy = 'c-fcfs'\ncolour = 1", 2)] {
        fs::write(config_file, broken).unwrap();
        server.hang_up();
        wait_until("the log says that the file is refused", || {
            let log = server.log();
            let errors = log.iter().filter(|line| line.contains("configuration not reloaded"));
            errors.count() == times
        });
        load.goes_on();
        assert_eq!(policy(), in_force, "after {broken:?}");
    }
    load.finish();
}
