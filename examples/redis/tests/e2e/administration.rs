//! Administration beside scripts that do not end, on all workers that run scripts.

use std::time::{Duration, Instant};

use crate::common::{Connection, Options, Server, TOPOLOGIES, encode, encode_line};

/// Time after which DARC has measured all types, with so many requests a round.
const MEASURED: Duration = Duration::from_millis(2_500);
const GETS: usize = 100;
const ENDLESS: &[&str] = &["EVAL", "while true do end", "0"];

/// INFO takes as long as some scripts. The server knows that from here on, if it looks.
fn measure(server: &Server) {
    let mut operator = server.connect();
    let began = Instant::now();
    while began.elapsed() < MEASURED {
        operator.info("default");
        operator.send(encode(&["GET", "k"]).repeat(GETS));
        (0..GETS).for_each(|_| assert_eq!(operator.reply().to_string(), "nil"));
    }
}

/// A server of two workers, and clients whose scripts do not end.
fn start(topology: &'static str, policy: &'static str, scripts: usize) -> (Server, Vec<Connection>) {
    let server = Server::start_under(topology, policy, 2);
    if policy.starts_with("darc") {
        measure(&server);
    }
    let mut clients: Vec<_> = (0..scripts).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(encode(ENDLESS));
    }
    (server, clients)
}

/// All of this is answered while no script has ended, on new connections and on old ones; then SCRIPT KILL ends all.
fn administration_goes_on(topology: &'static str, policy: &'static str, scripts: usize) {
    let (server, mut clients) = start(topology, policy, scripts);
    let mut old = server.connect();
    for round in 0..20 {
        let mut new = server.connect();
        for operator in [&mut old, &mut new] {
            assert!(operator.ask("HELLO 2").contains("version"));
            assert_eq!(operator.ask("SELECT 0"), "+OK");
            assert_eq!(operator.ask("PING"), "+PONG");
            assert!(operator.info("psp").contains("psp_type_health:"));
            let own = format!("id={} ", operator.ask("CLIENT ID"));
            assert!(operator.ask("CLIENT LIST").contains(&own));
            assert!(operator.ask("CONFIG GET maxmemory").contains("maxmemory"));
            assert!(operator.ask("FUNCTION STATS").contains("running_script"));
        }
        let is_over = clients.iter().any(Connection::has_received);
        assert!(!is_over, "{topology}, {policy}: a script has ended in round {round}");
    }
    // Each kill is answered beside those that still run, or begin.
    while !clients.is_empty() {
        let answer = old.ask("SCRIPT KILL");
        let is_known = answer == "+OK" || answer.starts_with("-NOTBUSY");
        assert!(is_known, "{topology}, {policy}: {answer}");
        clients.retain_mut(|client| {
            let is_over = client.has_received();
            if is_over {
                let error = client.reply().to_string();
                assert!(error.contains("SCRIPT KILL"), "{error}");
            }
            !is_over
        });
    }
    server.assert_alive();
}

/// The policies that run no script on the net thread.
#[test]
fn administration_goes_on_inline() {
    psp_harness::only_psp!();
    for policy in ["darc", "darc-lending", "darc-static", "static-partition"] {
        administration_goes_on("inline", policy, 2);
    }
}

#[test]
fn administration_goes_on_dedicated() {
    psp_harness::only_psp!();
    for policy in ["darc", "darc-lending", "c-fcfs", "mq", "sjf", "drr", "sq", "jsq"] {
        administration_goes_on("dedicated", policy, 3);
    }
}

/// One of two workers is left for the ports of both.
#[test]
fn administration_goes_on_distributed() {
    psp_harness::only_psp!();
    for policy in ["d-fcfs", "stealing", "jsq", "synergy", "darc-distributed"] {
        administration_goes_on("distributed", policy, 1);
    }
}

#[test]
fn administration_goes_on_beside_scripts_on_net_threads() {
    psp_harness::only_psp!();
    for policy in ["c-fcfs", "sjf", "drr"] {
        administration_goes_on("inline", policy, 3);
    }
    for policy in ["d-fcfs", "stealing", "jsq", "synergy", "darc-distributed"] {
        administration_goes_on("distributed", policy, 3);
    }
}

/// SHUTDOWN drains, as SIGTERM does. Its reply is the end of the connection.
#[test]
fn shutdown_ends_the_server() {
    for topology in TOPOLOGIES {
        let mut server = Server::start_with(&Options {
            topology: Server::is_psp_redis().then_some(topology),
            ..Options::default()
        });
        let mut client = server.connect();
        client.send(encode_line("SHUTDOWN NOSAVE"));
        assert_eq!(client.read_to_close(), b"", "{topology}");
        assert_eq!(server.wait_for_exit().code(), Some(0), "{topology}");
    }
}
