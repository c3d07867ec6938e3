//! The program of the page, as a service manager ends it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;

use crate::{Fixture, PATIENCE, clients, until};

/// Together their pages take longer than it takes to ask the program to end.
const CLIENTS: usize = 64;

struct Program {
    process: Child,
    address: SocketAddr,
}

impl Program {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_psp-axum"))
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let (_, address) = line.trim_end().split_once("listening on ").unwrap();
        Self { address: address.parse().unwrap(), process }
    }

    /// A connection on which these bytes were sent.
    fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        read(self.send(&format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")))
    }

    fn terminate(mut self) -> ExitStatus {
        let kill = format!("kill -TERM {}", self.process.id());
        let asked = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(asked.success());
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the program goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail if the process has ended, which is no problem.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What comes until the server closes the connection.
fn read(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn requests_are_answered_and_connections_closed_when_the_program_is_asked_to_end() {
    let program = Program::start();
    let slow = "GET /slow HTTP/1.1\r\nhost: a\r\n\r\n";
    let clients: Vec<_> = (0..CLIENTS).map(|_| program.send(slow)).collect();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = program.get("/psp");
        let (_, slow) = seen.split_once("name: \"/slow\"").unwrap_or(("", ""));
        if slow.contains(&format!("pooled: {CLIENTS},")) {
            break;
        }
        assert!(Instant::now() < deadline, "{seen}");
    }
    assert!(program.terminate().success());
    let replies: Vec<_> = clients.into_iter().map(read).collect();
    let count = |part: &str| replies.iter().filter(|it| it.contains(part)).count();
    assert_eq!(count("HTTP/1.1 200 OK"), CLIENTS);
    assert_eq!(count("1999999000000\n"), CLIENTS);
    assert!(count("connection: close") > 0, "{}", replies[CLIENTS - 1]);
}

#[test]
fn a_client_that_sends_half_a_request_does_not_keep_the_program_from_ending() {
    let program = Program::start();
    let _half = program.send("POST /slow HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n1");
    let _less = program.send("GET /sl");
    assert!(program.get("/fast").ends_with("fast\n"));
    assert!(program.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_wait_when_the_pool_must_end_are_refused_and_the_server_ends() {
    for (version, client) in clients() {
        let pages = Router::new().route("/never", get(std::future::pending::<()>));
        let fixture = Fixture::start(pages).await;
        let url = fixture.url("/never");
        let answer = tokio::spawn(async move { client.get(url).send().await });
        let begun = || {
            let types = fixture.pool.snapshot().types;
            types.iter().map(|it| it.begun).sum::<u64>()
        };
        until("it has begun", || begun() == 1).await;
        let moment = tokio::time::sleep(Duration::from_millis(5));
        assert_eq!(fixture.pool.close_until(moment).await.abandoned, 1);
        assert_eq!(answer.await.unwrap().unwrap().status(), 503, "{version}");
        fixture.end().await;
    }
}
