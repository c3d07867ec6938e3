//! A client gets an error for its own malformed or failed requests. Other clients notice nothing.

use std::io::ErrorKind;

use crate::common::{DARC_DISTRIBUTED, Server, TWO_WORKERS, ask, end};
use psp_rpc_client::envelope::{Request, Status};
use psp_rpc_client::methods::{Numbers, Work};
use psp_rpc_client::{Client, Payload};

#[test]
fn requests_that_cannot_be_served_get_their_status() {
    for server in Server::start_each("") {
        let cases = [
            ("Nap", Vec::new(), Status::Unimplemented, "unknown method 'Nap'"),
            ("", Vec::new(), Status::Unimplemented, "unknown method ''"),
            ("Spin", b"\x08".to_vec(), Status::InvalidArgument, "varint"),
            ("Sum", b"\x0a\x05abc".to_vec(), Status::InvalidArgument, "decode"),
            (
                "Sleep",
                (&Work { duration_us: u64::MAX }).into_bytes(),
                Status::OutOfRange,
                "at most 10000000 us",
            ),
            (
                "Sum",
                (&Numbers { values: vec![i64::MAX; 2] }).into_bytes(),
                Status::OutOfRange,
                "64 bits",
            ),
        ];
        for (mut client, drops_nameless) in [(server.connect(), false), (server.datagrams(), true)] {
            for (method, payload, status, words) in &cases {
                if method.is_empty() && drops_nameless {
                    continue;
                }
                let response = ask(&mut client, method, payload.clone());
                let (found, error) = end(&response);
                assert_eq!(found, *status, "{method}: {error}");
                assert!(error.contains(words), "{method}: {error}");
                assert!(response.payload.is_empty());
                assert_eq!(ask(&mut client, "Echo", Vec::new()).status(), Status::Ok);
            }
        }
    }
}

/// Sends malformed bytes; returns the id and the status of the response.
fn answer_to(client: &mut Client, frame: &[u8]) -> (u64, Status) {
    client.send(frame).unwrap();
    let response = client.receive().unwrap();
    (response.id, response.status())
}

#[test]
fn a_malformed_request_gets_an_error_with_its_id_if_that_can_be_read() {
    for server in Server::start_each("") {
        let mut witness = server.connect();
        for (mut client, drops_nameless) in [(server.connect(), false), (server.datagrams(), true)] {
            // A method that is not UTF-8, behind the id; a message that is cut off.
            for (frame, id) in [(&b"\x05\x08\x07\x12\x01\xff"[..], 7), (b"\x01\x08", 0)] {
                assert_eq!(answer_to(&mut client, frame), (id, Status::InvalidArgument));
            }
            // In datagrams these are responses.
            if !drops_nameless {
                // A field of a wrong type.
                let wrong_type = answer_to(&mut client, b"\x02\x10\x05");
                assert_eq!(wrong_type, (0, Status::InvalidArgument));
                // A request without a method names an unknown method.
                assert_eq!(answer_to(&mut client, b"\0"), (0, Status::Unimplemented));
            }
            assert_eq!(ask(&mut client, "Echo", Vec::new()).status(), Status::Ok);
        }
        assert_eq!(ask(&mut witness, "Echo", Vec::new()).status(), Status::Ok);
    }
}

