//! Messages to subscribers: order, what subscribers may do, slow ones, and many.

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use psp_harness::wait_until;

use crate::common::{Connection, Options, Reply, Server, TOPOLOGIES, encode_line, raise_descriptor_limit};

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
    (0, "PSUBSCRIBE [ab] z*"),
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
    (0, "PUNSUBSCRIBE z*"),
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
    (2, "UNSUBSCRIBE a"),
    (1, "PUBLISH a eight"),
    (2, "EXEC"),
    (1, "EVAL return{redis.call('publish','xx','nine'),redis.call('spublish','xx','x')} 0"),
    (1, "EVAL return(redis.pcall('subscribe','x')) 0"),
    (1, "EVAL return(redis.pcall('unsubscribe')) 0"),
    (1, "EVAL redis.call('publish','xx','ten');return(redis.call('nosuch')) 0"),
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
        clients[sender].send(encode_line(line));
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
        // The sender first: then the others have got what it caused.
        let others = (0..3).filter(|&index| index != sender);
        for index in [sender].into_iter().chain(others) {
            if in_transaction[index] || (is_over && index == sender) {
                continue;
            }
            let client = &mut clients[index];
            client.send(encode_line("PING the-end"));
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
    for (topology, server) in Server::start_each() {
        let got = transcript(&server);
        let after = |line: &str| {
            let found = got.iter().find(|((_, sent), _)| *sent == line);
            let (_, got) = found.unwrap();
            got.each_ref().map(|replies| replies.join(" "))
        };
        for (line, expected) in [
            (
                "SUBSCRIBE a b a",
                [r#"["subscribe", "a", 1] ["subscribe", "b", 2] ["subscribe", "a", 2]"#, "", ""],
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
            ("PUBLISH a two", [r#"["message", "a", "two"] ["pmessage", "[ab]", "a", "two"]"#, "2", ""]),
            ("SPUBLISH a three", [r#"["smessage", "a", "three"]"#, "1", ""]),
            (
                "EXEC",
                [
                    "",
                    "",
                    r#">["message", "a", "eight"] [>["psubscribe", "x*", 2], >["unsubscribe", "a", 1]]"#,
                ],
            ),
        ] {
            assert_eq!(after(line), expected, "{topology}: {line}");
        }
    }
}

/// What differs, step by step.
fn differences<T: PartialEq + std::fmt::Debug>(ours: &[T], redis: &[T]) -> String {
    let pairs = ours.iter().zip(redis).filter(|(ours, redis)| ours != redis);
    pairs.map(|(ours, redis)| format!("\nours  {ours:?}\nredis {redis:?}")).collect()
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn all_is_said_as_redis_server_says_it() {
    let redis = Server::redis_server(&Options::default());
    let expected = transcript(&redis);
    for topology in TOPOLOGIES {
        let ours = transcript(&Server::start_in(topology));
        assert_eq!(differences(&ours, &expected), "", "{topology}");
    }
}

/// As in Redis 7.2; Redis 7.0 puts the message into the reply.
#[test]
fn a_message_to_oneself_comes_after_the_reply() {
    psp_harness::only_psp!();
    for (topology, server) in Server::start_each() {
        let mut client = server.connect();
        client.ask("HELLO 3");
        client.ask("SUBSCRIBE c");
        let lines = ["PUBLISH c one", "MULTI", "PUBLISH c two", "PUBLISH c three", "PING", "EXEC", "PING"];
        client.send(lines.map(encode_line).concat());
        let replies = [0; 10].map(|_| client.reply().to_string());
        assert_eq!(
            replies,
            [
                "1",
                r#">["message", "c", "one"]"#,
                "+OK",
                "+QUEUED",
                "+QUEUED",
                "+QUEUED",
                "[1, 1, +PONG]",
                r#">["message", "c", "two"]"#,
                r#">["message", "c", "three"]"#,
                "+PONG"
            ],
            "{topology}"
        );
    }
}

#[test]
fn messages_keep_their_order_and_come_between_replies() {
    const MESSAGES: usize = 3000;
    for (topology, server) in Server::start_each() {
        let mut subscribers: Vec<_> = (0..3).map(|_| server.connect()).collect();
        for subscriber in &mut subscribers {
            subscriber.ask("HELLO 3");
            subscriber.ask("SUBSCRIBE c");
            subscriber.ask(&format!("SET long {}", "x".repeat(20_000)));
        }
        let mut publisher = server.connect();
        let messages: Vec<_> = (0..MESSAGES).map(|number| encode_line(&format!("PUBLISH c {number}"))).collect();
        let gets = encode_line("GET long").repeat(200);
        for part in messages.chunks(MESSAGES / 10) {
            publisher.send(part.concat());
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
    for (topology, server) in Server::start_each() {
        let mut subscriber = server.connect();
        let mut publisher = server.connect();
        for round in 0..200 {
            subscriber.ask("SUBSCRIBE c");
            publisher.send(encode_line(&format!("PUBLISH c {round}")).repeat(20));
            subscriber.send([encode_line("UNSUBSCRIBE c"), encode_line("ECHO end")].concat());
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

/// A message counts once for all who have not read it, but for a little.
#[test]
fn who_reads_is_not_closed_for_hundreds_who_do_not() {
    const SILENT: usize = 500;
    const READING: usize = 20;
    /// Lengths, and how many: in all queues together they are many times the budget, and the second are a tenth of it.
    const MESSAGES: [(usize, usize); 2] = [(200_000, 100), (4_000, 400)];
    const BUDGET_BYTES: u64 = 16 << 20;
    psp_harness::only_psp!();
    let all = crate::common::waiting::TOPOLOGIES
        .into_iter()
        .flat_map(|topology| MESSAGES.map(|messages| (topology, messages)));
    for (topology, (len, count)) in all {
        let server = Server::start_with(&Options {
            topology: Some(topology),
            policy: (topology == "distributed").then_some("d-fcfs"),
            workers: Some(2),
            unixsocketperm: Some("700"),
            config: Some("[server]\nbuffered-bytes-max = 16777216\n"),
            ..Options::default()
        });
        // A Unix socket takes little of what its peer does not read.
        let silent: Vec<_> = (0..SILENT)
            .map(|_| {
                let mut socket = UnixStream::connect(server.unix_socket()).unwrap();
                socket.write_all(&encode_line("SUBSCRIBE c")).unwrap();
                socket
            })
            .collect();
        let mut reading: Vec<_> = (0..READING).map(|_| server.connect()).collect();
        for client in &mut reading {
            client.ask("SUBSCRIBE c");
        }
        let mut publisher = server.connect();
        wait_until("all have subscribed", || {
            publisher.ask("PUBSUB NUMSUB c") == format!(r#"["c", {}]"#, SILENT + READING)
        });
        let before = server.peak_resident_bytes();
        for number in 0..count {
            let message = format!("{number}:{}", "m".repeat(len));
            publisher.send(encode_line(&format!("PUBLISH c {message}")));
            let receivers = publisher.reply();
            assert!(matches!(receivers, Reply::Integer(_)), "{topology}: {receivers}");
            if len * count < BUDGET_BYTES as usize {
                let all = Reply::Integer((SILENT + READING) as i64);
                assert_eq!(receivers, all, "{topology}: somebody is closed at {number}");
            }
            for client in &mut reading {
                let items = client.reply().into_items();
                assert!(items[2] == Reply::Bulk(message.clone().into_bytes()), "{topology}");
            }
        }
        let growth = server.peak_resident_bytes().saturating_sub(before);
        assert!(growth < 3 * BUDGET_BYTES, "{topology}: {growth}");
        drop(silent);
    }
}

#[test]
fn a_subscriber_that_does_not_read_is_closed_at_the_limit() {
    const LIMIT: usize = 1 << 20;
    for (topology, server) in Server::start_each() {
        let mut witness = server.connect();
        witness.request(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0"]);
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
            assert!(published < LIMIT + (64 << 20), "{topology}: it is never closed");
        }
        assert!(published > LIMIT, "{topology}");
        assert!(silent.read_to_close().len() < published, "{topology}");
        if Server::is_psp_redis() {
            let stats = witness.info("stats");
            assert!(stats.contains("client_output_buffer_limit_disconnections:1\r\n"), "{stats}");
            wait_until("its memory is given back", || {
                let info = witness.info("psp");
                let held = info.lines().find_map(|line| line.strip_prefix("psp_buffered_bytes:"));
                held.unwrap().parse::<usize>().unwrap() < 200_000
            });
        }
        wait_until("only one subscriber is left", || witness.ask("PUBSUB NUMSUB c") == r#"["c", 1]"#);
    }
}

/// GETs that the server must answer from the start of a PUBLISH until the last subscriber has it: none if the messages
/// hold the net thread.
const GETS_MIN: usize = 5;
/// This test's thread may get no core meanwhile.
const ATTEMPTS: usize = 20;

#[test]
fn gets_go_on_beside_a_message_to_thousands() {
    psp_harness::only_psp!();
    let subscribers = 5000.min(raise_descriptor_limit() / 2 - 100);
    for (topology, server) in Server::start_each() {
        let mut witness = server.connect();
        witness.ask("SET k v");
        let mut publisher = server.connect();
        let mut listening: Vec<Connection> = Vec::new();
        while listening.len() < subscribers {
            // More at once could wait too long for a place in the queue.
            let some = 0..(subscribers - listening.len()).min(200);
            let mut some: Vec<_> = some.map(|_| server.connect()).collect();
            for subscriber in &mut some {
                subscriber.send(encode_line("SUBSCRIBE c"));
            }
            for subscriber in &mut some {
                assert_eq!(subscriber.reply().to_string(), r#"["subscribe", "c", 1]"#);
            }
            listening.append(&mut some);
        }
        let mut most = 0;
        for _ in 0..ATTEMPTS {
            publisher.send(encode_line("PUBLISH c hello"));
            let mut gets = 0;
            while !listening.iter().rev().take(20).all(Connection::has_received) {
                assert_eq!(witness.ask("GET k"), "\"v\"");
                gets += 1;
            }
            assert_eq!(publisher.reply(), Reply::Integer(subscribers as i64));
            for subscriber in &mut listening {
                assert_eq!(subscriber.reply().to_string(), r#"["message", "c", "hello"]"#);
            }
            most = most.max(gets);
            if most >= GETS_MIN {
                break;
            }
        }
        assert!(most >= GETS_MIN, "{topology}: {most} GETs beside PUBLISH");
        assert_eq!(publisher.ask("PUBSUB NUMSUB c"), format!("[\"c\", {subscribers}]"));
        drop(listening);
        wait_until("no client is subscribed", || publisher.ask("PUBSUB CHANNELS") == "[]");
    }
}

/// Commands, and what becomes of their keys.
const CHANGES: &[&str] = &[
    "SET s v",
    "SET s v NX",
    "SET s v XX GET",
    "SET s v EX 100",
    "SET s v KEEPTTL",
    "SET none v XX",
    "SET s v PX 100000 GET",
    "SETEX s 100 v",
    "PSETEX s 100000 v",
    "SETNX s v",
    "SETNX s2 v",
    "GETSET s2 w",
    "APPEND s x",
    "SETRANGE s 1 x",
    "STRLEN s",
    "GETDEL s2",
    "GETDEL s2",
    "GETEX s",
    "GETEX s PERSIST",
    "GETEX s PERSIST",
    "GETEX s EX 100",
    "GETEX none EX 100",
    "INCR n",
    "DECRBY n 5",
    "INCRBYFLOAT n 1.5",
    "INCR n",
    "MSET a 1 b 2",
    "MSETNX a 1 c 2",
    "MSETNX d 1 e 2",
    "SETBIT bits 3 1",
    "BITFIELD bits GET u8 0",
    "BITFIELD bits SET u8 0 1",
    "BITOP NOT bits2 bits",
    "BITOP NOT bits2 none",
    "PFADD p a b",
    "PFADD p a",
    "PFMERGE p2 p",
    "DEL a none b",
    "UNLINK d e",
    "EXPIRE s 100",
    "EXPIRE s 50 GT",
    "EXPIRE none 100",
    "PERSIST s",
    "PERSIST s",
    "EXPIRE s 0",
    "SET s v",
    "EXPIREAT s 1",
    "SET s v",
    "RENAME s t",
    "RENAME t t",
    "SET u v",
    "RENAMENX t u",
    "RENAMENX t w",
    "COPY w u",
    "COPY w u REPLACE",
    "RPUSH l a b c d e f g h",
    "LPUSH l z",
    "LPUSHX l y",
    "LPUSHX none y",
    "RPUSHX l y",
    "LINSERT l BEFORE a x",
    "LINSERT l BEFORE none x",
    "LSET l 0 q",
    "LREM l 0 none",
    "LREM l 0 x",
    "LTRIM l 0 6",
    "LTRIM l 0 100",
    "LTRIM none 0 1",
    "LPOP l",
    "RPOP l 2",
    "LPOP none",
    "LPOP l 0",
    "LMOVE l m LEFT RIGHT",
    "RPOPLPUSH l m",
    "LMOVE m m RIGHT LEFT",
    "LMPOP 2 none m LEFT",
    "LMPOP 2 none m RIGHT COUNT 5",
    "LMPOP 1 none LEFT",
    "RPOPLPUSH none m",
    "BLPOP none l 0",
    "BRPOP l 1",
    "RPUSH m 1 2 3",
    "BLMOVE m m2 LEFT LEFT 1",
    "BRPOPLPUSH m m2 1",
    "BLMPOP 1 2 none m2 LEFT COUNT 9",
    "RPUSH m 3 1 2",
    "SORT m STORE sorted",
    "SORT none STORE sorted",
    "SORT m",
    "LTRIM m 5 6",
    "HSET h f 1 g 2",
    "HSET h f 1",
    "HSETNX h f 1",
    "HSETNX h i 1",
    "HMSET h f 1",
    "HINCRBY h f 1",
    "HINCRBYFLOAT h f 1.5",
    "HDEL h none",
    "HDEL h f i",
    "HDEL h g",
    "SADD e a b c",
    "SADD e a",
    "SREM e none",
    "SREM e a",
    "SMOVE e e2 b",
    "SMOVE e e2 none",
    "SMOVE e e2 c",
    "SADD e b",
    "SMOVE e e2 b",
    "SINTERSTORE d e2 e2",
    "SUNIONSTORE d e2 none",
    "SINTERSTORE d e2 none",
    "SUNIONSTORE d e2 none",
    "SDIFFSTORE d e2 e2",
    "SDIFFSTORE d e2 e2",
    "SPOP e2",
    "SPOP e2 5",
    "SPOP e2",
    "ZADD z 1 a 2 b 3 c 4 d",
    "ZADD z 1 a",
    "ZADD z 5 a",
    "ZADD z XX CH 6 a",
    "ZADD z NX 9 a",
    "ZADD z INCR 1 a",
    "ZADD z XX INCR 1 none",
    "ZINCRBY z 1 a",
    "ZREM z none",
    "ZREM z a",
    "ZUNIONSTORE zd 1 z",
    "ZINTERSTORE zd 2 z z",
    "ZDIFFSTORE zd 2 z z",
    "ZRANGESTORE zd z 0 -1",
    "ZRANGESTORE zd z 9 10",
    "ZRANGESTORE zd none 9 10",
    "ZUNIONSTORE zd 2 z none",
    "ZINTERSTORE zd 2 z none",
    "ZUNION 2 z none",
    "SINTERCARD 2 e2 none",
    "SUNION e2 none",
    "COPY none zd",
    "GETSET fresh v",
    "GEOSEARCHSTORE zd none FROMLONLAT 0 0 BYRADIUS 1 km",
    "GEORADIUS none 0 0 1 km STORE zd",
    "GEORADIUS none 0 0 1 km",
    "SETRANGE none 0 x",
    "DEL none",
    "RENAME none x",
    "SORT none",
    "PFCOUNT none",
    "PFCOUNT none nosuch",
    "TOUCH none",
    "OBJECT IDLETIME none",
    "EVAL return(redis.call('get','none')) 0",
    "ZPOPMIN z",
    "ZPOPMAX none",
    "ZMPOP 1 z MAX",
    "BZPOPMIN none z 1",
    "ZADD z 1 a 2 b 3 c 4 d",
    "ZREMRANGEBYRANK z 0 0",
    "ZREMRANGEBYSCORE z 2 2",
    "ZREMRANGEBYLEX z [none [none",
    "BZMPOP 1 1 z MIN COUNT 9",
    "XADD xs 1-1 f v",
    "XADD none NOMKSTREAM 1-1 f v",
    "XADD xs MAXLEN = 1 2-1 f v",
    "XADD xs MAXLEN = 9 3-1 f v",
    "XTRIM xs MAXLEN = 9",
    "XTRIM xs MAXLEN = 1",
    "XDEL xs 9-9",
    "XDEL xs 3-1",
    "XSETID xs 9-9",
    "XGROUP CREATE xs g 0",
    "XGROUP CREATE y g 0 MKSTREAM",
    "XGROUP SETID xs g 0",
    "XGROUP CREATECONSUMER xs g c",
    "XGROUP CREATECONSUMER xs g c",
    "XGROUP DELCONSUMER xs g c",
    "XGROUP DELCONSUMER xs g c",
    "XADD xs 20-1 f v",
    "XREADGROUP GROUP g alice STREAMS xs >",
    "XREADGROUP GROUP g alice STREAMS xs >",
    "XREADGROUP GROUP g bob STREAMS xs >",
    "XCLAIM xs g carol 0 20-1",
    "XCLAIM xs g dave 99999999 20-1",
    "XAUTOCLAIM xs g eve 0 0",
    "XGROUP DESTROY xs none",
    "XGROUP DESTROY xs g",
    "GEOADD q 1 1 a",
    "GEOADD q 1 1 a",
    "GEOADD q 2 2 a",
    "GEOSEARCHSTORE qd q FROMLONLAT 0 0 BYRADIUS 9000 km",
    "GEORADIUS q 0 0 9000 km STORE qd",
    "GEORADIUS q 50 50 1 km STORE qd",
    "GEORADIUS q 0 0 9000 km",
    "GET none",
    "MGET none s none",
    "EXISTS none",
    "TTL none",
    "TYPE none",
    "HGET none f",
    "LRANGE none 0 -1",
    "OBJECT ENCODING none",
    "SET x 1 PX 40",
    "EVAL redis.call('set','y','1');redis.call('incr','y');return(redis.call('del','y')) 0",
    "MULTI",
    "SET y 1",
    "RPUSH y 1",
    "SADD y2 1",
    "RENAME y y3",
    "EXEC",
    "RPUSH dumped a",
    "EVAL return(redis.call('restore','copy','0',redis.call('dump','dumped'))) 0",
    "EVAL return(redis.call('restore','copy','0',redis.call('dump','dumped'),'replace')) 0",
    "SET m 1",
    "MOVE m 1",
    "MOVE m 1",
    "COPY copy m DB 1",
    "COPY copy m REPLACE DB 1",
    "COPY copy m REPLACE",
    "SWAPDB 0 1",
    "MULTI",
    "SELECT 1",
    "SET m 2",
    "SWAPDB 0 1",
    "MOVE m 2",
    "SELECT 2",
    "EXEC",
    "GET m",
    "GET none",
    "EVAL redis.call('select',3);return(redis.call('set','m','1')) 0",
    "SET x 1 PX 40",
    "SELECT 0",
    "FLUSHALL",
];

/// The events of each of [`CHANGES`], of all classes.
fn events(server: &Server) -> Vec<(&'static str, Vec<String>)> {
    let mut client = server.connect();
    let (mut listener, mut other) = (server.connect(), server.connect());
    client.ask("CONFIG SET notify-keyspace-events AKEmn");
    listener.ask("PSUBSCRIBE __key*");
    let mut all = Vec::new();
    for line in CHANGES {
        client.ask(line);
        if line.starts_with("SET x ") {
            wait_until("the key expires", || client.ask("EXISTS x") == "0");
        }
        other.ask("PUBLISH __key the-end");
        let mut got = Vec::new();
        loop {
            let message = listener.reply().to_string();
            if message.contains("the-end") {
                break;
            }
            got.push(message);
        }
        // While the key expires, it may be looked for any number of times.
        got.dedup();
        all.push((*line, got));
    }
    all
}

#[test]
fn events_tell_what_commands_did_to_keys() {
    for (topology, server) in Server::start_each() {
        let all = events(&server);
        let of = |line: &str| {
            let (_, events) = all.iter().find(|(sent, _)| *sent == line).unwrap();
            let named = events
                .iter()
                .filter_map(|event| event.strip_prefix(r#"["pmessage", "__key*", "__keyevent@0__:"#));
            named.collect::<Vec<_>>().join(" ")
        };
        for (line, expected) in [
            ("SET s v", r#"new", "s"] set", "s"]"#),
            ("SET s v NX", ""),
            ("SET s v EX 100", r#"set", "s"] expire", "s"]"#),
            ("DEL a none b", r#"del", "a"] del", "b"]"#),
            ("EXPIRE s 0", r#"del", "s"]"#),
            ("SADD e a", ""),
            ("HDEL h g", r#"hdel", "h"] del", "h"]"#),
            ("MGET none s none", r#"keymiss", "none"] keymiss", "s"] keymiss", "none"]"#),
            ("SET x 1 PX 40", r#"new", "x"] set", "x"] expire", "x"] expired", "x"] keymiss", "x"]"#),
            ("MULTI", ""),
            (
                "EXEC",
                r#"new", "y"] set", "y"] new", "y2"] sadd", "y2"] new", "y3"] rename_from", "y"] rename_to", "y3"]"#,
            ),
        ] {
            assert_eq!(of(line), expected, "{topology}: {line}");
        }
        let mut client = server.connect();
        let mut listener = server.connect();
        client.ask("CONFIG SET notify-keyspace-events Ex");
        listener.ask("SUBSCRIBE __keyevent@0__:expired");
        client.ask("SET untouched 1 PX 10");
        assert_eq!(
            listener.reply().to_string(),
            r#"["message", "__keyevent@0__:expired", "untouched"]"#,
            "{topology}: no client looks for it"
        );
    }
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn events_are_those_of_redis_server() {
    let expected = events(&Server::redis_server(&Options::default()));
    let ours = events(&Server::start_in("dedicated"));
    assert_eq!(differences(&ours, &expected), "");
}

/// Clients that wait are served by a command of another client, and both have events.
#[test]
fn an_element_for_a_client_that_waits_has_its_events() {
    for (topology, server) in Server::start_each() {
        let mut client = server.connect();
        let mut waiting = server.connect();
        let mut listener = server.connect();
        client.ask("CONFIG SET notify-keyspace-events KA");
        listener.ask("PSUBSCRIBE __keyspace@0__:*");
        waiting.send(encode_line("BLMOVE l m RIGHT LEFT 0"));
        wait_until("it waits", || client.ask("INFO clients").contains("blocked_clients:1"));
        client.ask("RPUSH l a");
        waiting.reply();
        let events = [0; 4].map(|_| {
            let parts = listener.reply().into_items();
            format!("{} {}", parts[2], parts[3])
        });
        assert_eq!(
            events,
            [
                r#""__keyspace@0__:l" "rpush""#,
                r#""__keyspace@0__:m" "lpush""#,
                r#""__keyspace@0__:l" "rpop""#,
                r#""__keyspace@0__:l" "del""#
            ],
            "{topology}"
        );
    }
}
