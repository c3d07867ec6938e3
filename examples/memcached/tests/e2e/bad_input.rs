//! Clients that send nonsense, too much, too slowly, or never read.

use crate::common::{Server, wait_until};

#[test]
fn invalid_requests_get_memcacheds_replies() {
    const FORMAT: &str = "CLIENT_ERROR bad command line format";
    for server in Server::start_each() {
        let long = "k".repeat(251);
        let mut client = server.connect();
        for (request, reply) in [
            ("nosuch", "ERROR"),
            ("", "ERROR"),
            ("GET a", "ERROR"),
            ("get", "ERROR"),
            ("set a 0 0", "ERROR"),
            (&format!("get {long}"), FORMAT),
            (&format!("delete {long}"), FORMAT),
            ("delete a 5", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"),
            ("set a 0 0 -1", FORMAT),
            ("set a 0 0 x", FORMAT),
            ("touch a x", "CLIENT_ERROR invalid exptime argument"),
            ("mg a !", "CLIENT_ERROR invalid flag"),
            ("verbosity", "ERROR"),
        ] {
            if request.is_empty() {
                client.send("\r\n");
                client.expect_reply("an empty line", b"ERROR\r\n");
            } else {
                client.expect(request, reply);
            }
        }
        client.expect("mn", "MN");
    }
}

/// memcached 1.6.18 wraps numbers beyond 32 bits, and runs the data of other refused lines as commands.
#[test]
fn data_of_a_refused_line_never_run_as_commands() {
    const FORMAT: &str = "CLIENT_ERROR bad command line format";
    psp_harness::only_psp!();
    for server in Server::start_each() {
        let long = "k".repeat(251);
        let mut client = server.connect();
        client.expect("set witness 0 0 1|x", "STORED");
        let data = "flush_all\r\nset a 0 0 1\r\nx";
        let len = data.len();
        for (line, reply) in [
            (format!("set a 4294967296 0 {len}"), FORMAT),
            (format!("set a -1 0 {len}"), FORMAT),
            (format!("set a 0 99999999999999999999 {len}"), FORMAT),
            (format!("append a x 0 {len}"), FORMAT),
            (format!("add {long} 0 0 {len}"), FORMAT),
            (format!("cas a 0 0 {len}"), "ERROR"),
            (format!("cas a 0 0 {len} x"), FORMAT),
            (format!("set a 0 0 {len} 1 2"), "ERROR"),
            (format!("ms {long} {len}"), FORMAT),
            (format!("ms a {len} !"), "CLIENT_ERROR invalid flag"),
            (format!("ms a {len} F4294967296"), FORMAT),
            (format!("ms a {len} {}", "c ".repeat(20)), "CLIENT_ERROR options flags too long"),
        ] {
            client.send(format!("{line}\r\n{data}\r\nmn\r\n"));
            client.expect_reply(&line, format!("{reply}\r\nMN\r\n").as_bytes());
        }
        client.expect("get a witness", "VALUE witness 0 1|x|END");
        for line in ["set a 0 0 2147483646", "set a x 0 4294967296", "ms a 99999999999999999999"] {
            let mut closed = server.connect();
            closed.send(format!("{line}\r\nflush_all\r\n"));
            let reply = String::from_utf8(closed.read_to_close()).unwrap();
            assert_eq!(reply, format!("{FORMAT}\r\n"), "{line}");
        }
        client.expect("get witness", "VALUE witness 0 1|x|END");
    }
}

#[test]
fn requests_of_http_close_the_connection_before_their_bodies_run() {
    for server in Server::start_each() {
        let mut client = server.connect();
        client.expect("set a 0 0 1|x", "STORED");
        let mut requests = vec![
            "POST /x HTTP/1.1\r\nHost: localhost",
            "GET /x HTTP/1.1\r\nHost: localhost",
            "patch /x HTTP/1.0\r\nAccept: */*",
        ];
        if Server::is_psp() {
            // memcached knows the first line only by its version.
            requests.extend(["POST", "post /x", "X: y\r\nhOST:localhost"]);
        }
        for request in requests {
            let mut web_page = server.connect();
            let body = "flush_all\r\nset a 0 0 1\r\ny\r\n";
            // The server may close the connection before it has read the body.
            let _closed = web_page.try_send(format!("{request}\r\n\r\n{body}").as_bytes());
            web_page.read_to_close();
            client.expect("get a", "VALUE a 0 1|x|END");
        }
        if Server::is_psp() {
            assert!(client.stat("stats psp", "malformed_requests") >= 6);
        }
        client.expect("set HTTP/1.1 0 0 1|x", "STORED");
        client.expect("delete HTTP/1.1", "DELETED");
    }
}

#[test]
fn data_that_is_longer_than_announced_is_refused() {
    for server in Server::start_each() {
        let mut client = server.connect();
        client.expect("set a 0 0 1|x", "STORED");
        client.send("set a 0 0 2\r\nabcd\r\n");
        assert_eq!(client.line(), "CLIENT_ERROR bad data chunk");
        // The server may take the rest of the data for a command.
        client.send("mn\r\n");
        while client.line() != "MN" {}
    }
}

#[test]
fn a_value_too_large_is_skipped_and_the_old_value_removed() {
    let server = Server::start_with(&["-I", "2m", "-m", "64"]);
    let mut client = server.connect();
    let fits = "x".repeat(2_000_000);
    client.expect(&format!("set a 0 0 2000000|{fits}"), "STORED");
    let before = server.resident_bytes();
    let large = "get a\r\n".repeat(10_000_000);
    client.send(format!("set a 0 0 {}\r\n{large}\r\n", large.len()));
    assert_eq!(client.line(), "SERVER_ERROR object too large for cache");
    client.expect("get a", "END");
    client.send(format!("ms b {} T0\r\n{large}\r\nmn\r\n", large.len()));
    assert_eq!(client.line(), "SERVER_ERROR object too large for cache");
    assert_eq!(client.line(), "MN");
    if Server::is_psp() {
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown < large.len() as u64 / 4, "the server holds {grown} bytes");
    }
}

