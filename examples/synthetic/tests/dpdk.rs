//! The load generator and the server on ports of DPDK: the two ends of a memory interface in this process.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use psp_loadgen::clients;
use psp_loadgen::report::Report;
use psp_loadgen::schedule::{LiveWorkload, OfferedLoad, RunPlan};
use psp_loadgen::wire::Target;
use psp_program::{Transport, TransportConfig};
use psp_server::Shutdown;
use psp_server::dpdk::DpdkConfig;
use psp_synthetic::config::Config;
use psp_synthetic::startup;

const EAL: &str =
    "--no-huge -m 256 --no-pci --no-shconf --no-telemetry --file-prefix=psp-synthetic-test";

/// For the net thread and two workers.
const QUEUES: usize = 3;

#[test]
fn every_request_of_a_run_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock");
    let port = |role: &str, host: u8, port: u16| {
        let socket = socket.display();
        DpdkConfig {
            virtual_device: Some(format!(
                "net_memif{host},role={role},socket-abstract=no,socket={socket},id=0"
            )),
            queues: Some(QUEUES),
            ip: Ipv4Addr::new(10, 78, 0, host),
            port,
            eal: EAL.split_whitespace().map(str::to_owned).collect(),
            ..DpdkConfig::default()
        }
    };
    let server = startup::build(Config {
        transport: TransportConfig {
            name: Transport::Dpdk,
            dpdk: port("server", 1, 9000),
        },
        server: psp_server::Config::default().workers(2),
        ..Config::default()
    })
    .unwrap();
    let target: Target = format!("psp://{}", server.local_addrs()[0])
        .parse()
        .unwrap();
    let handle = server.handle();
    let shutdown = Shutdown::new();
    let stopper = shutdown.clone();
    let serving = std::thread::spawn(move || server.run_until(&shutdown).unwrap());

    let workload = LiveWorkload::named_or_file("high-bimodal").unwrap();
    let types = workload
        .type_plans(target.protocol, OfferedLoad::Rate(2_000.0), 1)
        .unwrap();
    let plan = RunPlan {
        warmup: Duration::from_millis(200),
        duration: Duration::from_secs(1),
        timeout: Duration::from_secs(20),
        dpdk: Some(port("client", 2, 40_000)),
        ..RunPlan::new(target, types)
    };
    let result = clients::run(&plan, &Arc::default(), &mut ()).unwrap();
    stopper.trigger();
    assert_eq!(serving.join().unwrap().abandoned, 0);
    let report = Report::new(&plan, &result);
    let overall = &report.overall;
    assert_eq!(overall.completed, overall.scheduled, "{report}");
    assert!(overall.completed > 1_000, "{report}");
    let net = handle.snapshot().net;
    assert!(net.datagrams_received >= overall.completed);
    assert!(net.packets.arp_answered > 0);
}
