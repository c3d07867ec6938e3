//! The text protocol of memcached over UDP.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use psp_protocols::memcached::udp::{HEADER_LEN, Header};

use super::program::{assert_every_arrival_ends_once, call, count, free_port, real_server, run, type_of};

/// Starts a server that replies to each request with the datagrams that `script` returns, in order.
fn server(mut script: impl FnMut(Header, &str) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((len, peer)) = socket.recv_from(&mut buffer) {
            let (header, request) = buffer[..len].split_at(HEADER_LEN);
            let header = Header::decode(header).unwrap();
            for datagram in script(header, str::from_utf8(request).unwrap()) {
                socket.send_to(&datagram, peer).unwrap();
            }
        }
    });
    addr
}

/// A reply to `request` in parts of at most `part_len` bytes.
fn parts(request: Header, reply: &str, part_len: usize) -> Vec<Vec<u8>> {
    let parts = reply.as_bytes().chunks(part_len);
    let count = u16::try_from(parts.len()).unwrap();
    let parts = (0..).zip(parts).map(|(sequence, part)| {
        let header = Header { sequence, count, ..request };
        [&header.encode()[..], part].concat()
    });
    parts.collect()
}

fn whole(request: Header, reply: &str) -> Vec<Vec<u8>> {
    parts(request, reply, usize::MAX)
}

#[test]
fn every_command_is_sent_behind_a_header_of_its_own() {
    let mut last_id = None;
    let addr = server(move |header, request| {
        assert_eq!(header, Header::request(header.request_id));
        assert_ne!(last_id.replace(header.request_id), Some(header.request_id));
        let reply = match request {
            "get k\r\n" => "VALUE k 0 1\r\na\r\nEND\r\n",
            "get a b\r\n" => "VALUE b 0 2\r\nab\r\nEND\r\n",
            "set k 0 0 3\r\nabc\r\n" => "STORED\r\n",
            "delete k\r\n" => "DELETED\r\n",
            "incr n 5\r\n" => "NOT_FOUND\r\n",
            _ => "ERROR\r\n",
        };
        whole(header, reply)
    });
    let target = format!("memcached+udp://{addr}");
    let mix = "GET k@40/s,MGET a b@40/s,SET k abc@40/s,DELETE k@40/s,INCR n 5@40/s";
    let report = run(&target, mix, "");
    assert_every_arrival_ends_once(&report);
    assert_eq!(report["target"], target);
    for (name, hits_and_misses) in [
        ("GET", Some((20, 0))),
        ("MGET", Some((20, 20))),
        ("SET", None),
        ("DELETE", Some((20, 0))),
        ("INCR", Some((0, 20))),
    ] {
        let ty = type_of(&report, name);
        assert_eq!((&ty["completed"], &ty["connections"]), (&20.into(), &0.into()));
        let counted = ty["hits"].as_u64().zip(ty["misses"].as_u64());
        assert_eq!(counted, hits_and_misses, "{name}");
    }
}

/// Each tenth reply lacks a part, each tenth comes backwards, and all come twice.
#[test]
fn a_reply_that_lacks_a_part_is_lost_and_no_other() {
    let mut replies = 0;
    let addr = server(move |header, _| {
        let value = "x".repeat(5_000);
        let reply = format!("VALUE k 0 5000\r\n{value}\r\nEND\r\n");
        let mut parts = parts(header, &reply, 1_000);
        match replies % 10 {
            0 => drop(parts.remove(replies / 10 % 6)),
            1 => parts.reverse(),
            _ => {}
        }
        replies += 1;
        [parts.clone(), parts].concat()
    });
    let report = run(&format!("memcached+udp://{addr}"), "GET@400/s", "--timeout 0.3");
    assert_every_arrival_ends_once(&report);
    assert_eq!(
        ["scheduled", "completed", "hits", "timeouts"].map(|field| count(&report, field)),
        [200, 180, 180, 20]
    );
}

