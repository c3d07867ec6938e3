//! Messages to subscribers: order, what subscribers may do, slow ones, and many.

use psp_harness::{NOT_PSP, skip, wait_until};

use crate::common::{
    Connection, Options, Reply, Server, TOPOLOGIES, encode_line, raise_descriptor_limit,
};

fn start(topology: &'static str) -> Server {
    Server::start_with(&Options {
        topology: Some(topology),
        workers: Some(2),
        ..Options::default()
    })
}

/// A step of [`TRANSCRIPT`]: the number of the client, and what it sends.
type Step = (usize, &'static str);

/// What three clients send one after the other. The third one speaks RESP3.
const TRANSCRIPT: &[Step] = &[
    (2, "HELLO 3"),
    (0, "SUBSCRIBE"),
    (0, "SUBSCRIBE a b a"),
    (1, "PUBLISH a one"),
    (1, "PUBLISH none x"),
    (0, "GET a"),
    (0, "CLIENT LIST"),
    (0, "PUBLISH a x"),
    (0, "NOSUCH a"),
    (0, "MULTI"),
    (0, "PING"),
    (0, "PING x"),
    (0, "PING x y"),
    (0, "PSUBSCRIBE * [ab]"),
    (1, "PUBLISH a two"),
    (1, "SPUBLISH a x"),
    (0, "SSUBSCRIBE a s"),
    (1, "SPUBLISH a three"),
    (1, "PUBLISH s four"),
    (1, "PUBSUB NUMSUB a b none"),
    (1, "PUBSUB NUMSUB"),
    (1, "PUBSUB SHARDNUMSUB a b"),
    (1, "PUBSUB NUMPAT"),
    (1, "PUBSUB CHANNELS a*"),
    (1, "PUBSUB SHARDCHANNELS s"),
    (1, "PUBSUB CHANNELS nothing"),
    (1, "PUBSUB CHANNELS a b"),
    (1, "PUBSUB NUMPAT x"),
    (1, "PUBSUB"),
    (1, "PUBSUB NOSUCH"),
    (1, "PUBSUB HELP"),
    (0, "UNSUBSCRIBE b none"),
    (0, "UNSUBSCRIBE"),
    (0, "UNSUBSCRIBE"),
    (0, "PUNSUBSCRIBE *"),
    (0, "PUNSUBSCRIBE"),
    (0, "PUNSUBSCRIBE"),
    (0, "SUNSUBSCRIBE s a"),
    (0, "SUNSUBSCRIBE"),
    (0, "GET a"),
    (2, "SUBSCRIBE a"),
    (2, "PUBLISH b x"),
    (2, "GET a"),
    (2, "PING"),
    (2, "PING x"),
    (1, "PUBLISH a five"),
    (2, "MULTI"),
    (2, "PSUBSCRIBE x*"),
    (2, "PUBLISH xy six"),
    (2, "UNSUBSCRIBE a"),
    (2, "PUBLISH a seven"),
    (1, "PUBLISH a eight"),
    (2, "EXEC"),
    (
        1,
        "EVAL return{redis.call('publish','xx','nine'),redis.call('spublish','xx','x')} 0",
    ),
    (1, "EVAL return(redis.pcall('subscribe','x')) 0"),
    (1, "EVAL return(redis.pcall('unsubscribe')) 0"),
    (
        1,
        "EVAL redis.call('publish','xx','ten');return(redis.call('nosuch')) 0",
    ),
    (1, "MULTI"),
    (1, "PUBLISH xx eleven"),
    (1, "SET k v"),
    (1, "EVAL return(redis.call('publish','xx','twelve')) 0"),
    (1, "EXEC"),
    (1, "MULTI"),
    (1, "PUBLISH xx x"),
    (1, "DISCARD"),
    (1, "WATCH k"),
    (1, "SET k w"),
    (1, "MULTI"),
    (1, "PUBLISH xx x"),
    (1, "EXEC"),
    (1, "MULTI"),
    (1, "SUBSCRIBE m"),
    (1, "EXEC"),
    (1, "GET k"),
    (1, "MULTI"),
    (1, "UNSUBSCRIBE m"),
    (0, "PUBLISH m thirteen"),
    (1, "RESET"),
    (1, "GET k"),
    (2, "RESET"),
    (0, "PUBSUB CHANNELS"),
    (0, "PUBSUB NUMPAT"),
    (0, "PUBLISH"),
    (0, "PUBLISH a"),
    (0, "SPUBLISH a b c"),
    (0, "SUBSCRIBE a"),
    (0, "QUIT"),
];

/// What all clients get after each step.
fn transcript(server: &Server) -> Vec<(Step, [Vec<String>; 3])> {
    let mut clients = [0, 1, 2].map(|_| server.connect());
    let mut in_transaction = [false; 3];
    let mut all = Vec::new();
    for &(sender, line) in TRANSCRIPT {
        clients[sender].send(&encode_line(line));
        let mut got = [const { Vec::new() }; 3];
        if line == "EXEC" || line == "DISCARD" || line == "RESET" {
            in_transaction[sender] = false;
        }
        if in_transaction[sender] || line == "MULTI" || line == "QUIT" {
            got[sender].push(clients[sender].reply().to_string());
        }
        if line == "MULTI" && got[sender][0] == "+OK" {
            in_transaction[sender] = true;
        }
        let is_over = line == "QUIT";
        for (index, client) in clients.iter_mut().enumerate() {
            if in_transaction[index] || (is_over && index == sender) {
                continue;
            }
            client.send(&encode_line("PING the-end"));
            loop {
                let reply = client.reply().to_string();
                if reply.contains("the-end") {
                    break;
                }
                let is_long = reply.contains("HELLO") || line == "HELLO 3";
                got[index].push(if is_long { "long".into() } else { reply });
            }
        }
        all.push(((sender, line), got));
    }
    all
}

#[test]
fn subscribers_get_messages_and_may_do_little_else() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let got = transcript(&server);
        let after = |line: &str| {
            let found = got.iter().find(|((_, sent), _)| *sent == line);
            let (_, got) = found.unwrap();
            got.each_ref().map(|replies| replies.join(" "))
        };
        for (line, expected) in [
            (
                "SUBSCRIBE a b a",
                [
                    r#"["subscribe", "a", 1] ["subscribe", "b", 2] ["subscribe", "a", 2]"#,
                    "",
                    "",
                ],
            ),
            ("PUBLISH a one", [r#"["message", "a", "one"]"#, "1", ""]),
            (
                "GET a",
                [
                    "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
                     are allowed in this context",
                    "",
                    "",
                ],
            ),
            ("PING", [r#"["pong", ""]"#, "", ""]),
            (
                "PUBLISH a two",
                [
                    r#"["message", "a", "two"] ["pmessage", "*", "a", "two"] ["pmessage", "[ab]", "a", "two"]"#,
                    "3",
                    "",
                ],
            ),
            (
                "SPUBLISH a three",
                [r#"["smessage", "a", "three"]"#, "1", ""],
            ),
            (
                "EXEC",
                [
                    "",
                    "",
                    r#"[["psubscribe", "x*", 2], 1, ["unsubscribe", "a", 1], 0] ["pmessage", "x*", "xy", "six"]"#,
                ],
            ),
        ] {
            assert_eq!(after(line), expected, "{topology}: {line}");
        }
    }
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn all_is_said_as_redis_server_says_it() {
    let redis = Server::redis_server(&Options::default());
    let expected = transcript(&redis);
    for topology in TOPOLOGIES {
        let ours = transcript(&start(topology));
        for (ours, redis) in ours.iter().zip(&expected) {
            assert_eq!(ours, redis, "{topology}");
        }
    }
}

#[test]
fn messages_keep_their_order_and_come_between_replies() {
    const MESSAGES: usize = 3000;
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut subscribers: Vec<_> = (0..3).map(|_| server.connect()).collect();
        for subscriber in &mut subscribers {
            subscriber.ask("HELLO 3");
            subscriber.ask("SUBSCRIBE c");
            subscriber.ask(&format!("SET long {}", "x".repeat(20_000)));
        }
        let mut publisher = server.connect();
        let messages: Vec<_> = (0..MESSAGES)
            .map(|number| encode_line(&format!("PUBLISH c {number}")))
            .collect();
        let gets = encode_line("GET long").repeat(200);
        for part in messages.chunks(MESSAGES / 10) {
            publisher.send(&part.concat());
            subscribers[0].send(&gets);
        }
        for _ in 0..MESSAGES {
            assert_eq!(publisher.reply(), Reply::Integer(3), "{topology}");
        }
        for (index, subscriber) in subscribers.iter_mut().enumerate() {
            let (mut messages, mut replies) = (0, 0);
            while messages < MESSAGES || (index == 0 && replies < 2000) {
                match subscriber.reply() {
                    Reply::Push(parts) => {
                        assert_eq!(parts[2], Reply::Bulk(messages.to_string().into()));
                        messages += 1;
                    }
                    Reply::Bulk(bytes) => {
                        assert_eq!(bytes.len(), 20_000, "{topology}");
                        replies += 1;
                    }
                    other => panic!("{topology}: {other}"),
                }
            }
        }
    }
}

/// No message of a channel comes after the end of its subscription, however many are on their way.
#[test]
fn the_end_of_a_subscription_is_the_end_of_its_messages() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut subscriber = server.connect();
        let mut publisher = server.connect();
        for round in 0..200 {
            subscriber.ask("SUBSCRIBE c");
            publisher.send(&encode_line(&format!("PUBLISH c {round}")).repeat(20));
            subscriber.send(&[encode_line("UNSUBSCRIBE c"), encode_line("ECHO end")].concat());
            let mut is_over = false;
            loop {
                let reply = subscriber.reply().to_string();
                if reply == "\"end\"" {
                    break;
                }
                assert!(!is_over, "{topology}: {reply} after the end");
                is_over = reply == r#"["unsubscribe", "c", 0]"#;
            }
            assert!(is_over, "{topology}");
            (0..20).for_each(|_| drop(publisher.reply()));
        }
    }
}

#[test]
fn a_subscriber_that_does_not_read_is_closed_at_the_limit() {
    const LIMIT: usize = 1 << 20;
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut witness = server.connect();
        witness.request(&[
            "CONFIG",
            "SET",
            "client-output-buffer-limit",
            "pubsub 1mb 0 0",
        ]);
        let mut silent = server.connect();
        let mut reading = server.connect();
        silent.ask("SUBSCRIBE c");
        reading.ask("SUBSCRIBE c");
        let message = "x".repeat(10_000);
        let publish = encode_line(&format!("PUBLISH c {message}"));
        let mut published = 0;
        loop {
            witness.send(&publish);
            published += message.len();
            let receivers = witness.reply();
            assert_eq!(reading.reply().into_items().len(), 3, "{topology}");
            if receivers == Reply::Integer(1) {
                break;
            }
            // What the sockets' buffers take does not count.
            assert!(
                published < LIMIT + (64 << 20),
                "{topology}: it is never closed"
            );
        }
        assert!(published > LIMIT, "{topology}");
        assert!(silent.read_to_close().len() < published, "{topology}");
        if Server::is_psp_redis() {
            let stats = witness.info("stats");
            assert!(
                stats.contains("client_output_buffer_limit_disconnections:1\r\n"),
                "{stats}"
            );
            wait_until("its memory is given back", || {
                let info = witness.info("psp");
                let held = info
                    .lines()
                    .find_map(|line| line.strip_prefix("psp_buffered_bytes:"));
                held.unwrap().parse::<usize>().unwrap() < 200_000
            });
        }
        wait_until("only one subscriber is left", || {
            witness.ask("PUBSUB NUMSUB c") == r#"["c", 1]"#
        });
    }
}

/// GETs that the server must answer from the start of a PUBLISH until the last subscriber has it: none if the messages
/// hold the net thread.
const GETS_MIN: usize = 5;
/// This test's thread may get no core meanwhile.
const ATTEMPTS: usize = 20;

#[test]
fn gets_go_on_beside_a_message_to_thousands() {
    if !Server::is_psp_redis() {
        return skip(NOT_PSP);
    }
    let subscribers = 5000.min(raise_descriptor_limit() / 2 - 100);
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut witness = server.connect();
        witness.ask("SET k v");
        let mut publisher = server.connect();
        let mut listening: Vec<Connection> = (0..subscribers)
            .map(|_| {
                let mut subscriber = server.connect();
                subscriber.send(&encode_line("SUBSCRIBE c"));
                subscriber
            })
            .collect();
        for subscriber in &mut listening {
            subscriber.reply();
        }
        let mut most = 0;
        for _ in 0..ATTEMPTS {
            publisher.send(&encode_line("PUBLISH c hello"));
            let mut gets = 0;
            while !listening
                .iter()
                .rev()
                .take(20)
                .all(Connection::has_received)
            {
                assert_eq!(witness.ask("GET k"), "\"v\"");
                gets += 1;
            }
            assert_eq!(publisher.reply(), Reply::Integer(subscribers as i64));
            for subscriber in &mut listening {
                assert_eq!(
                    subscriber.reply().to_string(),
                    r#"["message", "c", "hello"]"#
                );
            }
            most = most.max(gets);
            if most >= GETS_MIN {
                break;
            }
        }
        assert!(most >= GETS_MIN, "{topology}: {most} GETs beside PUBLISH");
        assert_eq!(
            publisher.ask("PUBSUB NUMSUB c"),
            format!("[\"c\", {subscribers}]")
        );
        drop(listening);
        wait_until("nobody is subscribed", || {
            publisher.ask("PUBSUB CHANNELS") == "[]"
        });
    }
}
