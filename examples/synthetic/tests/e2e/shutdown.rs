//! SIGTERM with suspended requests that take longer than the drain timeout.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;

use psp_harness::{ServerProcess, Start, connect, free_port, read_to_close, wait_until};
use psp_protocols::psp_header::{Header, Kind};

/// Number of requests. Together they take longer than [`psp_harness::DEADLINE`], within which the server must exit.
const REQUESTS: u32 = 16;
const RUN_TIME_NS: u32 = u32::MAX;
/// After this many turns, some requests have yielded and resumed.
const TURNS: u64 = 3 * REQUESTS as u64;
const CONFIG: &str = "tcp = true\nlog_level = 'info'\n[policy]\nname = 'sq'\nquantum-us = 1000\n\
    [server]\nworkers = 1\ntopology = 'dedicated'\ndrain_timeout_ms = 100\n";

fn start(preempt: &str, admin: u16) -> ServerProcess {
    ServerProcess::start(|directory| {
        let file = directory.join("psp-synthetic.toml");
        fs::write(&file, CONFIG).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_psp-synthetic"));
        command.arg("--config").arg(file);
        command.args(["--port", "0", "--preempt", preempt]);
        command.args(["--admin", &format!("127.0.0.1:{admin}")]);
        Start {
            command,
            port: None,
        }
    })
}

/// Counters of the long requests.
fn long_requests(admin: u16) -> serde_json::Value {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, admin)).unwrap();
    let request = "GET /status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let report: serde_json::Value = serde_json::from_str(body).unwrap();
    report["types"][1].clone()
}

fn send_long_request(server: SocketAddr, id: u32) -> BufReader<TcpStream> {
    let mut client = connect(server).unwrap();
    let header = Header {
        kind: Kind::Request,
        request_type: 1,
        id,
        run_time_ns: RUN_TIME_NS,
        payload_len: 0,
    };
    client.get_mut().write_all(&header.encode()).unwrap();
    client
}

fn exits_beside_suspended_requests(preempt: &str) {
    let admin = free_port();
    let mut server = start(preempt, admin);
    wait_until("the admin port is open", || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, admin)).is_ok()
    });
    let mut clients: Vec<_> = (0..REQUESTS)
        .map(|id| send_long_request(server.address(), id))
        .collect();
    wait_until("all requests take turns", || {
        let requests = long_requests(admin);
        requests["arrivals"] == REQUESTS && requests["turns"]["turns"].as_u64() >= Some(TURNS)
    });
    let requests = long_requests(admin);
    assert_ne!(
        requests["turns"]["preemptions_honoured"], 0,
        "{preempt}: {requests}"
    );
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
