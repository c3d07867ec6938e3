//! Long commands yield all along, by themselves, in transactions and in scripts. On one worker a request that does not
//! is seen by how seldom it yields, compared with a loop in Lua that yields whenever it is asked to.

use std::time::{Duration, Instant};

use psp_harness::Load;

use crate::common::{Connection, Server, encode_line};

/// Elements of the large values.
const ELEMENTS: usize = 20_000;
/// Elements that a command gets at a time which makes such a value.
const ELEMENTS_AT_ONCE: usize = 1000;
/// A command may yield less often than the loop by this factor: it may be in the kernel, or move memory, and its client
/// takes a long reply apart meanwhile.
const SELDOM: f64 = 12.0;
/// Other programs may take the cores.
const ATTEMPTS: usize = 5;

/// Lua that computes for some time.
const LOOP: &str = "for i = 1, 4000000 do end";

/// Commands whose work grows with their keys: a list `l`, sets `s` and `s2`, a hash `h`, sorted sets `z` and `z2`, a
/// stream `x`. Each is repeated as often as its line says, to be long enough.
const COMMANDS: &[(usize, &str)] = &[
    (2, "SUNION s s2"),
    (2, "SINTER s s2"),
    (4, "SINTERCARD 2 s s2"),
    (2, "SUNIONSTORE d s s2"),
    (2, "ZUNION 2 z z2"),
    (2, "ZUNIONSTORE d 2 z z2"),
    (2, "ZINTERSTORE d 2 z z2"),
    (2, "ZDIFFSTORE d 2 s s2"),
    (4, "ZRANGESTORE d z 0 -1"),
    (2, "SORT l"),
    (2, "SORT s ALPHA"),
    (2, "SORT l BY none_*"),
    (2, "SORT l GET w_*"),
    (2, "SORT l STORE d"),
    (2, "LRANGE l 0 -1"),
    (16, "LREM l 0 none"),
    (2, "HGETALL h"),
    (2, "HSCAN h 0 COUNT 20000"),
    (2, "HRANDFIELD h 15000"),
    (4, "SRANDMEMBER s 15000"),
    (2, "ZSCAN z 0 COUNT 20000"),
    (2, "ZRANDMEMBER z 15000"),
    (2, "XRANGE x - +"),
    (2, "DUMP z"),
];

/// The same, of commands that consume a copy of a key.
const CONSUMING: &[(&str, &str)] = &[
    ("s", "SPOP d 15000"),
    ("z", "ZREMRANGEBYRANK d 0 15000"),
    ("z", "ZREMRANGEBYSCORE d -inf +inf"),
    ("z", "ZPOPMIN d 15000"),
];

/// How a command is sent.
#[derive(Debug, Clone, Copy)]
enum Way {
    Plain,
    Exec,
    Script,
}

impl Way {
    const ALL: [Self; 3] = [Self::Plain, Self::Exec, Self::Script];

    /// The requests that run `lines`, of which the last is the long one.
    fn requests(self, lines: &[String]) -> Vec<Vec<u8>> {
        let sent = || lines.iter().map(|line| encode_line(line));
        let one = |words: &[&str]| encode(words);
        match self {
            Self::Plain => vec![sent().collect::<Vec<_>>().concat()],
            Self::Exec => {
                let queued = sent().collect::<Vec<_>>().concat();
                vec![[one(&["MULTI"]), queued, one(&["EXEC"])].concat()]
            }
            Self::Script => {
                let calls = lines.iter().map(|line| {
                    let words: Vec<_> = line.split(' ').map(|word| format!("'{word}'")).collect();
                    format!("redis.call({})", words.join(","))
                });
                vec![one(&["EVAL", &calls.collect::<Vec<_>>().join("\n"), "0"])]
            }
        }
    }

    /// How many replies these have.
    const fn replies(self, lines: usize) -> usize {
        match self {
            Self::Plain => lines,
            Self::Exec => lines + 2,
            Self::Script => 1,
        }
    }
}

fn encode(words: &[&str]) -> Vec<u8> {
    crate::common::encode(words)
}

/// How often requests have yielded.
fn yields(client: &mut Connection) -> u64 {
    crate::steering::preemptions(client)
}

/// Yields in a second of `requests`, which have so many replies.
fn rate(client: &mut Connection, witness: &mut Connection, requests: &[Vec<u8>], replies: usize) -> f64 {
    let (before, began) = (yields(witness), Instant::now());
    client.send(requests.concat());
    for _ in 0..replies {
        let reply = client.reply().to_string();
        assert!(!reply.starts_with('-'), "{reply}");
    }
    let took = began.elapsed().max(Duration::from_micros(1));
    (yields(witness) - before) as f64 / took.as_secs_f64()
}

fn fill(client: &mut Connection) {
    let elements = |each: &dyn Fn(usize) -> String| {
        let all = (0..ELEMENTS).map(each).collect::<Vec<_>>();
        let pieces = all.chunks(ELEMENTS_AT_ONCE).map(|piece| piece.join(" "));
        pieces.collect::<Vec<_>>()
    };
    for (command, each) in [
        ("RPUSH l", &|index| (index * 7919 % ELEMENTS).to_string() as String),
        ("SADD s", &|index| format!("member{index}")),
        ("SADD s2", &|index| format!("member{}", index * 2)),
        ("HSET h", &|index| format!("field{index} {index}")),
        ("ZADD z", &|index| format!("{} member{index}", index * 7919 % ELEMENTS)),
        ("ZADD z2", &|index| format!("1 member{}", index * 2)),
    ] as [(&str, &dyn Fn(usize) -> String); 6]
    {
        for piece in elements(each) {
            client.ask(&format!("{command} {piece}"));
        }
    }
    let entries: Vec<_> = (0..ELEMENTS).map(|_| encode_line("XADD x * f 1")).collect();
    client.send(entries.concat());
    entries.iter().for_each(|_| drop(client.reply()));
}

#[test]
fn long_commands_yield_by_themselves_in_transactions_and_in_scripts() {
    psp_harness::only_psp!();
    let server = Server::start_under("dedicated", "sq quantum-us=200", 1);
    let (mut client, mut witness) = (server.connect(), server.connect());
    fill(&mut client);
    assert_eq!(client.ask("SET a x"), "+OK");
    let load = Load::start(server.address(), 2, b"GET a\r\n", b"$1\r\nx\r\n");
    load.goes_on();
    let loops = [encode(&["EVAL", LOOP, "0"])];
    let repeated = COMMANDS.iter().map(|(times, line)| vec![(*line).to_owned(); *times]);
    let consuming = CONSUMING
        .iter()
        .map(|(key, line)| vec![format!("COPY {key} d REPLACE"), (*line).to_owned()]);
    for lines in repeated.chain(consuming) {
        for way in Way::ALL {
            let requests = way.requests(&lines);
            let mut seen = Vec::new();
            let yields = (0..ATTEMPTS).any(|_| {
                let usual = rate(&mut client, &mut witness, &loops, 1);
                let replies = way.replies(lines.len());
                let found = rate(&mut client, &mut witness, &requests, replies);
                seen.push((found.round(), usual.round()));
                found * SELDOM >= usual
            });
            let line = lines.last().expect("a command");
            assert!(yields, "{line}, {way:?}: yields a second, and those of the loop: {seen:?}");
        }
    }
    load.finish();
}
