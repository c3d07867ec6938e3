//! One suite of commands against every topology, policy and number of workers. All of them give the
//! same replies.

use crate::common::{Options, Server, encode_line};
use psp_server::Policy;

/// Numbers of workers. Each policy runs with those that it supports.
const WORKERS: [usize; 3] = [1, 2, 4];

/// Commands in the order they are sent, each with its reply as `Reply` prints it.
const SUITE: &[(&str, &str)] = &[
    // Connection and server
    ("PING", "+PONG"),
    ("PING hello", r#""hello""#),
    ("ECHO hello", r#""hello""#),
    ("SELECT 0", "+OK"),
    ("CLIENT SETNAME suite", "+OK"),
    ("CLIENT GETNAME", r#""suite""#),
    ("DBSIZE", "0"),
    ("DEBUG SLEEP 0.001", "+OK"),
    ("NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "),
    ("GET", "-ERR wrong number of arguments for 'get' command"),
    // Strings
    ("SET text hello", "+OK"),
    ("GET text", r#""hello""#),
    ("SET text other NX", "nil"),
    ("SET text other XX GET", r#""hello""#),
    ("SET text x NX XX", "-ERR syntax error"),
    ("APPEND text !", "6"),
    ("STRLEN text", "6"),
    ("GETRANGE text 1 -2", r#""ther""#),
    ("SETRANGE text 8 end", "11"),
    ("GET text", r#""other!\x00\x00end""#),
    ("GETDEL text", r#""other!\x00\x00end""#),
    ("GET text", "nil"),
    ("MSET one 1 two 2 three 3", "+OK"),
    ("MGET one missing two", r#"["1", nil, "2"]"#),
    ("INCR one", "2"),
    ("INCRBY one 10", "12"),
    ("DECR one", "11"),
    ("DECRBY one 20", "-9"),
    ("INCRBYFLOAT one 0.5", r#""-8.5""#),
    ("INCR one", "-ERR value is not an integer or out of range"),
    ("SETNX two 5", "0"),
    ("LPUSH two x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    // Keys
    ("EXISTS one two nosuch one", "3"),
    ("TYPE one", "+string"),
    ("TYPE nosuch", "+none"),
    ("EXPIRE one 100", "1"),
    ("TTL one", "100"),
    ("PERSIST one", "1"),
    ("TTL one", "-1"),
    ("TTL nosuch", "-2"),
    ("SET short lived EX 100", "+OK"),
    ("GETEX short PERSIST", r#""lived""#),
    ("PTTL short", "-1"),
    ("EXPIREAT short 1", "1"),
    ("EXISTS short", "0"),
    ("RENAME three 3", "+OK"),
    ("RENAME three 3", "-ERR no such key"),
    ("KEYS t*", r#"["two"]"#),
    ("SCAN 0 MATCH t* COUNT 1000", r#"["0", ["two"]]"#),
    ("DEL one two 3 nosuch", "3"),
    ("RANDOMKEY", "nil"),
    // Lists
    ("RPUSH list b c d", "3"),
    ("LPUSH list a", "4"),
    ("LRANGE list 0 -1", r#"["a", "b", "c", "d"]"#),
    ("LRANGE list 5 9", "[]"),
    ("LINDEX list -1", r#""d""#),
    ("LSET list 1 B", "+OK"),
    ("LLEN list", "4"),
    ("LINSERT list BEFORE c x", "5"),
    ("LREM list 0 x", "1"),
    ("LPOP list", r#""a""#),
    ("RPOP list 2", r#"["d", "c"]"#),
    ("LTRIM list 0 -1", "+OK"),
    ("LMOVE list other LEFT RIGHT", r#""B""#),
    ("EXISTS list", "0"),
    ("RPUSH numbers 3 1 2", "3"),
    ("SORT numbers", r#"["1", "2", "3"]"#),
    ("SORT numbers DESC LIMIT 0 2", r#"["3", "2"]"#),
    ("SORT other", "-ERR One or more scores can't be converted into double"),
    ("SORT other ALPHA", r#"["B"]"#),
    // Hashes
    ("HSET hash a 1 b 2", "2"),
    ("HSET hash a 3", "0"),
    ("HGET hash a", r#""3""#),
    ("HMGET hash a nosuch b", r#"["3", nil, "2"]"#),
    ("HINCRBY hash a 4", "7"),
    ("HLEN hash", "2"),
    ("HEXISTS hash b", "1"),
    ("HDEL hash b nosuch", "1"),
    ("HGETALL hash", r#"["a", "7"]"#),
    ("HKEYS hash", r#"["a"]"#),
    ("HVALS hash", r#"["7"]"#),
    ("HSETNX hash a 0", "0"),
    // Sets
    ("SADD set a", "1"),
    ("SADD set a b c", "2"),
    ("SCARD set", "3"),
    ("SISMEMBER set b", "1"),
    ("SMISMEMBER set b x", "[1, 0]"),
    ("SREM set b c", "2"),
    ("SMEMBERS set", r#"["a"]"#),
    ("SADD another a z", "2"),
    ("SINTER set another", r#"["a"]"#),
    ("SDIFF another set", r#"["z"]"#),
    ("SUNIONSTORE union set another", "2"),
    ("SORT union ALPHA", r#"["a", "z"]"#),
    ("SMOVE another set z", "1"),
    ("SCARD set", "2"),
    // Sorted sets
    ("ZADD zset 1 a 2.5 b 3 c", "3"),
    ("ZADD zset XX CH 4 a 5 x", "1"),
    ("ZSCORE zset b", r#""2.5""#),
    ("ZRANK zset a", "2"),
    ("ZREVRANK zset a", "0"),
    ("ZCARD zset", "3"),
    ("ZCOUNT zset (2.5 +inf", "2"),
    ("ZINCRBY zset 1.5 b", r#""4""#),
    ("ZRANGE zset 0 -1", r#"["c", "a", "b"]"#),
    ("ZRANGE zset 0 0 REV WITHSCORES", r#"["b", "4"]"#),
    ("ZRANGEBYSCORE zset -inf 4 LIMIT 1 2", r#"["a", "b"]"#),
    ("ZREM zset a", "1"),
    ("ZPOPMIN zset", r#"["c", "3"]"#),
    ("ZRANGE zset 0 -1 WITHSCORES", r#"["b", "4"]"#),
    // The end
    ("DBSIZE", "7"),
    ("FLUSHALL", "+OK"),
    ("DBSIZE", "0"),
];

fn run_suite(options: &Options) {
    let server = Server::start_with(options);
    let mut one_by_one = server.connect();
    for (line, reply) in SUITE {
        assert_eq!(&one_by_one.ask(line), reply, "{line} with {options:?}");
    }
    let mut pipelined = server.connect();
    pipelined.send(SUITE.iter().flat_map(|(line, _)| encode_line(line)).collect::<Vec<_>>());
    for (line, reply) in SUITE {
        assert_eq!(&pipelined.reply().to_string(), reply, "pipelined {line} with {options:?}");
    }
}

fn run_policies(topology: &'static str, policies: &[&'static str]) {
    for &policy in policies {
        let settings: Policy = policy.parse().expect("a policy's name");
        let fits = |workers: &usize| settings.validate(*workers).is_ok();
        for workers in WORKERS.into_iter().filter(fits) {
            run_suite(&Options {
                topology: Some(topology),
                policy: Some(policy),
                workers: Some(workers),
                ..Options::default()
            });
        }
    }
}

/// Policies under which workers schedule themselves.
fn local_policies() -> Vec<&'static str> {
    let is_local = |name: &&str| name.parse().is_ok_and(|policy: Policy| policy.is_local());
    Policy::NAMES.into_iter().filter(is_local).collect()
}

#[test]
fn defaults() {
    run_suite(&Options::default());
}

#[test]
fn inline() {
    run_policies("inline", &Policy::names_to_completion());
}

#[test]
fn distributed() {
    run_policies("distributed", &local_policies());
}

#[test]
fn dedicated() {
    run_policies("dedicated", &Policy::NAMES);
}