/// Replies without a request and datagrams without a header are ignored. A malformed reply to a
/// request is an error.
#[test]
fn errors_are_counted_by_kind() {
    let mut replies = 0;
    let addr = server(move |header, _| {
        replies += 1;
        let stranger = Header::request(header.request_id ^ 0x8000);
        match replies % 20 {
            0..5 => whole(header, "SERVER_ERROR busy: the queue of 'read' is full\r\n"),
            5 => whole(header, "CLIENT_ERROR bad\r\n"),
            6 => whole(header, "hello\r\n"),
            // memcached sends each value of a multiget as a message of its own.
            7 => [whole(header, "VALUE a 0 1\r\nx\r\n"), whole(header, "VALUE b 0 1\r\nx\r\nEND\r\n")].concat(),
            8 => [whole(stranger, "ERROR\r\n"), whole(header, "END\r\n")].concat(),
            9 => [vec![b"END".to_vec()], whole(header, "END\r\n")].concat(),
            _ => whole(header, "END\r\n"),
        }
    });
    let report = run(&format!("memcached+udp://{addr}"), "MGET a b@400/s", "");
    assert_every_arrival_ends_once(&report);
    let errors = &type_of(&report, "MGET")["errors"];
    let kinds = ["BUSY", "CLIENT_ERROR", "MALFORMED", "SPLIT"];
    assert_eq!(kinds.map(|kind| errors[kind].as_u64()), [50, 10, 10, 10].map(Some));
    assert_eq!((count(&report, "completed"), count(&report, "misses")), (120, 240));
}

#[test]
fn requests_are_one_datagram_or_an_error() {
    let addr = server(|header, request| {
        assert_eq!(request.len(), "set key:000000000000 0 0 60000\r\n\r\n".len() + 60_000);
        whole(header, "STORED\r\n")
    });
    let target = format!("memcached+udp://{addr}");
    let report = run(&target, "SET@100/s", "--value-bytes 60000@1,66000@1");
    assert_every_arrival_ends_once(&report);
    let too_long = &type_of(&report, "SET")["errors"]["TOO_LONG"];
    let sent = count(&report, "sent");
    assert_eq!(too_long.as_u64(), Some(50 - sent));
    // Few datagrams of this length fit the server's buffer while the server has no core.
    assert_eq!(count(&report, "completed") + count(&report, "timeouts"), sent);
    assert!(count(&report, "completed") > 0);
}

/// A real server. The TCP port for the preload is also the UDP port.
#[test]
#[ignore = "needs memcached"]
fn memcached_is_measured_over_udp() {
    let port = free_port();
    let target = format!("memcached+udp://127.0.0.1:{port}");
    // The server listens to TCP before it receives datagrams.
    let _server = real_server(&format!("memcached -u root -l 127.0.0.1 -p {port} -U {port}"), &target);
    let mix = "GET:90,SET:10,GAT 60 {key}:1,TOUCH:1,DELETE none:1,ADD n 7:1,INCR n 1:1";
    let args = "--rate 1000 --preload --keys 500 --value-bytes 10-20000 --key-distribution zipf";
    let report = run(&target, mix, args);
    assert_every_arrival_ends_once(&report);
    assert_eq!(report["overall"]["completed"], report["overall"]["scheduled"]);
    for name in ["GET", "GAT", "TOUCH"] {
        let ty = type_of(&report, name);
        assert!(ty["hits"].as_u64().unwrap() > 0, "{ty}");
        assert_eq!(ty["misses"], 0, "{ty}");
    }
    assert_eq!(type_of(&report, "DELETE")["hits"], 0);
    // The server numbers the datagrams of each value separately.
    let split = run(&target, "MGET 3@100/s,GET@100/s", "--keys 500");
    assert_eq!(type_of(&split, "MGET")["errors"]["SPLIT"], 50, "{split}");

    let memcached = "memcached -u root -l 127.0.0.1 -p {port}";
    let compared = call(&[
        "compare",
        "--start",
        &format!("udp={memcached} -U {{port}}"),
        "udp=memcached+udp://127.0.0.1:{port}",
        "--start",
        &format!("tcp={memcached}"),
        "tcp=memcached://127.0.0.1:{port}",
        "--mix",
        "GET@200/s",
        "--preload",
        "--keys",
        "100",
        "--runs",
        "1",
        "--duration",
        "0.5",
        "--output",
        "json",
    ]);
    let errors = String::from_utf8_lossy(&compared.stderr);
    assert!(compared.status.success(), "{errors}");
    let compared: serde_json::Value = serde_json::from_slice(&compared.stdout).unwrap();
    for server in compared["targets"].as_array().unwrap() {
        let get = type_of(&server["runs"][0], "GET");
        assert_eq!((&get["hits"], &get["misses"]), (&get["scheduled"], &0.into()));
    }
}