#[test]
fn a_stream_that_cannot_be_framed_gets_an_error_and_is_closed() {
    for server in Server::start_each("message_len_max = 1000\n") {
        let mut witness = server.connect();
        for bytes in [&b"\xff\xff\xff\xff\xff"[..], b"\xe9\x07"] {
            let mut client = server.connect();
            assert_eq!(answer_to(&mut client, bytes), (0, Status::InvalidArgument));
            assert_eq!(client.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
            assert_eq!(ask(&mut witness, "Echo", Vec::new()).status(), Status::Ok);
        }
    }
}

#[test]
fn datagrams_that_are_not_one_frame_are_dropped() {
    for server in Server::start_each("") {
        let mut client = server.datagrams();
        for bytes in [&b"\x05\x08"[..], b"\x02\x08\x07more", b"\xff\xff\xff\xff\xff"] {
            client.send(bytes).unwrap();
        }
        // The first response is the response to the first whole frame.
        assert_eq!(ask(&mut client, "Echo", Vec::new()).status(), Status::Ok);
    }
}

#[test]
fn a_response_too_long_for_a_datagram_is_refused() {
    let server = Server::start_with(&[], "[server]\ndatagram_bytes_max = 128\n");
    let mut client = server.datagrams();
    assert_eq!(ask(&mut client, "Echo", Vec::new()).status(), Status::Ok);
    assert_eq!(ask(&mut client, "Stats", Vec::new()).status(), Status::Internal);
}

#[test]
fn work_ends_when_its_deadline_passes() {
    for flags in TWO_WORKERS {
        let server = Server::start(flags);
        for mut client in [server.connect(), server.datagrams()] {
            for (method, payload) in [
                ("Spin", (&Work { duration_us: 9_000_000 }).into_bytes()),
                ("Sleep", (&Work { duration_us: 9_000_000 }).into_bytes()),
            ] {
                client.submit(method, 100_000, payload).unwrap();
                let response = client.receive().unwrap();
                let expected = (Status::DeadlineExceeded, "the deadline has passed");
                assert_eq!(end(&response), expected, "{method}");
            }
            // A request that is in time.
            client.submit("Spin", 60_000_000, &Work { duration_us: 10 }).unwrap();
            assert_eq!(client.receive().unwrap().status(), Status::Ok);
        }
        let longest_ns = server.stats_of("work-long").service_ns_max;
        assert!(longest_ns < 9_000_000_000, "{longest_ns}");
    }
}

const ONE_WORKER: [&str; 6] = ["--topology", "dedicated", "--workers", "1", "--policy", "c-fcfs"];

#[test]
fn a_request_whose_deadline_passes_in_the_queue_does_not_run() {
    let server = Server::start(&ONE_WORKER);
    let (mut ahead, mut behind) = (server.connect(), server.connect());
    let spin = Work { duration_us: 100_000 };
    let mut overtook = 0;
    loop {
        ahead.submit("Spin", 0, &spin).unwrap();
        behind.submit("Echo", 1_000, Vec::new()).unwrap();
        let response = behind.receive().unwrap();
        assert_eq!(ahead.receive().unwrap().status(), Status::Ok);
        if response.status() != Status::Ok {
            let expected = (Status::DeadlineExceeded, "the request waited too long");
            assert_eq!(end(&response), expected);
            break;
        }
        // The request of the other connection may arrive first, though it was sent second.
        overtook += 1;
        assert!(overtook < 10);
    }
    let stats = server.stats_of("short");
    assert_eq!((stats.expired, stats.completions), (1, overtook));
}

#[test]
fn a_datagram_whose_deadline_passes_in_the_queue_is_dropped() {
    let server = Server::start(&ONE_WORKER);
    let mut client = server.datagrams();
    let spin = Work { duration_us: 100_000 };
    let ahead = client.submit("Spin", 0, &spin).unwrap();
    client.submit("Echo", 1_000, Vec::new()).unwrap();
    let patient = client.submit("Echo", 0, Vec::new()).unwrap();
    let responses = [client.receive().unwrap(), client.receive().unwrap()];
    assert_eq!(responses.each_ref().map(|it| it.id), [ahead, patient]);
    let stats = server.stats_of("short");
    assert_eq!((stats.expired, stats.completions), (1, 1));
}

#[test]
fn requests_for_a_full_queue_are_refused_with_its_name() {
    const CLIENTS: usize = 30;
    for flags in [TWO_WORKERS[0], DARC_DISTRIBUTED] {
        let server = Server::start_with(flags, "[server]\nqueue_capacity = 2\nbackpressure_ms = 0\n");
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.submit("Sleep", 0, &Work { duration_us: 50_000 }).unwrap();
        }
        let mut witness = server.connect();
        for _ in 0..20 {
            assert_eq!(ask(&mut witness, "Echo", Vec::new()).status(), Status::Ok);
        }
        let mut refused = 0;
        for client in &mut clients {
            let response = client.receive().unwrap();
            match response.status() {
                Status::Ok => {}
                Status::ResourceExhausted => {
                    refused += 1;
                    assert_eq!(response.error, "typed queue of 'work-long' is full");
                }
                other => panic!("{other:?}"),
            }
        }
        assert!((1..CLIENTS as u64 - 1).contains(&refused), "{refused} were refused");
        assert_eq!(server.stats_of("work-long").rejections, refused);
    }
}

#[test]
fn requests_that_would_not_be_answered_in_time_are_refused_at_once() {
    const CLIENTS: usize = 40;
    const SLO: &str = "[[types]]\nname = 'work-long'\nservice-time-us = 20000\nslo-us = 160000\n";
    let server = Server::start_with(TWO_WORKERS[0], SLO);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.submit("Spin", 0, &Work { duration_us: 20_000 }).unwrap();
    }
    let mut statuses = Vec::new();
    for client in &mut clients {
        let response = client.receive().unwrap();
        if response.status() == Status::ResourceExhausted {
            assert_eq!(response.error, "overloaded: no further requests of type 'work-long' for now");
        }
        statuses.push(response.status());
        // The connection goes on.
        assert_eq!(ask(client, "Echo", Vec::new()).status(), Status::Ok);
    }
    assert_eq!(statuses[0], Status::Ok);
    assert!(statuses.contains(&Status::ResourceExhausted), "{statuses:?}");
    // No worker could end it by then.
    clients[0].submit("Spin", 10_000, &Work { duration_us: 20_000 }).unwrap();
    assert_eq!(clients[0].receive().unwrap().status(), Status::ResourceExhausted);
}

#[test]
fn the_fields_of_a_request_may_come_in_any_order() {
    for server in Server::start_each("") {
        let mut client = server.connect();
        // Payload, method and id, and an unknown field.
        client.send(b"\x0e\x22\x02hi\x12\x04Echo\x08\x09\x78\x01").unwrap();
        let response = client.receive().unwrap();
        assert_eq!((response.id, &response.payload[..]), (9, &b"hi"[..]));
        let request = Request {
            id: 9,
            method: "Echo".to_owned(),
            deadline_us: 0,
            payload: b"hi".to_vec(),
        };
        let mut frame = b"".to_vec();
        prost::Message::encode_length_delimited(&request, &mut frame).unwrap();
        client.send(&frame).unwrap();
        assert_eq!(client.receive().unwrap(), response);
    }
}
