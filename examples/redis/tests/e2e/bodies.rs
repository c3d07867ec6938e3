//! Requests with large bodies: other requests go on meanwhile, memory holds each body once, and bodies that do not fit
//! in the budget together wait for each other.

use std::thread;
use std::time::{Duration, Instant};

use psp_harness::{skip, wait_until};

use crate::common::{Connection, Options, Server, TOPOLOGIES, encode};

const MB: usize = 1 << 20;

fn set(key: &str, len: usize) -> Vec<u8> {
    encode(&[b"SET", key.as_bytes(), &vec![b'x'; len]])
}

fn buffered_bytes(client: &mut Connection) -> usize {
    let info = client.info("psp");
    let mut lines = info.lines();
    let held = lines.find_map(|line| line.strip_prefix("psp_buffered_bytes:"));
    held.unwrap().trim().parse().unwrap()
}

/// A server whose budget of 4 MiB has room for one body of these tests.
fn start_with_small_budget(topology: &'static str) -> Server {
    Server::start_with(&Options {
        topology: Some(topology),
        workers: Some(2),
        config: Some("[server]\nbuffered-bytes-max = 4194304\n"),
        ..Options::default()
    })
}

#[test]
fn bodies_that_exceed_the_budget_together_are_stored_one_after_the_other() {
    const BODY: usize = 5 * MB / 2;
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start_with_small_budget(topology);
        let mut witness = server.connect();
        let mut first = server.connect();
        let request = set("first", BODY);
        let (all_but_last, last) = request.split_at(request.len() - 1);
        first.send(all_but_last);
        wait_until("the first has room", || buffered_bytes(&mut witness) > BODY);
        let others = ["second", "third", "fourth"].map(|key| {
            let mut client = server.connect();
            thread::spawn(move || client.request(&[b"SET", key.as_bytes(), &vec![b'x'; BODY]]))
        });
        for _ in 0..10 {
            assert!(buffered_bytes(&mut witness) <= 4 * MB, "{topology}");
            thread::sleep(Duration::from_millis(20));
        }
        first.send(last);
        assert_eq!(first.reply().to_string(), "+OK", "{topology}");
        for other in others {
            assert_eq!(other.join().unwrap().to_string(), "+OK", "{topology}");
        }
        for key in ["first", "second", "third", "fourth"] {
            assert_eq!(witness.ask(&format!("STRLEN {key}")), BODY.to_string());
        }
        wait_until("no buffer is left", || buffered_bytes(&mut witness) < MB);
    }
}

/// A peer that announces a body and sends nothing more gives its room to one that does.
#[test]
fn who_announces_a_body_and_stops_is_evicted() {
    const BODY: usize = 5 * MB / 2;
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start_with_small_budget(topology);
        let mut witness = server.connect();
        let mut silent = server.connect();
        silent.send(&set("silent", BODY)[..MB]);
        wait_until("it has room", || buffered_bytes(&mut witness) > BODY);
        let mut client = server.connect();
        client.send(set("key", BODY));
        // A few bytes now and then are not enough.
        while !client.has_received() {
            let _ = silent.try_send(b"x");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(client.reply().to_string(), "+OK", "{topology}");
        assert!(silent.read_to_close().is_empty(), "{topology}");
    }
}

/// Many clients send, so that the server never has read all that has come.
#[test]
fn other_requests_go_on_between_the_pieces_of_bodies() {
    const CLIENTS: usize = 8;
    let request = set("key", 32 * MB);
    for (topology, server) in Server::start_each() {
        let mut witness = server.connect();
        let began = Instant::now();
        let mut longest = Duration::ZERO;
        thread::scope(|scope| {
            let store = |mut client: Connection| {
                client.send(&request);
                assert_eq!(client.reply().to_string(), "+OK", "{topology}");
            };
            let clients = [(); CLIENTS].map(|()| server.connect());
            let stores = clients.map(|client| scope.spawn(move || store(client)));
            while stores.iter().any(|store| !store.is_finished()) {
                let asked = Instant::now();
                assert_eq!(witness.ask("PING"), "+PONG");
                longest = longest.max(asked.elapsed());
            }
        });
        let took = began.elapsed();
        assert!(longest < took / 4, "{topology}: {longest:?} of {took:?}");
    }
}

