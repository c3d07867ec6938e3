//! `maxmemory`: writes get errors, everything else goes on, and the process stays near the limit.

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
        let reply = client.request(&[b"SET", key.as_bytes(), &value]).to_string();
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
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut client = server.connect();
        assert_eq!(client.ask("RPUSH list a b"), "2");
        let stored = fill(&mut client);
        assert!(stored < VALUES, "{topology}: nothing was refused");
        assert!(stored as u64 * VALUE_BYTES as u64 > LIMIT_BYTES / 2, "{topology}: {stored}");
        let resident = server.resident_bytes();
        assert!(resident < LIMIT_BYTES + OVERSHOOT_BYTES_MAX, "{topology}: {resident}");
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
        assert_eq!(client.ask(&format!("CONFIG SET maxmemory {LIMIT_BYTES}")), "+OK");
        fill(&mut client);
        assert_eq!(client.ask("FLUSHALL"), "+OK");
        // Values are released in the background.
        wait_until("nothing is held", || figure(&mut client, "used_memory:") < half);
        // Writes go by an older figure than INFO.
        wait_until("writes work again", || client.ask("SET a b") == "+OK");
        let second = fill(&mut client);
        assert!(second > stored / 2, "{topology}: only {second} after {stored} fit again");
        assert_eq!(client.ask("CONFIG SET maxmemory 0"), "+OK");
        assert_eq!(client.ask("SET a b"), "+OK", "{topology}");
    }
}

#[test]
fn the_limit_changes_while_the_server_runs() {
    let server = Server::start_with(&Options { config: Some("maxmemory = 0\n"), ..Options::default() });
    let mut client = server.connect();
    for (size, bytes) in [("10mb", "10485760"), ("1G", "1000000000"), ("1", "1")] {
        assert_eq!(client.ask(&format!("CONFIG SET maxmemory {size}")), "+OK");
        let shown = format!(r#"["maxmemory", "{bytes}"]"#);
        assert_eq!(client.ask("CONFIG GET maxmemory"), shown);
    }
    assert_eq!(client.ask("SET a b"), OOM);
    let refused = client.ask("CONFIG SET maxmemory 10mib");
    assert!(refused.ends_with("argument must be a memory value"), "{refused}");
    // Pipelined writes get an error each.
    client.send(encode(&["INCR", "n"]).repeat(10));
    for _ in 0..10 {
        assert_eq!(client.reply().to_string(), OOM);
    }
    assert_eq!(client.ask("CONFIG SET maxmemory 0"), "+OK");
    assert_eq!(client.ask("INCR n"), "1");
}

/// Memory for a value that grows, and for its copy, is there before it grows.
#[test]
fn values_grow_within_the_limit_alone() {
    const LEN: u64 = 16 * MEBIBYTE;
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut client = server.connect();
        let mut expect = |request: &str, reply: &str| {
            assert_eq!(client.ask(request), reply, "{topology}: {request}");
        };
        let len = LEN.to_string();
        expect(&format!("SETRANGE a {} x", LEN - 1), &len);
        for request in [
            "SETRANGE new 536870910 x",
            "SETBIT new 4294967295 1",
            "BITFIELD new SET u8 4294967200 1",
            "SETRANGE a 536870910 x",
        ] {
            expect(request, OOM);
        }
        expect("EXISTS new", "0");
        expect("STRLEN a", &len);
        // The copies share their bytes until one of them changes.
        for copy in ["b", "c", "d"] {
            expect(&format!("COPY a {copy}"), "1");
        }
        expect("APPEND b x", &(LEN + 1).to_string());
        expect("APPEND c x", &(LEN + 1).to_string());
        expect("APPEND d x", OOM);
        expect("STRLEN d", &len);
        expect("BITOP NOT e a", OOM);
        assert!(server.peak_resident_bytes() < LIMIT_BYTES + 64 * MEBIBYTE);
    }
}

/// Where keys may be evicted, they go before the value grows.
#[test]
fn keys_are_evicted_for_a_value_that_grows() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut client = server.connect();
        let stored = fill(&mut client);
        client.ask("CONFIG SET maxmemory-policy allkeys-lru");
        assert_eq!(client.ask("SETRANGE a 33554431 x"), "33554432", "{topology}");
        let left: usize = client.ask("DBSIZE").parse().expect("a number");
        assert!(0 < left && left < stored, "{topology}: {left} of {stored}");
    }
}

/// A short payload does not expand to more than the limit.
#[test]
fn payloads_expand_within_the_limit_alone() {
    const RUNS: usize = 400_000;
    psp_harness::only_psp!();
    // A string in LZF: a letter, and runs of 264 more of it.
    let compressed = [b"\0x".to_vec(), b"\xe0\xff\0".repeat(RUNS)].concat();
    let long = |len: usize| [vec![0x80], (len as u32).to_be_bytes().to_vec()].concat();
    let mut payload = [
        b"\0\xc3".to_vec(),
        long(compressed.len()),
        long(1 + 264 * RUNS),
        compressed,
        b"\x09\0".to_vec(),
    ]
    .concat();
    payload.extend(crc64(&payload).to_le_bytes());
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut client = server.connect();
        let reply = client.request(&[b"RESTORE", &b"a"[..], b"0", &payload]);
        assert_eq!(reply.to_string(), OOM, "{topology}");
        assert!(server.peak_resident_bytes() < LIMIT_BYTES, "{topology}");
        assert_eq!(client.ask("CONFIG SET maxmemory 0"), "+OK");
        let reply = client.request(&[b"RESTORE", &b"a"[..], b"0", &payload]);
        assert_eq!(reply.to_string(), "+OK", "{topology}");
    }
}

/// The checksum of payloads, which Redis has from Jones.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        let shift = |crc: u64, _| (crc >> 1) ^ (0x95ac_9329_ac4b_c9b5 * (crc & 1));
        (0..8).fold(crc ^ u64::from(*byte), shift)
    })
}

/// What clients have the server remember is refused when memory is short. Who wants no more goes on.
#[test]
fn watched_keys_and_subscriptions_are_refused_when_memory_is_short() {
    const NAMES: usize = 100;
    psp_harness::only_psp!();
    for command in ["WATCH", "PSUBSCRIBE", "SUBSCRIBE"] {
        let server = start(TOPOLOGIES[0]);
        let mut witness = server.connect();
        let mut clients = Vec::new();
        let is_refused = (0..4000).any(|index| {
            if index % 20 == 0 {
                clients.push(server.connect());
            }
            let name = |name: usize| format!("{index}-{name}-{}", "x".repeat(1000));
            let mut words = vec![command.to_owned()];
            words.extend((0..NAMES).map(name));
            let client = clients.last_mut().expect("a client");
            client.send(encode(&words));
            let replies = if command == "WATCH" { 1 } else { NAMES };
            (0..replies).any(|_| client.reply().to_string() == OOM)
        });
        assert!(is_refused, "{command}");
        // Requests of 100 KB leave pages behind.
        assert!(server.peak_resident_bytes() < LIMIT_BYTES * 5, "{command}");
        assert_eq!(witness.ask("GET none"), "nil", "{command}");
    }
}