#[test]
fn endless_lines_end_the_connection() {
    for server in Server::start_each() {
        let mut client = server.connect();
        let _closed = client.try_send("x".repeat(3_000_000).as_bytes());
        let answer = client.read_to_close();
        assert!(answer.is_empty() || answer.starts_with(b"CLIENT_ERROR ") || answer.starts_with(b"ERROR"));
        server.assert_alive();
    }
}

#[test]
fn noise_does_not_affect_other_clients() {
    for server in Server::start_each() {
        let mut witness = server.connect();
        let mut state = 88_172_645_463_325_252_u64;
        for round in 0..200 {
            let mut noise = Vec::new();
            for _ in 0..300 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                noise.extend(state.to_le_bytes());
            }
            if round % 2 == 0 {
                noise[0] = 0x80;
            }
            let mut client = server.connect();
            let _closed = client.try_send(&noise);
            client.finish_sending();
            client.read_to_close();
        }
        witness.expect("set a 0 0 1|x", "STORED");
        witness.expect("get a", "VALUE a 0 1|x|END");
    }
}

#[test]
fn connections_beyond_the_limit_get_an_error() {
    // By default memcached lets such connections wait instead.
    psp_harness::only_psp!();
    let server = Server::start_with(&["-c", "3"]);
    let mut held = Vec::new();
    wait_until("three connections are open", || {
        let mut client = server.connect();
        if client.is_served() {
            held.push(client);
        }
        held.len() == 3
    });
    assert_eq!(server.connect().read_to_close(), b"ERROR Too many open connections\r\n");
    held[0].expect("mn", "MN");
}

#[test]
fn requests_of_a_client_that_does_not_read_are_not_run() {
    psp_harness::only_psp!();
    for server in Server::start_each() {
        let mut client = server.connect();
        let value = "v".repeat(1_000_000);
        client.expect(&format!("set a 0 0 1000000|{value}"), "STORED");
        let mut greedy = server.connect();
        greedy.send("get a\r\n".repeat(1000));
        for _ in 0..1000 {
            client.expect("mn", "MN");
        }
        assert!(server.resident_bytes() < 200_000_000);
        assert!(client.stat("stats", "get_hits") < 500);
    }
}

/// It is no bad input: many clients do so.
#[test]
fn who_writes_all_before_it_reads_gets_all_replies() {
    const PAIRS: usize = 2000;
    for server in Server::start_each() {
        let mut client = server.connect();
        let (long, short) = ("v".repeat(10_000), "w".repeat(5000));
        client.send(format!("set long 0 0 10000\r\n{long}\r\n"));
        client.expect_reply("set", b"STORED\r\n");
        let pair = format!("get long\r\nset other 0 0 5000\r\n{short}\r\n");
        client.send(pair.repeat(PAIRS));
        let replies = format!("VALUE long 0 10000\r\n{long}\r\nEND\r\nSTORED\r\n");
        for _ in 0..PAIRS {
            client.expect_reply("a pair", replies.as_bytes());
        }
    }
}

#[test]
fn unknown_opcodes_are_refused_with_their_bodies() {
    let packet = |magic: u8, opcode: u8, status: u8, body: [&[u8]; 2]| {
        let [key, value] = body;
        let mut packet = vec![magic, opcode, 0, key.len() as u8, 0, 0, 0, status];
        packet.extend(((key.len() + value.len()) as u32).to_be_bytes());
        packet.extend([0; 12]);
        packet.extend(body.concat());
        packet
    };
    let noop = 0x0a;
    let server = Server::start();
    for opcode in [0x1f, 0x30, 0x55, 0xff] {
        for body in [[&b""[..], b""], [b"key", b""], [b"key", b"value"]] {
            let request = packet(0x80, opcode, 0, body);
            let mut reply = packet(0x81, opcode, 0x81, [b"", b"Unknown command"]);
            // memcached drops as many bytes of the next request.
            if Server::is_psp() || body.concat().is_empty() {
                reply.extend(packet(0x81, noop, 0, [b"", b""]));
            }
            let mut client = server.connect();
            client.send([request, packet(0x80, noop, 0, [b"", b""])].concat());
            client.expect_reply(&format!("{opcode:#x} with {body:?}"), &reply);
        }
    }
}
