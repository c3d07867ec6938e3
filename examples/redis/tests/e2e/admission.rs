//! Connections that the server turns away: HTTP, and other machines in protected mode.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use psp_harness::skip;

use crate::common::{Connection, Options, Server, TOPOLOGIES, encode_line, wait_until};

fn start(topology: &'static str) -> Server {
    Server::start_with(&Options { topology: Some(topology), ..Options::default() })
}

#[test]
fn the_body_of_a_post_does_not_run() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut witness = server.connect();
        let body = "CONFIG SET requirepass evil\r\nSET a evil\r\n";
        for request in [
            format!("POST / HTTP/1.1\r\nHost: localhost:6379\r\n\r\n{body}"),
            format!("GET /\r\nHost: localhost:6379\r\n\r\n{body}"),
            format!("pOsT / HTTP/1.1\r\n{body}"),
        ] {
            let mut client = server.connect();
            client.send(request.as_bytes());
            let reply = client.read_to_close();
            assert!(!reply.starts_with(b"+OK"), "{topology}: {reply:?}");
            assert_eq!(witness.ask("EXISTS a"), "0", "{topology}");
        }
        assert_eq!(server.connect().ask("PING"), "+PONG", "{topology}");
        if Server::is_psp_redis() {
            let warnings = || {
                let is_warning = |line: &&String| line.contains("Possible SECURITY ATTACK detected");
                server.log().iter().filter(is_warning).count()
            };
            wait_until("a warning", || warnings() > 0);
            assert_eq!(warnings(), 1, "one warning a minute");
        }
    }
}

#[test]
fn clients_beyond_the_limit_of_open_files_are_told() {
    const OPEN_FILES: u32 = 128;
    /// The others are for files that are no clients, as in Redis.
    const CLIENTS: usize = 96;
    for topology in TOPOLOGIES {
        let server = Server::start_with(&Options {
            topology: Some(topology),
            open_files: Some(OPEN_FILES),
            ..Options::default()
        });
        let mut clients = vec![server.connect()];
        // The connection that found the port open is closed by then.
        clients[0].wait_for_clients(1);
        clients.extend((1..CLIENTS).map(|_| server.connect()));
        for client in &mut clients {
            assert_eq!(client.ask("PING"), "+PONG", "{topology}");
        }
        for _ in 0..2 * CLIENTS {
            let told = server.connect().read_to_close();
            let expected = b"-ERR max number of clients reached\r\n";
            assert_eq!(told.escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
        let client = &mut clients[0];
        let room = format!("[\"maxclients\", \"{CLIENTS}\"]");
        assert_eq!(client.ask("CONFIG GET maxclients"), room, "{topology}");
        let refused = client.ask("CONFIG SET maxclients 5000");
        assert!(refused.ends_with(&format!("try with {CLIENTS}")), "{refused}");
        assert_eq!(client.ask("CONFIG SET maxclients 50"), "+OK");
        clients.truncate(1);
        clients[0].wait_for_clients(1);
        server.assert_alive();
    }
}

/// This machine's address on a network, if it has one. Nothing is sent to the address it asks about.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn protected_mode_refuses_other_machines_until_there_is_a_password() {
    let Some(address) = own_address() else {
        return skip("this machine has no address on a network");
    };
    for topology in TOPOLOGIES {
        let server = Server::start_with(&Options {
            bind: Some("0.0.0.0"),
            topology: Some(topology),
            ..Options::default()
        });
        let mut local = server.connect();
        let from_outside = || {
            let address = SocketAddr::new(address, server.address().port());
            Connection::open(address).expect("the server listens")
        };
        let denied = || {
            let mut client = from_outside();
            // The server may close the connection before it reads.
            let _ = client.try_send(&encode_line("SET a evil"));
            let reply = String::from_utf8(client.read_to_close()).expect("text");
            assert!(reply.starts_with("-DENIED "), "{topology}: {reply}");
            assert_eq!(reply.lines().count(), 1, "{topology}: {reply}");
        };
        let get = |local: &mut Connection| local.ask("CONFIG GET protected-mode");
        assert_eq!(get(&mut local), r#"["protected-mode", "yes"]"#);
        denied();
        assert_eq!(local.ask("EXISTS a"), "0", "{topology}");
        assert_eq!(local.ask("CONFIG SET protected-mode no"), "+OK");
        assert_eq!(get(&mut local), r#"["protected-mode", "no"]"#);
        assert_eq!(from_outside().ask("PING"), "+PONG", "{topology}");
        assert_eq!(local.ask("CONFIG SET protected-mode yes"), "+OK");
        denied();
        assert_eq!(local.ask("CONFIG SET requirepass secret"), "+OK");
        let noauth = "-NOAUTH Authentication required.";
        assert_eq!(from_outside().ask("PING"), noauth, "{topology}");
    }
}

#[test]
fn debug_is_off_unless_the_configuration_allows_it() {
    let refused = "-ERR DEBUG command not allowed. ";
    for (debug, allowed) in [("no", false), ("local", true), ("yes", true)] {
        let server = Server::start_with(&Options { debug: Some(debug), ..Options::default() });
        let mut client = server.connect();
        let reply = client.ask("DEBUG SLEEP 0");
        assert_eq!(reply == "+OK", allowed, "{debug}: {reply}");
        assert_eq!(reply.starts_with(refused), !allowed, "{debug}: {reply}");
        let shown = format!(r#"["enable-debug-command", "{debug}"]"#);
        assert_eq!(client.ask("CONFIG GET enable-debug-command"), shown);
        if debug != "yes" {
            let reply = client.ask("CONFIG SET enable-debug-command yes");
            assert!(reply.ends_with("can't set immutable config"), "{reply}");
        }
    }
}
