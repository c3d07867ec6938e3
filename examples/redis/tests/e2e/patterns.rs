//! Patterns that take minutes to match: they hold neither short commands nor the end of the server.

use std::time::Duration;

use crate::common::{Connection, Options, Server, TOPOLOGIES, encode, wait_until};

/// Each byte of the key is a place where all of the pattern's segment nearly matches.
const KEY_BYTES: usize = 1_600_000;
const SEGMENT_BYTES: usize = 800_000;

/// Processor time that shows that the pattern is being matched. Storing the key takes less.
const BUSY: Duration = Duration::from_millis(200);

fn start(topology: &'static str, workers: usize) -> Server {
    Server::start_with(&Options {
        topology: Some(topology),
        workers: Some(workers),
        config: Some("[server]\ndrain_timeout_ms = 100\nhalf_close_grace_ms = 0\n"),
        ..Options::default()
    })
}

/// Starts a KEYS that takes 10^12 steps.
fn match_for_minutes(server: &Server) -> Connection {
    let mut client = server.connect();
    let key = vec![b'a'; KEY_BYTES];
    assert_eq!(client.request(&[b"SET", &*key, b"v"]).to_string(), "+OK");
    let before = server.processor_time();
    let segment = [b"*?".as_slice(), &vec![b'a'; SEGMENT_BYTES], b"b*"].concat();
    client.send(encode(&[b"KEYS", &*segment]));
    wait_until("KEYS runs", || server.processor_time() > before + BUSY);
    client
}

#[test]
fn the_server_ends_whatever_runs() {
    psp_harness::only_psp!();
    for (topology, workers) in [("inline", 1), ("inline", 2), ("dedicated", 1)] {
        let mut server = start(topology, workers);
        let _busy = match_for_minutes(&server);
        server.terminate();
        // It fails if the server does not end within half a minute.
        server.wait_for_exit();
    }
}

#[test]
fn commands_end_with_their_client() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology, 2);
        let mut witness = server.connect();
        for begin in [match_for_minutes, sleep_for_an_hour] {
            drop(begin(&server));
            // The worker that may run long commands is free again, or this request times out.
            assert_eq!(witness.ask("FLUSHALL"), "+OK", "{topology}");
        }
    }
}

#[test]
fn a_sleep_leaves_its_worker_to_others() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology, 2);
        let mut witness = server.connect();
        assert_eq!(witness.ask("HSET hash field value"), "1", "{topology}");
        let _sleepers = [(); 3].map(|()| sleep_for_an_hour(&server));
        for _ in 0..3 {
            // These get their replies long before the sleepers', or the connection times out.
            assert!(witness.ask("KEYS *").contains("hash"), "{topology}");
            assert!(witness.ask("HGETALL hash").contains("value"), "{topology}");
            assert_eq!(witness.ask("CONFIG SET policy cscq"), "+OK", "{topology}");
            assert_eq!(witness.ask("CONFIG SET policy darc"), "+OK", "{topology}");
        }
        assert_eq!(witness.ask("FLUSHALL"), "+OK", "{topology}");
        assert_eq!(witness.ask("DBSIZE"), "0", "{topology}");
    }
}

/// Sends a long DEBUG SLEEP.
fn sleep_for_an_hour(server: &Server) -> Connection {
    let mut client = server.connect();
    assert_eq!(client.ask("PING"), "+PONG");
    client.send(encode(&["DEBUG", "SLEEP", "3600"]));
    client
}

#[test]
fn short_commands_go_on_beside_a_pattern_on_a_small_database() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology, 2);
        let _busy = match_for_minutes(&server);
        let mut witness = server.connect();
        for _ in 0..100 {
            assert_eq!(witness.ask("GET a"), "nil", "{topology}");
        }
    }
}
