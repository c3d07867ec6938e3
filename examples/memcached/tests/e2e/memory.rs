//! The memory limit.

use crate::common::{Connection, Server};

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
        fill(&mut client, 10_000 * (round + 1)..10_000 * (round + 1) + 5000, 1000);
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
fn what_is_read_between_two_sets_stays_whatever_its_size() {
    for (memory, len) in [("6", 66_000), ("64", 20_000), ("64", 100_000), ("64", 500_000)] {
        let server = Server::start_with(&["-m", memory]);
        let mut client = server.connect();
        fill(&mut client, 0..1, len);
        for key in 1..700 {
            let found = client.ask("mg key0 s");
            assert_eq!(found, format!("HD s{len}"), "-m {memory}, before set {key}");
            fill(&mut client, key..key + 1, len);
        }
    }
}

/// The most memory of a process with `-m 16`, as docs/memcached.md says.
const RESIDENT_MAX: u64 = 16 * MIB * 115 / 100 + RESIDENT_IDLE_MAX;

/// The most memory of a process without items.
const RESIDENT_IDLE_MAX: u64 = 19 * MIB;

/// Stores `total` bytes of values with lengths of about `len`, and uses each 40th item three times.
fn churn(client: &mut Connection, keys: &mut std::ops::RangeFrom<usize>, total: u64, len: usize) {
    let value = "v".repeat(2 * len);
    let mut stored = 0;
    while stored < total {
        let mut requests = String::new();
        while requests.len() < 1 << 18 {
            let key = keys.next().expect("endless");
            let len = len / 2 + key.wrapping_mul(0x9e37_79b1) % len.max(2);
            requests += &format!("set key{key} 0 0 {len} noreply\r\n{}\r\n", &value[..len]);
            if key.is_multiple_of(40) {
                requests += &format!("mg key{key} q\r\n").repeat(3);
            }
            stored += len as u64 + 150;
        }
        client.send(requests + "mn\r\n");
        // `mg` without flags that ask for something answers `HD` for an item.
        while client.line() != "MN" {}
    }
}

fn memory_stays_within_its_bound_while_sizes_change(topology: &str) {
    psp_harness::only_psp!();
    let server = Server::start_psp(&["-m", "16", "-t", "2"], &["--topology", topology], "");
    let mut client = server.connect();
    let mut keys = 0..;
    for len in [10, 100, 1000, 10_000, 300, 100_000, 5000, 20, 60_000, 700, 200, 3000, 150, 30_000, 10] {
        churn(&mut client, &mut keys, 24 * MIB, len);
        let (resident, bytes) = (server.resident_bytes(), client.stat("stats", "bytes"));
        assert!(resident <= RESIDENT_MAX, "{resident} bytes after {len}");
        // However many gaps there are, items have a quarter of the limit, less the next item.
        assert!(bytes >= 3 * MIB, "{bytes} bytes of items after {len}");
    }
    client.expect("flush_all", "OK");
    crate::common::wait_until("the memory of flushed items is given back", || {
        server.resident_bytes() <= RESIDENT_IDLE_MAX
    });
}

#[test]
fn memory_stays_within_its_bound_inline() {
    memory_stays_within_its_bound_while_sizes_change("inline");
}

#[test]
fn memory_stays_within_its_bound_dedicated() {
    memory_stays_within_its_bound_while_sizes_change("dedicated");
}

/// A few items that are used again and again hold a page each, which the others have left.
#[test]
fn gaps_between_items_that_stay_are_closed() {
    psp_harness::only_psp!();
    let server = Server::start_with(&["-m", "32"]);
    let mut client = server.connect();
    let empty = server.resident_bytes();
    fill(&mut client, 0..60_000, 200);
    let taken = server.resident_bytes() - empty;
    for key in (0..60_000).filter(|key| key % 50 != 0) {
        client.send(format!("delete key{key} noreply\r\n"));
    }
    client.expect("mn", "MN");
    assert_eq!(client.stat("stats", "curr_items"), 1200);
    crate::common::wait_until("the gaps are closed", || server.resident_bytes() < empty + taken / 3);
    for key in (0..60_000).step_by(50) {
        assert_eq!(client.ask(&format!("mg key{key} s")), "HD s200");
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

/// As many as memcached 1.6 holds.
#[test]
fn large_items_take_little_more_than_their_bytes() {
    for (len, items) in [(1000, 7080), (20_000, 384), (100_000, 80), (500_000, 16)] {
        let server = Server::start_with(&["-m", "8"]);
        let mut client = server.connect();
        fill(&mut client, 0..items * 2, len);
        let held = client.stat("stats", "curr_items");
        assert!(held >= items as u64, "{held} items of {len} bytes");
    }
}

/// As memcached 1.6, which takes 202 and 105 bytes for an item.
#[test]
fn small_items_take_little_more_than_in_memcached() {
    const ITEMS: u64 = 300_000;
    for (len, each_max) in [(100, 212), (10, 115)] {
        let server = Server::start_with(&["-m", "256"]);
        let mut client = server.connect();
        let before = server.resident_bytes();
        fill(&mut client, 0..ITEMS as usize, len);
        assert_eq!(client.stat("stats", "curr_items"), ITEMS);
        let bytes = client.stat("stats", "bytes");
        assert!(bytes <= ITEMS * each_max, "{bytes} bytes counted");
        crate::common::wait_until(&format!("{each_max} bytes an item"), || {
            server.resident_bytes() - before <= ITEMS * each_max
        });
    }
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
    psp_harness::only_psp!();
    let server = Server::start();
    let mut client = server.connect();
    fill(&mut client, 0..5000, 1000);
    client.expect("set expires 0 1 1|x", "STORED");
    client.expect("flush_all", "OK");
    client.expect("set stays 0 0 1|x", "STORED");
    crate::common::wait_until("one item is left", || client.stat("stats", "curr_items") == 1);
    assert!(client.stat("stats", "bytes") < 1000);
    client.expect("get stays", "VALUE stays 0 1|x|END");
}
