//! The RPC of psp-protocols.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message;
use psp_protocols::kv::{GetRequest, PutRequest, ScanRequest};
use psp_protocols::rpc::{Request, Response, Rpc, Status};

use super::program::{assert_every_arrival_ends_once, call, count, run, server, type_of};
use crate::scripted::serve::Answer;

fn framed(response: &Response) -> Vec<u8> {
    let mut frame = Vec::new();
    response.encode_frame(&mut frame);
    frame
}

fn done(id: u64) -> Vec<u8> {
    framed(&Response { id, payload: vec![b'x'; 1_000].into(), ..Response::default() })
}

fn reply(bytes: Vec<u8>) -> Answer {
    Answer::Reply(bytes.leak())
}

fn rpc_server(script: impl Fn(Request) -> Answer + Send + Sync + 'static) -> SocketAddr {
    server(Rpc::default(), move |frame| script(Request::from_frame(frame).unwrap()))
}

#[test]
fn replies_out_of_order_find_their_requests() {
    let held: Mutex<HashMap<String, u64>> = Mutex::default();
    let addr = rpc_server(move |request| {
        let expected_len = if request.method == "Get" { 100 } else { 16 };
        if request.payload.len() != expected_len || request.deadline_us != 5_000_000 {
            return Answer::Close;
        }
        let mut held = held.lock().unwrap();
        // The server replies to each second request at once, and then to the request before it.
        match held.remove(&request.method) {
            Some(earlier) => reply([done(request.id), done(earlier)].concat()),
            None => {
                held.insert(request.method, request.id);
                Answer::Silence
            }
        }
    });
    let target = format!("protobuf://{addr}");
    let mix = "Get@400/s,Scan {key}@100/s";
    let args = "--connections 1 --pipeline 64 --value-bytes 100";
    let report = run(&target, mix, args);
    assert_every_arrival_ends_once(&report);
    for (name, requests) in [("Get", 200), ("Scan", 50)] {
        let ty = type_of(&report, name);
        assert_eq!(ty["completed"], requests, "{ty}");
        assert_eq!(ty["reconnects"], 0);
        // The first request of a pair waits for the second: 2.5 ms and 10 ms.
        assert!(ty["latency_us"]["p99"].as_f64().unwrap() > 1_000.0);
    }
}

#[test]
fn methods_of_a_key_value_store_have_their_messages() {
    let addr = rpc_server(|request| {
        let payload = &request.payload[..];
        let status = match request.method.as_str() {
            "GET" => match &GetRequest::decode(payload).unwrap().key[..] {
                b"none" => Status::NotFound,
                _ => Status::Ok,
            },
            "SCAN" => {
                let scan = ScanRequest::decode(payload).unwrap();
                assert_eq!((scan.start.len(), scan.count, scan.summary), (0, 5_000, true));
                Status::Ok
            }
            "PUT" => {
                let put = PutRequest::decode(payload).unwrap();
                assert_eq!((put.key.len(), put.value.len()), (16, 100));
                Status::Ok
            }
            method => panic!("{method}"),
        };
        reply(framed(&Response::failed(request.id, status, "")))
    });
    let target = format!("protobuf://{addr}");
    let mix = "GET@100/s,none=GET none@100/s,SCAN 5000@20/s,PUT@20/s";
    let report = run(&target, mix, "--value-bytes 100 --preload --keys 300");
    assert_every_arrival_ends_once(&report);
    for (name, completed, looked_up) in [
        ("GET", 50, Some((50, 0))),
        ("none", 50, Some((0, 50))),
        ("SCAN", 10, None),
        ("PUT", 10, None),
    ] {
        let ty = type_of(&report, name);
        assert_eq!(ty["completed"], completed, "{ty}");
        assert_eq!(ty["hits"].as_u64().zip(ty["misses"].as_u64()), looked_up, "{name}");
    }
}

#[test]
fn a_late_request_costs_no_other_its_connection() {
    let addr = rpc_server(|request| match request.id % 10 {
        0 => Answer::Silence,
        _ => reply(done(request.id)),
    });
    let target = format!("protobuf://{addr}");
    let args = "--connections 1 --pipeline 200 --timeout 0.3";
    let report = run(&target, "Get@400/s", args);
    assert_every_arrival_ends_once(&report);
    assert_eq!((count(&report, "timeouts"), count(&report, "completed")), (20, 180));
    assert_eq!(count(&report, "reconnects"), 0);
}

#[test]
fn errors_are_counted_by_status_and_connections_are_opened_again() {
    let requests = AtomicU64::new(0);
    let addr = rpc_server(move |request| {
        let failed = |status| reply(framed(&Response::failed(request.id, status, "because")));
        match requests.fetch_add(1, Ordering::Relaxed) % 20 {
            0..5 => failed(Status::ResourceExhausted),
            5..10 => failed(Status::Internal),
            10..15 => failed(Status::NotFound),
            15 => Answer::Close,
            _ => reply(done(request.id)),
        }
    });
    let report = run(&format!("protobuf://{addr}"), "Get@400/s", "");
    assert_every_arrival_ends_once(&report);
    let ty = type_of(&report, "Get");
    assert_eq!(ty["errors"]["RESOURCE_EXHAUSTED"], 50);
    assert_eq!(ty["errors"]["INTERNAL"], 50);
    assert_eq!(ty["errors"]["CONNECTION"], 10);
    // A missing key has a reply, too.
    assert_eq!((&ty["completed"], &ty["misses"]), (&90.into(), &50.into()));
    assert!(count(&report, "reconnects") > 0);
}

#[test]
fn replies_to_nobody_break_the_connection() {
    let addr = rpc_server(|request| reply(done(request.id + 1_000)));
    let target = format!("protobuf://{addr}");
    let output = call(&[
        "run",
        "--target",
        &target,
        "--mix",
        "Get@100/s",
        "--duration",
        "0.3",
        // Connections that break again and again rest for longer and longer.
        "--warmup",
        "0",
    ]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("answered none of the requests"), "{errors}");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("x CONNECTION"), "{report}");
}
