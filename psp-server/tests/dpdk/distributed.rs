//! Workers that poll queues of their own.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use psp_server::dpdk::DpdkError;
use psp_server::protocols::psp_header::Kind;
use psp_server::{BuildError, Config, Policy, Topology};

use crate::common::until;
use crate::rig::{LONG, SHORT, TestClient, TestServer, WORKERS, Wire, ask, turn};

/// Workers look at their measurements more often than that.
const MEASURED: Duration = Duration::from_millis(50);

/// Those of workers that schedule themselves, and pass requests on.
fn groups() -> [Policy; 4] {
    [Policy::stealing(), Policy::jsq(), Policy::synergy(), Policy::darc_distributed()]
}

fn config() -> Config {
    Config::default()
        .topology(Topology::Distributed)
        // Else a worker that steps back gets nothing of a busy machine.
        .background_nice(0)
        .workers(WORKERS)
}

fn start(wire: &Wire, policy: Policy) -> TestServer {
    TestServer::start(wire.server(), policy, config())
}

/// Requests that came to the queue of each worker.
fn received(server: &TestServer) -> Vec<u64> {
    let workers = server.handle.snapshot().workers;
    { workers.iter() }.map(|worker| worker.datagrams_received).collect()
}

/// Waits for the replies to these requests.
fn await_replies(client: &mut TestClient, requests: impl IntoIterator<Item = u32>) {
    let mut waiting: HashSet<u32> = requests.into_iter().collect();
    until("all replies", || {
        client.receive(|header, _| {
            assert_eq!(header.kind, Kind::Reply);
            assert!(waiting.remove(&header.id), "a reply to nothing");
        });
        waiting.is_empty()
    });
}

/// Has the workers measure how short requests are.
fn learn_short(client: &mut TestClient) {
    let since = Instant::now();
    while since.elapsed() < MEASURED {
        let queues = 0..client.port.queues();
        let shorts: Vec<u32> = queues.map(|queue| client.send_on(queue, SHORT, &[ask::ECHO])).collect();
        await_replies(client, shorts);
    }
}

