//! Clients of the port that are slow: with their requests, or with reading answers.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use psp_server::{Policy, Topology};
use socket2::{Domain, Socket, Type};

use super::common::{PATIENCE, start_tcp};
use super::{admin, get, server};

/// More than twice as many as are served at once.
const CLIENTS: usize = 160;

/// A connection that holds few bytes on their way to its client.
fn connect(port: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    socket.set_tcp_mss(536).unwrap();
    socket.connect(&port.into()).unwrap();
    socket.into()
}

/// What a client sends at once, and what it then sends a byte at a time.
type Manners = (&'static str, &'static [u8]);

const SILENT: Manners = ("", b"");
const SLOW_HEAD: Manners = ("GET /livez HTTP/1.1\r\nx: ", b"y");
const SLOW_BODY: Manners = ("PUT /policy HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4000\r\n\r\n", b"d");
const NEVER_READS: Manners = ("GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n", b"");

/// Asks for health and figures while as many clients as ever get in behave like this. A client that the server closes
/// comes again.
fn probe_beside(port: SocketAddr, manners: &[Manners]) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            let open = |number: usize| {
                let (first, byte) = manners[number % manners.len()];
                let mut stream = connect(port);
                stream.set_nonblocking(true).unwrap();
                let _ = stream.write(first.as_bytes());
                (stream, byte)
            };
            let mut clients: Vec<_> = (0..CLIENTS).map(open).collect();
            while !is_over.load(Ordering::Relaxed) {
                for (number, client) in clients.iter_mut().enumerate() {
                    let (stream, byte) = client;
                    let is_closed = stream.write(byte).is_err() || is_at_end(stream);
                    if is_closed {
                        *client = open(number);
                    }
                }
                thread::sleep(Duration::from_millis(200));
            }
        });
        // As many as the server serves at once are there before the first probe.
        thread::sleep(Duration::from_millis(500));
        let probed = std::panic::catch_unwind(|| {
            for _ in 0..20 {
                let asked = Instant::now();
                assert_eq!(get(port, "/livez"), (200, "alive\n".into()));
                assert_eq!(get(port, "/readyz"), (200, "ready\n".into()));
                let (status, figures) = get(port, "/metrics");
                assert_eq!(status, 200);
                assert!(figures.contains("psp_connections_open"));
                // A third of what the first of them would have to wait for the time limits of others.
                assert!(asked.elapsed() < PATIENCE / 3, "{:?}", asked.elapsed());
                thread::sleep(Duration::from_millis(50));
            }
        });
        is_over.store(true, Ordering::Relaxed);
        probed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Whether the server has closed the connection. What it has sent stays unread.
fn is_at_end(stream: &TcpStream) -> bool {
    matches!(stream.peek(&mut [0]), Ok(0))
}

#[test]
fn probes_are_answered_beside_clients_that_send_nothing_or_a_byte_now_and_then() {
    let server = server();
    for manners in [SILENT, SLOW_HEAD, SLOW_BODY] {
        probe_beside(admin(&server), &[manners]);
    }
}

#[test]
fn probes_are_answered_beside_clients_that_never_read() {
    let config = super::Config::default().workers(16).admin("0");
    let server = start_tcp(Policy::darc(), Topology::Dedicated, config);
    let port = admin(&server);
    let (_, figures) = get(port, "/metrics");
    assert!(figures.len() > 16 * 1024, "{} bytes", figures.len());
    probe_beside(port, &[NEVER_READS]);
    probe_beside(port, &[NEVER_READS, SLOW_HEAD, SLOW_BODY, SILENT]);
}

#[test]
fn a_trace_is_made_beside_slow_clients_and_is_the_only_one_until_it_is_read() {
    let server = server();
    let port = admin(&server);
    let silent: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(port)).collect();
    thread::scope(|scope| {
        let traced = scope.spawn(|| get(port, "/trace?ms=1000"));
        let newcomers: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(port)).collect();
        assert_eq!(get(port, "/livez").0, 200);
        let (status, trace) = traced.join().unwrap();
        assert_eq!(status, 200, "no client displaces one that is being answered");
        assert!(trace.contains("traceEvents"));
        drop(newcomers);
    });
    drop(silent);
    assert_eq!(get(port, "/trace?ms=1").0, 200);
}
