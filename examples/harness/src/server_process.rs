//! The server process of a test.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{DEADLINE, wait_until};

/// Most attempts to start a server. An attempt fails if another process takes the port first.
const STARTS_MAX: usize = 5;

/// How a server is started.
#[derive(Debug)]
pub struct Start {
    /// The program with its arguments.
    pub command: Command,
    /// The port that the arguments of another program name. A program of psp says itself which it has: it prints
    /// `listening on ADDRESS` to standard error. Waiting for that line, a test never takes the server of another
    /// test, which was given the same free port, for its own.
    pub port: Option<u16>,
}

/// A running server. Dropping it kills the process.
#[derive(Debug)]
pub struct ServerProcess {
    process: Child,
    address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    directory: TempDir,
}

impl ServerProcess {
    /// Starts the server that `start` describes, and waits until it accepts connections. `start` gets an
    /// empty folder for the server.
    ///
    /// # Panics
    /// When the server does not come up within [`DEADLINE`]. The message has the server's log.
    #[must_use]
    pub fn start(start: impl Fn(&Path) -> Start) -> Self {
        let mut last_log = Vec::new();
        for _ in 0..STARTS_MAX {
            match Self::try_start(&start) {
                Ok(server) => return server,
                Err(log) => last_log = log,
            }
        }
        panic!("the server does not start:\n{}", last_log.join("\n"));
    }

    fn try_start(start: impl Fn(&Path) -> Start) -> Result<Self, Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        let Start { mut command, port } = start(directory.path());
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
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0))),
            log,
            directory,
        };
        if port.is_none() {
            match announced.recv_timeout(DEADLINE) {
                Ok(address) => server.address = address,
                Err(RecvTimeoutError::Disconnected) => return Err(server.log()),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no line \"listening on ADDRESS\" in\n{}", server.log().join("\n"))
                }
            }
        }
        let mut accepts = false;
        wait_until("the server accepts connections or has ended", || {
            accepts = TcpStream::connect(server.address).is_ok();
            accepts || server.exit_status().is_some()
        });
        if accepts && server.exit_status().is_none() {
            Ok(server)
        } else {
            Err(server.log())
        }
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.process.id().cast_signed()
    }

    /// The address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port as the flag of a client program takes it.
    #[must_use]
    pub fn port(&self) -> String {
        self.address.port().to_string()
    }

    /// The server's folder.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Asks the process to end, as a service manager does.
    ///
    /// # Panics
    /// When the process has ended already.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Interrupts the process, as Ctrl-C does.
    ///
    /// # Panics
    /// When the process has ended already.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Kills the process: it does nothing more.
    ///
    /// # Panics
    /// When the process has ended already.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Asks the process to reload its configuration.
    ///
    /// # Panics
    /// When the process has ended already.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Stops all threads of the process, so that what is sent to it waits in its sockets.
    ///
    /// # Panics
    /// When the process has ended already.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a [paused](Self::pause) process go on.
    ///
    /// # Panics
    /// When the process has ended already.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits for the process to end.
    ///
    /// # Panics
    /// When the process does not end within [`DEADLINE`].
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.exit_status();
            status.is_some()
        });
        status.unwrap()
    }

    /// The resident memory of the process in bytes.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most resident memory that the process has had so far, in bytes.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn peak_resident_bytes(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// The address space of the process in bytes.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn address_space_bytes(&self) -> u64 {
        self.memory("VmSize:")
    }

    /// Bytes of memory whose mappings have this flag, of two letters as in `/proc/PID/smaps`.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn bytes_with_flag(&self, flag: &str) -> u64 {
        let path = format!("/proc/{}/smaps", self.process.id());
        let (mut kilobytes, mut sum) = (0, 0);
        for line in fs::read_to_string(path).expect("the server runs").lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("Size:") => kilobytes = words.next().unwrap().parse().unwrap(),
                Some("VmFlags:") if words.any(|it| it == flag) => sum += kilobytes,
                _ => {}
            }
        }
        sum * 1024
    }

    /// The names of its threads.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn thread_names(&self) -> Vec<String> {
        let names = self.of_threads("comm");
        names.map(|name| name.trim_end().to_owned()).collect()
    }

    /// The texts of this file of each thread. A thread may end meanwhile.
    fn of_threads(&self, file: &str) -> impl Iterator<Item = String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id()));
        let threads = tasks.expect("the server runs").flatten();
        threads.filter_map(move |thread| fs::read_to_string(thread.path().join(file)).ok())
    }

    fn memory(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = fs::read_to_string(path).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|rest| rest.split_whitespace().next());
        kibibytes.expect("a line of that name").parse::<u64>().unwrap() * 1024
    }

    /// The processor time that the threads of the process have used.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        let statistics = self.of_threads("schedstat");
        let used_ns = statistics.filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        Duration::from_nanos(used_ns.sum())
    }

    /// The lines that the server has logged.
    ///
    /// # Panics
    /// When the thread that collects it has panicked.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail if the process has already ended by itself, which is no problem.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The server program that suites test instead of psp's.
#[must_use]
pub fn other_server() -> Option<OsString> {
    std::env::var_os("PSP_TEST_SERVER").filter(|program| !program.is_empty())
}

/// A TCP port that is free at this moment.
///
/// # Panics
/// When the system has no free port.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// A UDP port that is free at this moment.
///
/// # Panics
/// When the system has no free port.
#[must_use]
pub fn free_udp_port() -> u16 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.local_addr().unwrap().port()
}

/// Collects the server's log, and sends the address in its line "listening on ADDRESS".
fn collect_log(process: &mut Child, log: Arc<Mutex<Vec<String>>>) -> Receiver<SocketAddr> {
    let stderr = process.stderr.take().expect("a piped stderr");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let address = announced_address(&line);
            // The log has the line before a test goes on.
            log.lock().unwrap().push(line);
            if let Some(address) = address {
                // After the first address, the receiver may be gone.
                let _ = sender.send(address);
            }
        }
    });
    receiver
}

fn announced_address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on ")?;
    let is_part_of_address = |letter: char| letter.is_ascii_hexdigit() || ".:[]".contains(letter);
    let end = rest.find(|letter| !is_part_of_address(letter)).unwrap_or(rest.len());
    rest[..end].parse().ok()
}
