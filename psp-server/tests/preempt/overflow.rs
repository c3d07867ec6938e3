//! The message when a request uses up its stack, tested on a process that dies of it.

#![allow(unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use psp_server::protocols::Sink;
use psp_server::{
    Config, Handler, Policy, PreemptPolicy, Reply, Request, RequestType, Shutdown, SignalPreemptible, Topology,
    TypeSpec,
};

use crate::common::{Client, lines, without_state};
use crate::rig::MECHANISMS;

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;
/// Set in the process that dies: the mechanism of its server, and the request to send.
const REQUEST: &str = "PSP_TEST_FATAL_REQUEST";

/// Runs [`dies`] in a separate process.
fn after(preempt: PreemptPolicy, request: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "overflow::dies", "--ignored", "--nocapture"])
        .env(REQUEST, format!("{preempt} {request}"))
        .output()
        .unwrap()
}

fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if depth == u64::MAX {
        return 0;
    }
    recurse(depth + 1) + std::hint::black_box(frame)[7]
}

/// Answers `ok`, unless its process dies of the request.
struct Fatal;

impl Handler for Fatal {
    without_state!();

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        match request.payload.trim_ascii() {
            b"deep" => {
                recurse(0);
            }
            // SAFETY: none, this has to fault; the address is in no mapping.
            b"null" => unsafe {
                std::hint::black_box(std::ptr::without_provenance::<u8>(16)).read_volatile();
            },
            b"thread" => {
                let thread = std::thread::Builder::new().name("other".into());
                let _ = thread.spawn(|| recurse(0)).unwrap().join();
            }
            _ => {}
        }
        reply.put(b"ok\n");
    }
}

// SAFETY: only one request runs at a time, so none finds another's work half done.
unsafe impl SignalPreemptible for Fatal {}

#[test]
#[ignore = "kills its process: the other tests run it in a separate one"]
fn dies() {
    let Ok(text) = std::env::var(REQUEST) else {
        return;
    };
    let (preempt, request) = text.split_once(' ').unwrap();
    let server = lines()
        .types([TypeSpec::new("shallow"), TypeSpec::new("deep")])
        .classifier(|line: &[u8]| RequestType::new(u32::from(line.starts_with(b"deep"))))
        .policy(Policy::sq())
        .config(
            Config::default()
                .workers(2)
                .topology(Topology::Dedicated)
                .stack_bytes(128 * 1024)
                .preempt(preempt.parse().unwrap()),
        )
        .handler(Fatal)
        .signal_preemption()
        .build()
        .unwrap();
    let address = server.local_addrs()[0];
    std::thread::spawn(move || server.run_until(&Shutdown::new()));
    let mut client = Client::new(std::net::TcpStream::connect(address).unwrap());
    assert_eq!(client.ask("shallow"), "ok");
    client.ask(request);
}

/// The threads of a team have stacks of std, which reports overflows itself.
#[test]
fn an_overflow_names_worker_type_and_setting() {
    for &preempt in MECHANISMS {
        let (signal, parts): (i32, &[&str]) = match preempt {
            PreemptPolicy::KernelThread => (SIGABRT, &["'psp-worker-", "has overflowed its stack"]),
            _ => (
                SIGSEGV,
                &[
                    "stack overflow on worker ",
                    "in a request of type deep",
                    "131072 bytes",
                    "Config::stack_bytes",
                ],
            ),
        };
        let output = after(preempt, "deep");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(signal), "{preempt}: {text}");
        for part in parts {
            assert!(text.contains(part), "{preempt}: {text}");
        }
    }
}

#[test]
fn other_faults_go_to_the_former_handler() {
    for &preempt in MECHANISMS {
        let output = after(preempt, "null");
        assert_eq!(output.status.signal(), Some(SIGSEGV), "{preempt}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("overflow"), "{preempt}: {text}");
        let output = after(preempt, "thread");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.signal().is_some(), "{preempt}");
        assert!(text.contains("'other'"), "std names its thread: {text}");
    }
}
