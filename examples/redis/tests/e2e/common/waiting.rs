//! Servers of every topology, and clients that wait for their keys.

use super::{Connection, Options, Server, encode_line, wait_until};

/// A reply that was deferred goes to whichever thread has its connection.
pub(crate) const TOPOLOGIES: [&str; 3] = ["inline", "dedicated", "distributed"];

/// A server with two workers.
pub(crate) fn start(topology: &'static str) -> Server {
    start_with(topology, Options::default())
}

pub(crate) fn start_with(topology: &'static str, options: Options) -> Server {
    Server::start_with(&Options {
        topology: Some(topology),
        policy: (topology == "distributed").then_some("d-fcfs"),
        workers: Some(2),
        ..options
    })
}

/// Waits until the server counts `count` clients that wait.
pub(crate) fn wait_for_blocked(witness: &mut Connection, count: usize) {
    let line = format!("blocked_clients:{count}\r\n");
    wait_until(&line, || witness.info("clients").contains(&line));
}

/// Clients that have sent these commands, one after the other, and wait.
pub(crate) fn waiting(server: &Server, lines: &[&str]) -> Vec<Connection> {
    let mut witness = server.connect();
    let mut clients = Vec::new();
    for line in lines {
        let mut client = server.connect();
        client.send(encode_line(line));
        clients.push(client);
        wait_for_blocked(&mut witness, clients.len());
    }
    clients
}
