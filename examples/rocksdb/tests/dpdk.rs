//! Datagrams through a port of DPDK, which workers poll: lookups pass scans.

use prost::Message;
use psp_harness::Wire;
use psp_program::{Transport, TransportConfig};
use psp_protocols::kv::{GET, GetRequest, GetResponse, PUT, PutRequest, SCAN, ScanRequest, ScanResponse};
use psp_protocols::rpc::{RequestRef, Response, Status};
use psp_rocksdb::config::Config;
use psp_rocksdb::startup;
use psp_server::{Policy, Topology};

const PORT: u16 = 9200;
const WORKERS: usize = 2;
const KEYS: u64 = 2000;

#[test]
fn lookups_and_scans_are_answered_through_a_port_under_each_topology() {
    let wire = Wire::new(WORKERS);
    for (policy, topology) in [(Policy::darc(), Topology::Dedicated), (Policy::stealing(), Topology::Distributed)] {
        let server = startup::build(Config {
            bind: Vec::new(),
            port: PORT,
            udp: true,
            transport: TransportConfig { name: Transport::Dpdk, dpdk: wire.server(PORT) },
            preload: KEYS,
            policy,
            server: Config::default().server.topology(topology).workers(WORKERS),
            ..Config::default()
        });
        let running = server.unwrap().server.spawn().unwrap();
        let mut client = wire.connect(PORT);
        let mut ask = |queue: usize, id: u64, method: &str, payload: &dyn Fn() -> Vec<u8>| {
            let mut frame = Vec::new();
            RequestRef { id, method, deadline_us: 0, payload: &payload() }.encode_frame(&mut frame);
            let response = Response::decode_length_delimited(&client.ask(queue, &frame)[..]).unwrap();
            assert_eq!((response.id, response.status()), (id, Status::Ok));
            response.payload
        };
        for id in 1..=50 {
            let queue = id as usize % WORKERS;
            let key = format!("own:{id}").into_bytes();
            let put = PutRequest { key: key.clone(), value: key.clone() };
            ask(queue, id, PUT, &|| put.encode_to_vec());
            let got = ask(queue, id, GET, &|| GetRequest { key: key.clone() }.encode_to_vec());
            assert_eq!(GetResponse::decode(got).unwrap().value, key);
        }
        let all = ScanRequest { start: Vec::new(), count: 10_000, summary: true };
        let scanned = ask(0, 51, SCAN, &|| all.encode_to_vec());
        assert_eq!(ScanResponse::decode(scanned).unwrap().count as u64, KEYS + 50);
        drop(client);
        running.shut_down();
        assert_eq!(running.join().unwrap().abandoned, 0);
    }
}
