//! twemproxy (nutcracker) in front of two servers.

use std::fs;
use std::process::Command;

use crate::{ServerProcess, Start, free_port};

/// The protocol of twemproxy's clients and servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's text protocol.
    Memcached,
    /// RESP2.
    Redis,
}

/// Starts twemproxy, which spreads keys over the servers at these ports.
///
/// # Panics
/// When twemproxy does not start.
#[must_use]
pub fn start_twemproxy(ports: [String; 2], protocol: Protocol) -> ServerProcess {
    let [first, second] = ports;
    let redis = protocol == Protocol::Redis;
    ServerProcess::start(|directory| {
        let port = free_port();
        let pool = format!(
            "pool:\n  listen: 127.0.0.1:{port}\n  hash: fnv1a_64\n  distribution: ketama\n  \
             redis: {redis}\n  servers:\n   - 127.0.0.1:{first}:1 first\n   - \
             127.0.0.1:{second}:1 second\n"
        );
        let file = directory.join("nutcracker.yml");
        fs::write(&file, pool).unwrap();
        let mut command = Command::new("nutcracker");
        let stats_port = free_port().to_string();
        command.arg("-c").arg(file).args(["-s", &stats_port]);
        Start { command, port: Some(port) }
    })
}
