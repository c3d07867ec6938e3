//! The memory limit.

use crate::common::{Connection, Server};
use psp_harness::{NOT_PSP, skip};

const MIB: u64 = 1 << 20;

fn fill(client: &mut Connection, keys: std::ops::Range<usize>, len: usize) {
    let value = "v".repeat(len);
    for key in keys {
        client.send(format!("set key{key} 0 0 {len} noreply\r\n{value}\r\n"));
    }
    client.expect("mn", "MN");
}

#[test]
fn items_are_evicted_and_memory_stays_within_its_limit() {
    let server = Server::start_with(&["-m", "16"]);
    let mut client = server.connect();
    let before = server.resident_bytes();
    fill(&mut client, 0..1000, 1000);
    for round in 0..20 {
        // Some keys are used repeatedly.
        for key in 0..100 {
            client.send(format!("mg key{key} s\r\n"));
        }
        for _ in 0..100 {
            client.line();
        }
        fill(
            &mut client,
            10_000 * (round + 1)..10_000 * (round + 1) + 5000,
            1000,
        );
        assert!(client.stat("stats", "bytes") <= 16 * MIB);
    }
    assert!(client.stat("stats", "evictions") > 50_000);
    let kept = (0..100).filter(|key| client.ask(&format!("mg key{key} s")) != "EN");
    assert!(kept.count() >= 90);
    let newest = client.ask("mg key204999 s");
    assert_eq!(newest, "HD s1000");
    if Server::is_psp() {
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown < 2 * 16 * MIB, "{grown} bytes for 16 MiB of items");
        assert!(client.stat("stats", "bytes") > 14 * MIB);
    }
}

#[test]
fn items_of_any_size_share_the_memory() {
    let server = Server::start_with(&["-m", "64", "-I", "4m"]);
    let mut client = server.connect();
    fill(&mut client, 0..50_000, 1000);
    fill(&mut client, 100_000..100_040, 1_000_000);
    assert_eq!(client.ask("mg key100039 s"), "HD s1000000");
    fill(&mut client, 200_000..250_000, 1000);
    assert_eq!(client.ask("mg key249999 s"), "HD s1000");
    assert!(client.stat("stats", "bytes") <= 64 * MIB);
}

#[test]
fn without_evictions_stores_fail_when_the_memory_is_full() {
    let server = Server::start_with(&["-m", "16", "-M"]);
    let mut client = server.connect();
    let value = "v".repeat(100_000);
    let mut stored = 0;
    loop {
        let reply = client.ask(&format!("set key{stored} 0 0 100000\r\n{value}"));
        if reply != "STORED" {
            assert_eq!(reply, "SERVER_ERROR out of memory storing object");
            break;
        }
        stored += 1;
        assert!(stored < 200, "no limit");
    }
    assert!(stored > 50);
    assert_eq!(client.ask("mg key0 s"), "HD s100000");
    client.expect("delete key0", "DELETED");
    client.expect(&format!("set again 0 0 100000|{value}"), "STORED");
}

#[test]
fn the_memory_of_flushed_and_expired_items_is_freed() {
    // memcached keeps the memory until it needs it.
    if !Server::is_psp() {
        return skip(NOT_PSP);
    }
    let server = Server::start();
    let mut client = server.connect();
    fill(&mut client, 0..5000, 1000);
    client.expect("set expires 0 1 1|x", "STORED");
    client.expect("flush_all", "OK");
    client.expect("set stays 0 0 1|x", "STORED");
    crate::common::wait_until("one item is left", || {
        client.stat("stats", "curr_items") == 1
    });
    assert!(client.stat("stats", "bytes") < 1000);
    client.expect("get stays", "VALUE stays 0 1|x|END");
}
