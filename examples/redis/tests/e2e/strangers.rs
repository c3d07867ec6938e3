//! Clients that have not authenticated: what they may send and hold, and for how long they may stay.

use crate::common::{Connection, Options, Server, TOPOLOGIES, encode, encode_line};

const PASSWORD: &str = "secret";
/// Longest argument of a client that has not authenticated.
const BULK_LEN_MAX: usize = 16 << 10;

fn start(topology: &'static str, config: &'static str) -> Server {
    Server::start_with(&Options {
        topology: Server::is_psp_redis().then_some(topology),
        requirepass: Some(PASSWORD),
        config: Server::is_psp_redis().then_some(config),
        ..Options::default()
    })
}

fn authenticated(server: &Server) -> Connection {
    let mut client = server.connect();
    assert_eq!(client.ask("AUTH secret"), "+OK");
    client
}

#[test]
fn requests_before_authentication_are_short_as_in_redis() {
    for topology in TOPOLOGIES {
        let server = start(topology, "");
        for (request, error) in [
            ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
            ("*2\r\n$4\r\nECHO\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
        ] {
            let mut stranger = server.connect();
            stranger.send(request.as_bytes());
            let reply = String::from_utf8(stranger.read_to_close()).unwrap();
            assert_eq!(reply, error, "{topology}");
        }
        let mut stranger = server.connect();
        let mut words = vec![vec![b'x'; BULK_LEN_MAX]; 10];
        words[0] = b"SET".to_vec();
        let reply = stranger.request(&words).to_string();
        assert_eq!(reply, "-NOAUTH Authentication required.", "{topology}");
    }
}

#[test]
fn authentication_lifts_the_limits_also_within_a_pipeline() {
    for topology in TOPOLOGIES {
        let server = start(topology, "");
        let value = vec![b'x'; 300_000];
        let set = encode(&[b"SET", b"key".as_slice(), &value]);
        let mut many = vec!["MSET".to_owned()];
        many.extend((0..40).map(|number| number.to_string()));
        let requests = [encode_line("AUTH secret"), set, encode(&many), encode_line("PING")];
        let mut client = server.connect();
        client.send(requests.concat());
        for reply in ["+OK", "+OK", "+OK", "+PONG"] {
            assert_eq!(client.reply().to_string(), reply, "{topology}");
        }
        assert_eq!(client.ask("RESET"), "+RESET");
        client.send(b"*11\r\n");
        let reply = String::from_utf8(client.read_to_close()).unwrap();
        assert!(reply.contains("unauthenticated"), "{topology}: {reply}");
    }
}

#[test]
fn clients_that_do_not_authenticate_are_closed_after_a_while() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology, "[server]\nauth-timeout-s = 1\n");
        let mut client = authenticated(&server);
        let mut silent = server.connect();
        let mut halfway = server.connect();
        halfway.send(b"*2\r\n$4\r\nAUTH\r\n");
        let mut busy = server.connect();
        while busy.try_send(&encode_line("PING")).is_ok() && busy.try_reply().is_ok() {}
        assert!(silent.read_to_close().is_empty(), "{topology}");
        assert!(halfway.read_to_close().is_empty(), "{topology}");
        assert_eq!(client.ask("PING"), "+PONG", "{topology}");
    }
}

/// Clients that have not authenticated hold the whole budget, and a client that has needs a part of it.
#[test]
fn strangers_are_evicted_for_clients_that_have_authenticated() {
    const CONFIG: &str = "[server]\nbuffered-bytes-max = 4194304\nauth-timeout-s = 0\n";
    const STRANGERS: usize = 60;
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology, CONFIG);
        let mut client = authenticated(&server);
        let argument = vec![b'x'; BULK_LEN_MAX];
        let request = encode(&vec![argument; 10]);
        let mut strangers: Vec<Connection> = (0..STRANGERS).map(|_| server.connect()).collect();
        for stranger in &mut strangers {
            // All but the last byte, if the server does not close the connection before.
            let _ = stranger.try_send(&request[..request.len() - 1]);
        }
        let over = |client: &mut Connection| {
            let info = client.info("psp");
            let held = info.lines().find_map(|line| line.strip_prefix("psp_buffered_bytes:"));
            held.unwrap().trim().parse::<usize>().unwrap() > 3 << 20
        };
        psp_harness::wait_until("the strangers hold the budget", || over(&mut client));
        let value = vec![b'x'; 300_000];
        for number in 0..20 {
            let key = format!("key{number}");
            let reply = client.request(&[b"SET", key.as_bytes(), &value]);
            assert_eq!(reply.to_string(), "+OK", "{topology}, {number}");
        }
    }
}

/// Clients that have authenticated and send nothing more are evicted, too: those first that have waited for longest.
#[test]
fn who_waits_longest_for_nothing_is_evicted_first() {
    const CONFIG: &str = "[server]\nbuffered-bytes-max = 4194304\n";
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology, CONFIG);
        let mut client = authenticated(&server);
        let value = vec![b'x'; 1_000_000];
        let request = encode(&[b"SET", b"key".as_slice(), &value]);
        let mut idle: Vec<Connection> = (0..4).map(|_| authenticated(&server)).collect();
        for idle in &mut idle {
            idle.send(&request[..request.len() - 1]);
            // The first have waited for longer.
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        std::thread::sleep(std::time::Duration::from_millis(1200));
        assert_eq!(client.request(&[b"SET", b"key".as_slice(), &value]).to_string(), "+OK");
        let second = client.request(&[b"SET", b"key".as_slice(), &value]);
        assert_eq!(second.to_string(), "+OK", "{topology}");
        assert!(idle[0].read_to_close().is_empty(), "{topology}");
        for idle in &mut idle[1..] {
            idle.send(b"\n");
            assert_eq!(idle.reply().to_string(), "+OK", "{topology}");
        }
    }
}
