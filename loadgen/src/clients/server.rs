//! Servers that are started for a measurement and stopped in every case.
//!
//! ```text
//!   this process ──┬─► COMMAND   leader of a process group of its own
//!                  └─► guard     reads a pipe without a writer; its end means that this
//!                                process is gone, and the guard stops the group
//! ```
//!
//! Because of the group, a Ctrl-C on the terminal does not reach the server. The guard stops the
//! server after a second Ctrl-C, and when this process ends in any other way.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::connection::connect_within;
use super::datagram_socket::connect_datagram;
use crate::wire::{Endpoint, Protocol, Target};
use psp_protocols::memcached::udp;
use psp_protocols::psp_header::{Header, Kind};
use rustix::process::{Pid, Signal, kill_process_group};

/// Timeout for the first answer of a server.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Time in which a server may end by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two looks at a server that starts or stops.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Timeout of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// Bytes of a server's output that are shown if it does not start.
const OUTPUT_SHOWN: u64 = 2_000;

/// Placeholder of the port in commands and targets.
pub const PORT_PLACEHOLDER: &str = "{port}";

/// Why a server cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The system refused.
    #[error("cannot start `{command}`")]
    Spawn {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The server ended by itself.
    #[error("`{command}` ended before it answered ({status}); its output ends with:\n{output}")]
    Ended {
        /// The command.
        command: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its output.
        output: String,
    },
    /// The server does not answer.
    #[error("`{command}` does not answer at {target}; its output ends with:\n{output}")]
    Silent {
        /// The command.
        command: String,
        /// The expected target.
        target: String,
        /// The end of its output.
        output: String,
    },
    /// The user stopped it.
    #[error("interrupted while `{command}` started")]
    Interrupted {
        /// The command.
        command: String,
    },
}

/// A range of ports that systems do not assign by themselves, so that no other process gets the
/// port before the server has it.
const SERVER_PORTS: Range<u16> = 10_000..32_768;
/// How many ports are tried.
const SERVER_PORTS_TRIED: usize = 100;

