//! Requests that cost far more than their command usually does: short requests go on beside them.

use crate::common::{Connection, Server, TOPOLOGIES, encode, encode_line, get, goes_on_beside};

/// Arguments of the requests with many.
const MANY: usize = 50_000;

#[test]
fn gets_go_on_beside_the_costliest_requests() {
    psp_harness::only_psp!();
    let many = |words: &[&str], each: &[&str]| {
        let head = words.iter().map(|word| (*word).to_owned());
        let rest = (0..MANY).flat_map(|index| each.iter().map(move |text| format!("{text}{index}")));
        encode(&head.chain(rest).collect::<Vec<_>>())
    };
    let mut sort = vec!["SORT", "l"];
    sort.extend(["GET", "w_*"].repeat(MANY));
    let requests = [
        ("SRANDMEMBER", encode_line("SRANDMEMBER s -900000")),
        ("HRANDFIELD", encode_line("HRANDFIELD h -900000 WITHVALUES")),
        ("ZRANDMEMBER", encode_line("ZRANDMEMBER z -900000")),
        ("HMGET", many(&["HMGET", "h"], &["f"])),
        ("ZADD", many(&["ZADD", "zmany"], &["1", "m"])),
        ("SADD", many(&["SADD", "smany"], &["m"])),
        ("DEL", many(&["DEL"], &["k"])),
        ("SORT", encode(&sort)),
        ("ZUNIONSTORE", encode_line("ZUNIONSTORE d 1 zmany")),
        ("PING", encode(&["PING".to_owned(), "x".repeat(30_000_000)])),
    ];
    for (topology, server) in Server::start_each() {
        let mut witness = server.connect();
        for line in ["SADD s a b c", "HSET h a 1 b 2", "ZADD z 1 a 2 b", "RPUSH l 1 2 3", "SET k v"] {
            witness.ask(line);
        }
        let mut costly = server.connect();
        for (name, request) in &requests {
            let prepare = |_, _: &mut Connection, _: &mut Connection| request.clone();
            let is_beside = goes_on_beside([&mut witness, &mut costly], prepare, get, |_, _| {});
            assert!(is_beside, "{topology}: no GETs beside {name}");
        }
    }
}

/// Members of the set that replaces a small one.
const GROWN: usize = 50_000;

/// Commands on the set `g`, of which some make others of it.
const GROWING: [&str; 4] = ["SUNIONSTORE d g s", "ZUNIONSTORE d 1 g", "SORT g ALPHA", "SMEMBERS g"];

/// A server with a large set `large` and a small one, `small`.
fn with_sets(topology: &'static str) -> (Server, Connection, Connection) {
    let server = Server::start_in(topology);
    let (mut witness, mut costly) = (server.connect(), server.connect());
    witness.ask("SET k v");
    witness.ask("SADD small a b c");
    witness.ask("SADD s a b c");
    let members: Vec<_> = (0..GROWN).map(|index| format!("member{index}")).collect();
    for piece in members.chunks(1000) {
        costly.ask(&format!("SADD large {}", piece.join(" ")));
    }
    (server, witness, costly)
}

#[test]
fn gets_go_on_beside_a_transaction_whose_keys_have_grown() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let (_server, mut witness, mut costly) = with_sets(topology);
        for line in GROWING {
            let queue_and_grow = |_, witness: &mut Connection, costly: &mut Connection| {
                witness.ask("COPY small g REPLACE");
                costly.ask("MULTI");
                assert_eq!(costly.ask(line), "+QUEUED");
                witness.ask("COPY large g REPLACE");
                encode_line("EXEC")
            };
            let is_beside = goes_on_beside([&mut witness, &mut costly], queue_and_grow, get, |_, _| {});
            assert!(is_beside, "{topology}: no GETs beside EXEC of {line}");
        }
    }
}

/// A script that was short many times runs on the net thread in `inline`.
#[test]
fn gets_go_on_beside_a_script_whose_keys_have_grown() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let (_server, mut witness, mut costly) = with_sets(topology);
        for line in GROWING {
            let words: Vec<_> = line.split(' ').map(|word| format!("'{word}'")).collect();
            let call = format!("redis.call({})", words.join(","));
            let script = encode(&["EVAL", &call, "0"]);
            let train_and_grow = |_, witness: &mut Connection, costly: &mut Connection| {
                witness.ask("COPY small g REPLACE");
                for _ in 0..40 {
                    costly.send(&script);
                    let _ = costly.reply();
                }
                witness.ask("COPY large g REPLACE");
                script.clone()
            };
            let is_beside = goes_on_beside([&mut witness, &mut costly], train_and_grow, get, |_, _| {});
            assert!(is_beside, "{topology}: no GETs beside a script with {line}");
        }
    }
}
