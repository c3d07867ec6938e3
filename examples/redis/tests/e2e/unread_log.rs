//! A log that goes to a pipe whose reader stops.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread;

use psp_harness::{DEADLINE, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::Connection;

/// Topologies, each with a policy of its own.
const TOPOLOGIES: [(&str, &str); 3] = [("inline", "darc"), ("dedicated", "c-fcfs"), ("distributed", "stealing")];
const CLIENTS: usize = 3;
const LINES: usize = 1000;
/// Together the lines of all clients are longer than the pipe, and than what may wait for it.
const LOG: &str = "for i = 1, ARGV[1] do redis.log(redis.LOG_WARNING, 'noise ' .. string.rep('x', 1000)) end";

/// A server whose log this test reads when it wants to.
struct Logged {
    process: Child,
    log: BufReader<ChildStderr>,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Logged {
    fn start(topology: &str, policy: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_psp-redis"))
            .args(["--port", "0", "--admin", "0", "--workers", "2"])
            .args(["--topology", topology, "--policy", policy])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut said = |before: &str| -> SocketAddr {
            loop {
                let mut line = String::new();
                assert!(log.read_line(&mut line).unwrap() > 0, "the server ended");
                if let Some((_, address)) = line.split_once(before) {
                    return address.trim_end().trim_end_matches('/').parse().unwrap();
                }
            }
        };
        Self {
            address: said("listening on "),
            admin: said("admin port at http://"),
            process,
            log,
        }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap()
    }

    /// Logs more than fits into a pipe that is not read, while another client asks for keys.
    fn fill(&self) {
        let mut asking = self.connect();
        let noise = |mut client: Connection| {
            let lines = LINES.to_string();
            let reply = client.request(&["EVAL", LOG, "0", &lines]);
            assert_eq!(reply.to_string(), "nil");
        };
        thread::scope(|scope| {
            let noisy = [(); CLIENTS].map(|()| scope.spawn(|| noise(self.connect())));
            while !noisy.iter().all(thread::ScopedJoinHandle::is_finished) {
                assert_eq!(asking.ask("GET key"), "nil");
            }
        });
        assert_eq!(asking.ask("GET key"), "nil");
    }

    fn dropped(&self) -> usize {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut figures = String::new();
        stream.read_to_string(&mut figures).unwrap();
        let name = "psp_log_lines_dropped_total{";
        let line = figures.lines().find(|line| line.starts_with(name));
        line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn terminate(&mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        let mut status = None;
        wait_until("the server ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        // Both fail if the process has ended, which is no problem.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How many lines are missing, if the log says that in `line`.
fn missing(line: &str) -> Option<usize> {
    let (before, _) = line.split_once(" lines are missing here")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[test]
fn a_log_that_nobody_reads_stops_no_request_and_tells_later_what_is_missing() {
    psp_harness::only_psp!();
    for (topology, policy) in TOPOLOGIES {
        let mut server = Logged::start(topology, policy);
        server.fill();
        let dropped = server.dropped();
        assert!(dropped > LINES, "{topology}: {dropped}");
        let (mut seen, mut told) = (0, 0);
        for line in server.log.by_ref().lines().map_while(Result::ok) {
            seen += usize::from(line.contains("noise "));
            told += missing(&line).unwrap_or(0);
            if seen + told == CLIENTS * LINES {
                break;
            }
        }
        assert_eq!((told, seen), (dropped, CLIENTS * LINES - dropped));
        assert!(server.terminate().success(), "{topology}");
        let mut rest = String::new();
        server.log.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("draining"), "{topology}: {rest}");
    }
}

#[test]
fn a_log_that_nobody_reads_does_not_keep_the_server_from_ending() {
    psp_harness::only_psp!();
    for (topology, policy) in TOPOLOGIES {
        let mut server = Logged::start(topology, policy);
        server.fill();
        assert!(server.terminate().success(), "{topology}");
    }
}
