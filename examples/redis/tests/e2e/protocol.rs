//! The protocol as clients see it: order, framing, negotiation, and the end of a connection.

use std::net::TcpStream;

use crate::common::{Connection, Options, Reply, Server, encode, encode_line, wait_until};

const BIG_VALUE_BYTES: usize = 10 * 1024 * 1024;

#[test]
fn a_pipelined_get_reads_the_set_before_it() {
    let server = Server::start();
    let mut client = server.connect();
    for round in 0..200 {
        let value = round.to_string();
        let mut requests = encode(&["SET", "key", &value]);
        requests.extend(encode(&["GET", "key"]));
        client.send(&requests);
        assert_eq!(client.reply().to_string(), "+OK");
        assert_eq!(client.reply(), Reply::Bulk(value.into_bytes()));
    }
}

#[test]
fn replies_keep_the_order_of_thousands_of_mixed_requests() {
    let server = Server::start();
    let mut client = server.connect();
    let mut requests = Vec::new();
    let mut expected = Vec::new();
    let mut then = |line: &str, reply: String| {
        requests.extend(encode_line(line));
        expected.push(reply);
    };
    for index in 0..3000 {
        then(&format!("SET key:{index} {index}"), "+OK".to_owned());
        then(&format!("GET key:{index}"), format!("\"{index}\""));
        then(&format!("RPUSH list {index}"), (index + 1).to_string());
        if index % 100 == 0 {
            then(&format!("KEYS key:{index}"), format!("[\"key:{index}\"]"));
            then("DEBUG SLEEP 0.001", "+OK".to_owned());
            then("DBSIZE", (index + 2).to_string());
            then(&format!("LRANGE list {index} -1"), format!("[\"{index}\"]"));
        }
        then(&format!("ECHO {index}"), format!("\"{index}\""));
    }
    client.send(&requests);
    for (position, reply) in expected.iter().enumerate() {
        assert_eq!(&client.reply().to_string(), reply, "reply {position}");
    }
}

#[test]
fn connections_that_pipeline_side_by_side_get_their_own_replies() {
    let server = Server::start();
    let mut clients: Vec<_> = (0..16).map(|_| server.connect()).collect();
    for round in 0..50 {
        for (number, client) in clients.iter_mut().enumerate() {
            let mut requests = Vec::new();
            for step in 0..20 {
                requests.extend(encode(&["ECHO", &format!("{number}/{round}/{step}")]));
            }
            client.send(&requests);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            for step in 0..20 {
                assert_eq!(client.reply().into_bytes(), format!("{number}/{round}/{step}").into_bytes());
            }
        }
    }
}

#[test]
fn requests_may_arrive_byte_by_byte() {
    let server = Server::start();
    let mut client = server.connect();
    let mut requests = encode(&[b"SET".as_slice(), b"binary\r\n$5", b"\x00\xff\r\n*3"]);
    requests.extend(b"PING\r\n");
    requests.extend(encode(&["GET", "binary\r\n$5"]));
    for byte in requests {
        client.send([byte]);
    }
    assert_eq!(client.reply().to_string(), "+OK");
    assert_eq!(client.reply().to_string(), "+PONG");
    assert_eq!(client.reply(), Reply::Bulk(b"\x00\xff\r\n*3".to_vec()));
}

#[test]
fn requests_may_be_split_anywhere() {
    let server = Server::start();
    let mut client = server.connect();
    let requests = [encode(&["SET", "key", "value"]), encode(&["GET", "key"])].concat();
    for split in 1..requests.len() {
        let (head, tail) = requests.split_at(split);
        client.send(head);
        client.send(tail);
        assert_eq!(client.reply().to_string(), "+OK", "split at {split}");
        assert_eq!(client.reply().to_string(), "\"value\"", "split at {split}");
    }
}

#[test]
fn a_client_that_stops_sending_still_gets_its_replies() {
    let server = Server::start();
    let mut client = server.connect();
    let mut requests = Vec::new();
    let mut expected = Vec::new();
    for index in 0..100 {
        requests.extend(encode(&["ECHO", &format!("{index:03}")]));
        expected.extend(format!("$3\r\n{index:03}\r\n").bytes());
    }
    requests.extend(encode_line("DEBUG SLEEP 0.05"));
    expected.extend(b"+OK\r\n");
    client.send(&requests);
    client.finish_sending();
    assert_eq!(client.read_to_close(), expected);
}

