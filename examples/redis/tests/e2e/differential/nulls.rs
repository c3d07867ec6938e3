//! What stands for nothing, byte by byte: RESP2 has two nulls.

use std::array;

use crate::common::waiting::wait_for_blocked;
use crate::common::{Connection, Options, Server, encode, encode_line};

/// What there is.
const THERE_IS: &[&str] = &[
    "SET k v",
    "RPUSH l a",
    "HSET h f v",
    "SADD s m",
    "ZADD z 1 m",
    "GEOADD g 1 2 m",
    "XADD x 1-1 f v",
    "XGROUP CREATE x group $",
    "XGROUP CREATE x idle 0",
];

/// Commands that find nothing, or not everything.
const COMMANDS: &[&str] = &[
    "GET no",
    "GETDEL no",
    "GETEX no",
    "GETSET new v",
    "SET k w NX",
    "SET no w XX",
    "SET fresh w GET",
    "MGET no k l",
    "LCS no k",
    "LPOP no",
    "LPOP no 2",
    "RPOP no",
    "RPOP no 0",
    "LINDEX l 5",
    "LINDEX no 0",
    "LPOS l b",
    "LPOS no b COUNT 1",
    "LMOVE no l LEFT RIGHT",
    "RPOPLPUSH no l",
    "LMPOP 1 no LEFT",
    "HGET h no",
    "HGET no f",
    "HMGET h f no",
    "HMGET no f",
    "HRANDFIELD no",
    "HRANDFIELD no 2",
    "SPOP no",
    "SPOP no 2",
    "SRANDMEMBER no",
    "SRANDMEMBER no 2",
    "SMISMEMBER no a b",
    "ZSCORE z no",
    "ZMSCORE z no m",
    "ZMSCORE no m",
    "ZRANK z no",
    "ZREVRANK no m",
    "ZADD z XX INCR 1 no",
    "ZADD z NX INCR 1 m",
    "ZRANDMEMBER no",
    "ZRANDMEMBER no 2",
    "ZPOPMIN no",
    "ZPOPMAX no 2",
    "ZMPOP 1 no MIN",
    "GEODIST g m no",
    "GEODIST no a b",
    "GEOHASH g no m",
    "GEOHASH no m",
    "GEOPOS g no m",
    "GEOPOS no m",
    "BITFIELD k OVERFLOW FAIL INCRBY u2 0 9",
    "BITFIELD_RO no GET u2 0",
    "DUMP no",
    "OBJECT ENCODING no",
    "OBJECT IDLETIME no",
    "OBJECT REFCOUNT no",
    "MEMORY USAGE no",
    "SORT l GET no_*",
    "SORT l BY nosort GET # GET no_*",
    "SORT no",
    "XADD no NOMKSTREAM * f v",
    "XREAD STREAMS x $",
    "XREAD STREAMS no 0",
    "XREAD BLOCK 1 STREAMS x $",
    "XREADGROUP GROUP group one STREAMS x >",
    "XREADGROUP GROUP group one BLOCK 1 STREAMS x >",
    "XREADGROUP GROUP group one STREAMS x 0",
    "XREADGROUP GROUP idle two STREAMS x >",
    "XDEL x 1-1",
    "XREADGROUP GROUP idle two STREAMS x 0",
    "XPENDING x group",
    "XPENDING x group - + 5",
    "XCLAIM x group one 0 1-1",
    "XAUTOCLAIM x group one 0 0",
    "XRANGE no - +",
    "BLPOP no 0.01",
    "BRPOP no 0.01",
    "BLMOVE no l LEFT RIGHT 0.01",
    "BRPOPLPUSH no l 0.01",
    "BLMPOP 0.01 1 no LEFT",
    "BZPOPMIN no 0.01",
    "BZPOPMAX no 0.01",
    "BZMPOP 0.01 1 no MIN",
    "EVAL return 0",
    "EVAL return{1,false,2} 0",
    "EVAL return{false} 0",
    "CLIENT GETNAME",
    "CLIENT GETREDIR",
    "ACL GETUSER nobody",
    "COMMAND INFO nosuch get|nosuch",
    "COMMAND DOCS nosuch",
    "CONFIG GET nosuch",
    "SCRIPT EXISTS nosuch",
    "FUNCTION LIST LIBRARYNAME nosuch",
    "PUBSUB NUMSUB no",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "FLUSHALL",
    "RANDOMKEY",
];

