//! Requests that wait leave their worker to others.

use std::net::UdpSocket;
use std::time::Duration;

use psp_protocols::psp_header::{Header, Kind, encode_wait};
use psp_server::{Policy, PreemptPolicy, Topology};
use psp_synthetic::config::Config;
use psp_synthetic::handler::Mode;
use psp_synthetic::startup;

use crate::program::stop;

/// Longest wait for a reply. It is long enough for any machine, so that only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(30);
const MILLISECOND_NS: u32 = 1_000_000;
/// How long requests wait: longer than all of them take to begin. On kernel threads a thread is started for each, which
/// takes long where other programs have the cores.
const WAIT_NS: u32 = 4_000 * MILLISECOND_NS;

/// The ids of the replies in order. The only worker gets requests of 1 ms: the first ten wait, the others do not.
fn order_of_replies(policy: &Policy, topology: Topology, mode: Mode, preempt: PreemptPolicy) -> Vec<u32> {
    let server = startup::build(Config {
        port: 0,
        mode,
        policy: policy.clone(),
        server: psp_server::Config::default().workers(1).topology(topology).preempt(preempt),
        ..Config::default()
    })
    .unwrap()
    .spawn()
    .unwrap();
    let address = server.local_addrs()[0];

    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    for id in 0..20 {
        let wait = encode_wait(WAIT_NS);
        let payload = if id < 10 { &wait[..] } else { &[] };
        let header = Header {
            kind: Kind::Request,
            request_type: 0,
            id,
            payload_len: payload.len() as u32,
            run_time_ns: MILLISECOND_NS,
        };
        let request = [&header.encode(), payload].concat();
        client.send_to(&request, address).unwrap();
    }
    let mut reply = [0; 64];
    let replies = (0..20).map(|_| {
        let len = client.recv(&mut reply).unwrap();
        let header = Header::decode(&reply[..len]).unwrap();
        assert_eq!((header.kind, header.payload_len), (Kind::Reply, 0));
        header.id
    });
    let order = replies.collect();
    stop(server);
    order
}

fn assert_that_others_pass(policy: &Policy, topology: Topology, mode: Mode, preempt: PreemptPolicy) {
    let order = order_of_replies(policy, topology, mode, preempt);
    let passed = order[0] >= 10;
    assert!(passed, "{policy} {topology} {mode:?} {preempt}: {order:?}");
}

#[test]
fn those_that_wait_let_all_others_pass_on_kernel_threads() {
    let (dedicated, kernel_thread) = (Topology::Dedicated, PreemptPolicy::KernelThread);
    assert_that_others_pass(&Policy::mq(), dedicated, Mode::Sleep, kernel_thread);
}

#[test]
fn those_that_wait_let_all_others_pass_at_a_worker_that_receives_for_itself() {
    let (distributed, none) = (Topology::Distributed, PreemptPolicy::None);
    assert_that_others_pass(&Policy::d_fcfs(), distributed, Mode::Sleep, none);
}

#[test]
fn those_that_wait_let_all_others_pass() {
    for (policy, mode, preempt) in [
        (Policy::mq(), Mode::Spin, PreemptPolicy::Cooperative),
        (Policy::mq(), Mode::Sleep, PreemptPolicy::Cooperative),
        (Policy::mq(), Mode::Spin, PreemptPolicy::Signal),
        (Policy::darc(), Mode::Sleep, PreemptPolicy::None),
    ] {
        assert_that_others_pass(&policy, Topology::Dedicated, mode, preempt);
    }
}
