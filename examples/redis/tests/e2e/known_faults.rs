//! Faults of commands that were found in Redis and Valkey: `docs/security.md` lists them, and those of scripts have
//! their tests beside the scripts. After each the server answers.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use crate::common::{Options, Server, TOPOLOGIES, pipeline};

/// What the requests below are about.
const KEYS: &[&str] = &[
    "PFADD sketch a b c",
    "SETRANGE sketch 16 \u{7f}\u{7f}\u{7f}\u{7f}",
    "SET short HYLL",
    "RPUSH list c b a",
    "HSET hash a 1 b 2",
    "ZADD sorted 1 a 2 b",
    "SADD set 1 2 3",
    "XADD stream 1-1 a b",
    "XGROUP CREATE stream g 0",
    "XREADGROUP GROUP g c STREAMS stream >",
    "XDEL stream 1-1",
];

/// Each is a fault by its number, a request that it is about, and what the reply begins with.
const FAULTS: &[(&str, &str, &str)] = &[
    // Sizes and positions that overflow.
    ("CVE-2021-32761", "BITFIELD b SET u8 18446744073709551615 1", "-ERR bit offset"),
    ("CVE-2021-32761", "BITFIELD b GET u64 0", "-ERR Invalid bitfield type"),
    ("CVE-2021-29477", "LCS short short IDX", "[\"matches\""),
    ("CVE-2022-35977", "SETRANGE s 9223372036854775800 x", "-ERR string exceeds"),
    ("CVE-2022-35977", "SORT list ALPHA LIMIT 2 9223372036854775807", "[\""),
    ("CVE-2022-35977", "SORT list ALPHA LIMIT -9223372036854775808 9223372036854775807", "["),
    ("CVE-2022-35977", "SORT set LIMIT 9223372036854775807 9223372036854775807", "[]"),
    ("CVE-2023-22458", "HRANDFIELD hash -9223372036854775808", "-ERR value is out of range"),
    (
        "CVE-2023-22458",
        "HRANDFIELD hash -9223372036854775807 WITHVALUES",
        "-ERR value is out of range",
    ),
    (
        "CVE-2023-22458",
        "ZRANDMEMBER sorted -9223372036854775808 WITHSCORES",
        "-ERR value is out of range",
    ),
    ("CVE-2023-25155", "SRANDMEMBER set -9223372036854775808", "-ERR value is out of range"),
    (
        "CVE-2023-25155",
        "ZRANDMEMBER sorted -4611686018427387905 WITHSCORES",
        "-ERR value is out of range",
    ),
    // What a command was sure of and should not have been.
    ("CVE-2018-12453", "XGROUP CREATE list g $", "-WRONGTYPE"),
    ("CVE-2019-10192", "PFCOUNT sketch", "-INVALIDOBJ"),
    ("CVE-2019-10192", "PFMERGE merged sketch", "-INVALIDOBJ"),
    ("CVE-2019-10193", "PFADD short x", "-WRONGTYPE"),
    ("CVE-2025-32023", "PFCOUNT short sketch", "-WRONGTYPE"),
    ("CVE-2022-31144", "XAUTOCLAIM stream g d 0 0 COUNT 1", "["),
    ("CVE-2022-31144", "XAUTOCLAIM stream g d 0 0 COUNT 9223372036854775807", "-ERR COUNT"),
    ("CVE-2022-35951", "XAUTOCLAIM stream g d 0 0 COUNT -1", "-ERR COUNT"),
    ("CVE-2023-28425", "MSETNX a 1 a 2", "1"),
    ("CVE-2023-28856", "HINCRBYFLOAT hash c nan", "-ERR value is not a valid float"),
    ("CVE-2023-28856", "HINCRBYFLOAT hash c +inf", "-ERR value is NaN or Infinity"),
    ("CVE-2023-28856", "HGET hash c", "nil"),
    ("CVE-2025-62507", "XACK stream g 1-1 1-1 1-1 1-1 1-1 1-1 1-1 1-1 1-1 1-1", "0"),
    // Keys of commands that name none, or more than there are.
    ("CVE-2023-36824", "COMMAND GETKEYS EVAL x -1 a", ""),
    ("CVE-2023-36824", "COMMAND GETKEYS ZUNIONSTORE d 2147483647 a", "-ERR Invalid arguments"),
    ("CVE-2023-36824", "COMMAND GETKEYSANDFLAGS EVAL x 9223372036854775807 a", ""),
    // Rules of users.
    ("CVE-2024-31227", "ACL SETUSER u (%~)", "-ERR"),
    ("CVE-2024-51741", "ACL SETUSER u %", "-ERR"),
    ("CVE-2024-51741", "ACL SETUSER u (%)", "-ERR"),
    ("CVE-2024-51741", "ACL SETUSER u (", "-ERR Unmatched"),
    // Settings.
    ("CVE-2021-32687", "CONFIG SET set-max-intset-entries 4294967295", "+OK"),
    ("CVE-2021-32628", "CONFIG SET hash-max-listpack-value 4294967295", "+OK"),
    ("CVE-2021-41099", "CONFIG SET proto-max-bulk-len 9223372036854775807", "-ERR"),
];

