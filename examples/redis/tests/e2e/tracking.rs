//! Clients that keep copies of what they read: what they hear, in which order, and that no copy stays that is wrong.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};

use crate::common::{Connection, Options, Reply, Server, wait_until};

/// A topology and a policy for it.
const SETUPS: [(&str, &str); 5] = [
    ("inline", "darc"),
    ("dedicated", "mq"),
    ("distributed", "d-fcfs"),
    ("distributed", "stealing"),
    ("distributed", "jsq"),
];

fn start(topology: &'static str, policy: &'static str) -> Server {
    Server::start_under(topology, policy, 3)
}

/// A step of [`TRANSCRIPT`]: the number of the client, and what it sends.
type Step = (usize, &'static str);

/// What three clients send one after the other. The first one of the connection has the id 1, and so on: the third one
/// is id 3, and gets what the second one tracks.
const TRANSCRIPT: &[Step] = &[
    (0, "HELLO 3"),
    (0, "CLIENT TRACKING on"),
    (0, "MSET a 1 b 2"),
    (0, "MGET a b c"),
    (1, "SET a 2"),
    (1, "SET a 3"),
    (1, "DEL c"),
    (1, "SET c 3"),
    (0, "SET b 4"),
    (0, "GET b"),
    (0, "INCR b"),
    (0, "GET b"),
    (1, "MULTI"),
    (1, "INCR b"),
    (1, "INCR b"),
    (1, "EXEC"),
    (0, "LRANGE list 0 -1"),
    (0, "HGETALL hash"),
    (0, "SMEMBERS set"),
    (1, "RPUSH list x"),
    (1, "HSET hash f v"),
    (1, "SADD set m"),
    (0, "EXISTS a b"),
    (1, "RENAME a d"),
    (1, "EXPIRE b 100"),
    (0, "EVAL return(redis.call('get',KEYS[1])) 1 d"),
    (1, "APPEND d x"),
    (0, "MULTI"),
    (0, "GET d"),
    (0, "SET d 5"),
    (0, "EXEC"),
    (0, "GET d"),
    (1, "FLUSHDB"),
    (0, "CLIENT TRACKING off"),
    (0, "CLIENT TRACKINGINFO"),
    (0, "CLIENT TRACKING on NOLOOP OPTIN"),
    (0, "GET a"),
    (0, "CLIENT CACHING yes"),
    (0, "GET b"),
    (0, "CLIENT TRACKINGINFO"),
    (1, "MSET a 1 b 1"),
    (0, "CLIENT CACHING yes"),
    (0, "GET a"),
    (0, "SET a 2"),
    (0, "CLIENT CACHING no"),
    (0, "CLIENT TRACKING on OPTOUT"),
    (0, "CLIENT TRACKING on BCAST"),
    (0, "CLIENT TRACKING on OPTIN OPTOUT"),
    (0, "CLIENT TRACKING on OPTIN BCAST PREFIX"),
    (0, "CLIENT TRACKING on PREFIX a"),
    (0, "CLIENT TRACKING on REDIRECT 999"),
    (0, "CLIENT TRACKING off"),
    (0, "CLIENT TRACKING on BCAST PREFIX u: PREFIX v:"),
    (0, "CLIENT TRACKING on BCAST PREFIX w:"),
    (0, "CLIENT TRACKING on BCAST PREFIX w:x"),
    (0, "CLIENT TRACKINGINFO"),
    (1, "MSET u:1 a u:2 b v:1 c x d"),
    (1, "DEL u:1 u:2 none"),
    (1, "FLUSHALL"),
    (0, "RESET"),
    (0, "CLIENT GETREDIR"),
    (2, "CLIENT TRACKING on"),
    (2, "GET resp2"),
    (1, "SET resp2 x"),
    (2, "CLIENT TRACKING off"),
    (2, "SUBSCRIBE __redis__:invalidate"),
    (0, "SET a 1"),
    (1, "GET a"),
    (0, "SET a 2"),
    (1, "CLIENT CACHING yes"),
    (1, "CLIENT NO-EVICT x"),
];

/// What all clients get after each step. The second client tracks for the third one at the end.
fn transcript(server: &Server) -> Vec<(Step, [Vec<String>; 3])> {
    let mut clients = [0, 1, 2].map(|_| server.connect());
    let target = clients[2].request(&["CLIENT", "ID"]).to_string();
    let mut in_transaction = [false; 3];
    let mut all = Vec::new();
    for &(sender, line) in TRANSCRIPT {
        if line.starts_with("SUBSCRIBE") {
            let redirect = format!("CLIENT TRACKING on REDIRECT {target}");
            assert_eq!(clients[1].ask(&redirect), "+OK");
        }
        clients[sender].send(crate::common::encode_line(line));
        let mut got = [const { Vec::new() }; 3];
        match line {
            "EXEC" => in_transaction[sender] = false,
            "MULTI" => in_transaction[sender] = true,
            _ => {}
        }
        // The sender first: then the others have got what it caused.
        let others = (0..3).filter(|&index| index != sender);
        for index in [sender].into_iter().chain(others) {
            let client = &mut clients[index];
            if in_transaction[index] {
                if index == sender {
                    got[index].push(client.reply().to_string());
                }
                continue;
            }
            client.send(crate::common::encode_line("PING the-end"));
            loop {
                let reply = client.reply().to_string();
                if reply.contains("the-end") {
                    break;
                }
                let is_long = reply.contains("version");
                got[index].push(if is_long { "long".into() } else { reply });
            }
        }
        all.push(((sender, line), got));
    }
    all
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn clients_hear_what_those_of_redis_hear() {
    let expected = transcript(&Server::redis_server(&Options::default()));
    for (topology, policy) in SETUPS {
        let got = transcript(&start(topology, policy));
        for (got, expected) in got.iter().zip(&expected) {
            assert_eq!(got, expected, "{topology}, {policy}");
        }
    }
}

const KEYS: u32 = 12;
const WAYS: [Way; 4] = [Way::Reads, Way::Broadcast, Way::Elsewhere, Way::Reads];
const WRITERS: u64 = 3;
/// Commands of each of them in one round.
const WRITES: u32 = 40;
const ROUNDS: u64 = 20;
/// The longest life of a key that expires.
const EXPIRY: Duration = Duration::from_millis(2);

/// How a client tracks.
#[derive(Debug, Clone, Copy)]
enum Way {
    Reads,
    Broadcast,
    /// The messages come on another connection.
    Elsewhere,
}

/// A client with copies.
struct Reader {
    connection: Connection,
    /// Where messages come from if not from there.
    feed: Option<Connection>,
    copies: HashMap<String, String>,
}

impl Reader {
    fn new(server: &Server, way: Way) -> Self {
        let mut connection = server.connect();
        connection.request(&["HELLO", "3"]);
        let mut feed = None;
        let line = match way {
            Way::Reads => "CLIENT TRACKING ON".to_owned(),
            Way::Broadcast => "CLIENT TRACKING ON BCAST PREFIX k PREFIX l".to_owned(),
            Way::Elsewhere => {
                let mut target = server.connect();
                target.request(&["HELLO", "3"]);
                let id = target.ask("CLIENT ID");
                feed = Some(target);
                format!("CLIENT TRACKING ON REDIRECT {id}")
            }
        };
        assert_eq!(connection.ask(&line), "+OK");
        Self { connection, feed, copies: HashMap::new() }
    }

    /// The reply to `words`. Applies the messages before it.
    fn request(&mut self, words: &[&str]) -> String {
        self.connection.send(crate::common::encode(words));
        loop {
            match self.connection.reply() {
                Reply::Push(parts) => forget(&mut self.copies, parts),
                reply => return reply.to_string(),
            }
        }
    }

    /// Reads keys unless there are copies, and keeps copies.
    fn look(&mut self, random: &mut StdRng) {
        let keys: Vec<String> = (0..random.random_range(1..4)).map(|_| key(random)).collect();
        let missing: Vec<&str> =
            keys.iter().filter(|key| !self.copies.contains_key(*key)).map(String::as_str).collect();
        if missing.is_empty() {
            // Others have the cores meanwhile.
            thread::sleep(Duration::from_micros(50));
        }
        for key in missing {
            let value = match random.random_range(0..4) {
                0 => {
                    self.request(&["MULTI"]);
                    self.request(&["GET", key]);
                    let reply = self.request(&["EXEC"]);
                    reply[1..reply.len() - 1].to_owned()
                }
                1 => self.request(&["EVAL_RO", "return redis.call('get',KEYS[1])", "1", key]),
                2 => {
                    let reply = self.request(&["MGET", key]);
                    reply[1..reply.len() - 1].to_owned()
                }
                _ => self.request(&["GET", key]),
            };
            self.copies.insert(key.to_owned(), value);
        }
        self.hear();
    }

    /// Applies the messages that have come elsewhere.
    fn hear(&mut self) {
        while let Some(feed) = self.feed.as_mut().filter(|feed| feed.has_received()) {
            match feed.reply() {
                Reply::Push(parts) => forget(&mut self.copies, parts),
                other => panic!("{other} is no message"),
            }
        }
    }

    /// Applies all messages about changes that have ended.
    fn settle(&mut self) {
        self.request(&["PING"]);
        if let Some(mut feed) = self.feed.take() {
            feed.send(crate::common::encode(&["PING"]));
            while let Reply::Push(parts) = feed.reply() {
                forget(&mut self.copies, parts);
            }
            self.feed = Some(feed);
        }
    }
}

fn forget(copies: &mut HashMap<String, String>, message: Vec<Reply>) {
    let [Reply::Bulk(kind), keys] = &message[..] else {
        panic!("{message:?} is no message");
    };
    assert_eq!(kind, b"invalidate");
    match keys {
        Reply::Nil => copies.clear(),
        Reply::Array(keys) => {
            for key in keys {
                copies.remove(&String::from_utf8(key.clone().into_bytes()).unwrap());
            }
        }
        other => panic!("{other} are no keys"),
    }
}

fn key(random: &mut StdRng) -> String {
    let letter = if random.random() { 'k' } else { 'l' };
    format!("{letter}{}", random.random_range(0..KEYS))
}

/// A command that changes keys, or several.
fn change(random: &mut StdRng, number: u32) -> Vec<String> {
    let (one, other) = (key(random), key(random));
    let all = match random.random_range(0..100) {
        0..25 => format!("SET {one} {number}"),
        25..35 => format!("DEL {one} {other}"),
        35..45 => format!("MSET {one} {number} {other} {number}"),
        45..50 => format!("SET {one} {number} PX {}", EXPIRY.as_millis()),
        50..55 => format!("RENAMENX {one} {other}"),
        55..60 => format!("GETSET {one} {number}"),
        60..65 => format!("COPY {one} {other} REPLACE"),
        65..70 => format!("APPEND {one} x"),
        70..75 => format!("EVAL redis.call('set',KEYS[1],'{number}') 1 {one}"),
        75..80 => format!("SETNX {one} {number}"),
        80..84 => format!("PEXPIRE {one} 1"),
        84..86 => format!("MOVE {one} 1"),
        86 => "SWAPDB 0 1".to_owned(),
        87 => "FLUSHDB".to_owned(),
        _ => format!("MULTI;SET {one} {number};DEL {other};SET {other} {number};EXEC"),
    };
    all.split(';').map(str::to_owned).collect()
}

/// Whatever changes keys, clients have no copy that differs from its key when the changes have ended.
fn converges(topology: &'static str, policy: &'static str, seed: u64) {
    let server = &start(topology, policy);
    let mut readers = WAYS.map(|way| Reader::new(server, way));
    let mut checker = server.connect();
    let mut kept = 0;
    for round in 0..ROUNDS {
        let is_over = &AtomicBool::new(false);
        let seed = seed * 1_000_000 + round * 100;
        thread::scope(|scope| {
            for (number, reader) in (0..).zip(&mut readers) {
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed + number);
                    while !is_over.load(Ordering::Relaxed) {
                        reader.look(&mut random);
                    }
                });
            }
            let writers = (0..WRITERS).map(|number| {
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed + 50 + number);
                    let mut client = server.connect();
                    for number in 0..WRITES {
                        for line in change(&mut random, number) {
                            client.ask(&line);
                        }
                    }
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
        });
        // Keys that are about to expire have expired then, and who reads them removes them.
        thread::sleep(EXPIRY * 2);
        let keys = ["k", "l"].map(|letter| (0..KEYS).map(move |number| format!("{letter}{number}")));
        let values = keys.into_iter().flatten().map(|key| {
            let value = checker.ask(&format!("GET {key}"));
            (key, value)
        });
        let values: HashMap<String, String> = values.collect();
        for (reader, way) in readers.iter_mut().zip(WAYS) {
            reader.settle();
            for (key, copy) in &reader.copies {
                let setup = (topology, policy, round);
                assert_eq!(*copy, values[key], "{key} of {way:?} in {setup:?}");
            }
            kept += reader.copies.len();
        }
    }
    assert!(kept > 0, "no client has kept anything");
}

