//! SIGTERM with suspended requests that take longer than the drain timeout, and during the delay before the drain.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use psp_harness::{ServerProcess, connect, free_port, read_to_close, wait_until};

use crate::program;

/// Number of requests. Together they take longer than [`psp_harness::DEADLINE`], within which the server must exit.
const REQUESTS: u32 = 16;
const RUN_TIME_NS: u32 = u32::MAX;
/// After this many turns, some requests have yielded and resumed.
const TURNS: u64 = 3 * REQUESTS as u64;
const DELAYED: &str = "tcp = true\nlog_level = 'info'\n[server]\nworkers = 1\ndrain-delay-ms = 3600000\n";
const CONFIG: &str = "tcp = true\nlog_level = 'info'\n[policy]\nname = 'sq'\nquantum-us = 1000\n\
    [server]\nworkers = 1\ntopology = 'dedicated'\ndrain_timeout_ms = 100\n";

fn start(config: &str, preempt: &str, admin: u16) -> ServerProcess {
    let address = format!("127.0.0.1:{admin}");
    let server = program::start(config, &["--preempt", preempt, "--admin", &address]);
    wait_until("the admin port is open", || TcpStream::connect((Ipv4Addr::LOCALHOST, admin)).is_ok());
    server
}

/// The head and the body of an answer of the admin port.
fn ask(admin: u16, path: &str) -> (String, String) {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, admin)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Counters of the long requests.
fn long_requests(admin: u16) -> serde_json::Value {
    let report: serde_json::Value = serde_json::from_str(&ask(admin, "/status").1).unwrap();
    report["types"][1].clone()
}

fn send_long_request(server: SocketAddr, id: u32) -> BufReader<TcpStream> {
    let mut client = connect(server).unwrap();
    program::send(&mut client, 1, id, RUN_TIME_NS);
    client
}

/// Sends a short request and waits for its reply.
fn is_served(client: &mut BufReader<TcpStream>, id: u32) {
    program::send(client, 1, id, 1_000);
    assert_eq!(program::receive(client), id);
}

fn exits_beside_suspended_requests(preempt: &str) {
    let admin = free_port();
    let mut server = start(CONFIG, preempt, admin);
    let mut clients: Vec<_> = (0..REQUESTS).map(|id| send_long_request(server.address(), id)).collect();
    wait_until("all requests take turns", || {
        let requests = long_requests(admin);
        requests["arrivals"] == REQUESTS && requests["turns"]["turns"].as_u64() >= Some(TURNS)
    });
    let requests = long_requests(admin);
    assert_ne!(requests["turns"]["preemptions_honoured"], 0, "{preempt}: {requests}");
    server.terminate();
    let status = server.wait_for_exit();
    let log = server.log().join("\n");
    assert!(status.success(), "{preempt}: {status}\n{log}");
    wait_until("the log says that requests were abandoned", || {
        let log = server.log().join("\n");
        log.contains("stopped before all requests were answered")
    });
    for client in &mut clients {
        assert_eq!(read_to_close(client), b"", "{preempt}");
    }
}

#[test]
fn the_server_exits_with_requests_suspended_by_kernel_threads() {
    exits_beside_suspended_requests("kernel-thread");
}

#[test]
fn the_server_exits_with_requests_suspended_by_signals() {
    exits_beside_suspended_requests("signal");
}

#[test]
fn the_server_exits_with_requests_suspended_at_checkpoints() {
    exits_beside_suspended_requests("cooperative");
}

#[test]
fn a_server_that_is_told_to_stop_serves_on_for_the_delay_but_is_not_ready() {
    let admin = free_port();
    let mut server = start(DELAYED, "none", admin);
    wait_until("it is ready", || ask(admin, "/readyz").1 == "ready\n");
    let mut old = connect(server.address()).unwrap();
    is_served(&mut old, 1);
    server.terminate();
    wait_until("it is not", || {
        let (head, body) = ask(admin, "/readyz");
        head.starts_with("HTTP/1.1 503") && body == "draining\n"
    });
    is_served(&mut old, 2);
    is_served(&mut connect(server.address()).unwrap(), 3);
    // Programs that pass SIGTERM on may do so twice. Whoever does not want to wait says so otherwise.
    server.terminate();
    is_served(&mut old, 4);
    server.interrupt();
    assert_eq!(server.wait_for_exit().code(), Some(1));
}
