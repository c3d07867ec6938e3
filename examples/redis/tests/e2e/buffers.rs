//! Replies that no client reads, and requests for replies without end: what the process holds stays near the budget for
//! buffered bytes, and requests beyond it get errors.

use std::time::Duration;

use psp_harness::wait_until;

use crate::common::{Connection, Options, Server, TOPOLOGIES, encode_line};

const BUDGET_BYTES: u64 = 64 << 20;
/// Workers have the weight of other programs, so that a busy machine does not hold long requests up.
const CONFIG: &str = "[server]\nbuffered-bytes-max = 67108864\nbackground-nice = 0\n";
const OUT_OF_BUFFERS: &str = "-OOM the server's budget for buffered bytes is exhausted";

fn start(topology: &'static str) -> Server {
    Server::start_with(&Options {
        topology: Some(topology),
        workers: Some(2),
        config: Some(CONFIG),
        ..Options::default()
    })
}

/// Each of `clients` sends the request. Returns how much more the process held than before when all have an answer.
fn growth(server: &Server, clients: &mut [Connection], request: &str) -> u64 {
    let before = server.peak_resident_bytes();
    for client in &mut *clients {
        client.send(encode_line(request));
    }
    wait_until("all have an answer", || clients.iter().all(Connection::has_received));
    // The kernel's figure is approximate.
    server.peak_resident_bytes().saturating_sub(before)
}

#[test]
fn unread_replies_hold_no_more_than_the_budget() {
    const ELEMENTS: usize = 60_000;
    const CLIENTS: usize = 40;
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut witness = server.connect();
        let element = " x".to_owned() + &"y".repeat(99);
        for _ in 0..ELEMENTS / 1000 {
            witness.ask(&("RPUSH list".to_owned() + &element.repeat(1000)));
        }
        let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
        let growth = growth(&server, &mut clients, "LRANGE list 0 -1");
        assert!(growth < BUDGET_BYTES / 2 * 3, "{topology}: {growth}");
        assert_eq!(witness.ask("LLEN list"), ELEMENTS.to_string());
        let (mut refused, mut whole, mut closed) = (0, 0, 0);
        for client in &mut clients {
            match client.try_reply().map(|reply| reply.to_string()) {
                Ok(reply) if reply == OUT_OF_BUFFERS => refused += 1,
                Ok(reply) if reply.len() > ELEMENTS * 100 => whole += 1,
                Ok(reply) => panic!("{topology}: {reply}"),
                // On a slow machine it did not read for a second when another reply needed room.
                Err(_) => closed += 1,
            }
        }
        assert!(refused + closed > 0 && whole > 0, "{topology}: {refused}, {whole}");
        assert_eq!(refused + whole + closed, CLIENTS, "{topology}");
    }
}

/// Clients that do not read hold the budget. Replies to others find room, and they lose their connections.
#[test]
fn who_does_not_read_is_evicted_for_the_replies_of_others() {
    const ELEMENTS: usize = 60_000;
    const CLIENTS: usize = 40;
    /// Their replies need more than the others left, and less than these hold.
    const LATER: usize = 4;
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology);
        let element = " x".to_owned() + &"y".repeat(99);
        let mut writer = server.connect();
        for _ in 0..ELEMENTS / 1000 {
            writer.ask(&("RPUSH list".to_owned() + &element.repeat(1000)));
        }
        let mut silent: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
        growth(&server, &mut silent, "LRANGE list 0 -1");
        // By then none of them has made progress for long enough.
        std::thread::sleep(Duration::from_millis(1500));
        let mut later: Vec<Connection> = (0..LATER).map(|_| server.connect()).collect();
        for client in &mut later {
            growth(&server, std::slice::from_mut(client), "LRANGE list 0 -1");
        }
        for client in &mut later {
            let reply = client.reply().to_string();
            assert!(reply.len() > ELEMENTS * 100, "{topology}: {reply:.80}");
        }
        let closed = silent.iter_mut().filter_map(|client| client.try_reply().err());
        assert!(closed.count() > 0, "{topology}");
    }
}

#[test]
fn replies_beyond_a_connections_share_are_not_built() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut witness = server.connect();
        witness.ask(&format!("SADD set {}", "x".repeat(5000)));
        let mut clients: Vec<Connection> = (0..6).map(|_| server.connect()).collect();
        let growth = growth(&server, &mut clients, "SRANDMEMBER set -180000");
        // One after the other they build what one connection may hold, and the allocator keeps freed pages for a while.
        // Whole, they would have 900 MB each.
        assert!(growth < 5 * BUDGET_BYTES, "{topology}: {growth}");
        for client in &mut clients {
            let reply = client.reply().to_string();
            let too_large = "-ERR reply is larger than the limit of 50331648 bytes";
            assert!([too_large, OUT_OF_BUFFERS].contains(&reply.as_str()), "{topology}: {reply}");
            assert_eq!(client.ask("PING"), "+PONG");
        }
    }
}
