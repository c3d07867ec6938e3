//! Replies to datagrams that memcached 1.6 and psp-memcached both give.

use crate::common::{Connection, Datagrams, OF_WORKERS, Server, wait_until};
use psp_harness::{send_from_its_own_port, skip};
use psp_protocols::memcached::udp::{HEADER_LEN, Header};

/// Servers, one after the other, each with a client of its streams, and a client of its datagrams.
fn start_each() -> impl Iterator<Item = (Server, Connection, Datagrams)> {
    Server::start_each_udp().map(|(server, address)| {
        let (stream, datagrams) = (server.connect(), Datagrams::open(address));
        (server, stream, datagrams)
    })
}

#[test]
fn requests_of_all_protocols_are_answered_under_their_ids() {
    for (_server, mut stream, datagrams) in start_each() {
        stream.expect("set a 5 0 3|abc", "STORED");
        for (id, request, reply) in [
            (7, "mn|", "MN\r\n"),
            (0, "get a|", "VALUE a 5 3\r\nabc\r\nEND\r\n"),
            (0xffff, "get nosuch|", "END\r\n"),
            (0x6765, "mg a v|", "VA 3\r\nabc\r\n"),
            (0x8000, "set b 1 0 2|xy|", "STORED\r\n"),
            (0x8001, "incr a 1|", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
            (1, "hello|", "ERROR\r\n"),
        ] {
            assert_eq!(datagrams.ask(id, request), reply, "{request}");
        }
        stream.expect("get b", "VALUE b 1 2|xy|END");

        let get = b"\x80\0\0\x01\0\0\0\0\0\0\0\x01\x01\x02\x03\x04\0\0\0\0\0\0\0\0a";
        datagrams.send(Header::request(9), get);
        let reply = datagrams.reply(9);
        assert_eq!(reply[0], 0x81);
        assert_eq!(reply[12..16], [1, 2, 3, 4]);
        assert!(reply.ends_with(b"\0\0\0\x05abc"), "flags and value");
    }
}

#[test]
fn long_replies_are_several_datagrams() {
    for (_server, mut stream, datagrams) in start_each() {
        for len in [1367, 1368, 5000, 15_000] {
            let value: String = (0..len).map(|index| char::from(b'a' + (index % 23) as u8)).collect();
            stream.expect(&format!("set k 0 0 {len}|{value}"), "STORED");
            let expected = format!("VALUE k 0 {len}\r\n{value}\r\nEND\r\n");
            assert!(datagrams.ask(3, "get k|") == expected, "{len} bytes");
        }
    }
}

#[test]
fn noreply_requests_get_no_reply() {
    for (_server, mut stream, datagrams) in start_each() {
        datagrams.send(Header::request(1), "set a 0 0 1 noreply\r\nx\r\n");
        wait_until("the item is stored", || stream.ask("mg a v") != "EN" && stream.line() == "x");
        assert_eq!(datagrams.ask(2, "mn|"), "MN\r\n");
    }
}

#[test]
fn incomplete_requests_are_dropped() {
    for (server, mut stream, datagrams) in start_each() {
        let header = |count, sequence| Header { count, sequence, ..Header::request(1) };
        datagrams.send_bytes(b"");
        datagrams.send_bytes(b"get a\r\n");
        datagrams.send(header(2, 0), "mn\r\n");
        datagrams.send(header(0, 0), "mn\r\n");
        datagrams.send(header(1, 0), "");
        datagrams.send(header(1, 0), "get a");
        if Server::is_psp() {
            // memcached takes the next datagram for the rest of the value.
            datagrams.send(header(1, 0), "set a 0 0 2000000\r\nxx");
        }
        // memcached checks only the number of datagrams.
        datagrams.send(header(1, 5), "mn\r\n");
        assert_eq!(datagrams.receive(), (header(1, 0), b"MN\r\n".to_vec()));
        server.assert_alive();
        if Server::is_psp() {
            assert_eq!(stream.stat("stats psp", "malformed_requests"), 7);
        }
    }
}

/// A reply has 16 KiB with its header, however much room its request leaves. memcached has no limit.
#[test]
fn requests_and_replies_have_the_same_limit() {
    const LIMIT: usize = (16 << 10) - HEADER_LEN;
    psp_harness::only_psp!();
    for (_server, mut stream, datagrams) in start_each() {
        let reply = |len: usize| format!("VALUE k 0 {len}\r\n{}\r\nEND\r\n", "x".repeat(len));
        let len_max = LIMIT - (reply(10_000).len() - 10_000);
        let longest_request = format!("get k{}|", " ".repeat(LIMIT - "get k\r\n".len()));
        for request in ["get k|", &longest_request] {
            stream.expect(&format!("set k 0 0 {len_max}|{}", "x".repeat(len_max)), "STORED");
            assert!(datagrams.ask(1, request) == reply(len_max));
            stream.expect("append k 0 0 1|x", "STORED");
            assert_eq!(
                datagrams.ask(2, request),
                format!("SERVER_ERROR reply is larger than the limit of {LIMIT} bytes\r\n")
            );
        }
        datagrams.send(Header::request(3), " ".repeat(LIMIT - 1) + "\r\n");
        assert_eq!(datagrams.ask(4, "mn|"), "MN\r\n");
    }
}

/// memcached answers itself for ever.
#[test]
fn datagrams_from_the_servers_own_port_and_replies_are_dropped() {
    psp_harness::only_psp!();
    for (server, address) in Server::start_each_udp() {
        let (mut stream, datagrams) = (server.connect(), Datagrams::open(address));
        for reply in ["ERROR|", "END|", "HD c1|", "7|", "VERSION 1.6.18|"] {
            datagrams.send(Header::request(1), reply.replace('|', "\r\n"));
        }
        assert_eq!(datagrams.ask(2, "mn|"), "MN\r\n");
        assert_eq!(stream.stat("stats psp", "reflected_datagrams"), 5);

        let requests = |stream: &mut Connection| {
            let types = ["health", "read", "UNKNOWN"].map(|name| format!("type:{name}:arrivals"));
            types.map(|name| stream.stat("stats psp", &name))
        };
        let before = requests(&mut stream);
        for request in ["mn\r\n", "get k\r\n", "hello\r\n"] {
            let datagram = [&Header::request(3).encode()[..], request.as_bytes()].concat();
            if send_from_its_own_port(address.port(), &datagram).is_err() {
                return skip("no right to forge datagrams");
            }
        }
        wait_until("all are dropped", || stream.stat("stats psp", "reflected_datagrams") == 8);
        assert_eq!(datagrams.ask(4, "mn|"), "MN\r\n");
        let [health, read, unknown] = requests(&mut stream);
        // `mn` above, and the questions for these figures.
        assert!(health > before[0]);
        assert_eq!((read, unknown), (before[1], before[2]));
    }
}

/// Replies to a forged source reach a victim. memcached does not limit them.
#[test]
fn a_source_gets_no_more_than_its_bytes() {
    psp_harness::only_psp!();
    // A reply of 10 000 bytes takes a source 100 seconds. The last server has the limit that there is by default.
    let config = "[server]\ndatagram-bytes-per-source-per-s = 100\n";
    let dispatched: [&[&str]; 2] = [&["--topology", "inline"], &["--topology", "dedicated"]];
    let limited = dispatched.into_iter().chain(OF_WORKERS);
    let limited = limited.map(|flags| (flags, config));
    for (flags, config) in limited.chain([(dispatched[0], "")]) {
        let (server, address) = Server::start_udp_with(flags, config);
        let mut stream = server.connect();
        let value = "x".repeat(10_000);
        stream.expect(&format!("set k 0 0 10000|{value}"), "STORED");
        let victim = Datagrams::open_from("127.0.0.1", address);
        let reply = format!("VALUE k 0 10000\r\n{value}\r\nEND\r\n");
        assert!(victim.ask(1, "get k|") == reply);
        // The server counts a reply a moment after it has sent it.
        wait_until("datagrams are dropped", || {
            victim.send(Header::request(2), "get k\r\n");
            stream.stat("stats psp", "over_budget_datagrams") > 2
        });
        let another = Datagrams::open_from("127.0.0.2", address);
        assert!(another.ask(3, "get k|") == reply, "another source is served");
    }
}

/// memcached sends values of any size and replies to every request of a datagram.
#[test]
fn requests_and_replies_that_do_not_fit_are_errors() {
    psp_harness::only_psp!();
    for (_server, mut stream, datagrams) in start_each() {
        let value = "x".repeat(100_000);
        stream.expect(&format!("set k 0 0 100000|{value}"), "STORED");
        let refused = datagrams.ask(1, "get k|");
        assert!(refused.starts_with("SERVER_ERROR reply is larger than the limit of"), "{refused}");
        datagrams.send(Header::request(2), "mn\r\nmn\r\n");
        assert_eq!(datagrams.ask(3, "mn|"), "MN\r\n");
    }
}
