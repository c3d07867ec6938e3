//! Which requests a connection may send, apart from authentication.
//!
//! | connection | what the server does |
//! | --- | --- |
//! | from another machine, in protected mode | one error, then the connection is closed |
//! | sends HTTP, as a web page or a forged request of another server does | closed without a reply |

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use psp_protocols::resp::CommandId;
use psp_server::{Peer, Refusal};

use crate::client::ClientInfo;
use crate::settings::Settings;

/// Why protected mode refuses a connection.
const PROTECTED: &str = "psp-redis is running in protected mode because protected mode is enabled and no \
    password is set. In this mode connections are only accepted from the loopback interface and from Unix \
    sockets. To connect from other machines, set a password (--requirepass, or CONFIG SET requirepass from \
    the loopback interface), or disable protected mode (--protected-mode no, or CONFIG SET protected-mode no \
    from the loopback interface) if no other machine can reach the server.";

/// Names that only HTTP has: the method of a request with a body, and its first header.
const HTTP_NAMES: [&[u8]; 2] = [b"post", b"host:"];

/// Time between two warnings about HTTP.
const WARNING_PAUSE: Duration = Duration::from_secs(60);

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Run it, if the command exists.
    Run,
    /// Close the connection without a reply.
    Close,
}

/// Whether `peer` is on this machine: it has a loopback address or a Unix socket.
#[must_use]
pub fn is_local(peer: &Peer) -> bool {
    peer.ip().is_none_or(|address| address.ip().to_canonical().is_loopback())
}

/// Protected mode refuses other machines while no password is set, as `has_nopass` says.
///
/// # Errors
/// The reason for the peer.
pub fn admit(peer: &Peer, settings: &Settings, has_nopass: impl FnOnce() -> bool) -> Result<(), Refusal> {
    if is_local(peer) || !settings.protected_mode() || !has_nopass() {
        Ok(())
    } else {
        Err(PROTECTED.into())
    }
}

/// What to do with the request `args`, whose name is `command`.
#[inline]
pub fn verdict(client: &ClientInfo, command: CommandId, args: &[&[u8]]) -> Verdict {
    match command {
        CommandId::UNKNOWN => verdict_on_unknown(client, args),
        _ => Verdict::Run,
    }
}

fn verdict_on_unknown(client: &ClientInfo, args: &[&[u8]]) -> Verdict {
    let is_http = args.first().is_some_and(|name| {
        let mut names = HTTP_NAMES.iter();
        names.any(|http| name.eq_ignore_ascii_case(http))
    });
    if !is_http {
        return Verdict::Run;
    }
    warn_of_http(&client.peer);
    Verdict::Close
}

/// Logs a connection that sent HTTP, at most once a minute.
fn warn_of_http(peer: &Peer) {
    static WARNED_AT: Mutex<Option<Instant>> = Mutex::new(None);
    let now = Instant::now();
    let mut warned_at = WARNED_AT.lock();
    if warned_at.is_some_and(|before| now.duration_since(before) < WARNING_PAUSE) {
        return;
    }
    *warned_at = Some(now);
    drop(warned_at);
    tracing::warn!(
        "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands \
         to psp-redis. This is likely due to an attacker attempting to use Cross Protocol Scripting to \
         compromise the server. Connection from {peer} aborted."
    );
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::testing::Session;

    #[test]
    fn protected_mode_admits_loopback_addresses_alone() {
        let settings = Settings::default();
        let is_admitted_if = |has_nopass: bool, address: &str| {
            let address: SocketAddr = address.parse().expect("an address");
            admit(&address.into(), &settings, || has_nopass).is_ok()
        };
        let is_admitted = |address: &str| is_admitted_if(true, address);
        for (address, expected) in [
            ("127.0.0.1:1", true),
            ("127.8.9.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("192.0.2.1:1", false),
            ("[2001:db8::1]:1", false),
            ("[::ffff:192.0.2.1]:1", false),
        ] {
            assert_eq!(is_admitted(address), expected, "{address}");
        }
        assert_eq!(admit(&Peer::Unix(None), &settings, || true), Ok(()));
        assert!(is_admitted_if(false, "192.0.2.1:1"));
        settings.set_protected_mode(false);
        assert!(is_admitted("192.0.2.1:1"));
    }

    #[test]
    fn http_closes_the_connection_without_a_reply() {
        for line in ["POST / HTTP/1.1", "Host: localhost:6379", "post"] {
            let mut session = Session::new();
            session.expect(&[(line, "")]);
            assert!(session.closed, "{line}");
        }
        let mut session = Session::new();
        session.run("MULTI");
        session.expect(&[("POST / HTTP/1.1", "")]);
        assert!(session.closed);
    }
}
