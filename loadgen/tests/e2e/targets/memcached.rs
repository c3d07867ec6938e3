//! The text and the meta protocol of memcached.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use psp_protocols::memcached::MemcachedFraming;

use super::program::{
    assert_every_arrival_ends_once, call, count, free_port, printed, real_server, run, server, type_of,
};
use crate::scripted::serve::Answer;

/// The schemes of both protocols.
const SCHEMES: [&str; 2] = ["memcached", "memcached+meta"];

fn memcached(script: impl Fn(&str) -> Answer + Send + Sync + 'static) -> SocketAddr {
    server(MemcachedFraming::default(), move |frame| script(str::from_utf8(frame).unwrap()))
}

#[test]
fn every_command_is_sent_in_its_protocol() {
    for (scheme, expected) in [
        (
            "memcached",
            &[
                ("get k\r\n", "VALUE k 0 1\r\na\r\nEND\r\n"),
                ("get a b\r\n", "VALUE b 0 2\r\nab\r\nEND\r\n"),
                ("gat 60 k\r\n", "END\r\n"),
                ("set k 0 0 3\r\nabc\r\n", "STORED\r\n"),
                ("add k 0 60 3\r\nabc\r\n", "NOT_STORED\r\n"),
                ("delete k\r\n", "DELETED\r\n"),
                ("incr n 5\r\n", "NOT_FOUND\r\n"),
                ("touch k 0\r\n", "TOUCHED\r\n"),
            ][..],
        ),
        (
            "memcached+meta",
            &[
                ("mg k v\r\n", "VA 1\r\na\r\n"),
                ("mg a v\r\n", "EN\r\n"),
                ("mg b v\r\n", "VA 2\r\nab\r\n"),
                ("mg k T60 v\r\n", "EN\r\n"),
                ("ms k 3 MS\r\nabc\r\n", "HD\r\n"),
                ("ms k 3 ME T60\r\nabc\r\n", "NS\r\n"),
                ("md k\r\n", "HD\r\n"),
                ("ma n D5 MI\r\n", "NF\r\n"),
                ("mg k T0\r\n", "HD\r\n"),
            ],
        ),
    ] {
        let addr = memcached(move |frame| {
            let known = expected.iter().find(|(request, _)| *request == frame);
            let reply = known.map_or("ERROR\r\n", |(_, reply)| reply);
            Answer::Reply(reply.as_bytes())
        });
        let mix = "GET k@40/s,MGET a b@40/s,GAT 60 k@40/s,SET k abc@40/s,ADD k abc 60@40/s,\
                   DELETE k@40/s,INCR n 5@40/s,TOUCH k 0@40/s";
        let report = run(&format!("{scheme}://{addr}"), mix, "");
        assert_every_arrival_ends_once(&report);
        for (name, hits_and_misses) in [
            ("GET", Some((20, 0))),
            ("MGET", Some((20, 20))),
            ("GAT", Some((0, 20))),
            ("SET", None),
            ("ADD", None),
            ("DELETE", Some((20, 0))),
            ("INCR", Some((0, 20))),
            ("TOUCH", Some((20, 0))),
        ] {
            let ty = type_of(&report, name);
            assert_eq!(ty["completed"], 20, "{scheme} {ty}");
            let counted = ty["hits"].as_u64().zip(ty["misses"].as_u64());
            assert_eq!(counted, hits_and_misses, "{scheme} {name}");
        }
    }
}

#[test]
fn errors_are_counted_by_kind_and_connections_are_opened_again() {
    for scheme in SCHEMES {
        let requests = AtomicU64::new(0);
        let addr = memcached(move |_| match requests.fetch_add(1, Ordering::Relaxed) % 20 {
            0..5 => Answer::Reply(b"SERVER_ERROR busy: the queue of 'get' is full\r\n"),
            5..10 => Answer::Reply(b"SERVER_ERROR out of memory\r\n"),
            10 => Answer::Reply(b"CLIENT_ERROR bad\r\n"),
            11 => Answer::Close,
            _ => Answer::Reply(b"EN\r\n"),
        });
        let report = run(&format!("{scheme}://{addr}"), "GET@400/s", "");
        assert_every_arrival_ends_once(&report);
        let errors = &type_of(&report, "GET")["errors"];
        let kinds = ["BUSY", "SERVER_ERROR", "CLIENT_ERROR", "CONNECTION"];
        assert_eq!(kinds.map(|kind| errors[kind].as_u64()), [50, 50, 10, 10].map(Some));
        assert_eq!((count(&report, "completed"), count(&report, "misses")), (80, 80));
        assert!(count(&report, "reconnects") > 0);
        assert_eq!(count(&report, "scheduled"), 200);
    }
}

