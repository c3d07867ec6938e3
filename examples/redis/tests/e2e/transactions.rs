//! MULTI, EXEC and WATCH between many clients.

use crate::accounts::{ACCOUNTS, CLIENTS, sums_stay_whole};
use crate::common::{Connection, Reply, Server, encode_line, get, goes_on_beside, pipeline};

/// Commands of a long transaction.
const MANY: usize = 20_000;

#[test]
fn a_pipelined_transaction_is_carried_out_as_a_whole() {
    for (topology, server) in Server::start_each() {
        let mut client = server.connect();
        let lines = ["MULTI", "SET a 1", "KEYS *", "INCR a", "EXEC", "PING"];
        assert_eq!(
            pipeline(&mut client, &lines),
            ["+OK", "+QUEUED", "+QUEUED", "+QUEUED", r#"[+OK, ["a"], 2]"#, "+PONG"],
            "{topology}"
        );
        let lines = ["MULTI", "SET b 1", "NOSUCH", "EXEC", "EXISTS b"];
        let replies = pipeline(&mut client, &lines);
        assert!(replies[3].starts_with("-EXECABORT "), "{topology}: {replies:?}");
        assert_eq!(replies[4], "0", "{topology}");
    }
}

#[test]
fn sums_stay_whole_among_many_clients() {
    const TRANSFERS: usize = 300;
    for (topology, server) in Server::start_each() {
        let sum = |witness: &mut Connection| {
            let gets: Vec<_> = (0..ACCOUNTS).map(|n| format!("GET account{n}")).collect();
            let mut lines = vec!["MULTI"];
            lines.extend(gets.iter().map(String::as_str));
            lines.push("EXEC");
            let replies = pipeline(witness, &lines);
            let numbers = replies.last().unwrap().replace(['[', ']', '"', ','], " ");
            let numbers = numbers.split_whitespace();
            let sum: i64 = numbers.map(|number| number.parse::<i64>().unwrap()).sum();
            sum.to_string()
        };
        let carried_out = sums_stay_whole(&server, topology, TRANSFERS, transfer, sum);
        let counted = server.connect().ask("GET transfers");
        assert_eq!(counted, format!("\"{carried_out}\""), "{topology}");
        assert!(carried_out >= CLIENTS, "{topology}: {carried_out} carried out");
    }
}

/// Moves 1 from one account to another, half of the time by values that the client read under WATCH. Returns whether it
/// was carried out.
fn transfer(client: &mut Connection, seed: usize, step: usize) -> bool {
    let from = format!("account{}", (seed + step) % ACCOUNTS);
    let to = format!("account{}", (seed + step + 1) % ACCOUNTS);
    let count = "INCR transfers";
    if step.is_multiple_of(2) {
        let (decrement, increment) = (format!("DECR {from}"), format!("INCR {to}"));
        let lines = ["MULTI", &decrement, &increment, count, "EXEC"];
        let replies = pipeline(client, &lines);
        assert!(replies[4].starts_with('['), "{replies:?}");
        return true;
    }
    client.ask(&format!("WATCH {from} {to}"));
    let [before_from, before_to] = [&from, &to].map(|key| {
        let text = client.request(&["GET", key]).into_bytes();
        String::from_utf8(text).unwrap().parse::<i64>().unwrap()
    });
    let lines = [
        "MULTI",
        &format!("SET {from} {}", before_from - 1),
        &format!("SET {to} {}", before_to + 1),
        count,
        "EXEC",
    ];
    let replies = pipeline(client, &lines);
    replies[4] != "nil"
}

#[test]
fn gets_go_on_beside_a_long_transaction() {
    psp_harness::only_psp!();
    for (topology, server) in Server::start_each() {
        let mut witness = server.connect();
        witness.ask("SET k v");
        let mut long = server.connect();
        let queue = |_, _: &mut Connection, long: &mut Connection| {
            let commands = (0..MANY).map(|n| encode_line(&format!("INCR counter{}", n % 1000)));
            let commands: Vec<_> = commands.collect();
            long.send([encode_line("MULTI"), commands.concat()].concat());
            for _ in 0..=MANY {
                long.reply();
            }
            encode_line("EXEC")
        };
        let check = |_, reply| assert!(matches!(reply, Reply::Array(items) if items.len() == MANY));
        let is_beside = goes_on_beside([&mut witness, &mut long], queue, get, check);
        assert!(is_beside, "{topology}: no GETs beside the transaction");
    }
}