/// Has short requests answered while one of this type, which passes checkpoints, runs on their queue.
fn ask_beside(server: &TestServer, client: &mut TestClient, request_type: u16) {
    let long = client.send_on(0, request_type, &[ask::LOOP]);
    until("the long request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
    for _ in 0..20 {
        let short = client.send_on(0, SHORT, &[ask::ECHO]);
        await_replies(client, [short]);
    }
    server.gate.open();
    await_replies(client, [long]);
}

#[test]
fn every_request_of_every_queue_is_answered() {
    let _turn = turn();
    for policy in [Policy::d_fcfs()].into_iter().chain(groups()) {
        for queues in [WORKERS, WORKERS + 1] {
            let wire = Wire::of(queues);
            let server = start(&wire, policy.clone());
            let mut client = wire.client();
            client.exchange(300);
            until("the end of all requests", || server.counts() == (300, 0, 300));
            let received = received(&server);
            assert_eq!(received.iter().sum::<u64>(), 300);
            assert!(received.iter().all(|&of_worker| of_worker >= 100), "{received:?}");
            assert_eq!(client.port.mbufs_in_use(), 0);
            drop(client);
            server.stop();
        }
    }
}

#[test]
fn short_requests_pass_a_long_one_on_the_same_queue() {
    let _turn = turn();
    // Under `jsq` a request stays in the queue that it has joined, also behind a long one.
    let others = [Policy::d_fcfs(), Policy::stealing(), Policy::darc_distributed()];
    for policy in others {
        for queue in 0..WORKERS {
            let wire = Wire::of(WORKERS);
            let server = start(&wire, policy.clone());
            let mut client = wire.client();
            let long = client.send_on(queue, LONG, &[ask::WAIT]);
            until("the long request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
            for _ in 0..20 {
                let short = client.send_on(queue, SHORT, &[ask::ECHO]);
                await_replies(&mut client, [short]);
            }
            server.gate.open();
            await_replies(&mut client, [long]);
            // The worker has its queue back.
            let short = client.send_on(queue, SHORT, &[ask::ECHO]);
            await_replies(&mut client, [short]);
            drop(client);
            server.stop();
        }
    }
}

#[test]
fn requests_of_one_burst_do_not_wait_for_a_long_one_among_them() {
    let _turn = turn();
    for policy in [Policy::d_fcfs(), Policy::stealing()] {
        let wire = Wire::of(WORKERS);
        let server = start(&wire, policy.clone());
        let mut client = wire.client();
        let long = client.put_on(1, LONG, &[ask::WAIT]);
        let shorts: Vec<u32> = (0..20).map(|_| client.put_on(1, SHORT, &[ask::ECHO])).collect();
        assert_eq!(client.port.flush(), 0);
        await_replies(&mut client, shorts);
        let workers = server.handle.snapshot().workers;
        assert_eq!(workers[1].datagrams_received, 21);
        // Under `d-fcfs` they went with their queue, and else without it.
        assert_eq!(workers[0].stolen > 0, policy == Policy::stealing());
        server.gate.open();
        await_replies(&mut client, [long]);
        drop(client);
        server.stop();
    }
}

#[test]
fn replies_leave_before_a_long_request_though_nobody_takes_the_queue() {
    let _turn = turn();
    for policy in [Policy::d_fcfs(), Policy::stealing()] {
        let wire = Wire::of(1);
        let server = TestServer::start(wire.server(), policy, config().workers(1));
        let mut client = wire.client();
        learn_short(&mut client);
        let short = client.put_on(0, SHORT, &[ask::ECHO]);
        let long = client.put_on(0, LONG, &[ask::WAIT]);
        assert_eq!(client.port.flush(), 0);
        await_replies(&mut client, [short]);
        server.gate.open();
        await_replies(&mut client, [long]);
        drop(client);
        server.stop();
    }
}

#[test]
fn a_short_type_that_turns_out_to_be_long_leaves_its_queue_to_others() {
    let _turn = turn();
    for policy in [Policy::d_fcfs(), Policy::stealing()] {
        let wire = Wire::of(WORKERS);
        let server = start(&wire, policy);
        let mut client = wire.client();
        learn_short(&mut client);
        ask_beside(&server, &mut client, SHORT);
        drop(client);
        server.stop();
    }
}

#[test]
fn a_worker_alone_preempts_a_long_request_for_what_came_to_its_queue() {
    let _turn = turn();
    let wire = Wire::of(1);
    let server = TestServer::start(wire.server(), Policy::synergy(), config().workers(1));
    let mut client = wire.client();
    learn_short(&mut client);
    ask_beside(&server, &mut client, LONG);
    drop(client);
    server.stop();
}

#[test]
fn overload_of_a_queue_is_dropped_and_counted() {
    let _turn = turn();
    for policy in groups() {
        let wire = Wire::of(WORKERS);
        let config = config().queue_capacity(4);
        let server = TestServer::start(wire.server(), policy, config);
        let mut client = wire.client();
        for _ in 0..200 {
            client.send_on(0, LONG, &[ask::WAIT]);
        }
        until("a request at the gate", || server.gate.waiting.load(Ordering::SeqCst) > 0);
        server.gate.open();
        let mut replies = 0;
        let counts = || {
            let (arrived, rejected, completed) = server.counts();
            let overflows = server.handle.snapshot().net.packets.overflows;
            (arrived, overflows, rejected, completed)
        };
        until("every request is answered or was dropped", || {
            client.receive(|_, _| replies += 1);
            let (arrived, overflows, rejected, completed) = counts();
            arrived + overflows == 200 && arrived == rejected + completed && replies == completed
        });
        let (_, overflows, rejected, _) = counts();
        assert!(overflows + rejected > 0, "every burst found room");
        drop(client);
        server.stop();
    }
}

#[test]
fn a_server_drains_and_starts_again_on_the_same_wire() {
    let _turn = turn();
    let wire = Wire::of(WORKERS);
    for policy in [Policy::d_fcfs(), Policy::stealing(), Policy::d_fcfs()] {
        let server = start(&wire, policy);
        let mut client = wire.client();
        client.exchange(50);
        client.send_on(1, LONG, &[ask::WAIT]);
        until("the long request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
        let handle = server.handle.clone();
        server.stop();
        let snapshot = handle.snapshot();
        let completed: u64 = snapshot.types.iter().map(|ty| ty.completions).sum();
        let unsent: u64 = { snapshot.workers.iter() }.map(|worker| worker.replies_unsent).sum();
        assert_eq!((completed, unsent), (51, 0), "it was to be answered");
    }
}

#[test]
fn a_server_goes_while_its_client_polls() {
    let _turn = turn();
    for _ in 0..5 {
        let wire = Wire::of(WORKERS);
        let server = start(&wire, Policy::stealing());
        let mut client = wire.client();
        client.exchange(50);
        client.polls_to_the_end_of(server);
    }
}

#[test]
fn a_port_needs_queues_for_all_workers() {
    let _turn = turn();
    let wire = Wire::of(1);
    let refused = TestServer::try_start(wire.server(), Policy::d_fcfs(), config()).err();
    let refused = refused.expect("two workers cannot share a queue");
    let BuildError::Dpdk(DpdkError::TooFewQueues { workers: WORKERS, asked: 1, .. }) = &refused else {
        panic!("{refused:?}");
    };
    // The port is free again.
    let config = config().workers(1);
    TestServer::start(wire.server(), Policy::d_fcfs(), config).stop();
}
