//! Clients that send nonsense, too much, too slowly or nothing, and clients that do not read. Each
//! gets a clear error or a closed connection, the server serves the others, and its memory stays
//! bounded.

use std::io::{self, ErrorKind};
use std::ops::Range;

use crate::common::{
    Connection, DEADLINE, Options, Reply, Server, encode, encode_line, raise_descriptor_limit, wait_until,
};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

const MEBIBYTE: u64 = 1024 * 1024;

/// Longer than the limit of header lines and inline commands.
const TOO_LONG_LINE_BYTES: usize = 70_000;

const GARBAGE_CONNECTIONS: u64 = 200;
const GARBAGE_BYTES: Range<usize> = 1..4096;

const IDLE_CONNECTIONS: usize = 10_000;
/// Descriptors that a process needs besides those of its connections.
const OTHER_DESCRIPTORS: usize = 200;
/// Most resident memory per idle connection.
const IDLE_CONNECTION_BYTES_MAX: u64 = 8 * 1024;

const NON_READERS: usize = 8;
const UNREAD_REQUESTS: usize = 2000;
const UNREAD_VALUE_BYTES: usize = 1024 * 1024;
const UNREAD_KEYS: usize = 50_000;
/// For all these clients together. They request 16 GiB.
const UNREAD_MEMORY_BYTES_MAX: u64 = 256 * MEBIBYTE;

#[test]
fn malformed_requests_get_an_error_and_a_closed_connection() {
    let server = Server::start();
    let long = |prefix: &str| [prefix.as_bytes(), &vec![b'1'; TOO_LONG_LINE_BYTES]].concat();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"*1\r\n$600000000\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$abc\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$99999999999999999999\r\n".to_vec(), "invalid bulk length"),
        (b"*3000000000\r\n".to_vec(), "invalid multibulk length"),
        (b"*abc\r\n".to_vec(), "invalid multibulk length"),
        (b"*99999999999999999999\r\n".to_vec(), "invalid multibulk length"),
        (b"*1\r\n:5\r\n".to_vec(), "expected '$', got ':'"),
        (b"*2\r\n$4\r\nECHO\r\n+x\r\n".to_vec(), "expected '$', got '+'"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n".to_vec(), "expected '$', got '*'"),
        (b"*2\r\n$3\r\nGET\r\n*1\r\n$1\r\na\r\n".to_vec(), "expected '$', got '*'"),
        (b"SET key \"value\r\n".to_vec(), "unbalanced quotes in request"),
        (b"ECHO \"a\"b\r\n".to_vec(), "unbalanced quotes in request"),
        (long("1"), "too big inline request"),
        (long("*"), "too big mbulk count string"),
        (long("*1\r\n$"), "too big bulk count string"),
    ];
    for (request, reason) in cases {
        let shown = request[..request.len().min(40)].escape_ascii().to_string();
        let mut client = server.connect();
        client.send(b"PING\r\n");
        assert_eq!(client.reply().to_string(), "+PONG");
        // The server may close the connection before it has read everything.
        let _ = client.try_send(&request);
        let error = client.reply().to_string();
        assert_eq!(error, format!("-ERR Protocol error: {reason}"), "{shown}");
        assert_eq!(client.read_to_close(), b"", "{shown}");
    }
    server.assert_alive();
}

#[test]
fn requests_before_a_malformed_one_are_answered() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(b"SET key value\r\nGET key\r\n*1\r\n:5\r\n");
    assert_eq!(
        client.read_to_close(),
        b"+OK\r\n$5\r\nvalue\r\n-ERR Protocol error: expected '$', got ':'\r\n"
    );
}

#[test]
fn announced_sizes_beyond_memory_are_refused_or_never_buffered() {
    let server = Server::start();
    let before = server.resident_bytes();
    let mut clients: Vec<Connection> = (0..50).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(b"*1048576\r\n$3\r\nDEL\r\n$536870912\r\n");
        client.send(b"x");
    }
    assert_others_are_served(&server, 100);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 * MEBIBYTE, "announced sizes cost {grown} bytes");
}

