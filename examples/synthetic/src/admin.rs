//! The admin channel: commands over TCP, one per line, each with one line as the reply.
//!
//! ```text
//!   $ nc 127.0.0.1 9001
//!   policy                       the policy in force, with its settings
//!   policy mq quantum-us=20      changes the policy: `ok`, or `error: ...`
//!   stats                        all counters, as one line of JSON
//! ```
//!
//! The channel is for operators on a trusted network. It serves one client at a time, which may not be idle
//! for long.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::Context as _;
use psp_server::{Policy, ServerHandle};

/// Longest line, in bytes.
const LINE_LEN_MAX: u64 = 4096;
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Takes commands on `address` until the process ends. Returns the address, with the chosen port if the port
/// was 0.
///
/// # Errors
/// When the address cannot be bound, or the thread cannot be started.
pub fn listen(address: SocketAddr, server: ServerHandle) -> anyhow::Result<SocketAddr> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    let serve = move || {
        for client in listener.incoming().flatten() {
            if let Err(error) = converse(&client, &server) {
                tracing::debug!(%error, "an admin client has disconnected");
            }
        }
    };
    let thread = std::thread::Builder::new().name("psp-admin".into());
    thread
        .spawn(serve)
        .context("cannot start the admin thread")?;
    Ok(address)
}

fn converse(client: &TcpStream, server: &ServerHandle) -> std::io::Result<()> {
    client.set_read_timeout(Some(IDLE_MAX))?;
    client.set_write_timeout(Some(IDLE_MAX))?;
    let mut input = BufReader::new(client);
    let mut line = String::new();
    loop {
        line.clear();
        input.by_ref().take(LINE_LEN_MAX).read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Ok(());
        }
        let mut answer = answer(line.trim(), server);
        answer.push('\n');
        (&mut &*client).write_all(answer.as_bytes())?;
    }
}

/// The reply to a command.
fn answer(command: &str, server: &ServerHandle) -> String {
    match command.split_once(' ').unwrap_or((command, "")) {
        ("policy", "") => server.policy().spelled(),
        ("policy", spelled) => {
            let policy = spelled.parse::<Policy>();
            match policy.and_then(|policy| server.set_policy(policy)) {
                Ok(()) => "ok".to_owned(),
                Err(error) => format!("error: {error}"),
            }
        }
        ("stats", "") => serde_json::to_string(&server.snapshot())
            .unwrap_or_else(|error| format!("error: {error}")),
        _ => "error: commands are: policy, policy NAME [KEY=VALUE..], stats".to_owned(),
    }
}
