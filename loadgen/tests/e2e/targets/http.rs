//! HTTP servers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use psp_loadgen::schedule::{ClosedLoop, Pacing, ThreadClass};
use psp_protocols::Framing;
use psp_protocols::http::{Http, HttpRequest, Method, Response, Status};
use serde_json::Value;

use super::program::{assert_every_arrival_ends_once, call, count, run, server, type_of};
use crate::runs;
use crate::scripted::serve::Answer;

/// The response to the request in `frame`, whose body is that of the request.
fn respond(frame: &[u8], status: Status) -> Answer {
    let head = Http::default().head_of(frame).expect("a whole request");
    let mut out = Vec::new();
    let body = HttpRequest::new(frame, &head).body().into_owned();
    Response::new(&mut out, &head, status).body(&body);
    Answer::Reply(out.leak())
}

#[test]
fn statuses_beyond_the_successful_are_errors() {
    let addr = server(Http::default(), |frame| {
        let head = Http::default().head_of(frame).unwrap();
        let request = HttpRequest::new(frame, &head);
        assert!(request.header("host").is_some());
        let status = match (request.method(), request.path()) {
            (Method::Get, "/page") if request.query().starts_with("n=") => Status::OK,
            (Method::Get, "/moved") => Status::FOUND,
            (Method::Post, "/form") if request.body().len() == 100 => Status::CREATED,
            (Method::Get, "/busy") => Status::SERVICE_UNAVAILABLE,
            _ => Status::NOT_FOUND,
        };
        respond(frame, status)
    });
    let target = format!("http://{addr}/");
    let mix = "GET /page?n={n}@200/s,GET /moved@100/s,POST /form {value}@100/s,\
               GET /none@40/s,busy=GET /busy@20/s";
    let args = "--connections 2 --pipeline 16 --value-bytes 100";
    let report = run(&target, mix, args);
    assert_every_arrival_ends_once(&report);
    for (name, completed, errors) in [
        ("/page", 100, None),
        ("/moved", 50, None),
        ("/form", 50, None),
        ("/none", 0, Some(("404", 20))),
        ("busy", 0, Some(("503", 10))),
    ] {
        let ty = type_of(&report, name);
        assert_eq!(ty["completed"], completed, "{ty}");
        assert_eq!(ty["reconnects"], 0, "{ty}");
        if let Some((kind, number)) = errors {
            assert_eq!(ty["errors"][kind], number, "{ty}");
        }
    }
}

#[test]
fn chunked_responses_are_read_and_closed_connections_opened_again() {
    let requests = AtomicU64::new(0);
    let addr = server(Http::default(), move |_| match requests.fetch_add(1, Ordering::Relaxed) % 20 {
        0 => Answer::Close,
        _ => Answer::Reply(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                  2\r\n\r\n\r\n3;a\r\nabc\r\n0\r\nT: x\r\n\r\n",
        ),
    });
    let report = run(&format!("http://{addr}"), "GET@200/s", "");
    assert_every_arrival_ends_once(&report);
    let ty = type_of(&report, "/");
    assert_eq!((&ty["completed"], &ty["errors"]["CONNECTION"]), (&95.into(), &5.into()));
    assert!(count(&report, "reconnects") > 0);
}

