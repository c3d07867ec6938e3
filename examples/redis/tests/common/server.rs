//! The server process of a test.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Connection, DEADLINE, wait_until};

/// How often the start is tried again when another process takes the port first.
const STARTS_MAX: usize = 5;

const CONFIG_FILE: &str = "psp-redis.toml";

/// How to start the server. What is not set keeps the server's default.
#[derive(Debug, Default, Clone)]
pub(crate) struct Options {
    pub(crate) topology: Option<&'static str>,
    pub(crate) policy: Option<&'static str>,
    pub(crate) workers: Option<usize>,
    pub(crate) requirepass: Option<&'static str>,
    pub(crate) maxclients: Option<usize>,
    pub(crate) timeout_s: Option<u32>,
    /// Text of the TOML file for `--config`.
    pub(crate) config: Option<&'static str>,
}

impl Options {
    /// Flags that every Redis-compatible server knows.
    fn common_flags(&self) -> Vec<String> {
        flags([
            ("--requirepass", self.requirepass.map(str::to_owned)),
            (
                "--maxclients",
                self.maxclients.map(|limit| limit.to_string()),
            ),
            ("--timeout", self.timeout_s.map(|limit| limit.to_string())),
        ])
    }

    /// Flags that only psp-redis knows.
    fn scheduling_flags(&self) -> Vec<String> {
        flags([
            ("--topology", self.topology.map(str::to_owned)),
            ("--policy", self.policy.map(str::to_owned)),
            ("--workers", self.workers.map(|count| count.to_string())),
        ])
    }
}

fn flags<const N: usize>(settings: [(&str, Option<String>); N]) -> Vec<String> {
    let set = settings
        .into_iter()
        .filter_map(|(name, value)| Some([name.to_owned(), value?]));
    set.flatten().collect()
}

/// A running server. Dropping it kills the process.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    directory: TempDir,
}

impl Server {
    /// Starts a server with its defaults.
    pub(crate) fn start() -> Self {
        Self::start_with(&Options::default())
    }

    /// Starts a server and waits until it accepts connections.
    ///
    /// # Panics
    /// With the server's log, when it does not come up within [`DEADLINE`].
    pub(crate) fn start_with(options: &Options) -> Self {
        let mut last_log = Vec::new();
        for _ in 0..STARTS_MAX {
            match Self::try_start(options) {
                Ok(server) => return server,
                Err(log) => last_log = log,
            }
        }
        panic!(
            "the server does not start with {options:?}:\n{}",
            last_log.join("\n")
        );
    }

    fn try_start(options: &Options) -> Result<Self, Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        let (mut command, fixed_port) = match other_server() {
            None => (psp_redis(options, &directory), None),
            Some(program) => {
                let port = free_port();
                (
                    redis_server(&program, port, options, &directory),
                    Some(port),
                )
            }
        };
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        let log = Arc::new(Mutex::new(Vec::new()));
        let announced = collect_log(&mut process, Arc::clone(&log));
        let mut server = Self {
            process,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, fixed_port.unwrap_or(0))),
            log,
            directory,
        };
        if fixed_port.is_none() {
            match announced.recv_timeout(DEADLINE) {
                Ok(address) => server.address = address,
                Err(RecvTimeoutError::Disconnected) => return Err(server.log()),
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "no line \"listening on ADDRESS\" in\n{}",
                        server.log().join("\n")
                    )
                }
            }
        }
        let mut accepts = false;
        wait_until("the server accepts connections or has ended", || {
            accepts = Connection::open(server.address).is_ok();
            accepts || server.exit_status().is_some()
        });
        if accepts && server.exit_status().is_none() {
            Ok(server)
        } else {
            Err(server.log())
        }
    }

    /// Whether the suites run against psp-redis. Expectations that Redis itself does not meet
    /// depend on it.
    pub(crate) fn is_psp_redis() -> bool {
        other_server().is_none()
    }

    /// The address that the server listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port as the flag of a client program takes it.
    pub(crate) fn port(&self) -> String {
        self.address.port().to_string()
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap_or_else(|error| {
            panic!(
                "connect: {error}; the server's log:\n{}",
                self.log().join("\n")
            )
        })
    }

    /// Whether the server answers a PING on a new connection.
    pub(crate) fn assert_alive(&self) {
        assert_eq!(self.connect().ask("PING"), "+PONG");
    }

    /// Asks the process to end, as a service manager does.
    pub(crate) fn terminate(&self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
    }

    /// Waits for the process to end.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.exit_status();
            status.is_some()
        });
        status.unwrap()
    }

    /// The resident memory of the process in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = fs::read_to_string(path).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|rest| rest.split_whitespace().next());
        kibibytes.expect("a VmRSS line").parse::<u64>().unwrap() * 1024
    }

    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// The file given with `--config`; written by [`Options::config`].
    pub(crate) fn config_file(&self) -> PathBuf {
        self.directory.path().join(CONFIG_FILE)
    }

    /// Asks the process to read its configuration again.
    pub(crate) fn hang_up(&self) {
        kill_process(self.pid(), Signal::HUP).unwrap();
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself; there is nothing left to do then.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn other_server() -> Option<OsString> {
    std::env::var_os("PSP_TEST_SERVER").filter(|program| !program.is_empty())
}

fn psp_redis(options: &Options, directory: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-redis"));
    command.args(["--bind", "127.0.0.1", "--port", "0", "--log-level", "info"]);
    command
        .args(options.common_flags())
        .args(options.scheduling_flags());
    if let Some(text) = options.config {
        let file = directory.path().join(CONFIG_FILE);
        fs::write(&file, text).unwrap();
        command.arg("--config").arg(file);
    }
    command
}

fn redis_server(program: &OsString, port: u16, options: &Options, directory: &TempDir) -> Command {
    let mut command = Command::new(program);
    command.args([
        "--bind",
        "127.0.0.1",
        "--port",
        &port.to_string(),
        "--save",
        "",
    ]);
    command.args(["--enable-debug-command", "yes"]);
    // Without a limit Redis buffers all replies that a client does not read; beyond it, it closes
    // the connection.
    command.args(["--client-output-buffer-limit", "normal 16mb 0 0"]);
    command.arg("--dir").arg(directory.path());
    command.args(options.common_flags());
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Keeps the server's log, and passes on the address in its line "listening on ADDRESS".
fn collect_log(process: &mut Child, log: Arc<Mutex<Vec<String>>>) -> Receiver<SocketAddr> {
    let stderr = process.stderr.take().expect("a piped stderr");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if let Some(address) = announced_address(&line) {
                // Nobody waits for a second announcement.
                let _ = sender.send(address);
            }
            log.lock().unwrap().push(line);
        }
    });
    receiver
}

fn announced_address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on ")?;
    let is_part_of_address = |letter: char| letter.is_ascii_hexdigit() || ".:[]".contains(letter);
    let end = rest
        .find(|letter| !is_part_of_address(letter))
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}
