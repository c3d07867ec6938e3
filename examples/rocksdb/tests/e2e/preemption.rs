//! Scans yield to other requests, and each method is its own request type.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{Connection, ENGINES, scan};
use prost::Message;
use psp_harness::{DEADLINE, wait_until};
use psp_protocols::kv::SCAN;
use psp_protocols::rpc::Status;
use psp_rocksdb::closing::close;
use psp_rocksdb::config::Config;
use psp_rocksdb::engine::EngineKind;
use psp_rocksdb::startup::{self, KeyValueServer};
use psp_server::{Policy, Topology};

const ENTRIES: u32 = 50_000;

#[test]
fn preempted_scans_are_complete() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let is_rocksdb = *engine == "rocksdb";
        let mut config = Config {
            port: 0,
            policy: Policy::mq().quantum_us(20.0),
            preload: ENTRIES.into(),
            sync: false,
            ..Config::default()
        };
        if is_rocksdb {
            config.engine = EngineKind::RocksDb;
            config.data_dir = Some(directory.path().to_owned());
        }
        let storage = config.storage().unwrap();
        config.server.workers = Some(1.into());
        config.server.topology = Topology::Dedicated;
        let KeyValueServer { server, engine } = startup::build(config).unwrap();
        let address = server.local_addrs()[0];
        let handle = server.handle();
        let names: Vec<_> = handle.snapshot().types.into_iter().map(|ty| ty.name).collect();
        assert_eq!(names[..4], ["GET", "SCAN", "PUT", "DELETE"]);
        let running = thread::spawn(move || server.run().unwrap());

        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let scanner = scope.spawn(|| {
                let mut client = Connection::open(address);
                let request = scan(b"", ENTRIES, true).encode_to_vec();
                let mut counts = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let response = client.exchange(SCAN, &request).unwrap();
                    assert_eq!(response.status(), Status::Ok);
                    counts.push(response.payload);
                }
                counts
            });
            let mut client = Connection::open(address);
            let mut value = 0_u64;
            wait_until("other requests preempt the scans", || {
                value += 1;
                // The last key: a scan that saw the change would return another checksum.
                client.put(b"key:000000049999", &value.to_be_bytes()).unwrap();
                assert_eq!(client.get(b"key:000000049999").unwrap(), value.to_be_bytes());
                let types = handle.snapshot().types;
                let scans = types.iter().find(|ty| ty.name == SCAN).unwrap();
                scans.turns.preemptions_honoured >= 20
            });
            is_over.store(true, Ordering::Relaxed);
            assert!(!scanner.join().unwrap().is_empty());
            assert_eq!(client.summary(b"", ENTRIES).unwrap().count, ENTRIES);
        });
        handle.shut_down();
        assert_eq!(running.join().unwrap().abandoned, 0);
        assert!(close(engine, DEADLINE));
        // The database's lock is released.
        storage.open().unwrap();
    }
}