#[test]
fn known_faults_of_commands_are_mended() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = Server::start_with(&Options { topology: Some(topology), ..Options::default() });
        let mut client = server.connect();
        pipeline(&mut client, KEYS);
        for (fault, line, expected) in FAULTS {
            let reply = client.ask(line);
            assert!(reply.starts_with(expected), "{fault}, {line}: {reply:.300}");
            assert_eq!(client.ask("PING"), "+PONG", "{fault}, {line}");
        }
        for limit in ["master 3735928559 3405691582 373529054", "nosuch 1 1 1"] {
            let set = ["CONFIG", "SET", "client-output-buffer-limit", limit];
            let reply = client.request(&set).to_string();
            assert!(reply.starts_with("-ERR"), "CVE-2016-8339, {limit}: {reply}");
        }
        // Patterns whose matches were tried one by one, or by recursion: CVE-2022-36021 and CVE-2024-31228.
        client.ask(&format!("SET {} 1", "a".repeat(10_000)));
        for pattern in ["*a".repeat(5_000) + "b", "*?".repeat(50_000), "*".repeat(60_000) + "b"] {
            assert_eq!(client.ask(&format!("KEYS {pattern}")), "[]");
            client.ask(&format!("CONFIG GET {pattern}"));
            assert!(client.ask(&format!("ACL SETUSER u ~{pattern}")).starts_with("+OK"));
            client.ask(&format!("SCAN 0 MATCH {pattern} COUNT 100"));
        }
    }
}

/// A page of a browser may send requests of HTTP to the server: CVE-2016-10517.
#[test]
fn requests_of_http_end_their_connection() {
    let server = Server::start();
    for line in ["POST / HTTP/1.1", "Host: localhost"] {
        let mut client = server.connect();
        client.send(format!("{line}\r\nSET crossed 1\r\n").as_bytes());
        client.read_to_close();
        assert_eq!(server.connect().ask("EXISTS crossed"), "0", "{line}");
    }
}

/// What a stranger does not read is bounded: CVE-2025-21605.
#[test]
fn strangers_have_few_unread_replies() {
    for topology in TOPOLOGIES {
        let server = Server::start_with(&Options {
            topology: Server::is_psp_redis().then_some(topology),
            requirepass: Some("secret"),
            ..Options::default()
        });
        let mut silent = TcpStream::connect(server.address()).unwrap();
        silent.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let requests = b"GET a\r\n".repeat(10_000);
        // The sockets take some, and then the server reads no more, or closes the connection.
        let is_all_read = (0..400).all(|_| silent.write_all(&requests).is_ok());
        assert!(!is_all_read, "{topology}");
        let mut known = server.connect();
        assert_eq!(known.ask("AUTH secret"), "+OK");
        assert_eq!(known.ask("PING"), "+PONG");
    }
}
