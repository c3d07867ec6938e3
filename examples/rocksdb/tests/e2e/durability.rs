//! Acknowledged writes survive when the server is killed.

#![cfg(feature = "rocksdb")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::common::{Connection, psp_rocksdb};
use prost::Message;
use psp_harness::{ServerProcess, Start, wait_until};
use psp_protocols::kv::{DELETE, DeleteRequest, PUT, PutRequest};
use psp_protocols::rpc::Status;

const WRITERS: u64 = 4;
const ROUNDS: u64 = 5;
/// Acknowledged writes per round before the server is killed.
const ACKNOWLEDGED_MIN: u64 = 200;

fn start(data: &Path) -> ServerProcess {
    ServerProcess::start(|directory| {
        let mut command = psp_rocksdb(directory, "");
        command.args(["--engine", "rocksdb", "--data-dir"]).arg(data);
        Start { command, port: None }
    })
}

fn key(round: u64, writer: u64, number: u64) -> Vec<u8> {
    format!("{round}:{writer}:{number:08}").into_bytes()
}

fn value(key: &[u8]) -> Vec<u8> {
    key.repeat(5)
}

/// Whether a writer deletes a key right after setting it.
fn is_deleted(number: u64) -> bool {
    number % 5 == 4
}

/// Writes keys one after the other until the server is gone. Returns how many writes, including their
/// deletions, were acknowledged.
fn write(mut client: Connection, round: u64, writer: u64, total: &AtomicU64) -> u64 {
    for number in 0.. {
        let key = key(round, writer, number);
        let put = PutRequest { value: value(&key), key: key.clone() };
        let mut exchanges = vec![(PUT, put.encode_to_vec())];
        if is_deleted(number) {
            exchanges.push((DELETE, DeleteRequest { key }.encode_to_vec()));
        }
        for (method, payload) in exchanges {
            let Ok(response) = client.exchange(method, &payload) else {
                return number;
            };
            assert_eq!(response.status(), Status::Ok, "{}", response.error);
        }
        total.fetch_add(1, Ordering::Relaxed);
    }
    unreachable!("the server is killed first");
}

#[test]
fn acknowledged_writes_survive_killing_the_server() {
    let data = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let server = start(data.path());
        let address = server.address();
        let total = AtomicU64::new(0);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let total = &total;
                    let client = Connection::open(address);
                    scope.spawn(move || write(client, round, writer, total))
                })
                .collect();
            // Kill the server at a different moment in each round.
            let least = ACKNOWLEDGED_MIN + round * 37;
            wait_until("writes are acknowledged", || total.load(Ordering::Relaxed) >= least);
            // Dropping the server sends SIGKILL.
            drop(server);
            for (writer, thread) in (0..).zip(writers) {
                acknowledged.push((round, writer, thread.join().unwrap()));
            }
        });

        let server = start(data.path());
        let mut client = Connection::open(server.address());
        let mut checked = 0;
        for &(round, writer, count) in &acknowledged {
            for number in 0..count {
                let key = key(round, writer, number);
                let found = client.get(&key).map_err(|(status, _)| status);
                let expected = if is_deleted(number) {
                    Err(Status::NotFound)
                } else {
                    Ok(value(&key))
                };
                assert_eq!(found, expected, "{}", String::from_utf8_lossy(&key));
                checked += 1;
            }
        }
        assert!(checked >= (round + 1) * ACKNOWLEDGED_MIN, "only {checked} keys checked");
    }
}
