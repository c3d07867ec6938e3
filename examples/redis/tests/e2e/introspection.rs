//! What operators look at and do: clients, slow commands, and all commands as they come.

use crate::common::waiting::{TOPOLOGIES, start, wait_for_blocked};
use crate::common::{Connection, Server, wait_until};

fn id_of(connection: &mut Connection) -> String {
    connection.ask("CLIENT ID")
}

/// The value of a field in the line of CLIENT LIST of the client with this id.
fn field(observer: &mut Connection, id: &str, name: &str) -> String {
    let list = observer.request(&["CLIENT", "LIST", "ID", id]);
    let line = String::from_utf8(list.into_bytes()).expect("text");
    let prefix = format!("{name}=");
    let found = line.split_ascii_whitespace().find_map(|word| word.strip_prefix(&*prefix));
    found.unwrap_or_default().to_owned()
}

#[test]
fn killed_clients_are_closed_and_the_others_stay() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut admin = server.connect();
        let mut victims = [server.connect(), server.connect(), server.connect()];
        let mut blocked = server.connect();
        for victim in &mut victims {
            assert_eq!(victim.ask("PING"), "+PONG");
        }
        let blocked_id = id_of(&mut blocked);
        blocked.send(b"BLPOP list 0\r\n");
        wait_until("a client waits", || field(&mut admin, &blocked_id, "flags") == "b");
        let first = id_of(&mut victims[0]);
        assert_eq!(admin.request(&["CLIENT", "KILL", "ID", &*first]).to_string(), "1");
        assert_eq!(admin.ask("CLIENT KILL SKIPME yes"), "3");
        for victim in &mut victims {
            assert_eq!(victim.read_to_close(), b"", "{topology}");
        }
        assert_eq!(blocked.read_to_close(), b"", "{topology}");
        admin.wait_for_clients(1);
        // No client takes the element that the killed client waited for.
        assert_eq!(admin.ask("RPUSH list a"), "1");
        assert_eq!(admin.ask("LLEN list"), "1");
        assert_eq!(admin.ask("CLIENT KILL SKIPME no"), "1");
        assert_eq!(admin.read_to_close(), b"");
        assert_eq!(server.connect().ask("PING"), "+PONG");
    }
}

#[test]
fn a_client_that_was_killed_before_its_first_request_gets_none() {
    let server = Server::start();
    let mut admin = server.connect();
    let mut silent = server.connect();
    admin.wait_for_clients(2);
    assert_eq!(admin.ask("CLIENT KILL SKIPME yes"), "1");
    silent.send(b"SET a 1\r\n");
    assert_eq!(silent.read_to_close(), b"");
    assert_eq!(admin.ask("EXISTS a"), "0");
}

#[test]
fn paused_commands_hold_no_worker_and_run_in_the_end() {
    const CLIENTS: usize = 64;
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut admin = server.connect();
        assert_eq!(admin.ask("CLIENT PAUSE 1000000 WRITE"), "+OK");
        let mut writers: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for writer in &mut writers {
            writer.send(b"INCR n\r\nGET n\r\n");
        }
        wait_for_blocked(&mut admin, CLIENTS);
        assert_eq!(admin.ask("GET n"), "nil", "{topology}");
        // One leaves: what it sent is not run.
        drop(writers.pop());
        admin.wait_for_clients(CLIENTS);
        assert_eq!(admin.ask("CLIENT UNPAUSE"), "+OK");
        for writer in &mut writers {
            let number: usize = writer.reply().to_string().parse().expect(topology);
            assert!((1..CLIENTS).contains(&number), "{topology}");
            assert_ne!(writer.reply().to_string(), "nil");
        }
        assert_eq!(admin.ask("GET n"), format!("\"{}\"", CLIENTS - 1));
        assert!(admin.info("clients").contains("blocked_clients:0\r\n"));
    }
}

