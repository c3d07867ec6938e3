//! Workers that receive for themselves: other workers read the connections of one that runs a long request.

use crate::common::{Connection, Server, encode};

/// Counts to ARGV[1].
const LONG: &str = "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + i % 7 end return 1";
/// Of so many connections either of two workers has some.
const CLIENTS: usize = 32;
/// The script may be over before this test's thread gets a core to send GETs.
const ATTEMPTS: usize = 20;

#[test]
fn gets_on_all_connections_go_on_beside_a_long_script() {
    psp_harness::only_psp!();
    for policy in ["d-fcfs", "stealing", "jsq", "synergy", "darc-distributed"] {
        check(policy);
    }
}

fn check(policy: &'static str) {
    let server = Server::start_under("distributed", policy, 2);
    let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
    clients[0].ask("SET k v");
    for client in &mut clients {
        assert_eq!(client.ask("GET k"), "\"v\"");
    }
    let mut long = server.connect();
    let are_answered_meanwhile = (1..=ATTEMPTS).any(|attempt| {
        let count = (10_000_000 * attempt).to_string();
        long.send(encode(&["EVAL", LONG, "0", &count]));
        let mut answered = 0;
        for client in &mut clients {
            assert_eq!(client.ask("GET k"), "\"v\"");
            answered += usize::from(!long.has_received());
        }
        assert_eq!(long.reply().to_string(), "1");
        answered == CLIENTS
    });
    assert!(are_answered_meanwhile, "{policy}: GETs wait for the script");
}