#[test]
fn inline_commands() {
    let server = Server::start();
    let mut client = server.connect();
    let expectations: &[(&str, &str)] = &[
        ("PING\r\n", "+PONG"),
        ("ping\n", "+PONG"),
        ("\r\n\r\n  PING  \r\n", "+PONG"),
        ("SET key plain\r\n", "+OK"),
        ("GET   key\r\n", r#""plain""#),
        ("SET key \"two words\\n\\x41\"\r\n", "+OK"),
        ("GET key\r\n", r#""two words\nA""#),
        ("ECHO 'it\\'s \\n'\r\n", r#""it\'s \\n""#),
        ("ECHO \"\"\r\n", r#""""#),
        ("*0\r\nPING\r\n", "+PONG"),
        ("*-1\r\nPING\r\n", "+PONG"),
    ];
    for (request, reply) in expectations {
        client.send(request.as_bytes());
        assert_eq!(&client.reply().to_string(), reply, "{request:?}");
    }
}

#[test]
fn hello_switches_the_reply_types() {
    let server = Server::start();
    let mut client = server.connect();
    let prepare = ["HSET hash field value", "SADD set member", "ZADD zset 1.5 member"];
    for line in prepare {
        assert_eq!(client.ask(line), "1");
    }
    let differing: &[(&str, &str, &str)] = &[
        ("HGETALL hash", r#"["field", "value"]"#, r#"{"field": "value"}"#),
        ("SMEMBERS set", r#"["member"]"#, r#"~["member"]"#),
        ("ZSCORE zset member", r#""1.5""#, ",1.5"),
        ("ZRANGE zset 0 -1 WITHSCORES", r#"["member", "1.5"]"#, r#"[["member", ,1.5]]"#),
        ("CONFIG GET maxclients", r#"["maxclients", "10000"]"#, r#"{"maxclients": "10000"}"#),
        ("GET missing", "nil", "nil"),
    ];
    assert_eq!(client.ask("HELLO 4"), "-NOPROTO unsupported protocol version");
    for (line, resp2, _) in differing {
        assert_eq!(&client.ask(line), resp2, "RESP2 {line}");
    }
    let Reply::Map(properties) = client.request(&["HELLO", "3", "SETNAME", "tester"]) else {
        panic!("HELLO 3 does not reply with a map");
    };
    let names: Vec<String> = properties.iter().map(|(name, _)| name.to_string()).collect();
    for name in ["server", "version", "proto", "id", "mode", "role", "modules"] {
        assert!(names.contains(&format!("\"{name}\"")), "{name} in {names:?}");
    }
    let proto = (Reply::Bulk(b"proto".to_vec()), Reply::Integer(3));
    assert!(properties.contains(&proto), "{properties:?}");
    assert_eq!(client.ask("CLIENT GETNAME"), "\"tester\"");
    for (line, _, resp3) in differing {
        assert_eq!(&client.ask(line), resp3, "RESP3 {line}");
    }
    let resp2_properties = client.request(&["HELLO", "2"]).into_items();
    assert_eq!(resp2_properties.len(), names.len() * 2);
    assert_eq!(client.ask("SMEMBERS set"), r#"["member"]"#);
}

#[test]
fn nulls_differ_by_protocol() {
    let server = Server::start();
    for (hello, null) in [("2", "$-1\r\n"), ("3", "_\r\n")] {
        let mut client = server.connect();
        client.request(&["HELLO", hello]);
        client.send([encode(&["GET", "missing"]), encode(&["QUIT"])].concat());
        let received = String::from_utf8(client.read_to_close()).unwrap();
        assert_eq!(received, format!("{null}+OK\r\n"));
    }
}

#[test]
fn quit_answers_and_closes() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(client.read_to_close(), b"+PONG\r\n+OK\r\n");
}

#[test]
fn commands_need_authentication() {
    let server = Server::start_with(&Options { requirepass: Some("secret"), ..Options::default() });
    let mut client = server.connect();
    let expectations: &[(&str, &str)] = &[
        ("GET key", "-NOAUTH Authentication required."),
        ("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH secret", "+OK"),
        ("GET key", "nil"),
        ("AUTH default secret", "+OK"),
    ];
    for (line, reply) in expectations {
        assert_eq!(&client.ask(line), reply, "{line}");
    }
    let mut other = server.connect();
    assert!(other.ask("HELLO 3").starts_with("-NOAUTH"));
    assert!(matches!(other.request(&["HELLO", "3", "AUTH", "default", "secret"]), Reply::Map(_)));
    assert_eq!(other.ask("GET key"), "nil");
}

#[test]
fn auth_without_a_password_is_an_error() {
    let server = Server::start();
    assert_eq!(
        server.connect().ask("AUTH secret"),
        "-ERR AUTH <password> called without any password configured for the default user. \
         Are you sure your configuration is correct?"
    );
}

#[test]
fn values_of_ten_megabytes_come_back_whole() {
    let server = Server::start();
    let mut client = server.connect();
    let value: Vec<u8> = (0..BIG_VALUE_BYTES).map(|index| (index % 251) as u8).collect();
    for _ in 0..3 {
        let reply = client.request(&[b"SET".as_slice(), b"big", &value]);
        assert_eq!(reply.to_string(), "+OK");
        assert!(client.request(&["GET", "big"]).into_bytes() == value, "the value differs");
    }
    assert_eq!(client.ask("STRLEN big"), BIG_VALUE_BYTES.to_string());
    assert_eq!(client.ask("APPEND big tail"), (BIG_VALUE_BYTES + 4).to_string());
    assert_eq!(client.ask("GETRANGE big -4 -1"), "\"tail\"");
}

#[test]
fn info_has_its_sections() {
    let server = Server::start();
    let mut client = server.connect();
    assert_eq!(client.ask("SET key value"), "+OK");
    client.wait_for_clients(1);
    let info = String::from_utf8(client.request(&["INFO"]).into_bytes()).unwrap();
    let mut expected = vec![
        "# Server",
        "# Clients",
        "# Stats",
        "# Replication",
        "# Keyspace",
        "redis_version:",
        "connected_clients:1",
        "role:master",
        "db0:keys=1",
    ];
    if Server::is_psp_redis() {
        expected.push("# Psp");
    }
    for text in expected {
        let found = info.lines().any(|line| line.starts_with(text));
        assert!(found, "{text} in\n{info}");
    }
    let clients = client.info("clients");
    assert!(clients.starts_with("# Clients\r\n"), "{clients}");
    assert!(!clients.contains("# Server"), "{clients}");
    let statistics = client.info("commandstats");
    assert!(statistics.contains("cmdstat_set:calls=1,"), "{statistics}");
}

#[test]
fn config_is_read_and_written() {
    let server = Server::start_with(&Options { maxclients: Some(123), ..Options::default() });
    let mut client = server.connect();
    let expectations: &[(&str, &str)] = &[
        ("CONFIG GET maxclients", r#"["maxclients", "123"]"#),
        ("CONFIG SET maxclients 124", "+OK"),
        ("CONFIG GET maxclient*", r#"["maxclients", "124"]"#),
        ("CONFIG GET nosuch", "[]"),
        (
            "CONFIG SET nosuch 1",
            "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'",
        ),
    ];
    for (line, reply) in expectations {
        assert_eq!(&client.ask(line), reply, "{line}");
    }
}

#[test]
fn a_terminated_server_answers_requests_in_flight_and_exits_with_0() {
    // Redis exits without writing the reply, so this test applies to psp-redis only.
    psp_harness::only_psp!();
    let mut server = Server::start();
    let mut busy = server.connect();
    // The reply to ECHO shows that the server has read the request that follows it.
    busy.send([encode(&["ECHO", "started"]), encode_line("DEBUG SLEEP 0.3")].concat());
    assert_eq!(busy.reply().to_string(), "\"started\"");
    server.terminate();
    wait_until("new connections are refused", || refuses_connections(&server));
    assert_eq!(busy.reply().to_string(), "+OK");
    assert_eq!(busy.read_to_close(), b"");
    assert_eq!(server.wait_for_exit().code(), Some(0));
    assert!(TcpStream::connect(server.address()).is_err());
}

#[test]
fn an_idle_server_exits_with_0_when_terminated() {
    let mut server = Server::start();
    let mut idle = server.connect();
    assert_eq!(idle.ask("PING"), "+PONG");
    server.terminate();
    assert_eq!(server.wait_for_exit().code(), Some(0));
    assert_eq!(idle.read_to_close(), b"");
}

fn refuses_connections(server: &Server) -> bool {
    let answers = |mut client: Connection| client.try_send(&encode(&["PING"])).and_then(|()| client.try_reply());
    Connection::open(server.address()).and_then(answers).is_err()
}