/// What waits until CLIENT UNBLOCK ends it.
const WAITS: &[&str] = &[
    "BLPOP no 0",
    "BRPOP no 0",
    "BLMOVE no l LEFT RIGHT 0",
    "BRPOPLPUSH no l 0",
    "BLMPOP 0 1 no LEFT",
    "BZPOPMIN no 0",
    "BZPOPMAX no 0",
    "BZMPOP 0 1 no MIN",
    "XREAD BLOCK 0 STREAMS x $",
    "XREADGROUP GROUP group one BLOCK 0 STREAMS x >",
];

const TOLD_APART_BY: &str = "the-end";

/// The bytes of the replies to what these requests ask.
fn bytes(client: &mut Connection, requests: &[Vec<u8>]) -> String {
    client.send(requests.concat());
    client.send(encode(&["ECHO", TOLD_APART_BY]));
    let end = format!("${}\r\n{TOLD_APART_BY}\r\n", TOLD_APART_BY.len());
    let text = client.read_until(end.as_bytes());
    text.escape_ascii().to_string()
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn nothing_is_spelled_as_by_redis_server() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut differences = Vec::new();
    for hello in ["HELLO 2", "HELLO 3"] {
        let mut clients = array::from_fn(|index| servers[index].connect());
        let mut compare = |what: &str, clients: &mut [Connection; 2], requests: &[Vec<u8>]| {
            let [ours, redis] = clients.each_mut().map(|client| bytes(client, requests));
            if ours != redis {
                differences.push(format!("{hello}, {what}\n  ours: {ours}\n redis: {redis}"));
            }
        };
        for client in &mut clients {
            for line in [hello, "FLUSHALL"].iter().chain(THERE_IS) {
                client.ask(line);
            }
        }
        for line in COMMANDS {
            let call = ["EVAL", "return redis.call(unpack(ARGV))", "0"].into_iter();
            let call: Vec<_> = call.chain(line.split_whitespace()).collect();
            let transaction = ["MULTI", line, "EXEC"].map(encode_line);
            let alone = [encode_line(line)];
            compare(line, &mut clients, &alone);
            compare(&format!("EXEC of {line}"), &mut clients, &transaction);
            // What may not be called may be refused in other words. Redis 7.0 lets scripts call few commands that wait.
            let is_waiting = call[3].starts_with('B') && !call[3].starts_with("BIT") || call.contains(&"BLOCK");
            if !is_waiting && !["EVAL", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"].contains(&call[3]) {
                compare(&format!("call of {line}"), &mut clients, &[encode(&call)]);
            }
        }
        for client in &mut clients {
            THERE_IS.iter().for_each(|line| drop(client.ask(line)));
        }
        let mut others: [Connection; 2] = array::from_fn(|index| servers[index].connect());
        for line in WAITS {
            for (client, other) in clients.iter_mut().zip(&mut others) {
                let id = client.ask("CLIENT ID");
                client.send(encode_line(line));
                wait_for_blocked(other, 1);
                assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}")), "1");
            }
            compare(&format!("the end of {line}"), &mut clients, &[]);
        }
        let watched = |client: &mut Connection, other: &mut Connection| {
            client.ask("WATCH k");
            other.ask("APPEND k v");
        };
        clients.iter_mut().zip(&mut others).for_each(|(client, other)| watched(client, other));
        compare("EXEC in vain", &mut clients, &["MULTI", "EXEC"].map(encode_line));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