/// A server that closes the connection with each tenth response.
fn closing_server(usual: &'static [u8], last: &'static [u8]) -> SocketAddr {
    let requests = AtomicU64::new(0);
    server(Http::default(), move |_| match requests.fetch_add(1, Ordering::Relaxed) % 10 {
        9 => Answer::Last(last),
        _ => Answer::Reply(usual),
    })
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n";

#[test]
fn a_closed_connection_is_opened_at_once() {
    for (usual, last) in [
        (OK, LAST),
        (OK, OK),
        (
            &b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"[..],
            &b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"[..],
        ),
    ] {
        let target = format!("http://{}", closing_server(usual, last));
        let report = run(&target, "GET@200/s", "--connections 1");
        assert_every_arrival_ends_once(&report);
        let ty = type_of(&report, "/");
        // After an announced close nothing is lost. Another close may meet a request on its way.
        let completed_min = if last == OK { 90 } else { 100 };
        assert!(count(&report, "completed") >= completed_min, "{ty}");
        assert!(count(&report, "reconnects") >= 9, "{ty}");
        // A rest of 100 ms after each close would more than double the time of ten requests.
        assert!(ty["latency_us"]["p50"].as_f64().unwrap() < 50_000.0, "{ty}");
        assert_eq!(ty["held_back"], 0, "{ty}");
    }
}

#[test]
fn a_response_may_end_with_its_connection() {
    let addr = server(Http::default(), |frame| {
        let is_there = frame.starts_with(b"GET /there");
        Answer::Last(match is_there {
            true => b"HTTP/1.0 200 OK\r\n\r\none\r\n\r\ntwo",
            false => b"HTTP/1.1 404 None\r\n\r\n",
        })
    });
    let report = run(&format!("http://{addr}"), "GET /there@80/s,GET /none@20/s", "");
    assert_every_arrival_ends_once(&report);
    assert_eq!(type_of(&report, "/there")["completed"], 40, "{report}");
    assert_eq!(type_of(&report, "/none")["errors"]["404"], 10, "{report}");
}

#[test]
fn requests_behind_an_announced_close_are_sent_again() {
    let target = runs::target("http", closing_server(OK, LAST));
    let types = vec![runs::command("GET /", 1.0, ThreadClass::Fast)];
    let mut plan = runs::plan(target, types);
    plan.types[0].connections = 2;
    plan.pipeline = 4;
    plan.pacing = Pacing::Closed(ClosedLoop { outstanding: 8, per_type: false, think: Duration::ZERO });
    let record = &runs::run(&plan).records[0];
    runs::assert_every_arrival_ends_once(record);
    assert_eq!(record.errors.total(), 0, "{:?}", record.errors);
    assert!(record.completed > 100 && record.reconnects > 10);
    assert!(record.sent <= record.scheduled);
}

#[test]
fn a_body_and_headers_arrive_as_they_were_written() {
    const BODY: &str = r#"{"id":0,"of":{"path":"C:\\a","who":"it's"}}"#;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body.json");
    std::fs::write(&file, BODY).unwrap();
    let from_file = format!("--body @{}", file.display());
    for (mix, body_option) in [
        (r#"POST /a '{"id":0,"of":{"path":"C:\\a","who":"it'\''s"}}'@5/s"#, ""),
        (r#"POST /a "{{\"id\":{n},\"of\":{{\"path\":\"C:\\\\a\",\"who\":\"it's\"}}}}"@5/s"#, ""),
        ("POST /a@5/s", &*from_file),
    ] {
        let frames = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&frames);
        let addr = server(Http::default(), move |frame| {
            seen.lock().unwrap().push(frame.to_vec());
            Answer::Reply(OK)
        });
        let mut args = vec!["run", "--target"];
        let target = format!("http://{addr}");
        args.extend([&*target, "--mix", mix, "--arrivals", "uniform"]);
        args.extend(["--duration", "0.2", "--warmup", "0"]);
        args.extend(["--header", "Content-Type: application/json"]);
        args.extend(["--header", "host:a.example"]);
        args.extend(body_option.split_whitespace());
        let output = call(&args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{mix}: {errors}");
        let expected = format!(
            "POST /a HTTP/1.1\r\nContent-Type: application/json\r\nhost: a.example\r\n\
             Content-Length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        let frames = frames.lock().unwrap();
        let [frame] = &frames[..] else {
            panic!("{} requests", frames.len());
        };
        assert_eq!(String::from_utf8_lossy(frame), expected);
    }
}

#[test]
fn a_trace_of_many_requests_is_sent_as_it_was() {
    let request = |line: u32| (format!("/users/{line}"), format!("{{\"id\": {line}}}"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let lines = (0..300).map(|line| {
        let (target, body) = request(line);
        format!("{:.3} POST {target} '{body}'\n", f64::from(line / 10) / 60.0)
    });
    std::fs::write(file.path(), lines.collect::<String>()).unwrap();
    let requests = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&requests);
    let addr = server(Http::default(), move |frame| {
        let head = Http::default().head_of(frame).unwrap();
        let request = HttpRequest::new(frame, &head);
        let body = String::from_utf8(request.body().into_owned()).unwrap();
        let mut seen = seen.lock().unwrap();
        seen.insert((request.target().to_owned(), body));
        match seen.len() % 10 {
            0 => Answer::Last(LAST),
            _ => Answer::Reply(OK),
        }
    });
    let target = format!("http://{addr}");
    let args = ["run", "--target", &target, "--output", "json"];
    let trace = ["--trace", file.path().to_str().unwrap()];
    let rule = ["--trace-type", "users=POST /users/"];
    let few = ["--connections", "1", "--pipeline", "4"];
    let output = call(&[&args[..], &trace, &rule, &few].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(type_of(&report, "users")["completed"], 300, "{report}");
    let expected: BTreeSet<_> = (0..300).map(request).collect();
    assert_eq!(*requests.lock().unwrap(), expected);
}

#[test]
fn requests_that_http_does_not_have_are_refused() {
    let target = "http://127.0.0.1:9";
    for mix in ["HEAD /:1", "GET page:1", "GET / a b:1"] {
        let output = call(&["run", "--target", target, "--rate", "1", "--mix", mix]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{mix}: {errors}");
        assert!(errors.contains("METHOD TARGET [BODY"), "{errors}");
    }
}
