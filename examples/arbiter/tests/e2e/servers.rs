//! Real servers under load: cores come to them and go, and no request is lost.

use psp_arbiter::status::{self, ServerStatus, Status};
use psp_harness::{ServerProcess, wait_until};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use crate::fixture::Arbiter;
use crate::server;

const CLIENTS: usize = 4;
const ROUNDS: usize = 15;

fn status_of(status: &Status, server: &ServerProcess) -> Option<ServerStatus> {
    let mut servers = status.servers.iter();
    servers.find(|other| other.process == server.id()).cloned()
}

/// Waits until the arbiter and the server agree that it has so many cores as `expected` says.
fn wait_for(arbiter: &Arbiter, what: &str, server: &ServerProcess, expected: fn(&ServerStatus) -> bool) {
    let mut last = None;
    wait_until(what, || {
        last = status::ask(&arbiter.socket()).ok();
        let status = last.as_ref().and_then(|status| status_of(status, server));
        status.is_some_and(|status| expected(&status))
    });
}

fn all_cores_are_free(arbiter: &Arbiter) {
    wait_until("all cores are free", || {
        status::ask(&arbiter.socket()).is_ok_and(|status| status.unmanaged == status.cores)
    });
}

fn cores_follow_the_load(mut arbiter: Arbiter) {
    arbiter.start();
    // Threads for all cores.
    let workers_max = arbiter.status().cores.len();
    let socket = arbiter.socket();
    let [high, low] = [1, 6].map(|level| server::start(&socket, level, workers_max));
    for server in [&high, &low] {
        wait_for(&arbiter, "a server is registered", server, |_| true);
    }
    all_cores_are_free(&arbiter);
    let on_low = server::load(&low, CLIENTS);
    wait_for(&arbiter, "a server under load has cores", &low, |status| !status.held.is_empty());
    on_low.goes_on();
    let on_high = server::load(&high, CLIENTS);
    wait_for(&arbiter, "the more important server has cores", &high, |status| !status.held.is_empty());
    if arbiter.status().grantable == 1 {
        wait_for(&arbiter, "the other one has given its core back", &low, |status| status.held.is_empty());
    }
    on_low.goes_on();
    on_high.goes_on();
    on_high.finish();
    wait_for(&arbiter, "an idle server gives its cores back", &high, |status| {
        status.held.is_empty() && status.wanted == 0
    });
    wait_for(&arbiter, "the other server has cores again", &low, |status| !status.held.is_empty());
    on_low.goes_on();
    on_low.finish();
    all_cores_are_free(&arbiter);
    drop((high, low));
    assert!(arbiter.process().terminate(), "{}", arbiter.log());
}

/// The arbiter and a server are killed at random, beside a server under load.
fn nothing_is_lost(mut arbiter: Arbiter, seed: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    arbiter.start();
    let socket = arbiter.socket();
    let kept = server::start(&socket, 4, 2);
    let on_kept = server::load(&kept, CLIENTS);
    // More important, so that it takes cores away and leaves them behind.
    let mut killed = server::start(&socket, 1, 2);
    let mut on_killed = server::Callers::start(&killed, CLIENTS);
    for round in 0..ROUNDS {
        let (kills_arbiter, kills_server) = [(true, false), (false, true), (true, true)][random.random_range(0..3)];
        std::thread::sleep(std::time::Duration::from_micros(random.random_range(0..200_000)));
        if kills_arbiter {
            arbiter.process().kill();
        }
        on_kept.goes_on();
        if kills_server {
            drop(killed);
            on_killed.end();
            killed = server::start(&socket, 1, 2);
            on_killed = server::Callers::start(&killed, CLIENTS);
        }
        if kills_arbiter {
            arbiter.start();
        }
        let registered = format!("seed {seed}, round {round}: both servers are registered");
        for server in [&kept, &killed] {
            wait_for(&arbiter, &registered, server, |_| true);
        }
        wait_for(&arbiter, "the important server has cores", &killed, |status| !status.held.is_empty());
        on_kept.goes_on();
    }
    drop(killed);
    on_killed.end();
    wait_for(&arbiter, "the server has the other one's cores", &kept, |status| !status.held.is_empty());
    on_kept.goes_on();
    on_kept.finish();
    all_cores_are_free(&arbiter);
}

/// Runs the test in cpusets of its own.
fn in_cpuset(test: impl FnOnce(Arbiter)) {
    match Arbiter::in_cpuset() {
        Ok(arbiter) => test(arbiter),
        Err(reason) => psp_skip::skip(&reason),
    }
}

#[test]
fn cores_follow_the_load_in_cpusets() {
    in_cpuset(cores_follow_the_load);
}

#[test]
fn cores_follow_the_load_by_affinity() {
    cores_follow_the_load(Arbiter::by_affinity());
}

#[test]
fn nothing_is_lost_in_cpusets() {
    in_cpuset(|arbiter| nothing_is_lost(arbiter, 17));
}

#[test]
fn nothing_is_lost_by_affinity() {
    nothing_is_lost(Arbiter::by_affinity(), 18);
}

#[test]
fn a_server_works_until_there_is_an_arbiter() {
    let mut arbiter = Arbiter::by_affinity();
    let server = server::start(&arbiter.socket(), 4, 2);
    let load = server::load(&server, CLIENTS);
    load.goes_on();
    let log = server.log().join("\n");
    assert!(log.contains("no arbiter listens at"), "{log}");
    arbiter.start();
    wait_for(&arbiter, "the server has cores", &server, |status| !status.held.is_empty());
    load.goes_on();
    load.finish();
}
