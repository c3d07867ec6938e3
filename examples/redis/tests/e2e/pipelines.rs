//! Clients that write all of a pipeline before they read, and clients that never read.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use psp_harness::{DEADLINE, wait_until};

use crate::common::waiting::{TOPOLOGIES, start_with};
use crate::common::{Options, Reply, Server, encode, encode_line};

fn servers() -> impl Iterator<Item = Server> {
    let options = Options { unixsocketperm: Some("700"), ..Options::default() };
    TOPOLOGIES.into_iter().map(move |topology| start_with(topology, options.clone()))
}

/// As redis-py's `pipeline().execute()` does.
#[test]
fn who_writes_all_before_it_reads_gets_all_replies() {
    for server in servers() {
        let mut client = server.connect();
        for (pairs, read_len, written_len) in [(2_000, 10_000, 5_000), (10_000, 1_000, 1_000)] {
            let value = "v".repeat(read_len);
            client.request(&["SET", "long", &value]);
            let written = "w".repeat(written_len);
            let pair = [encode(&["GET", "long"]), encode(&["SET", "other", &written])].concat();
            client.send(pair.repeat(pairs));
            for _ in 0..pairs {
                assert_eq!(client.reply(), Reply::Bulk(value.clone().into_bytes()));
                assert_eq!(client.reply().to_string(), "+OK");
            }
        }
        assert_eq!(client.ask("PING"), "+PONG");
    }
}

/// A Unix socket holds less than the replies.
#[test]
fn a_long_pipeline_of_short_commands_passes_through_a_unix_socket() {
    const PINGS: usize = 100_000;
    for server in servers() {
        let mut client = UnixStream::connect(server.unix_socket()).unwrap();
        client.set_read_timeout(Some(DEADLINE)).unwrap();
        client.set_write_timeout(Some(DEADLINE)).unwrap();
        client.write_all(&encode_line("PING").repeat(PINGS)).unwrap();
        let mut replies = vec![0; PINGS * b"+PONG\r\n".len()];
        client.read_exact(&mut replies).unwrap();
        assert!(replies == b"+PONG\r\n".repeat(PINGS));
    }
}

#[test]
fn who_never_reads_is_closed_at_the_limit_and_the_log_says_why() {
    const LIMIT_BYTES: u64 = 16 << 20;
    psp_harness::only_psp!();
    for server in servers() {
        let mut witness = server.connect();
        let limit = "normal 16mb 0 0";
        let set = witness.request(&["CONFIG", "SET", "client-output-buffer-limit", limit]);
        assert_eq!(set.to_string(), "+OK");
        let limits = witness.ask("CONFIG GET client-output-buffer-limit");
        assert!(limits.contains("normal 16777216 0 0"), "{limits}");
        witness.request(&["SET", "long", &"v".repeat(50_000)]);
        let before = server.peak_resident_bytes();
        let is_closed = AtomicBool::new(false);
        let mut gets = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut silent = server.connect();
                let requests = encode_line("GET long").repeat(1000);
                while silent.try_send(&requests).is_ok() {}
                is_closed.store(true, Ordering::Relaxed);
            });
            while !is_closed.load(Ordering::Relaxed) {
                assert_eq!(witness.ask("GET short"), "nil");
                gets += 1;
            }
        });
        assert!(gets > 100, "{gets}");
        let growth = server.peak_resident_bytes().saturating_sub(before);
        assert!(growth < 2 * LIMIT_BYTES, "{growth}");
        wait_until("the log says why", || {
            server.log().iter().any(|line| {
                line.contains("its peer sends requests and reads no replies")
                    && line.contains("limit_bytes=16777216")
                    && line.contains("peer=127.0.0.1:")
            })
        });
        let stats = witness.info("stats");
        let closed = "client_output_buffer_limit_disconnections:1\r\n";
        assert!(stats.contains(closed), "{stats}");
    }
}
