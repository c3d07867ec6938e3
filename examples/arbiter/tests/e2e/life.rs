//! What the arbiter does to other programs, and that it puts everything back.

use std::fs;
use std::process::Command;

use psp_arbiter::status::GrantedCore;
use psp_harness::wait_until;

use crate::fixture::{Arbiter, Process, numbers};
use crate::stand_in;

/// The cores on which the kernel lets a thread run.
fn cores_of(thread: i32) -> String {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

/// Waits until the first server has a core, and says which.
fn granted(arbiter: &Arbiter) -> GrantedCore {
    let mut granted = None;
    wait_until("a core is granted", || {
        let status = arbiter.status();
        let server = status.servers.first();
        granted = server.and_then(|server| server.held.first().copied());
        granted.is_some()
    });
    granted.unwrap()
}

#[test]
fn everything_else_stays_off_granted_cores_and_is_put_back() {
    let mut arbiter = match Arbiter::in_cpuset() {
        Ok(arbiter) => arbiter,
        Err(reason) => return psp_skip::skip(&reason),
    };
    let other = Process::spawn(Command::new("sleep").arg("600"));
    let cpuset = arbiter.cpuset.as_ref().unwrap();
    cpuset.add(&other);
    let (everything, groups) = (cores_of(other.id()), cpuset.own(""));
    let parents_tasks = cpuset.path().join("tasks");
    arbiter.start();
    let server = stand_in::start(&arbiter.socket(), 3, 1);
    let held = granted(&arbiter);
    let status = arbiter.status();
    assert_eq!(cores_of(held.thread), held.core.to_string());
    assert_eq!(cores_of(other.id()), status.unmanaged.to_string());
    assert!(!status.unmanaged.contains(held.core));
    let program = arbiter.process().id();
    assert_eq!(cores_of(program), status.unmanaged.to_string());
    assert!(arbiter.process().terminate(), "{}", arbiter.log());
    assert!(!groups.exists(), "{} is still there", groups.display());
    assert_eq!(cores_of(other.id()), everything);
    assert_eq!(cores_of(held.thread), everything, "the server goes on without the arbiter");
    let tasks = numbers(&parents_tasks);
    assert!(tasks.contains(&other.id()) && tasks.contains(&held.thread));
    drop(server);
}

#[test]
fn a_server_keeps_its_core_while_the_arbiter_is_dead() {
    let mut arbiter = match Arbiter::in_cpuset() {
        Ok(arbiter) => arbiter,
        Err(reason) => return psp_skip::skip(&reason),
    };
    arbiter.start();
    let server = stand_in::start(&arbiter.socket(), 3, 1);
    let before = granted(&arbiter);
    arbiter.process().kill();
    assert_eq!(cores_of(before.thread), before.core.to_string());
    arbiter.start();
    assert_eq!(granted(&arbiter), before);
    drop(server);
}

#[test]
fn affinity_alone_pins_threads_and_says_so() {
    let mut arbiter = Arbiter::by_affinity();
    arbiter.start();
    let server = stand_in::start(&arbiter.socket(), 3, 1);
    let held = granted(&arbiter);
    assert_eq!(cores_of(held.thread), held.core.to_string());
    assert!(arbiter.log().contains("other programs are not kept off"), "{}", arbiter.log());
    drop(server);
}