/// One of the many replies of a meta `MGET` is an error: the request fails, once.
#[test]
fn a_request_with_many_replies_ends_once() {
    let addr = memcached(|frame| match frame {
        "mg b v\r\n" => Answer::Reply(b"SERVER_ERROR out of memory\r\n"),
        _ => Answer::Reply(b"VA 1\r\nx\r\n"),
    });
    let report = run(&format!("memcached+meta://{addr}"), "MGET a b c@100/s,GET@100/s", "");
    assert_every_arrival_ends_once(&report);
    let ty = type_of(&report, "MGET");
    assert_eq!((&ty["completed"], &ty["errors"]["SERVER_ERROR"]), (&0.into(), &50.into()));
    assert_eq!(ty["hits"], 100);
    assert_eq!(type_of(&report, "GET")["completed"], 50);
}

#[test]
fn the_text_report_tells_hits_and_misses() {
    let requests = AtomicU64::new(0);
    let addr = memcached(move |_| match requests.fetch_add(1, Ordering::Relaxed) % 4 {
        0 => Answer::Reply(b"END\r\n"),
        _ => Answer::Reply(b"VALUE k 0 1\r\na\r\nEND\r\n"),
    });
    let text = printed(&format!("memcached://{addr}"), "GET@200/s", "");
    assert!(text.contains("GET: 75 hits, 25 misses (25.0 %)"), "{text}");
}

/// Real servers: text and meta, presets, preloading, many keys at once.
#[test]
#[ignore = "needs memcached"]
fn memcached_is_measured() {
    let port = free_port();
    let _server = real_server(
        &format!("memcached -u root -l 127.0.0.1 -p {port}"),
        &format!("memcached://127.0.0.1:{port}"),
    );
    for scheme in SCHEMES {
        let target = format!("{scheme}://127.0.0.1:{port}");
        // The server has no keys with this prefix.
        let empty = run(&target, "MGET 20@100/s", "--keys 500 --key-prefix none:");
        assert_every_arrival_ends_once(&empty);
        let ty = type_of(&empty, "MGET");
        assert_eq!((&ty["hits"], &ty["misses"]), (&0.into(), &1_000.into()));

        let counter = format!("ADD {scheme} 7:1,INCR {scheme} 1:1");
        let mix = format!("GET:90,SET:10,MGET 100:1,GAT 60 {{key}}:1,TOUCH:1,DELETE none:1,REPLACE:1,{counter}");
        let args = "--rate 1000 --preload --keys 500 --value-bytes 10-3000 --key-distribution zipf";
        let report = run(&target, &mix, args);
        assert_every_arrival_ends_once(&report);
        assert_eq!(report["overall"]["completed"], report["overall"]["scheduled"]);
        for name in ["GET", "MGET", "GAT", "TOUCH"] {
            let ty = type_of(&report, name);
            assert!(ty["hits"].as_u64().unwrap() > 0, "{ty}");
            assert_eq!(ty["misses"], 0, "{scheme} {ty}");
        }
        assert_eq!(type_of(&report, "DELETE")["hits"], 0);
        let wrong = run(&target, "INCR key:000000000001 1@50/s,GET@50/s", "");
        assert_eq!(type_of(&wrong, "INCR")["errors"]["CLIENT_ERROR"], 25, "{wrong}");

        for preset in ["etc", "usr"] {
            let output = call(&[
                "run",
                "--target",
                &target,
                "--preset",
                preset,
                "--preload",
                "--keys",
                "2000",
                "--rate",
                "1000",
                "--duration",
                "0.5",
                "--fail-if",
                "overall.errors > 0",
                "--fail-if",
                "overall.completed < 100",
            ]);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{preset}: {errors}");
        }
    }
}
