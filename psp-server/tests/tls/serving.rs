//! Requests over TLS, and peers that do not get that far.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use psp_certificates::Certificates;
use psp_server::tls::{ClientCertificates, HANDSHAKE, TlsConfig};
use psp_server::{Config, Reply, Request, Server, TypeSpec};

use crate::common::{Client, Lines, PATIENCE, until};
use crate::rig::{shapes, start, start_in};

/// What a peer gets until its connection is closed. A reset counts as closed.
fn read_to_close(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes);
    bytes
}

#[test]
fn requests_and_replies_pass_in_order_beside_plain_ones() {
    for shape in shapes() {
        let server = start_in(shape, Config::default());
        let mut secure = server.connect();
        let mut plain = Client::new(TcpStream::connect(server.plain).unwrap());
        for round in 0..20 {
            assert_eq!(secure.ask(&format!("secure {round}")), format!("ok secure {round}"));
            assert_eq!(plain.ask(&format!("plain {round}")), format!("ok plain {round}"));
        }
        secure.send("pieces\n");
        let pieces = [secure.line(), secure.line(), secure.line()];
        assert_eq!(pieces, ["first", "second", "ok pieces"]);
        let pipelined: String = (0..200).map(|index| format!("number {index}\n")).collect();
        secure.send(&pipelined);
        for index in 0..200 {
            assert_eq!(secure.line(), format!("ok number {index}"));
        }
        let long = "x".repeat(900_000);
        assert_eq!(secure.ask(&long), format!("ok {long}"));
        let reply = secure.ask("big 3000000");
        assert_eq!(reply.len(), 3_000_000 + "ok big 3000000".len());

        let snapshot = server.snapshot();
        assert_eq!((snapshot.net.handshakes, snapshot.net.handshakes_failed), (1, 0));
        let names: Vec<&str> = snapshot.types.iter().map(|ty| ty.name.as_str()).collect();
        assert_eq!(names, ["short", HANDSHAKE, "UNKNOWN"]);
        let steps = server.handshakes();
        assert!(steps.completions >= 2 && steps.arrivals == steps.completions, "{steps:?}");
        until("all is counted", || {
            let net = server.snapshot().net;
            net.bytes_sent > 3_900_000 && net.bytes_received > 900_000
        });
    }
}

#[test]
fn who_writes_all_before_it_reads_gets_all_replies() {
    const REQUESTS: usize = 4000;
    let padding = "x".repeat(5000);
    for shape in shapes() {
        let server = start_in(shape, Config::default());
        let mut client = server.connect();
        let socket = &client.stream.get_ref().sock;
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        let requests = { 0..REQUESTS }.map(|number| format!("{number} {padding}\n"));
        client.send(&requests.collect::<String>());
        for number in 0..REQUESTS {
            assert_eq!(client.line(), format!("ok {number} {padding}"));
        }
    }
}

#[test]
fn messages_that_are_pushed_are_encrypted_too() {
    for shape in shapes() {
        let server = start_in(shape, Config::default());
        let mut clients = [server.connect(), server.connect()];
        for client in &mut clients {
            client.send("push 300\npush 2\nmore\n");
        }
        for client in &mut clients {
            assert_eq!(client.line(), "ok push 300");
            for number in 0..300 {
                let padding = "x".repeat(number);
                assert_eq!(client.line(), format!("{number} {padding}").trim_end());
            }
            let rest = [0; 4].map(|_| client.line());
            assert_eq!(rest, ["ok push 2", "0", "1 x", "ok more"]);
        }
    }
}

#[test]
fn a_classifier_cannot_name_the_type_of_handshakes() {
    let server = start(Config::default());
    let mut client = server.connect();
    until("the handshake is over", || server.snapshot().net.handshakes == 1);
    let before = server.handshakes().arrivals;
    assert_eq!(client.ask("2"), "ok 2");
    assert_eq!(server.handshakes().arrivals, before);
    assert_eq!(server.snapshot().types.last().unwrap().arrivals, 1, "UNKNOWN");
}

