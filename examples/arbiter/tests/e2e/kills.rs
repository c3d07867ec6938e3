//! `kill -9` of either side at random: no core is lost.

use std::fs;
use std::time::Duration;

use psp_arbiter::CoreSet;
use psp_arbiter::status::{self, Status};
use psp_harness::wait_until;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use crate::fixture::{Arbiter, Process, numbers};
use crate::stand_in;

const ROUNDS: usize = 60;
const LEVELS: [u8; 2] = [1, 6];

/// Whether everybody is registered, and has what the priorities say.
fn is_settled(status: &Status, servers: &[Process]) -> bool {
    let ids: Vec<i32> = servers.iter().map(Process::id).collect();
    let registered =
        status.servers.len() == servers.len() && status.servers.iter().all(|server| ids.contains(&server.process));
    registered
        && status.servers.iter().all(|server| {
            let expected = if server.priority.level() == LEVELS[0] {
                status.grantable
            } else {
                0
            };
            server.held.len() == expected && server.allowed == expected
        })
}

/// Each core has one owner, and the kernel agrees.
fn check(status: &Status, arbiter: &Arbiter) {
    let held: Vec<_> = status.servers.iter().flat_map(|server| &server.held).collect();
    let granted: CoreSet = held.iter().map(|held| held.core).collect();
    assert_eq!(granted.len(), held.len(), "a core was granted twice: {status:?}");
    assert!(granted.and(&status.unmanaged).is_empty(), "{status:?}");
    assert_eq!(granted.len() + status.unmanaged.len(), status.cores.len(), "{status:?}");
    let Some(cpuset) = &arbiter.cpuset else {
        return;
    };
    let unmanaged = fs::read_to_string(cpuset.own("unmanaged/cpuset.cpus")).unwrap();
    assert_eq!(unmanaged.trim(), status.unmanaged.to_string());
    for core in status.cores.iter() {
        let threads = numbers(&cpuset.own(&format!("core{core}/tasks")));
        let expected: Vec<i32> = held.iter().filter(|held| held.core == core).map(|held| held.thread).collect();
        assert_eq!(threads, expected, "on core {core}");
    }
}

fn sleep_up_to(max_us: u64, random: &mut Xoshiro256PlusPlus) {
    std::thread::sleep(Duration::from_micros(random.random_range(0..max_us)));
}

fn no_core_is_lost(mut arbiter: Arbiter, seed: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    arbiter.start();
    let cores = arbiter.status().grantable;
    let socket = arbiter.socket();
    let mut servers: Vec<Process> = LEVELS.iter().map(|&level| stand_in::start(&socket, level, cores)).collect();
    for round in 0..ROUNDS {
        // Sometimes in the middle of what the last kill has caused.
        if random.random_bool(0.7) {
            let mut last = None;
            wait_until(&format!("seed {seed}, round {round}: all is settled"), || {
                let Ok(status) = status::ask(&socket) else {
                    return false;
                };
                let settled = is_settled(&status, &servers);
                last = Some(status);
                settled
            });
            // The kernel's files follow within the same turn of the arbiter, and a second question comes after that.
            check(&status::ask(&socket).unwrap(), &arbiter);
        } else {
            sleep_up_to(15_000, &mut random);
        }
        match random.random_range(0..5) {
            0 => {
                arbiter.process().kill();
                arbiter.start();
            }
            // It dies again while it takes over.
            2 => {
                arbiter.process().kill();
                arbiter.spawn();
                sleep_up_to(10_000, &mut random);
                arbiter.process().kill();
                arbiter.start();
            }
            1 => {
                arbiter.process().kill();
                let index = random.random_range(0..servers.len());
                servers[index].kill();
                arbiter.start();
                servers[index] = stand_in::start(&socket, LEVELS[index], cores);
            }
            _ => {
                let index = random.random_range(0..servers.len());
                servers[index].kill();
                servers[index] = stand_in::start(&socket, LEVELS[index], cores);
            }
        }
    }
    wait_until("all is settled in the end", || {
        status::ask(&socket).is_ok_and(|status| is_settled(&status, &servers))
    });
    check(&arbiter.status(), &arbiter);
    servers.clear();
    wait_until("all cores are back", || {
        status::ask(&socket).is_ok_and(|status| status.unmanaged == status.cores)
    });
    assert!(arbiter.process().terminate(), "{}", arbiter.log());
}

#[test]
fn no_core_is_lost_in_cpusets() {
    match Arbiter::in_cpuset() {
        Ok(arbiter) => no_core_is_lost(arbiter, 17),
        Err(reason) => psp_skip::skip(&reason),
    }
}

#[test]
fn no_core_is_lost_by_affinity() {
    no_core_is_lost(Arbiter::by_affinity(), 18);
}
