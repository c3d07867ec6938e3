//! Studies of the portfolio on a live server: where the system has no thread for one, and when the server ends
//! meanwhile.

use std::io::BufReader;
use std::net::TcpStream;

use psp_harness::{ServerProcess, connect, wait_until};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::program;

/// Requests after which the first study is due.
const FIRST_STUDY: u32 = 64;
/// More address space than this, and less than a thread's stack, is left to the server.
const LEFT_BYTES: u64 = 1 << 20;
const REFUSED: &str = "no thread for a study";
const STUDIED: &str = "studied the workload";

fn start(trial_requests: u32) -> ServerProcess {
    let config = format!(
        "tcp = true\nlog_level = 'info'\n[policy]\nname = 'portfolio'\nfirst-study = {FIRST_STUDY}\n\
         trial-requests = {trial_requests}\n[server]\nworkers = 2\ntopology = 'dedicated'\n"
    );
    program::start(&config, &[])
}

fn ask(client: &mut BufReader<TcpStream>, id: u32) {
    program::send(client, (id % 2) as u16, id, 1_000);
    assert_eq!(program::receive(client), id);
}

fn logged(server: &ServerProcess, words: &str) -> bool {
    server.log().iter().any(|line| line.contains(words))
}

/// Asks until the log has these words.
fn ask_until_logged(server: &ServerProcess, client: &mut BufReader<TcpStream>, words: &str) {
    let mut id = 0;
    wait_until(words, || {
        for _ in 0..FIRST_STUDY {
            id += 1;
            ask(client, id);
        }
        logged(server, words)
    });
}

/// Limits the address space of a server to so many bytes, or not at all.
fn limit_address_space(server: &ServerProcess, current: Option<u64>) {
    let limit = Rlimit { current, maximum: None };
    prlimit(Pid::from_raw(server.id()), Resource::As, limit).unwrap();
}

#[test]
fn where_the_system_has_no_thread_for_a_study_requests_are_served_and_a_later_study_runs() {
    let mut server = start(4_096);
    let mut client = connect(server.address()).unwrap();
    ask(&mut client, 0);
    limit_address_space(&server, Some(server.address_space_bytes() + LEFT_BYTES));
    ask_until_logged(&server, &mut client, REFUSED);
    assert!(!logged(&server, STUDIED));
    limit_address_space(&server, None);
    ask_until_logged(&server, &mut client, STUDIED);
    server.terminate();
    assert!(server.wait_for_exit().success());
}

/// The study takes some ten seconds.
#[test]
fn a_server_that_is_told_to_stop_does_not_wait_for_its_study() {
    let mut server = start(4_194_304);
    let mut client = connect(server.address()).unwrap();
    for id in 0..2 * FIRST_STUDY {
        ask(&mut client, id);
    }
    wait_until("a study runs", || server.thread_names().iter().any(|name| name == "psp-study"));
    server.terminate();
    assert!(server.wait_for_exit().success());
    assert!(!logged(&server, STUDIED));
}