/// Twice the body would be one copy.
#[test]
fn a_body_is_in_memory_once() {
    const BODY: usize = 128 * MB;
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        for transaction in [false, true] {
            let server = Server::start_in(topology);
            let mut client = server.connect();
            assert_eq!(client.ask("PING"), "+PONG");
            let before = server.peak_resident_bytes();
            if transaction {
                client.ask("MULTI");
            }
            client.send(set("key", BODY));
            let reply = client.reply().to_string();
            if transaction {
                assert_eq!(reply, "+QUEUED");
                client.ask("EXEC");
            }
            assert_eq!(client.ask("STRLEN key"), BODY.to_string(), "{topology}");
            let growth = server.peak_resident_bytes() - before;
            assert!(growth < BODY as u64 * 3 / 2, "{topology}: {growth}");
            assert_eq!(client.ask("GETRANGE key 134217726 -1"), "\"xx\"", "{topology}");
        }
    }
}

#[test]
fn appends_to_a_long_string_do_not_copy_it() {
    const LEN: usize = 64 * MB;
    const TIMES: u32 = 20;
    for (topology, server) in Server::start_each() {
        let mut client = server.connect();
        client.request(&[b"SET", b"key".as_slice(), &vec![b'x'; LEN]]);
        let mut timed = |request: &str, reply: usize| {
            let began = Instant::now();
            assert_eq!(client.ask(request), reply.to_string(), "{topology}");
            began.elapsed()
        };
        // It gets room.
        let copied = timed("APPEND key 0", LEN + 1);
        let mut in_place = Duration::ZERO;
        let mut len = LEN + 1;
        for _ in 0..TIMES {
            in_place += timed("APPEND key ab", len + 2);
            in_place += timed(&format!("SETRANGE key {} cd", len + 2), len + 4);
            in_place += timed(&format!("SETBIT key {} 1", (len + 4) * 8 + 1), 0);
            len += 5;
        }
        let copied = copied.max(Duration::from_millis(3));
        assert!(in_place < copied * TIMES, "{topology}: {in_place:?}, {copied:?}");
        let end = client.ask(&format!("GETRANGE key {LEN} -1"));
        let expected = format!("\"0{}\"", "abcd@".repeat(20));
        assert_eq!(end, expected, "{topology}");
    }
}

/// Within a transaction the first one copies the string, as no other client sees the change before EXEC.
#[test]
fn appends_of_a_transaction_copy_a_long_string_once() {
    const LEN: usize = 64 * MB;
    for (topology, server) in Server::start_each() {
        let mut client = server.connect();
        client.request(&[b"SET", b"key".as_slice(), &vec![b'x'; LEN]]);
        let mut timed = |count: usize| {
            client.ask("MULTI");
            for _ in 0..count {
                assert_eq!(client.ask("APPEND key x"), "+QUEUED");
            }
            let began = Instant::now();
            client.ask("EXEC");
            began.elapsed()
        };
        let once = (0..5).map(|_| timed(1)).min().unwrap();
        let many = (0..5).map(|_| timed(64)).min().unwrap();
        let once = once.max(Duration::from_millis(3));
        assert!(many < once * 20, "{topology}: {many:?}, {once:?}");
        assert_eq!(client.ask("STRLEN key"), (LEN + 5 + 320).to_string());
    }
}

/// At the first touch of a huge page the kernel clears two megabytes, and the net thread serves no client meanwhile.
#[test]
fn large_values_are_in_small_pages_and_others_in_huge_ones() {
    psp_harness::only_psp!();
    let server = Server::start();
    if server.bytes_with_flag("hg") == 0 {
        return skip("the kernel has no huge pages");
    }
    let mut client = server.connect();
    let in_small_pages = || server.bytes_with_flag("nh");
    let mut cycle = || {
        client.send(set("large", 8 * MB));
        assert_eq!(client.reply().to_string(), "+OK");
        let with_it = in_small_pages();
        assert_eq!(client.ask("DEL large"), "1");
        with_it
    };
    // Stacks are in small pages, too: by now all threads have theirs.
    cycle();
    let with_it = cycle();
    wait_until("its memory is for small values", || in_small_pages() + 7 * MB as u64 <= with_it);
}
