//! Shared by the end-to-end suites: a running psp-rpc, and clients generated from the `.proto` files.

// Each suite compiles this module and uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::process::Command;

use psp_harness::{DEADLINE, ServerProcess, Start, free_port};
use psp_rpc_client::Client;
use psp_rpc_client::envelope::{Response, Status};
use psp_rpc_client::methods::{ServerStats, TypeStats};
use psp_rpc_client::{Payload, decode};

const CONFIG_FILE: &str = "psp-rpc.toml";

/// Flags of servers with two workers: those of a net thread, and workers that receive for themselves.
pub(crate) const TWO_WORKERS: [&[&str]; 3] = [
    &["--workers", "2", "--topology", "dedicated", "--policy", "darc"],
    &["--workers", "2", "--topology", "distributed", "--policy", "d-fcfs"],
    DARC_DISTRIBUTED,
];

/// The flags of those that hand requests over to each other.
pub(crate) const DARC_DISTRIBUTED: &[&str] =
    &["--workers", "2", "--topology", "distributed", "--policy", "darc-distributed"];

/// A running server for TCP and UDP on one port. Dropping it kills the process.
pub(crate) struct Server {
    pub(crate) process: ServerProcess,
}

impl Server {
    /// Starts one server after the other: with the program's defaults, and with [`TWO_WORKERS`].
    pub(crate) fn start_each(config: &str) -> impl Iterator<Item = Self> {
        let shapes = [&[][..]].into_iter().chain(TWO_WORKERS);
        shapes.map(|flags| Self::start_with(flags, config))
    }

    /// Starts a server with these flags.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_with(flags, "")
    }

    /// Starts a server with these flags and this configuration file.
    pub(crate) fn start_with(flags: &[&str], config: &str) -> Self {
        Self::start_on(free_port, flags, config)
    }

    /// Starts a server on a port, which each attempt asks for.
    pub(crate) fn start_on(port: impl Fn() -> u16, flags: &[&str], config: &str) -> Self {
        let process = ServerProcess::start(|directory| {
            let file = directory.join(CONFIG_FILE);
            fs::write(&file, config).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_psp-rpc"));
            command.args(["--udp", "--port", &port().to_string(), "--config"]);
            command.arg(file).args(flags);
            Start { command, port: None }
        });
        Self { process }
    }

    /// Where the server listens, as a flag names it.
    pub(crate) fn address(&self) -> String {
        self.process.address().to_string()
    }

    /// Changes the configuration file.
    pub(crate) fn configure(&self, config: &str) {
        fs::write(self.process.directory().join(CONFIG_FILE), config).unwrap();
    }

    /// A client over TCP, which waits at most [`DEADLINE`] for a response.
    pub(crate) fn connect(&self) -> Client {
        let client = Client::connect(self.process.address()).expect("the server accepts");
        client.set_timeout(DEADLINE).unwrap();
        client
    }

    /// A client over UDP, which waits at most [`DEADLINE`] for a response.
    pub(crate) fn datagrams(&self) -> Client {
        let client = Client::datagrams(self.process.address()).unwrap();
        client.set_timeout(DEADLINE).unwrap();
        client
    }

    /// The response of Stats.
    pub(crate) fn stats(&self) -> ServerStats {
        let response = ask(&mut self.connect(), "Stats", Vec::new());
        decode(&response).expect("ServerStats")
    }

    /// The counters of one type, from Stats.
    pub(crate) fn stats_of(&self, name: &str) -> TypeStats {
        let types = self.stats().types;
        let found = types.into_iter().find(|ty| ty.name == name);
        found.unwrap_or_else(|| panic!("no type {name}"))
    }
}

/// Sends a request and waits for its response.
pub(crate) fn ask(client: &mut Client, method: &str, payload: impl Payload) -> Response {
    let id = client.submit(method, 0, payload).expect("the server reads");
    let response = client.receive().expect("a response");
    assert_eq!(response.id, id, "{response:?}");
    response
}

/// Status and error text of a response.
pub(crate) fn end(response: &Response) -> (Status, &str) {
    (response.status(), &response.error)
}