#[test]
fn copies_converge_inline() {
    converges("inline", "darc", 1);
}

#[test]
fn copies_converge_dedicated() {
    converges("dedicated", "mq", 2);
    converges("dedicated", "darc", 3);
}

#[test]
fn copies_converge_distributed() {
    for (seed, policy) in ["d-fcfs", "stealing", "jsq", "synergy"].into_iter().enumerate() {
        converges("distributed", policy, 4 + seed as u64);
    }
}

/// A client that leaves takes its keys and prefixes out of the server.
#[test]
fn who_leaves_is_forgotten() {
    for (topology, policy) in SETUPS {
        let server = start(topology, policy);
        let mut stays = server.connect();
        for options in ["", "BCAST PREFIX a PREFIX b"] {
            let mut leaves = server.connect();
            leaves.ask(&format!("CLIENT TRACKING ON {options}"));
            leaves.send(crate::common::encode_line("GET k").repeat(2));
            for number in 0..200 {
                leaves.send(crate::common::encode(&["GET", &format!("k{number}")]));
            }
            (0..202).for_each(|_| drop(leaves.reply()));
            assert!(stays.info("clients").contains("tracking_clients:1\r\n"));
            drop(leaves);
            wait_until("the client is forgotten", || {
                let info = stays.info("clients") + &stays.info("stats");
                [
                    "tracking_clients",
                    "tracking_total_keys",
                    "tracking_total_items",
                    "tracking_total_prefixes",
                ]
                .iter()
                .all(|name| info.contains(&format!("{name}:0\r\n")))
            });
        }
    }
}

/// A client that does not read what it tracks is closed, and no other client waits for it.
#[test]
fn a_client_that_does_not_read_is_closed() {
    let server = start("dedicated", "darc");
    let mut slow = server.connect();
    slow.request(&["HELLO", "3"]);
    slow.ask("CLIENT TRACKING ON BCAST");
    let mut writer = server.connect();
    let limit = "normal 0 0 0 slave 268435456 67108864 60 pubsub 65536 0 0";
    let set = writer.request(&["CONFIG", "SET", "client-output-buffer-limit", limit]);
    assert_eq!(set.to_string(), "+OK");
    let key = "x".repeat(100_000);
    wait_until("the client is closed", || {
        writer.request(&["SET", &key, "1"]);
        writer.info("stats").contains("client_output_buffer_limit_disconnections:1\r\n")
    });
    wait_until("no client tracks", || writer.info("clients").contains("tracking_clients:0\r\n"));
    slow.read_to_close();
}