#[test]
fn truncated_requests_do_no_harm() {
    let server = Server::start();
    let request = encode(&["SET", "truncated", "value"]);
    for len in 0..request.len() {
        let mut client = server.connect();
        client.send(&request[..len]);
        client.finish_sending();
        assert_eq!(client.read_to_close(), b"", "{len} bytes");
    }
    assert_eq!(server.connect().ask("EXISTS truncated"), "0");
}

#[test]
fn clients_that_vanish_do_no_harm() {
    let server = Server::start();
    let mut witness = server.connect();
    assert_eq!(witness.ask("SET key value"), "+OK");
    let half_a_value = [b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1000000\r\n".to_vec(), vec![b'x'; 500_000]];
    let abandoned = [half_a_value.concat(), encode_line("DEBUG SLEEP 0.01"), encode_line("KEYS *")];
    for _ in 0..20 {
        for request in &abandoned {
            server.connect().send(request);
        }
        assert_eq!(witness.ask("GET key"), "\"value\"");
    }
    witness.wait_for_clients(1);
}

#[test]
fn garbage_gets_errors_and_other_clients_are_served() {
    let server = Server::start();
    let mut witness = server.connect();
    assert_eq!(witness.ask("SET key value"), "+OK");
    for seed in 0..GARBAGE_CONNECTIONS {
        let mut random = StdRng::seed_from_u64(seed);
        let mut garbage = vec![0; random.random_range(GARBAGE_BYTES)];
        random.fill_bytes(&mut garbage);
        // Half of the inputs begin like a request, so that the parser gets further.
        if seed % 2 == 0 {
            garbage.splice(..0, *b"*3\r\n$3\r\nSET\r\n$");
        }
        let mut client = server.connect();
        // The server may close the connection before it has read everything.
        let _ = client.try_send(&garbage);
        client.finish_sending();
        for line in client.read_to_close().split_inclusive(|&byte| byte == b'\n') {
            let line = line.escape_ascii().to_string();
            assert!(line.starts_with("-ERR "), "seed {seed}: {line}");
        }
        assert_eq!(witness.ask("GET key"), "\"value\"", "seed {seed}");
    }
}

#[test]
fn a_slow_drip_does_not_delay_others() {
    let server = Server::start();
    let mut witness = server.connect();
    assert_eq!(witness.ask("SET key value"), "+OK");
    let mut drips: Vec<Connection> = (0..8).map(|_| server.connect()).collect();
    let request = encode(&["SET", "drip", "one byte at a time"]);
    for byte in &request {
        for drip in &mut drips {
            drip.send([*byte]);
        }
        for _ in 0..10 {
            assert_eq!(witness.ask("GET key"), "\"value\"");
        }
    }
    for drip in &mut drips {
        assert_eq!(drip.reply().to_string(), "+OK");
    }
}

#[test]
fn ten_thousand_idle_connections_cost_little() {
    let connections = IDLE_CONNECTIONS.min(raise_descriptor_limit() - OTHER_DESCRIPTORS);
    assert!(connections >= 500, "the limit of open files allows {connections} connections");
    let server = Server::start_with(&Options { maxclients: Some(connections + 10), ..Options::default() });
    let mut witness = server.connect();
    assert_eq!(witness.ask("SET key value"), "+OK");
    let before = server.resident_bytes();
    let mut idle = Vec::with_capacity(connections);
    for number in 0..connections {
        let mut client = server.connect();
        // One in ten sends a request before it falls silent. The others send nothing.
        if number % 10 == 0 {
            assert_eq!(client.ask("PING"), "+PONG");
            assert_eq!(witness.ask("GET key"), "\"value\"");
        }
        idle.push(client);
    }
    witness.wait_for_clients(connections + 1);
    let each = server.resident_bytes().saturating_sub(before) / connections as u64;
    assert!(each <= IDLE_CONNECTION_BYTES_MAX, "{each} bytes per connection");
    for client in idle.iter_mut().step_by(100) {
        assert_eq!(client.ask("GET key"), "\"value\"");
    }
}

#[test]
fn clients_that_never_read_big_values_cost_bounded_memory() {
    let server = Server::start();
    let value = vec![b'v'; UNREAD_VALUE_BYTES];
    let set = server.connect().request(&[b"SET".as_slice(), b"big", &value]);
    assert_eq!(set.to_string(), "+OK");
    let clients = request_without_reading(&server, &encode(&["GET", "big"]).repeat(UNREAD_REQUESTS));
    for mut client in clients {
        for position in 0..20 {
            match client.try_reply() {
                Ok(reply) => assert!(reply == Reply::Bulk(value.clone()), "reply {position}"),
                Err(error) => {
                    assert!(!Server::is_psp_redis(), "a client that reads late lost a reply: {error}");
                    assert_closed(&error);
                    break;
                }
            }
        }
    }
    server.assert_alive();
}

#[test]
fn clients_that_never_read_key_lists_cost_bounded_memory() {
    let server = Server::start();
    let mut loader = server.connect();
    let requests = (0..UNREAD_KEYS).map(|index| encode(&["SET", &format!("key:{index:08}"), "value"]));
    loader.send(requests.collect::<Vec<_>>().concat());
    for _ in 0..UNREAD_KEYS {
        assert_eq!(loader.reply().to_string(), "+OK");
    }
    let clients = request_without_reading(&server, &encode(&["KEYS", "*"]).repeat(200));
    drop(clients);
    server.assert_alive();
}

#[test]
fn a_connection_over_the_limit_gets_an_error() {
    let server = Server::start_with(&Options { maxclients: Some(4), ..Options::default() });
    let open = || {
        let mut client = server.connect();
        client
            .try_send(&encode(&["PING"]))
            .and_then(|()| client.try_reply())
            .map(|reply| (client, reply))
    };
    let mut clients = Vec::new();
    wait_until("the connection that probed the start is closed", || {
        clients.clear();
        clients.extend((0..4).map_while(|_| open().ok().filter(|(_, reply)| reply.to_string() == "+PONG")));
        clients.len() == 4
    });
    for _ in 0..3 {
        assert_eq!(server.connect().read_to_close(), b"-ERR max number of clients reached\r\n");
    }
    for (client, _) in &mut clients {
        assert_eq!(client.ask("PING"), "+PONG");
    }
    clients.pop();
    wait_until("a connection is free again", || {
        open().is_ok_and(|(_, reply)| reply.to_string() == "+PONG")
    });
}

#[test]
fn an_idle_connection_is_closed_after_the_timeout() {
    let server = Server::start_with(&Options { timeout_s: Some(1), ..Options::default() });
    let silent = server.connect();
    let mut fell_silent = server.connect();
    let mut partial = server.connect();
    assert_eq!(fell_silent.ask("PING"), "+PONG");
    partial.send(b"*1\r\n$4\r\nPI");
    for mut client in [silent, fell_silent, partial] {
        assert_eq!(client.read_to_close(), b"");
    }
    server.assert_alive();
}

/// Opens connections that send `requests` and read nothing. Meanwhile checks that the server
/// answers another client's GETs and that its memory stays bounded.
fn request_without_reading(server: &Server, requests: &[u8]) -> Vec<Connection> {
    let before = server.resident_bytes();
    let mut clients: Vec<Connection> = (0..NON_READERS).map(|_| server.connect()).collect();
    let mut sent = 0;
    for client in &mut clients {
        sent += client.send_without_blocking(requests);
    }
    assert!(sent > 0, "the server accepts no requests");
    for _ in 0..20 {
        assert_others_are_served(server, 50);
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown <= UNREAD_MEMORY_BYTES_MAX, "unread replies cost {grown} bytes");
    }
    clients
}

fn assert_others_are_served(server: &Server, gets: usize) {
    let mut witness = server.connect();
    assert_eq!(witness.ask("SET witness here"), "+OK");
    for _ in 0..gets {
        assert_eq!(witness.ask("GET witness"), "\"here\"");
    }
}

fn assert_closed(error: &io::Error) {
    let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
    assert!(closed.contains(&error.kind()), "not closed within {DEADLINE:?}: {error}");
}
