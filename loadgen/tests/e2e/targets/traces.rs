//! Recordings in each format, sent to an HTTP server.

use std::fs;
use std::sync::{Arc, Mutex};

use psp_protocols::http::Http;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::program::{assert_every_arrival_ends_once, call, server, type_of};
use crate::scripted::serve::Answer;

fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

/// Sends the requests of a file over one connection of each type. Returns the requests in the order in which they
/// came, and the report. `args` are options, separated by blanks.
fn sent(trace: &NamedTempFile, format: &str, args: &str) -> (Vec<String>, Value) {
    let frames = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&frames);
    let addr = server(Http::default(), move |frame| {
        let frame = String::from_utf8(frame.to_vec()).unwrap();
        seen.lock().unwrap().push(frame);
        Answer::Reply(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    });
    let target = format!("http://{addr}");
    let path = trace.path().to_str().unwrap();
    let start = ["run", "--target", &target, "--trace", path];
    let form = ["--trace-format", format, "--connections", "1"];
    let options = ["--header", "Host: h", "--output", "json"];
    let args: Vec<_> = args.split_whitespace().collect();
    let output = call(&[&start[..], &form, &options, &args].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{format}: {errors}");
    let report = serde_json::from_slice(&output.stdout).unwrap();
    assert_every_arrival_ends_once(&report);
    let frames = frames.lock().unwrap().clone();
    (frames, report)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

fn post(path: &str, body: &str) -> String {
    let len = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n{body}")
}

#[test]
fn an_access_log_is_replayed() {
    let line = |second: u32, request: &str, tail: &str| {
        format!("::1 - - [10/Oct/2000:13:55:{second} +0200] \"{request}\" 200 5{tail}\n")
    };
    for (format, tail) in [("common", ""), ("combined", " \"-\" \"agent \\\"a\\\"\"")] {
        let log = file(
            &[
                line(30, "GET /a?b={c} HTTP/1.1", tail),
                line(30, "\\x16\\x03\\x01", tail),
                line(30, "POST /users/1 HTTP/1.0", tail),
                line(31, "GET /users/2 HTTP/2.0", tail),
            ]
            .concat(),
        );
        let rules = "--trace-type users=POST --trace-type a=GET";
        let (mut frames, report) = sent(&log, format, &format!("--trace-speed 4 {rules}"));
        frames.sort();
        assert_eq!(frames, [get("/a?b={c}"), get("/users/2"), post("/users/1", "")]);
        assert_eq!(type_of(&report, "users")["completed"], 1, "{report}");
        assert_eq!(type_of(&report, "a")["completed"], 2, "{report}");
        let warning = report["warnings"].to_string();
        assert!(warning.contains("1 of 4 lines are left out, the first is line 2"), "{warning}");
        let (mut frames, _) = sent(&log, format, "--trace-speed 4 --body given");
        frames.sort();
        assert_eq!(frames[2], post("/users/1", "given"));
    }
}

#[test]
fn a_file_of_csv_is_replayed() {
    let csv = file(
        "request,type,time\n\
         GET /a,gold,2024-05-01T12:00:00Z\n\
         \"POST /a '{\"\"id\"\": 1}'\",gold,2024-05-01 14:00:00.100+02:00\n\
         GET /b,,2024-05-01 12:00:00.2Z\n",
    );
    let (mut frames, report) = sent(&csv, "csv", "");
    frames.sort();
    assert_eq!(frames, [get("/a"), get("/b"), post("/a", "{\"id\": 1}")]);
    assert_eq!(type_of(&report, "gold")["completed"], 2, "{report}");
    assert_eq!(type_of(&report, "/b")["completed"], 1, "{report}");
    let (frames, report) = sent(&csv, "csv", "--mix gold=GET:1,other=POST:1");
    assert_eq!(frames.len(), 3);
    assert!(type_of(&report, "gold")["completed"].as_u64().unwrap() >= 2, "{report}");
}

#[test]
fn the_own_format_takes_dates() {
    let own = file("2024-05-01T12:00:00Z GET /a\n2024-05-01T12:00:00.2Z GET /b\n");
    let (mut frames, report) = sent(&own, "own", "");
    frames.sort();
    assert_eq!(frames, [get("/a"), get("/b")]);
    assert!((report["duration_s"].as_f64().unwrap() - 0.2).abs() < 1e-3, "{report}");
}

#[test]
fn targets_of_vegeta_are_sent_in_turn_at_the_rate() {
    let body = file("{\"id\": 1}");
    let targets = file(&format!(
        "GET http://h/a\n\
         POST http://elsewhere/b\n\
         Accept: text/plain\n\
         @{}\n\n\
         {{\"method\": \"POST\", \"url\": \"http://h/c\", \"body\": \"aGk=\"}}\n",
        body.path().display()
    ));
    let args = "--rate 100 --arrivals uniform --warmup 0 --duration 0.2 --trace-type all=";
    let (frames, report) = sent(&targets, "vegeta", args);
    assert_eq!(type_of(&report, "all")["completed"], 20, "{report}");
    let with_header = post("/b", "{\"id\": 1}").replace("\r\n\r\n", "\r\nAccept: text/plain\r\n\r\n");
    let turn = [get("/a"), with_header, post("/c", "hi")];
    let expected: Vec<_> = turn.iter().cycle().take(20).cloned().collect();
    assert_eq!(frames, expected);
    assert_eq!(report["trace"]["speed"], Value::Null);
    let warning = report["warnings"].to_string();
    assert!(warning.contains("3 targets name other hosts, such as http://h;"), "{warning}");
}