#[test]
fn replies_that_a_client_does_not_want_are_not_sent() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(b"CLIENT REPLY OFF\r\nSET a 1\r\nGET a\r\nNOPE\r\nBLPOP none 0.01\r\nSUBSCRIBE c\r\n");
    // What tells of subscriptions is no reply.
    assert_eq!(client.reply().to_string(), r#"["subscribe", "c", 1]"#);
    assert_eq!(server.connect().ask("PUBLISH c hello"), "1");
    assert_eq!(client.reply().to_string(), r#"["message", "c", "hello"]"#);
    client.send(b"UNSUBSCRIBE c\r\nCLIENT REPLY ON\r\nGET a\r\n");
    assert_eq!(client.reply().to_string(), r#"["unsubscribe", "c", 0]"#);
    assert_eq!(client.reply().to_string(), "+OK");
    assert_eq!(client.reply().to_string(), "\"1\"");
    client.send(b"CLIENT REPLY SKIP\r\nGET a\r\nPING\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nGET none\r\n");
    for expected in ["+PONG", "+OK", "nil"] {
        assert_eq!(client.reply().to_string(), expected);
    }
    client.send(b"CLIENT REPLY SKIP\r\nMULTI\r\nEXEC\r\n");
    assert_eq!(client.reply().to_string(), "[]");
    client.send(b"CLIENT REPLY OFF\r\nPING\r\nRESET\r\nPING\r\n");
    for expected in ["+RESET", "+PONG"] {
        assert_eq!(client.reply().to_string(), expected);
    }
}

#[test]
fn monitors_see_the_commands_of_all_clients() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let (mut monitor, mut client) = (server.connect(), server.connect());
        assert_eq!(monitor.ask("MONITOR"), "+OK");
        client.ask("SET a 1");
        client.ask("AUTH secret");
        client.ask("CONFIG GET save");
        client.ask("MULTI");
        client.ask("GET a");
        client.ask("EXEC");
        let mut seen = || {
            let line = monitor.reply().to_string();
            line.split_once("] ").expect(&line).1.to_owned()
        };
        assert_eq!(seen(), r#""SET" "a" "1""#);
        assert_eq!(seen(), r#""AUTH" "(redacted)""#);
        assert_eq!(seen(), r#""MULTI""#);
        assert_eq!(seen(), r#""GET" "a""#);
        assert_eq!(seen(), r#""EXEC""#);
        assert_eq!(monitor.ask("RESET"), "+RESET");
        client.ask("GET a");
        assert_eq!(monitor.ask("PING"), "+PONG", "{topology}");
    }
}

#[test]
fn slow_commands_are_logged_by_the_time_for_which_they_ran() {
    let server = Server::start();
    let mut client = server.connect();
    assert_eq!(client.ask("CONFIG SET slowlog-log-slower-than 20000 latency-monitor-threshold 20"), "+OK");
    assert_eq!(client.ask("CLIENT SETNAME me"), "+OK");
    // A client that waits for a key takes no time.
    assert_eq!(client.ask("BLPOP none 0.1"), "nil");
    assert_eq!(client.ask("DEBUG SLEEP 0.05"), "+OK");
    let log = client.ask("SLOWLOG GET");
    assert!(log.contains(r#"["DEBUG", "SLEEP", "0.05"]"#) && log.contains(r#""me""#), "{log}");
    assert!(!log.contains("BLPOP"), "{log}");
    assert!(client.ask("LATENCY LATEST").contains("command"));
    assert!(client.ask("LATENCY HISTOGRAM debug").contains("histogram_usec"));
    let info = client.info("everything");
    for part in [
        "cmdstat_debug:calls=1,",
        "latency_percentiles_usec_debug:p50=",
        "cmdstat_config|set:calls=1,",
        "used_cpu_user:",
        "total_error_replies:0\r\n",
    ] {
        assert!(info.contains(part), "{part} in {info}");
    }
}
