//! What every program does on SIGHUP, whatever its protocol.

use std::fs;
use std::path::Path;

use crate::{Load, ServerProcess, wait_until};

/// Clients of the load.
const CLIENTS: usize = 4;
/// How often the policy changes.
const ROUNDS: usize = 5;

/// The exchange of the load, and how a suite asks its server what is in force.
#[derive(Clone, Copy)]
pub struct Exchange<'a> {
    /// A request.
    pub request: &'static [u8],
    /// The only right reply.
    pub reply: &'static [u8],
    /// The name of the server's policy.
    pub policy: &'a dyn Fn() -> String,
}

/// Under load, changes the policy in the configuration file by SIGHUP, again and again, and then has it
/// read a file that it cannot understand.
///
/// # Panics
/// When a request is lost, a policy does not come into force, or one changes although the file is broken
/// or without the log saying so.
pub fn reloads_under_load(server: &ServerProcess, config_file: &Path, exchange: Exchange<'_>) {
    let Exchange {
        request,
        reply,
        policy,
    } = exchange;
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
        wait_until("the log says why", || {
            let log = server.log();
            let errors = log
                .iter()
                .filter(|line| line.contains("configuration not reloaded"));
            errors.count() == times
        });
        load.goes_on();
        assert_eq!(policy(), in_force, "after {broken:?}");
    }
    load.finish();
}
