//! `maxmemory`: writes get errors, everything else goes on, and the process stays near the limit.

use psp_harness::{NOT_PSP, skip};

use crate::common::{Connection, Options, Server, TOPOLOGIES, encode, wait_until};

const MEBIBYTE: u64 = 1024 * 1024;
const LIMIT_BYTES: u64 = 64 * MEBIBYTE;
const CONFIG: &str = "maxmemory = 67108864\n";
const VALUE_BYTES: usize = 128 * 1024;
/// Four times as much as fits.
const VALUES: usize = 2048;
/// Writes compare the limit with a figure that is some milliseconds old, so some more of them fit on a busy machine.
const OVERSHOOT_BYTES_MAX: u64 = 128 * MEBIBYTE;

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

fn start(topology: &'static str) -> Server {
    Server::start_with(&Options {
        topology: Some(topology),
        config: Some(CONFIG),
        ..Options::default()
    })
}

/// Stores values under new names until the server refuses one.
fn fill(client: &mut Connection) -> usize {
    let value = vec![b'x'; VALUE_BYTES];
    let stored = (0..VALUES).take_while(|index| {
        let key = format!("key{index}");
        let reply = client
            .request(&[b"SET", key.as_bytes(), &value])
            .to_string();
        assert!(reply == "+OK" || reply == OOM, "{reply}");
        reply == "+OK"
    });
    stored.count()
}

/// The figure of this name in INFO.
pub(crate) fn figure(client: &mut Connection, name: &str) -> u64 {
    let info = client.info("everything");
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    line.expect("a figure").trim().parse().expect("a number")
}

#[test]
fn writes_beyond_the_limit_are_refused_and_everything_else_goes_on() {
    if !Server::is_psp_redis() {
        return skip(NOT_PSP);
    }
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut client = server.connect();
        assert_eq!(client.ask("RPUSH list a b"), "2");
        let stored = fill(&mut client);
        assert!(stored < VALUES, "{topology}: nothing was refused");
        assert!(
            stored as u64 * VALUE_BYTES as u64 > LIMIT_BYTES / 2,
            "{topology}: {stored}"
        );
        let resident = server.resident_bytes();
        assert!(
            resident < LIMIT_BYTES + OVERSHOOT_BYTES_MAX,
            "{topology}: {resident}"
        );
        // The request that the server refused was itself a part of what exceeded the limit.
        let half = LIMIT_BYTES / 2;
        assert_eq!(client.ask(&format!("CONFIG SET maxmemory {half}")), "+OK");
        assert_eq!(figure(&mut client, "maxmemory:"), half);
        assert!(figure(&mut client, "used_memory:") > half);
        for line in [
            "SET a b",
            "RPUSH list c",
            "HSET h f v",
            "SADD s a",
            "ZADD z 1 a",
            "APPEND key0 b",
            "INCR n",
            "MSET a b",
            "COPY key0 a",
            "LSET list 0 c",
            "SORT list ALPHA",
            "SETRANGE a 9 b",
        ] {
            assert_eq!(client.ask(line), OOM, "{topology}, {line}");
        }
        for (line, reply) in [
            ("STRLEN key0", VALUE_BYTES.to_string().as_str()),
            ("EXISTS key0 key1", "2"),
            ("LRANGE list 0 -1", r#"["a", "b"]"#),
            ("LPOP list", r#""a""#),
            ("EXPIRE list 100", "1"),
            ("RENAME list other", "+OK"),
            ("DEL other", "1"),
            ("PING", "+PONG"),
        ] {
            assert_eq!(client.ask(line), reply, "{topology}, {line}");
        }
        for index in 0..stored {
            assert_eq!(client.ask(&format!("DEL key{index}")), "1", "{topology}");
        }
        wait_until("writes work again", || client.ask("SET a b") == "+OK");
        assert_eq!(
            client.ask(&format!("CONFIG SET maxmemory {LIMIT_BYTES}")),
            "+OK"
        );
        fill(&mut client);
        assert_eq!(client.ask("FLUSHALL"), "+OK");
        // Values are released in the background.
        wait_until("nothing is held", || {
            figure(&mut client, "used_memory:") < half
        });
        // Writes go by an older figure than INFO.
        wait_until("writes work again", || client.ask("SET a b") == "+OK");
        let second = fill(&mut client);
        assert!(
            second > stored / 2,
            "{topology}: only {second} after {stored} fit again"
        );
        assert_eq!(client.ask("CONFIG SET maxmemory 0"), "+OK");
        assert_eq!(client.ask("SET a b"), "+OK", "{topology}");
    }
}

#[test]
fn the_limit_changes_while_the_server_runs() {
    let server = Server::start_with(&Options {
        config: Some("maxmemory = 0\n"),
        ..Options::default()
    });
    let mut client = server.connect();
    for (size, bytes) in [("10mb", "10485760"), ("1G", "1000000000"), ("1", "1")] {
        assert_eq!(client.ask(&format!("CONFIG SET maxmemory {size}")), "+OK");
        let shown = format!(r#"["maxmemory", "{bytes}"]"#);
        assert_eq!(client.ask("CONFIG GET maxmemory"), shown);
    }
    assert_eq!(client.ask("SET a b"), OOM);
    let refused = client.ask("CONFIG SET maxmemory 10mib");
    assert!(
        refused.ends_with("argument must be a memory value"),
        "{refused}"
    );
    // Pipelined writes get an error each.
    client.send(&encode(&["INCR", "n"]).repeat(10));
    for _ in 0..10 {
        assert_eq!(client.reply().to_string(), OOM);
    }
    assert_eq!(client.ask("CONFIG SET maxmemory 0"), "+OK");
    assert_eq!(client.ask("INCR n"), "1");
}
