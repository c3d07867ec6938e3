//! Sockets that a service manager passes to the process, as `sd_listen_fds(3)` describes.

use std::env::VarError;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;

use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;

/// Takes the socket of an index if it is of one kind. Otherwise it stays where it is.
type Kind = fn(&mut ListenFd, usize) -> io::Result<Option<Passed>>;

/// A socket that was passed.
#[derive(Debug)]
pub(crate) enum Passed {
    Tcp(TcpListener),
    Unix(UnixListener),
    Udp(UdpSocket),
}

/// Takes the sockets that were passed to this process, in their order. Takes the variables that name them out of
/// the environment, so that processes started from here do not look for them.
///
/// # Errors
/// Says why there are none, or which of them no server can serve.
pub(crate) fn take_passed() -> Result<Vec<Passed>, String> {
    let variable = |name| match std::env::var(name) {
        Err(VarError::NotPresent) => None,
        value => Some(value.unwrap_or_else(|_| "no text".to_owned())),
    };
    let own_pid = std::process::id();
    let count = expected(variable("LISTEN_FDS").as_deref(), variable("LISTEN_PID").as_deref(), own_pid)?;
    let mut passed = ListenFd::from_env();
    let take = |index| take(&mut passed, index).map_err(|why| numbered(index, count, &why));
    (0..count).map(take).collect()
}

/// How many sockets were passed to process `own_pid`, by the values of the two variables.
fn expected(fds: Option<&str>, pid: Option<&str>, own_pid: u32) -> Result<usize, String> {
    let fds = fds.ok_or("the environment variable LISTEN_FDS is not set")?;
    if let Some(pid) = pid.filter(|pid| !pid.is_empty() && pid.parse() != Ok(own_pid)) {
        return Err(format!("they are for process {pid} (LISTEN_PID), and this process is {own_pid}"));
    }
    match fds.parse::<u16>() {
        Ok(0) => Err("LISTEN_FDS is 0".to_owned()),
        Ok(count) => Ok(count.into()),
        Err(_) => Err(format!("LISTEN_FDS is {fds}, not a number of sockets")),
    }
}

fn numbered(index: usize, count: usize, why: &str) -> String {
    format!("socket {} of {count} {why}", index + 1)
}

fn take(passed: &mut ListenFd, index: usize) -> Result<Passed, String> {
    let kinds: [Kind; 3] = [
        |passed, index| Ok(passed.take_tcp_listener(index)?.map(Passed::Tcp)),
        |passed, index| Ok(passed.take_unix_listener(index)?.map(Passed::Unix)),
        |passed, index| Ok(passed.take_udp_socket(index)?.map(Passed::Udp)),
    ];
    let socket = kinds
        .iter()
        .find_map(|kind| kind(passed, index).ok().flatten())
        .ok_or("is not a socket of TCP, UDP or a Unix stream")?;
    match socket.listens() {
        Ok(true) => Ok(socket),
        Ok(false) => Err("is a connection, not a listener (Accept=yes passes connections)".into()),
        Err(error) => Err(format!("cannot be used: {error}")),
    }
}

impl Passed {
    /// Whether connections come in on the socket, or datagrams.
    fn listens(&self) -> io::Result<bool> {
        let socket = match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
            Self::Udp(_) => return Ok(true),
        };
        Ok(socket_acceptconn(socket)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_how_many_sockets_there_are() {
        for (fds, pid, found) in [
            (Some("2"), Some("7"), Ok(2)),
            (Some("1"), None, Ok(1)),
            (Some("1"), Some(""), Ok(1)),
            (None, Some("7"), Err("the environment variable LISTEN_FDS is not set")),
            (Some("0"), Some("7"), Err("LISTEN_FDS is 0")),
            (Some("two"), Some("7"), Err("LISTEN_FDS is two, not a number of sockets")),
            (Some("2"), Some("8"), Err("they are for process 8 (LISTEN_PID), and this process is 7")),
        ] {
            let expected = expected(fds, pid, 7);
            assert_eq!(expected.as_ref().map_err(String::as_str), found.as_ref().map_err(|e| *e));
        }
    }
}