/// An unused port of the loopback address.
///
/// # Errors
/// When the system has none.
pub fn free_port() -> io::Result<u16> {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let ports = std::iter::repeat_with(|| rand::random_range(SERVER_PORTS));
    if let Some(port) = ports.take(SERVER_PORTS_TRIED).find(is_free) {
        return Ok(port);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// A running server. Dropping it stops it and all processes that it has started.
#[derive(Debug)]
pub struct Server {
    command: String,
    child: Child,
    guard: Child,
    output: File,
}

impl Server {
    /// Starts a simple command with the shell's words and quotes. Its output is kept for error
    /// messages.
    ///
    /// # Errors
    /// [`ServerError::Spawn`].
    pub fn start(command: &str) -> Result<Self, ServerError> {
        let spawn_error = |source| ServerError::Spawn { command: command.to_owned(), source };
        let output = tempfile::tempfile().map_err(spawn_error)?;
        let sink = || output.try_clone().map(Stdio::from).map_err(spawn_error);
        let mut child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::null())
            .stdout(sink()?)
            .stderr(sink()?)
            .process_group(0)
            .spawn()
            .map_err(spawn_error)?;
        let group = child.id();
        let script = format!(
            "read -r _; kill -s TERM -- -{group} && sleep {}; kill -s KILL -- -{group}",
            STOP_TIMEOUT.as_secs()
        );
        let guard = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match guard {
            Ok(guard) => Ok(Self { command: command.to_owned(), child, guard, output }),
            Err(error) => {
                signal_group(&child, Signal::KILL);
                let _ = child.wait();
                Err(spawn_error(error))
            }
        }
    }

    /// Waits until the server answers at `target`.
    ///
    /// # Errors
    /// When the server ends, takes too long, or `stop` is set.
    pub fn wait_until_ready(&mut self, target: &Target, stop: &AtomicBool) -> Result<(), ServerError> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let command = self.command.clone();
            if let Ok(Some(status)) = self.child.try_wait() {
                let output = self.output_end();
                return Err(ServerError::Ended { command, status, output });
            }
            if answers(target) {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(ServerError::Interrupted { command });
            }
            if Instant::now() > deadline {
                return Err(ServerError::Silent {
                    command,
                    target: target.to_string(),
                    output: self.output_end(),
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn output_end(&mut self) -> String {
        let mut bytes = Vec::new();
        let len = self.output.metadata().map_or(0, |metadata| metadata.len());
        let from = SeekFrom::Start(len.saturating_sub(OUTPUT_SHOWN));
        // Unreadable output must not hide the error.
        let _ = self.output.seek(from);
        let _ = self.output.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// The server's process group, whose leader is the server.
    #[must_use]
    pub fn group(&self) -> u32 {
        self.child.id()
    }
}

/// The group may have ended already, which is not an error.
fn signal_group(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal_group(&self.guard, Signal::KILL);
        let _ = self.guard.wait();
        signal_group(&self.child, Signal::TERM);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(POLL_INTERVAL);
        }
        signal_group(&self.child, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Whether a server is ready to be measured.
fn answers(target: &Target) -> bool {
    let answer = match target.protocol {
        Protocol::Redis => stream_answer(target, b"PING\r\n"),
        Protocol::Memcached => stream_answer(target, b"version\r\n"),
        Protocol::MemcachedMeta => stream_answer(target, b"mn\r\n"),
        // An empty message is a request without a method.
        Protocol::Protobuf => stream_answer(target, &[0]),
        Protocol::Wire(wire) => match wire.probe() {
            Some(request) => stream_answer(target, request),
            None => connect_within(target, ANSWER_TIMEOUT).map(|_| true),
        },
        Protocol::MemcachedUdp => {
            let header = udp::Header::request(0).encode();
            datagram_answer(&target.endpoint, &[&header[..], b"version\r\n"].concat())
        }
        Protocol::PspUdp => {
            let request = Header {
                kind: Kind::Request,
                request_type: 0,
                id: 0,
                payload_len: 0,
                run_time_ns: 1,
            };
            datagram_answer(&target.endpoint, &request.encode())
        }
    };
    answer.unwrap_or(false)
}

/// A Redis server that still loads its data answers with an error.
fn stream_answer(target: &Target, request: &[u8]) -> io::Result<bool> {
    let (mut channel, _) = connect_within(target, ANSWER_TIMEOUT)?;
    channel.socket().set_read_timeout(Some(ANSWER_TIMEOUT))?;
    channel.write_all(request)?;
    let mut answer = [0; 64];
    let len = channel.read(&mut answer)?;
    Ok(len > 0 && !answer.starts_with(b"-LOADING"))
}

fn datagram_answer(endpoint: &Endpoint, request: &[u8]) -> io::Result<bool> {
    let socket = connect_datagram(endpoint)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.send(request)?;
    Ok(socket.recv(&mut [0; 64])? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process_group;

    fn is_there(group: u32) -> bool {
        let group = Pid::from_raw(i32::try_from(group).unwrap()).unwrap();
        test_kill_process_group(group).is_ok()
    }

    #[test]
    fn all_processes_of_a_command_end_with_it() {
        let server = Server::start("sh -c 'sleep 600 & sleep 600; true'").unwrap();
        let group = server.group();
        assert!(is_there(group));
        drop(server);
        let deadline = Instant::now() + Duration::from_secs(10);
        while is_there(group) {
            assert!(Instant::now() < deadline, "the group is still there");
            thread::sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn a_command_that_ends_is_told_with_its_output() {
        let mut server = Server::start("sh -c 'echo no such flag >&2; exit 3'").unwrap();
        let closed = format!("redis://127.0.0.1:{}", free_port().unwrap());
        let target: Target = closed.parse().unwrap();
        let error = server.wait_until_ready(&target, &AtomicBool::new(false));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("no such flag") && text.contains('3'), "{text}");
    }

    #[test]
    fn waiting_ends_when_it_shall_stop() {
        let mut server = Server::start("sleep 600").unwrap();
        let closed = format!("redis://127.0.0.1:{}", free_port().unwrap());
        let target: Target = closed.parse().unwrap();
        let error = server.wait_until_ready(&target, &AtomicBool::new(true));
        assert!(matches!(error, Err(ServerError::Interrupted { .. })));
    }
}
