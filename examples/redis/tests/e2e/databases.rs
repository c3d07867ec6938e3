//! Clients of several databases on a started server.

use crate::common::{Connection, Server, encode_line, pipeline, wait_until};

#[test]
fn a_pipeline_runs_in_the_databases_that_it_selects() {
    for (topology, server) in Server::start_each() {
        let mut client = server.connect();
        let lines = [
            "SET k zero",
            "SELECT 1",
            "SET k one",
            "GET k",
            "SELECT 0",
            "GET k",
            "SWAPDB 0 1",
            "GET k",
            "MOVE k 2",
            "DBSIZE",
            "SELECT 2",
            "GET k",
        ];
        let replies = [
            "+OK",
            "+OK",
            "+OK",
            r#""one""#,
            "+OK",
            r#""zero""#,
            "+OK",
            r#""one""#,
            "1",
            "0",
            "+OK",
            r#""one""#,
        ];
        assert_eq!(pipeline(&mut client, &lines), replies, "{topology}");
    }
}

/// The classifier looks in database 0 alone. The request has to become a long one all the same.
#[test]
fn a_long_request_is_long_in_every_database() {
    psp_harness::only_psp!();
    for (topology, server) in Server::start_each() {
        let mut client = server.connect();
        let completed = |client: &mut Connection| -> u64 {
            let info = client.ask("INFO psp");
            let line = info.split("psp_type_scan:").nth(1).unwrap_or_else(|| panic!("{info}"));
            let count = line.split("completions=").nth(1).unwrap_or_else(|| panic!("{line}"));
            let digits = count.split(|c: char| !c.is_ascii_digit()).next().unwrap();
            digits.parse().unwrap()
        };
        client.ask("SELECT 3");
        let words: Vec<String> = (0..300).map(|index| format!("f{index} v")).collect();
        client.ask(&format!("HSET big {}", words.join(" ")));
        client.ask("HSET small f v");
        let mut before = 0;
        wait_until("HSET is counted", || {
            before = completed(&mut client);
            before > 0
        });
        client.ask("HGETALL small");
        client.ask("HGETALL small");
        assert_eq!(completed(&mut client), before, "{topology}");
        let replies = pipeline(&mut client, &["SELECT 0", "SELECT 3", "HGETALL big", "PING"]);
        assert_eq!(replies[3], "+PONG", "{topology}");
        wait_until("the long request is counted", || completed(&mut client) > before);
    }
}

#[test]
fn messages_reach_all_databases_and_waiting_clients_only_their_own() {
    for (topology, server) in Server::start_each() {
        let mut client = server.connect();
        let (mut subscriber, mut waiting) = (server.connect(), server.connect());
        subscriber.ask("SELECT 5");
        subscriber.ask("SUBSCRIBE c");
        assert_eq!(client.ask("PUBLISH c m"), "1", "{topology}");
        assert_eq!(subscriber.reply().to_string(), r#"["message", "c", "m"]"#);
        waiting.ask("SELECT 5");
        waiting.send(encode_line("BLPOP l 0"));
        wait_until("it waits", || client.ask("INFO clients").contains("blocked_clients:1"));
        assert_eq!(client.ask("RPUSH l 0"), "1", "{topology}");
        client.ask("SELECT 5");
        assert_eq!(client.ask("RPUSH l 5"), "1", "{topology}");
        assert_eq!(waiting.reply().to_string(), r#"["l", "5"]"#, "{topology}");
        waiting.send(encode_line("BLPOP l 0"));
        wait_until("it waits again", || client.ask("INFO clients").contains("blocked_clients:1"));
        assert_eq!(client.ask("SWAPDB 0 5"), "+OK");
        assert_eq!(waiting.reply().to_string(), r#"["l", "0"]"#, "{topology}");
    }
}
