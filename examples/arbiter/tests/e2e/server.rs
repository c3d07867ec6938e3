//! psp-synthetic in a process of its own, which asks the arbiter for cores: this test program with the server's flags.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

use psp_harness::{Load, ServerProcess, Start, connect};
use psp_program::{CommandLine, run};
use psp_protocols::psp_header::{Header, Kind};
use psp_synthetic::config::Config;
use psp_synthetic::startup;

/// The server's flags, one a line.
const FLAGS: &str = "PSP_TEST_SERVER_FLAGS";

/// How long each request sleeps on its worker.
const SERVICE_NS: u32 = 1_000_000;

/// Starts a server of 1 to `workers_max` workers.
pub(crate) fn start(socket: &Path, level: u8, workers_max: usize) -> ServerProcess {
    let workers = format!("1..{workers_max}");
    let level = level.to_string();
    let flags = [
        "--port",
        "0",
        "--tcp",
        "--workers",
        &workers,
        "--mode",
        "sleep",
        "--policy",
        "c-fcfs",
        "--arbiter",
        socket.to_str().unwrap(),
        "--arbiter-priority",
        &level,
    ];
    let flags = flags.join("\n");
    ServerProcess::start(|_| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "server::serves", "--ignored", "--nocapture"]).env(FLAGS, &flags);
        Start { command, port: None }
    })
}

/// Not a test by itself: other tests run it in a process of its own.
#[test]
#[ignore = "run by other tests"]
fn serves() {
    let flags = std::env::var(FLAGS).unwrap();
    let words = std::iter::once("psp-synthetic").chain(flags.lines());
    let command_line = CommandLine::<Config>::try_parse_from(words).unwrap();
    let config = command_line.resolve().unwrap();
    let _log = config.log_level.start_log().unwrap();
    run(startup::build(config).unwrap()).unwrap();
}

fn bytes(kind: Kind) -> &'static [u8] {
    let header = Header {
        kind,
        request_type: 1,
        id: 7,
        payload_len: 0,
        run_time_ns: SERVICE_NS,
    };
    Box::leak(Box::new(header.encode()))
}

/// So many clients, each of which sends a request after the other and notices when a reply does not come.
pub(crate) fn load(server: &ServerProcess, clients: usize) -> Load {
    let (request, reply) = (bytes(Kind::Request), bytes(Kind::Reply));
    Load::start(server.address(), clients, request, reply)
}

/// Clients of a server that will be killed: each sends a request after the other until the server is gone.
pub(crate) struct Callers(Vec<JoinHandle<()>>);

impl Callers {
    pub(crate) fn start(server: &ServerProcess, clients: usize) -> Self {
        let address = server.address();
        let (request, reply) = (bytes(Kind::Request), bytes(Kind::Reply));
        let client = move || {
            let Ok(mut connection) = connect(address) else {
                return;
            };
            let mut received = vec![0; reply.len()];
            while connection.get_mut().write_all(request).is_ok() && connection.read_exact(&mut received).is_ok() {
                assert_eq!(received, reply);
            }
        };
        Self((0..clients).map(|_| std::thread::spawn(client)).collect())
    }

    /// Waits until all clients know that the server is gone.
    pub(crate) fn end(self) {
        for client in self.0 {
            client.join().unwrap();
        }
    }
}
