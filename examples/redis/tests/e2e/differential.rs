//! Random commands, sent to psp-redis and to redis-server: both give the same replies.
//!
//! `.ci/run` sends the same few thousand each time, so that a failure is due to a change.
//! `PSP_DIFFERENTIAL_COMMANDS` sends more, and others each time:
//!
//! ```sh
//! PSP_DIFFERENTIAL_COMMANDS=1000000 cargo test -p psp-redis --test e2e differential -- --ignored
//! ```
//!
//! A failure names the seed. `PSP_DIFFERENTIAL_SEED` draws the same commands again.

mod accesses;
mod essence;
mod estimates;
mod forms;
mod functions;
pub(crate) mod generator;
mod mistakes;
mod nulls;

use std::env;

use essence::essence;
use functions::LIBRARIES;
use generator::Generator;

use crate::common::{Connection, Options, Reply, Server};

/// Commands without `PSP_DIFFERENTIAL_COMMANDS`.
const COMMANDS: usize = 20_000;
/// Their seed.
const SEED: u64 = 1;
/// Commands on one state. Then both servers forget all keys.
const COMMANDS_PER_STATE: usize = 500;
/// Commands that are shown before one whose replies differ.
const HISTORY_SHOWN: usize = 25;
/// Characters that are shown of replies that differ.
const DIFFERENCE_SHOWN: usize = 300;
/// Differences after which the test ends. After each one both servers forget all keys.
const DIFFERENCES_MAX: usize = 20;
/// Limits of encodings that random keys exceed.
const LIMITS: &str = "CONFIG SET hash-max-listpack-entries 4 hash-max-ziplist-value 8 set-max-intset-entries 3 \
    zset-max-ziplist-entries 4 zset-max-listpack-value 8";

fn ask(client: &mut Connection, words: &[String]) -> String {
    essence(words, client.request(words))
}

/// A command that waits for EXEC, and whether something may be wrong with it.
type Queued = (Vec<String>, bool);

/// What of the reply to EXEC has to be the same.
fn essence_of_all(queued: &[Queued], reply: Reply) -> String {
    let items = match reply {
        Reply::Array(items) if items.len() == queued.len() => items,
        other => return other.to_string(),
    };
    let essences = queued.iter().zip(items).map(|((words, is_spoilt), item)| {
        let essence = essence(words, item);
        match *is_spoilt && essence.starts_with('-') {
            true => "-".to_owned(),
            false => format!("{}: {essence}", words.join(" ")),
        }
    });
    essences.collect::<Vec<_>>().join("; ")
}

/// Both servers forget all keys, and the connections their states.
fn forget(clients: &mut [Connection; 2]) {
    for line in ["RESET", "FLUSHALL"] {
        let _ = clients.each_mut().map(|client| client.ask(line));
    }
}

/// The part of each reply in which they begin to differ.
fn where_they_differ(replies: [&str; 2]) -> [String; 2] {
    let chars = |reply: &str| reply.chars().collect::<Vec<_>>();
    let [ours, redis] = replies.map(chars);
    let same = ours.iter().zip(&redis).take_while(|(one, other)| one == other);
    let from = same.count().saturating_sub(DIFFERENCE_SHOWN / 3);
    [ours, redis].map(|reply| reply.into_iter().skip(from).take(DIFFERENCE_SHOWN).collect())
}

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn random_commands_get_the_replies_of_redis_server() {
    let commands = setting("PSP_DIFFERENTIAL_COMMANDS");
    let count = commands.unwrap_or(COMMANDS);
    let seed = setting("PSP_DIFFERENTIAL_SEED");
    let seed = seed.unwrap_or_else(|| commands.map_or(SEED, |_| rand::random()));
    let mut generator = Generator::new(seed);
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    for client in &mut clients {
        assert_eq!(client.ask(LIMITS), "+OK");
        for code in LIBRARIES {
            client.request(&["FUNCTION", "LOAD", code]);
        }
    }
    let (mut history, mut stopped) = (Vec::new(), 0);
    let mut differences = Vec::new();
    let mut queued: Vec<Queued> = Vec::new();
    for step in 0..count {
        if step % COMMANDS_PER_STATE == 0 {
            forget(&mut clients);
            // Every second state begins in RESP3.
            if step / COMMANDS_PER_STATE % 2 == 1 {
                let _ = clients.each_mut().map(|client| client.ask("HELLO 3"));
            }
            history.clear();
            queued.clear();
        }
        let (words, is_spoilt) = generator.command();
        let replies = clients.each_mut().map(|client| client.request(&words));
        let [ours, redis] = replies.map(|reply| match words[0].as_str() {
            "EXEC" => essence_of_all(&queued, reply),
            _ => essence(&words, reply),
        });
        history.push(words.join(" "));
        if ["DISCARD", "EXEC", "RESET"].contains(&words[0].as_str()) && words.len() == 1 {
            queued.clear();
        } else if ours == "+QUEUED" {
            queued.push((words.clone(), is_spoilt));
        }
        // Redis carries out a transaction if a command left the watched key as it was. psp-redis may not.
        if words[0] == "EXEC" && ours == "nil" && redis != "nil" {
            stopped += 1;
            forget(&mut clients);
            continue;
        }
        // Which of several errors is told first does not matter.
        if is_spoilt && [&ours, &redis].iter().all(|reply| reply.starts_with('-')) {
            continue;
        }
        // Redis 7.0 does not check what these want of a key that is not there.
        if ours.starts_with('-') && words.iter().any(|word| ["BITCOUNT", "BITPOS"].contains(&word.as_str())) {
            continue;
        }
        // Since Redis 7.2 scripts may call commands that wait.
        if ["not allowed from script", "BLOCK option from scripts"]
            .iter()
            .any(|words| redis.contains(words))
        {
            forget(&mut clients);
            queued.clear();
            continue;
        }
        if ours != redis {
            let last = history[history.len().saturating_sub(HISTORY_SHOWN)..].join("\n");
            let [ours, redis] = where_they_differ([&ours, &redis]);
            differences.push(format!("{last}\n  ours: {ours}\n redis: {redis}\n"));
            if differences.len() == DIFFERENCES_MAX {
                break;
            }
            forget(&mut clients);
            queued.clear();
        }
    }
    assert!(differences.is_empty(), "seed {seed}:\n{}", differences.join("\n"));
    println!("{count} commands, seed {seed}; {stopped} transactions stopped by psp-redis alone");
    assert!(stopped <= count / 1000, "{stopped} transactions stopped by psp-redis alone");
}
