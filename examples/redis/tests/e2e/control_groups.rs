//! In a control group with little memory each flood gets errors or loses its connections, the kernel kills nothing, and
//! other clients are answered.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use psp_harness::{GROUPS_MIB, MemoryGroup, NO_MEMORY_GROUP, answered_beside, skip, unfinished};

use crate::common::{Connection, Options, Server, encode, encode_line};

const MEBIBYTE: usize = 1 << 20;
const NAMES: usize = 100;

/// Sends requests that need memory, and returns whether any got an error or was closed.
type Flood = fn(&Server) -> bool;

fn flood(name: &str, flood: Flood) {
    psp_harness::only_psp!();
    for limit_mib in GROUPS_MIB {
        let Some(group) = MemoryGroup::new(limit_mib) else {
            return skip(NO_MEMORY_GROUP);
        };
        let group = Arc::new(group);
        let server = Server::start_with(&Options { memory_group: Some(Arc::clone(&group)), ..Options::default() });
        let said = "memory of the control group";
        assert!(server.log().iter().any(|line| line.contains(said)), "{name}");
        let mut witness = server.connect();
        let ask = || assert_eq!(witness.ask("GET none"), "nil", "{name}, {limit_mib} MiB");
        let is_refused = answered_beside(ask, || flood(&server));
        assert!(is_refused, "{name}, {limit_mib} MiB");
        server.assert_alive();
    }
}

/// The clients send one request after the other, until one gets an error or is closed.
fn send_until_refused(clients: &mut [Connection], replies: usize, request: impl Fn(usize, usize) -> Vec<u8>) -> bool {
    (0..2000).any(|round| {
        let mut clients = clients.iter_mut().enumerate();
        clients.any(|(number, client)| {
            if client.try_send(&request(number, round)).is_err() {
                return true;
            }
            let mut replies = (0..replies).map(|_| client.try_reply());
            replies.any(|reply| reply.map_or(true, |reply| reply.to_string().starts_with('-')))
        })
    })
}

fn connect(server: &Server, count: usize) -> Vec<Connection> {
    (0..count).map(|_| server.connect()).collect()
}

fn appends(server: &Server) -> bool {
    let piece = vec![b'x'; MEBIBYTE];
    send_until_refused(&mut connect(server, 4), 1, |number, _| {
        encode(&[b"APPEND", number.to_string().as_bytes(), &piece])
    })
}

fn ranges(server: &Server) -> bool {
    send_until_refused(&mut connect(server, 1), 1, |_, round| {
        encode_line(&format!("SETRANGE key{round} 536870910 x"))
    })
}

fn copies(server: &Server) -> bool {
    let mut client = connect(server, 1);
    client[0].ask(&format!("SETRANGE a {} x", 40 * MEBIBYTE));
    send_until_refused(&mut client, 1, |_, round| match round % 2 {
        0 => encode_line(&format!("COPY a key{round}")),
        _ => encode_line(&format!("APPEND key{} x", round - 1)),
    })
}

fn results(server: &Server) -> bool {
    let mut client = connect(server, 1);
    for index in 0..100 {
        let member = |member: usize| format!("{index}-{member}-{}", "m".repeat(100));
        let mut words = vec!["SADD".to_owned(), "s".to_owned()];
        words.extend((0..1000).map(member));
        client[0].request(&words);
    }
    send_until_refused(&mut client, 1, |_, round| encode_line(&format!("SUNIONSTORE key{round} s none")))
}

/// What so many clients send waits in their sockets if it gets no error.
fn are_held(server: &Server, part: &[u8], clients: usize) -> bool {
    let _clients = unfinished(server.address(), part, clients);
    thread::sleep(Duration::from_secs(1));
    true
}

fn unfinished_bulks(server: &Server) -> bool {
    let part = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$990000\r\n", &vec![b'x'; 980_000][..]].concat();
    are_held(server, &part, 1000)
}

fn half_requests(server: &Server) -> bool {
    let part = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000\r\n", &vec![b'x'; 58_000][..]].concat();
    are_held(server, &part, 4000)
}

fn unread_replies(server: &Server) -> bool {
    let mut writer = server.connect();
    let element = " x".to_owned() + &"y".repeat(900);
    for _ in 0..100 {
        writer.ask(&("RPUSH list".to_owned() + &element.repeat(100)));
    }
    let requests = encode_line("LRANGE list 0 -1").repeat(20);
    are_held(server, &requests, 200)
}

fn queued_commands(server: &Server) -> bool {
    let mut clients = connect(server, 20);
    for client in &mut clients {
        client.ask("MULTI");
    }
    let value = vec![b'x'; MEBIBYTE];
    send_until_refused(&mut clients, 1, |_, _| encode(&[b"SET", &b"k"[..], &value]))
}

fn scripts(server: &Server) -> bool {
    let of_long_texts = "local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 100000) .. i end";
    let of_small_tables = "local l for i = 1, 1e9 do l = {l} end";
    let mut clients = connect(server, 100);
    for (client, script) in clients.iter_mut().zip([of_long_texts, of_small_tables].into_iter().cycle()) {
        client.send(encode(&["EVAL", script, "0"]));
    }
    let mut replies = clients.iter_mut().map(Connection::reply);
    replies.all(|reply| reply.to_string().starts_with('-'))
}

/// A request with this command, and [`NAMES`] that no other has.
fn with_names(command: &str, number: usize, round: usize) -> Vec<String> {
    let name = |name: usize| format!("{number}-{round}-{name}-{}", "n".repeat(2000));
    let names = (0..NAMES).map(name);
    std::iter::once(command.to_owned()).chain(names).collect()
}

fn watched_keys(server: &Server) -> bool {
    send_until_refused(&mut connect(server, 20), 1, |number, round| encode(&with_names("WATCH", number, round)))
}

fn subscriptions(server: &Server) -> bool {
    send_until_refused(&mut connect(server, 20), NAMES, |number, round| {
        encode(&with_names("PSUBSCRIBE", number, round))
    })
}

fn waiting_clients(server: &Server) -> bool {
    let mut words = with_names("BLPOP", 0, 0);
    words.push("0".to_owned());
    are_held(server, &encode(&words), 3000)
}

macro_rules! floods {
    ($($name:ident)*) => {$(
        mod $name {
            #[test]
            #[ignore = "needs root, and memory; run by .ci/run"]
            fn kills_nothing() {
                super::flood(stringify!($name), super::$name);
            }
        }
    )*};
}

floods! {
    appends ranges copies results unfinished_bulks half_requests unread_replies queued_commands
    scripts watched_keys subscriptions waiting_clients
}
