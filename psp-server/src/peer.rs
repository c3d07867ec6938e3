//! The other end of a connection.

use std::fmt;
use std::net::SocketAddr;

/// The other end of a connection, or the sender of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// A peer on the network.
    Ip(SocketAddr),
    /// A process of this machine, connected to a Unix socket. `None`: the system did not name the process.
    Unix(Option<Credentials>),
}

/// The process that connected to a Unix socket, as it was when it connected (`SO_PEERCRED` of unix(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Credentials {
    /// Its process id. `None`: the process has no id in the server's namespace.
    pub pid: Option<u32>,
    /// Its effective user id.
    pub uid: u32,
    /// Its effective group id.
    pub gid: u32,
}

impl Credentials {
    /// The credentials of a process.
    #[must_use]
    pub fn new(pid: Option<u32>, uid: u32, gid: u32) -> Self {
        Self { pid, uid, gid }
    }
}

impl Peer {
    /// The address of a peer on the network.
    #[must_use]
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The process at the other end of a Unix socket, if the system named it.
    #[must_use]
    pub fn credentials(&self) -> Option<Credentials> {
        match self {
            Self::Unix(credentials) => *credentials,
            Self::Ip(_) => None,
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

/// `192.0.2.1:50000`, `unix`, or `unix:pid=7,uid=0,gid=0`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(None) => f.write_str("unix"),
            Self::Unix(Some(Credentials { pid, uid, gid })) => {
                f.write_str("unix:")?;
                if let Some(pid) = pid {
                    write!(f, "pid={pid},")?;
                }
                write!(f, "uid={uid},gid={gid}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_an_address_or_a_process() {
        let address = SocketAddr::from(([192, 0, 2, 1], 50_000));
        let process = Credentials::new(Some(7), 1, 2);
        let unseen = Credentials::new(None, 1, 2);
        for (peer, shown, ip, credentials) in [
            (Peer::from(address), "192.0.2.1:50000", Some(address), None),
            (Peer::Unix(None), "unix", None, None),
            (Peer::Unix(Some(process)), "unix:pid=7,uid=1,gid=2", None, Some(process)),
            (Peer::Unix(Some(unseen)), "unix:uid=1,gid=2", None, Some(unseen)),
        ] {
            assert_eq!(peer.to_string(), shown);
            assert_eq!((peer.ip(), peer.credentials()), (ip, credentials));
        }
    }
}
