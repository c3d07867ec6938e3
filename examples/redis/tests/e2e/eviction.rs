//! `maxmemory` with a policy that evicts: writes go on, and the process stays near the limit.

use std::thread;
use std::time::Duration;

use crate::common::{Connection, Options, Server, wait_until};
use crate::memory::figure;

const VALUE_BYTES: usize = 1000;
/// Room above what the server has at its start.
const ROOM_BYTES: u64 = 8 << 20;
/// Commands of a batch, and what they may take beyond the limit before the server has looked at its memory.
const BATCH: usize = 400;
const OVERSHOOT_BYTES_MAX: u64 = 4 << 20;

fn start(topology: &'static str, policy: &str) -> (Server, Connection, u64) {
    let server = Server::start_with(&Options { topology: Some(topology), ..Options::default() });
    let mut client = server.connect();
    let limit = figure(&mut client, "used_memory:") + ROOM_BYTES;
    let set = format!("CONFIG SET maxmemory {limit} maxmemory-policy {policy}");
    assert_eq!(client.ask(&set), "+OK");
    (server, client, limit)
}

/// Stores values in batches, for so many bytes. `options` follow each SET.
fn store(client: &mut Connection, bytes: u64, options: &str, mut check: impl FnMut(&mut Connection)) {
    let value = "x".repeat(VALUE_BYTES);
    let mut key = 0;
    while (key * VALUE_BYTES) < bytes as usize {
        let batch: String = (key..key + BATCH).map(|key| format!("SET key{key} {value} {options}\r\n")).collect();
        client.send(batch.as_bytes());
        for _ in 0..BATCH {
            assert_eq!(client.reply().to_string(), "+OK");
        }
        key += BATCH;
        check(client);
    }
}

#[test]
fn writes_go_on_and_the_memory_stays_near_the_limit() {
    psp_harness::only_psp!();
    for (topology, policy, options) in [
        ("inline", "allkeys-lru", ""),
        ("dedicated", "allkeys-lfu", ""),
        ("inline", "allkeys-random", ""),
        ("dedicated", "volatile-lru", "EX 1000"),
        ("inline", "volatile-lfu", "EX 1000"),
        ("dedicated", "volatile-random", "EX 1000"),
        ("inline", "volatile-ttl", "EX 1000"),
    ] {
        let (_server, mut client, limit) = start(topology, policy);
        assert_eq!(client.ask("SET lasting text"), "+OK");
        store(&mut client, 4 * ROOM_BYTES, options, |client| {
            let used = figure(client, "used_memory:");
            assert!(used < limit + OVERSHOOT_BYTES_MAX, "{policy}: {used} of {limit}");
        });
        let evicted = figure(&mut client, "evicted_keys:");
        let least = 2 * ROOM_BYTES / VALUE_BYTES as u64;
        assert!(evicted > least, "{policy}: {evicted} are evicted");
        if policy.starts_with("volatile") {
            assert_eq!(client.ask("GET lasting"), "\"text\"", "{policy}");
        }
    }
}

#[test]
fn keys_in_use_stay() {
    psp_harness::only_psp!();
    let (_server, mut client, limit) = start("inline", "allkeys-lru");
    store(&mut client, ROOM_BYTES / 2, "", |_| {});
    let keys = client.ask("DBSIZE").parse::<usize>().unwrap();
    // The clock of accesses counts tenths of a second.
    thread::sleep(Duration::from_millis(2100));
    for key in (0..keys).step_by(2) {
        client.ask(&format!("GET key{key}"));
    }
    let lower = figure(&mut client, "used_memory:") - ROOM_BYTES / 8;
    assert!(lower < limit);
    assert_eq!(client.ask(&format!("CONFIG SET maxmemory {lower}")), "+OK");
    wait_until("a part is evicted, though nothing is stored", || {
        figure(&mut client, "used_memory:") < lower
    });
    let mut left = [0, 0];
    for key in 0..keys {
        left[key % 2] += client.ask(&format!("EXISTS key{key}")).parse::<usize>().unwrap();
    }
    let [used, idle] = left.map(|left| keys / 2 - left);
    assert!(used * 10 < idle, "evicted: {used} used keys, {idle} idle ones");
}

#[test]
fn without_keys_that_may_go_writes_get_errors() {
    psp_harness::only_psp!();
    let (_server, mut client, _) = start("inline", "volatile-lru");
    assert_eq!(client.ask("SET lasting text"), "+OK");
    assert_eq!(client.ask("SET short text EX 1000"), "+OK");
    assert_eq!(client.ask("CONFIG SET maxmemory 1mb"), "+OK");
    let oom = "-OOM command not allowed when used memory > 'maxmemory'.";
    wait_until("there is no room", || client.ask("SET a b") == oom);
    assert_eq!(client.ask("EXISTS short"), "0");
    assert_eq!(client.ask("GET lasting"), "\"text\"");
    let script = ["EVAL", "return redis.call('SET', 'a', 'b')", "0"];
    assert!(client.request(&script).to_string().contains("OOM"));
    // There is never room, but each write that evicts a key runs. The thread that evicts may leave no key.
    let policy = "CONFIG SET maxmemory-policy allkeys-random";
    assert_eq!(client.ask(policy), "+OK");
    let reply = client.ask("SET a b");
    assert!(reply == "+OK" || (reply == oom && client.ask("DBSIZE") == "0"), "{reply}");
    for (line, error) in [
        ("CONFIG SET maxmemory-policy lru", "argument must be one of the following: volatile-lru,"),
        ("CONFIG SET maxmemory-samples 0", "argument must be between 1 and 64 inclusive"),
    ] {
        let reply = client.ask(line);
        assert!(reply.contains(error), "{reply}");
    }
}
