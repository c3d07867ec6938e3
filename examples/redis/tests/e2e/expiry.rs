//! Keys that expire while commands run: a command, a transaction and a script see all their keys as at one instant.

use psp_harness::wait_until;

use crate::common::waiting::{TOPOLOGIES, start};
use crate::common::{Connection, encode, encode_line, pipeline};

fn for_each_topology(test: impl Fn(&mut Connection, &str)) {
    for topology in TOPOLOGIES {
        let server = start(topology);
        test(&mut server.connect(), topology);
    }
}

fn replies(client: &mut Connection, lines: &[String]) -> Vec<String> {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    pipeline(client, &lines)
}

#[test]
fn a_rate_limiter_never_loses_its_expiry() {
    const BATCHES: usize = 40;
    const KEYS: usize = 200;
    for_each_topology(|client, topology| {
        let (mut alive, mut dead) = (0, 0);
        for batch in 0..BATCHES {
            let keys = || (0..KEYS).map(|n| format!("limit:{batch}:{n}"));
            // Some die before the transactions, some during them, and some after them, however slow the machine is.
            let ttl_ms = 1 << (batch % 9);
            let sets = keys().map(|key| format!("SET {key} 7 PX {ttl_ms}"));
            let counts = keys().flat_map(|key| {
                let [set, count] = [format!("SET {key} 0 EX 60 NX"), format!("INCR {key}")];
                ["MULTI".to_owned(), set, count, "EXEC".to_owned()]
            });
            let lines: Vec<_> = sets.chain(counts).collect();
            for reply in replies(client, &lines)[KEYS..].chunks(4) {
                match reply[3].as_str() {
                    "[nil, 8]" => alive += 1,
                    "[+OK, 1]" => dead += 1,
                    torn => panic!("{topology}: {torn}"),
                }
            }
        }
        assert!(alive > 0 && dead > 0, "{topology}: {alive} {dead}");
    });
}

#[test]
fn fields_go_when_they_are_due_and_the_key_with_the_last() {
    psp_harness::only_psp!();
    for_each_topology(|client, topology| {
        let sets = (0..200).map(|field| format!("HSETEX h PX 1 FIELDS 1 {field} v"));
        replies(client, &sets.collect::<Vec<_>>());
        client.ask("HSET stays f v");
        client.ask("HSETEX stays EX 900 FIELDS 1 timed v");
        wait_until("the hash is gone", || client.ask("EXISTS h") == "0");
        assert_eq!(client.ask("HTTL stays FIELDS 2 f timed").split(", ").next(), Some("[-1"), "{topology}");
        let info = client.info("stats");
        let count = info.lines().find_map(|line| line.strip_prefix("expired_subkeys:")?.parse().ok());
        assert!(count.is_some_and(|count: u64| (1..=200).contains(&count)), "{topology}: {count:?}");
        assert!(client.info("keyspace").contains("subexpiry=1"), "{topology}");
    });
}

#[test]
fn keys_that_expire_together_are_seen_together() {
    /// Pipelines of reads. So many are there at most, until the keys have expired in the middle of enough of them.
    const PIPELINES: usize = 200;
    const ENOUGH: usize = 20;
    const READS: usize = 400;
    const KEYS: usize = 64;
    for_each_topology(|client, topology| {
        let (mut crossed, mut lead_ms) = (0, 10);
        for number in 0..PIPELINES {
            let names = |kind: &'static str| (0..KEYS).map(move |n| format!("{kind}:{number}:{n}"));
            let list = |kind: &'static str| names(kind).collect::<Vec<_>>().join(" ");
            let sets = names("set").map(|set| format!("SADD {set} {set}"));
            let strings = names("string").map(|string| format!("SET {string} v"));
            replies(client, &sets.chain(strings).collect::<Vec<_>>());
            let at_ms = unix_ms(client) + lead_ms;
            let keys = names("set").chain(names("string"));
            let expires: Vec<_> = keys.map(|key| format!("PEXPIREAT {key} {at_ms}")).collect();
            replies(client, &expires);
            let reads = [
                format!("EXISTS {}", list("string")),
                format!("MGET {}", list("string")),
                format!("SUNION {}", list("set")),
            ];
            let reads: Vec<_> = reads.into_iter().cycle().take(READS).collect();
            let found: Vec<usize> = { replies(client, &reads).into_iter() }
                .map(|reply| reply.parse().unwrap_or(reply.matches('"').count() / 2))
                .collect();
            let partial = found.iter().position(|found| ![0, KEYS].contains(found));
            assert_eq!(partial, None, "{topology}: {found:?}");
            match (found[0], found[READS - 1]) {
                (0, _) => lead_ms *= 2,
                (_, 0) => crossed += 1,
                _ => lead_ms = lead_ms * 3 / 4 + 1,
            }
            if crossed == ENOUGH {
                return;
            }
        }
        assert!(crossed > 0, "{topology}: never in the middle");
    });
}

/// Computes for so many milliseconds.
const SPIN: &str = "local function spin(ms)
   local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
   local ends = now() + ms
   while now() < ends do end
 end ";

#[test]
fn a_script_and_a_transaction_have_one_instant() {
    const RUNS: usize = 10;
    const NEITHER_OR_BOTH: [&str; 2] = ["[nil, nil]", r#"["v", "v"]"#];
    let looks = "local seen = redis.call('GET', KEYS[1]) spin(6) return {seen, redis.call('GET', KEYS[1])}";
    let sets = "for n = 1, 2 do redis.call('SET', KEYS[n], 'v', 'PX', 5000) spin(3) end
       return redis.call('PEXPIRETIME', KEYS[1]) - redis.call('PEXPIRETIME', KEYS[2])";
    let [looks, sets, spins] = [looks, sets, "spin(6)"].map(|text| format!("{SPIN}{text}"));
    let library = format!(
        "#!lua name=expiry
         {SPIN}
         redis.register_function('looks', function(KEYS) {looks} end)"
    );
    for_each_topology(|client, topology| {
        client.request(&["FUNCTION", "LOAD", &library]);
        for run in 0..RUNS {
            let key = format!("key{run}");
            for call in [["EVAL", &looks, "1", &key], ["FCALL", "looks", "1", &key]] {
                client.ask(&format!("SET {key} v PX 3"));
                let seen = client.request(&call).to_string();
                assert!(NEITHER_OR_BOTH.contains(&seen.as_str()), "{topology}: {call:?}: {seen}");
            }
            let get = format!("GET {key}");
            let [set, begin, end] = [&format!("SET {key} v PX 3"), "MULTI", "EXEC"].map(encode_line);
            let (get, spin) = (encode_line(&get), encode(&["EVAL", &spins, "0"]));
            client.send([set, begin, get.clone(), spin, get, end].concat());
            let exec = [(); 6].map(|()| client.reply().to_string())[5].replace("nil, ", "");
            assert!(["[nil]", r#"["v", "v"]"#].contains(&exec.as_str()), "{topology}: {exec}");
        }
        let apart_ms = client.request(&["EVAL", &sets, "2", "a", "b"]).to_string();
        assert_eq!(apart_ms, "0", "{topology}");
    });
}

/// The server's time.
fn unix_ms(client: &mut Connection) -> u64 {
    let time = client.request(&["TIME"]).into_items();
    let parts = time.into_iter().map(|part| String::from_utf8(part.into_bytes()).unwrap());
    let parts: Vec<u64> = parts.map(|part| part.parse().unwrap()).collect();
    parts[0] * 1000 + parts[1] / 1000
}
