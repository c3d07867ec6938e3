//! The server of a test.

use std::cell::Cell;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use psp_harness::{ServerProcess, Start, dereferences, free_port, free_udp_port, other_server};

use super::Connection;

const CONFIG_FILE: &str = "psp-memcached.toml";

/// Flags of servers whose workers receive for themselves: under one policy they hand nothing over, under the other they
/// do.
pub(crate) const OF_WORKERS: [&[&str]; 2] = [
    &["--topology", "distributed", "--policy", "d-fcfs"],
    &["--topology", "distributed", "--policy", "darc-distributed"],
];

/// Flags of the servers that a test shall try, which psp-memcached alone knows.
pub(crate) fn shapes() -> impl Iterator<Item = &'static [&'static str]> {
    let of_workers = OF_WORKERS.into_iter().filter(|_| Server::is_psp());
    [&[][..]].into_iter().chain(of_workers)
}

/// A running server. Dropping it kills the process.
pub(crate) struct Server {
    process: ServerProcess,
}

dereferences!(Server => process: ServerProcess);

impl Server {
    /// Starts a server with its defaults.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one server after the other: with its defaults, and with workers that receive for themselves.
    pub(crate) fn start_each() -> impl Iterator<Item = Self> {
        shapes().map(|flags| Self::start_psp(&[], flags, ""))
    }

    /// The same for datagrams, too. Each server comes with their address.
    pub(crate) fn start_each_udp() -> impl Iterator<Item = (Self, SocketAddr)> {
        shapes().map(|flags| Self::start_udp_with(flags, ""))
    }

    /// Starts a server with flags that memcached also knows.
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        Self::start_psp(flags, &[], "")
    }

    /// Starts a server with flags that memcached knows, and with flags and a configuration file for
    /// psp-memcached only.
    pub(crate) fn start_psp(flags: &[&str], psp_flags: &[&str], config: &str) -> Self {
        let process = ServerProcess::start(|directory| start(flags, psp_flags, config, directory));
        Self { process }
    }

    /// Starts a server that also receives datagrams. Returns their address.
    pub(crate) fn start_udp() -> (Self, SocketAddr) {
        Self::start_udp_with(&[], "")
    }

    /// As [`start_udp`](Self::start_udp), with flags and a configuration file for psp-memcached only.
    pub(crate) fn start_udp_with(psp_flags: &[&str], config: &str) -> (Self, SocketAddr) {
        let port = Cell::new(0);
        let process = ServerProcess::start(|directory| {
            port.set(free_udp_port());
            let flag = port.get().to_string();
            start(&["-U", &flag], psp_flags, config, directory)
        });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.get()));
        (Self { process }, address)
    }

    /// Whether the suites run against psp-memcached.
    pub(crate) fn is_psp() -> bool {
        other_server().is_none()
    }

    /// The file given with `--config`.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.directory().join(CONFIG_FILE)
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address())
            .unwrap_or_else(|error| panic!("connect: {error}; the server's log:\n{}", self.log().join("\n")))
    }

    /// Whether the server answers on a new connection.
    pub(crate) fn assert_alive(&self) {
        self.connect().expect("mn", "MN");
    }
}

fn start(flags: &[&str], psp_flags: &[&str], config: &str, directory: &Path) -> Start {
    match other_server() {
        None => psp_memcached(flags, psp_flags, config, directory),
        Some(program) => {
            let port = free_port();
            let mut command = Command::new(program);
            command.args(["-u", "root", "-l", "127.0.0.1", "-p", &port.to_string()]);
            command.args(flags);
            Start { command, port: Some(port) }
        }
    }
}

fn psp_memcached(flags: &[&str], psp_flags: &[&str], config: &str, directory: &Path) -> Start {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-memcached"));
    command.args(["-l", "127.0.0.1", "-p", "0"]);
    command.args(flags).args(psp_flags);
    if !config.is_empty() {
        let file = directory.join(CONFIG_FILE);
        fs::write(&file, config).unwrap();
        command.arg("--config").arg(file);
    }
    Start { command, port: None }
}