#[test]
fn the_last_reply_comes_before_close_notify() {
    for shape in shapes() {
        let server = start_in(shape, Config::default());
        let mut client = server.connect();
        client.send("big 200000\nquit\nnever\n");
        let rest = client.rest();
        assert!(rest.ends_with(b"ok quit\n"), "{} bytes", rest.len());

        let mut client = server.connect();
        client.send("first\nsecond\n");
        client.stream.get_mut().conn.send_close_notify();
        client.stream.get_mut().flush().unwrap();
        assert_eq!(client.rest(), b"ok first\nok second\n");
        until("both are closed", || server.snapshot().net.connections_open == 0);
    }
}

#[test]
fn a_stopping_server_answers_and_says_that_it_ends() {
    for shape in shapes() {
        let server = start_in(shape, Config::default());
        let mut client = server.connect();
        let mut silent = server.socket();
        silent.write_all(&server.hello()[..50]).unwrap();
        until("both are open", || server.snapshot().net.connections_open == 2);
        assert_eq!(client.ask("request"), "ok request");
        let handle = server.handle.clone();
        assert_eq!(server.stop().abandoned, 0);
        assert_eq!(client.rest(), b"");
        assert_eq!(read_to_close(&mut silent), b"");
        assert_eq!(handle.snapshot().net.handshakes_failed, 1);
    }
}

#[test]
fn peers_that_do_not_finish_their_handshake_lose_the_connection() {
    let server = start(Config::default().handshake_timeout_s(1));
    let mut open = server.connect();
    let mut silent = server.socket();
    let mut slow = server.socket();
    slow.write_all(&server.hello()[..50]).unwrap();
    assert_eq!(read_to_close(&mut silent), b"");
    assert_eq!(read_to_close(&mut slow), b"");
    let net = server.snapshot().net;
    assert_eq!((net.handshakes_failed, net.connections_timed_out), (2, 2));
    assert_eq!(open.ask("request"), "ok request");

    let leaving = server.socket();
    leaving.shutdown(Shutdown::Both).unwrap();
    until("the peer that left is counted", || server.snapshot().net.handshakes_failed == 3);
}

#[test]
fn a_peer_that_speaks_no_tls_gets_an_alert_and_no_reply() {
    for shape in shapes() {
        let server = start_in(shape, Config::default());
        let mut peer = server.socket();
        peer.write_all(b"request\n").unwrap();
        let alert = read_to_close(&mut peer);
        assert_eq!((alert.len(), alert.first()), (7, Some(&21)), "{alert:?}");
        until("it is counted", || server.snapshot().net.handshakes_failed == 1);

        // A record in the clear on an open session.
        let mut client = server.connect();
        assert_eq!(client.ask("request"), "ok request");
        client.stream.get_mut().sock.write_all(&[23, 3, 3, 0, 20]).unwrap();
        client.stream.get_mut().sock.write_all(&[7; 20]).unwrap();
        until("it is counted", || server.snapshot().net.malformed == 1);
        until("it is closed", || server.snapshot().net.connections_open == 0);
        assert_eq!(server.connect().ask("request"), "ok request");
    }
}

#[test]
fn listeners_of_the_caller_speak_tls_and_a_type_may_not_take_the_name_of_handshakes() {
    let files = Certificates::new();
    let (pair, clients) = (&files.server, ClientCertificates::NotAsked);
    let tls = TlsConfig::from_pem_files(&pair.certificate, &pair.key, &clients).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let builder = Server::builder()
        .tls_listener(listener, &tls)
        .framing(Lines)
        .handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {});
    let server = builder.build().unwrap();
    assert_eq!(server.local_addrs(), [address]);
    assert_eq!(server.handle().snapshot().types[1].name, HANDSHAKE);

    let refused = Server::builder()
        .tls("127.0.0.1:0", &tls)
        .types([TypeSpec::new(HANDSHAKE)])
        .framing(Lines)
        .handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {})
        .build();
    let message = refused.err().unwrap().to_string();
    assert_eq!(message, "two request types have the name HANDSHAKE");
}
