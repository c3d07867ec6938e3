//! Command lines as people type them who know other generators.

use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use psp_protocols::http::{Http, HttpRequest, Method, Response, Status};
use psp_protocols::resp::Resp;
use psp_protocols::{Framing, Lines};
use serde_json::Value;

use super::program::{assert_every_arrival_ends_once, call, count, server};
use crate::scripted::serve::{Answer, serve};

fn report(args: &[&str]) -> Value {
    let output = call(&[args, &["--output", "json", "--arrivals", "uniform"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_url_with_a_path_is_a_whole_command_line() {
    let addr = server(Http::default(), |frame| {
        let head = Http::default().head_of(frame).expect("a whole request");
        let request = HttpRequest::new(frame, &head);
        let is_it = (request.method(), request.path(), request.query()) == (Method::Get, "/a/page", "n=1:2,3");
        let mut out = Vec::new();
        Response::new(&mut out, &head, if is_it { Status::OK } else { Status::NOT_FOUND }).body(b"page");
        Answer::Reply(out.leak())
    });
    let url = format!("http://{addr}/a/page?n=1:2,3#end");
    for length in [["-d", "500ms"], ["--requests", "0.5k"]] {
        let report = report(&[&[&*url, "-c", "2", "-r", "1k", "--warmup", "0ms"], &length[..]].concat());
        assert_every_arrival_ends_once(&report);
        assert_eq!(report["types"][0]["name"], "/a/page", "{report}");
        assert_eq!(count(&report, "scheduled"), 500, "{length:?}");
        assert_eq!(count(&report, "completed"), 500, "{length:?}");
    }
}

#[test]
fn a_local_socket_is_one_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(socket, &Lines::default(), &|_: &[u8]| Answer::Reply(b"done\n")));
        }
    });
    let url = format!("lines+unix:{}", path.display());
    let report = report(&[
        &url,
        "--mix",
        "add {value}:1",
        "--data-size",
        "7",
        "-r",
        "1k",
        "-d",
        "0.1s",
        "--warmup",
        "0",
    ]);
    assert_eq!(count(&report, "completed"), 100);
}

/// A server that wants a password before other commands, and closes each connection behind some.
#[test]
fn credentials_and_the_database_go_first_on_each_connection() {
    let commands: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = commands.clone();
    let greeted = Mutex::new(0);
    let addr = server(Resp::default(), move |frame| {
        let text = String::from_utf8_lossy(frame);
        let words: Vec<&str> = text.lines().filter(|line| !line.starts_with(['*', '$'])).collect();
        seen.lock().unwrap().push(words.join(" "));
        let mut greeted = greeted.lock().unwrap();
        match &words[..] {
            ["AUTH", "me", "p w"] => Answer::Reply(b"+OK\r\n"),
            ["AUTH", ..] => Answer::Reply(b"-WRONGPASS invalid\r\n"),
            ["SELECT", "3"] => {
                *greeted = 0;
                Answer::Reply(b"+OK\r\n")
            }
            _ => {
                *greeted += 1;
                match *greeted {
                    10 => Answer::Close,
                    _ => Answer::Reply(b"$1\r\nv\r\n"),
                }
            }
        }
    });
    let url = format!("redis://me:p%20w@{addr}/3");
    let report = report(&[&url, "--mix", "GET key:1", "-c", "1", "-r", "200", "-d", "500ms", "--warmup", "0"]);
    assert_every_arrival_ends_once(&report);
    assert_eq!(report["target"], format!("redis://***@{addr}/3"), "no report tells the password");
    let reconnects = count(&report, "reconnects");
    assert!(reconnects > 0 && count(&report, "completed") > 0, "{report}");
    let commands = commands.lock().unwrap().clone();
    for (place, _) in commands.iter().enumerate().filter(|(_, command)| command.starts_with("AUTH")) {
        assert_eq!(commands[place..][..2], ["AUTH me p w", "SELECT 3"]);
    }
    let greetings = commands.iter().filter(|command| *command == "SELECT 3").count() as u64;
    assert!((1 + reconnects..=2 + reconnects).contains(&greetings), "{greetings} for {reconnects}");

    let wrong = call(&[&format!("redis://:wrong@{addr}"), "--mix", "GET key:1", "-r", "1"]);
    let errors = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(1), "{errors}");
    assert!(errors.contains("WRONGPASS invalid"), "{errors}");
}

#[test]
fn what_is_neither_a_url_nor_a_subcommand_is_refused() {
    for (args, reason) in [
        (&["rnu"][..], "unrecognized subcommand 'rnu'"),
        (&["gopher://127.0.0.1"][..], "a target is one of"),
        (
            &["http://127.0.0.1:1/", "-d", "5 minutes"][..],
            "expected a time such as 10, 30s, 500ms or 2m",
        ),
        (&["http://127.0.0.1:1/", "-d", "1s", "--requests", "5"][..], "cannot be used with"),
    ] {
        let output = call(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains(reason), "{args:?}: {errors}");
    }
}
