//! Servers and clients on ports of DPDK: the two ends of a memory interface in this process.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use psp_harness::Wire;
use psp_loadgen::clients;
use psp_loadgen::report::Report;
use psp_loadgen::schedule::{LiveWorkload, OfferedLoad, RunPlan};
use psp_loadgen::wire::Target;
use psp_program::{Transport, TransportConfig};
use psp_protocols::psp_header::{Header, Kind};
use psp_server::{Policy, SpawnedServer, Topology};
use psp_synthetic::config::Config;
use psp_synthetic::handler::Mode;
use psp_synthetic::startup;

const PORT: u16 = 9000;
const WORKERS: usize = 2;

/// A running server with two workers.
fn start(wire: &Wire, policy: Policy, topology: Topology, mode: Mode) -> SpawnedServer {
    let config = Config {
        transport: TransportConfig { name: Transport::Dpdk, dpdk: wire.server(PORT) },
        policy,
        mode,
        server: psp_server::Config::default()
            .workers(WORKERS)
            // Else a worker that steps back gets nothing of a busy machine.
            .background_nice(0)
            .topology(topology),
        ..Config::default()
    };
    startup::build(config).unwrap().spawn().unwrap()
}

fn stop(server: SpawnedServer) {
    server.shut_down();
    assert_eq!(server.join().unwrap().abandoned, 0);
}

/// Has the load generator send requests for a second, all of which must be answered, and which must be so many.
fn run(wire: &Wire, serving: &SpawnedServer, workload: &str, per_s: f64, count_min: u64) -> Report {
    let target: Target = format!("psp://{}", serving.local_addrs()[0]).parse().unwrap();
    let workload = LiveWorkload::named_or_file(workload).unwrap();
    let types = workload.type_plans(target.protocol, OfferedLoad::Rate(per_s), 1).unwrap();
    let plan = RunPlan {
        warmup: Duration::from_millis(200),
        duration: Duration::from_secs(1),
        timeout: Duration::from_secs(20),
        dpdk: Some(wire.client()),
        ..RunPlan::new(target, types)
    };
    let result = clients::run(&plan, &Arc::default(), &mut ()).unwrap();
    let report = Report::new(&plan, &result);
    let overall = &report.overall;
    let counted = serving.handle().snapshot();
    assert_eq!(overall.completed, overall.scheduled, "{report}\n{counted:?}");
    assert!(overall.completed > count_min, "{report}");
    report
}

#[test]
fn every_request_of_a_run_is_answered() {
    // For the net thread and the workers.
    let wire = Wire::new(1 + WORKERS);
    let serving = start(&wire, Policy::darc(), Topology::Auto, Mode::Spin);
    let report = run(&wire, &serving, "high-bimodal", 2_000.0, 1_000);
    let net = serving.handle().snapshot().net;
    assert!(net.datagrams_received >= report.overall.completed);
    assert!(net.packets.arp_answered > 0);
    stop(serving);
}

#[test]
fn workers_answer_the_requests_of_their_own_queues() {
    let wire = Wire::new(WORKERS);
    // No type is long.
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let types = "[[type]]\nname = \"a\"\nshare = 0.5\nservice_us = 1.0\n\
                 [[type]]\nname = \"b\"\nshare = 0.5\nservice_us = 10.0\n";
    file.write_all(types.as_bytes()).unwrap();
    let workload = file.path().display().to_string();
    for policy in [Policy::d_fcfs(), Policy::stealing()] {
        let serving = start(&wire, policy, Topology::Distributed, Mode::Spin);
        let report = run(&wire, &serving, &workload, 400.0, 200);
        let workers = serving.handle().snapshot().workers;
        let received = workers.iter().map(|worker| worker.datagrams_received);
        let received: Vec<u64> = received.collect();
        // The load generator's queues take turns.
        assert!(received.iter().sum::<u64>() >= report.overall.completed);
        assert!(received[0].abs_diff(received[1]) <= 1, "{received:?}");
        stop(serving);
    }
}

#[test]
fn short_requests_pass_a_long_one_on_the_same_queue() {
    let wire = Wire::new(WORKERS);
    for policy in [Policy::d_fcfs(), Policy::stealing()] {
        // The worker sleeps, but keeps its thread.
        let serving = start(&wire, policy, Topology::Distributed, Mode::Sleep);
        let mut client = wire.connect(PORT);
        let request = |id: u32, request_type: u16, run_time: Duration| {
            let header = Header {
                kind: Kind::Request,
                request_type,
                id,
                payload_len: 0,
                run_time_ns: u32::try_from(run_time.as_nanos()).unwrap(),
            };
            header.encode()
        };
        let id_of = |reply: &Vec<u8>| Header::decode(reply).unwrap().id;
        client.send(1, &request(0, 1, Duration::from_millis(700)));
        for id in 1..=5 {
            let reply = client.ask(1, &request(id, 0, Duration::from_micros(1)));
            assert_eq!(id_of(&reply), id, "the reply of another request");
        }
        let replies: Vec<u32> = client.receive().iter().map(id_of).collect();
        assert_eq!(replies, [0]);
        drop(client);
        stop(serving);
    }
}
