//! `stats conns`: the sockets of the server. Numbers stand where memcached has file descriptors.

use std::fmt;
use std::net::SocketAddr;

use psp_server::Peer;

use super::{Put, put_all};
use crate::connections::{Address, Role, State};
use crate::state::ServerState;

/// A socket's address in memcached's words.
struct Shown<'a> {
    protocol: &'a str,
    address: SocketAddr,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.address.is_ipv6() { "6" } else { "" };
        write!(f, "{}{family}:{}", self.protocol, self.address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => tcp(*address).fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn tcp(address: SocketAddr) -> Shown<'static> {
    Shown { protocol: "tcp", address }
}

pub(super) fn write(server: &ServerState, put: &mut Put<'_>) {
    let now_s = server.cache.now_s();
    server.sockets.for_each(|number, socket| {
        let (used_s, state) = socket.activity();
        let prefix = format!("{number}:");
        let state = match (&socket.role, state) {
            (Role::Listening(address), _) => {
                put_all(put, &prefix, &[("addr", address)]);
                "conn_listening"
            }
            (Role::Datagrams(address), _) => {
                let udp = Shown { protocol: "udp", address: *address };
                put_all(put, &prefix, &[("UDP", &"UDP"), ("addr", &udp)]);
                "conn_read"
            }
            (Role::Connection(peer), state) => {
                match peer {
                    Peer::Ip(address) => put_all(put, &prefix, &[("addr", &tcp(*address))]),
                    _ => put_all(put, &prefix, &[("addr", peer)]),
                }
                if let Some(address) = server.sockets.listener_of(peer) {
                    put_all(put, &prefix, &[("listen_addr", address)]);
                }
                match state {
                    State::New => "conn_new_cmd",
                    State::Idle => "conn_read",
                    State::Running => "conn_parse_cmd",
                }
            }
        };
        let since_s = now_s.saturating_sub(used_s);
        let figures: [(&str, &dyn fmt::Display); 2] = [("state", &state), ("secs_since_last_cmd", &since_s)];
        put_all(put, &prefix, &figures);
    });
}
