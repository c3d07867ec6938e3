//! The commands of Redis in groups, as data.

use std::time::Duration;

use psp_server::TypeSpec;

use super::RespClassifier;
use super::rule::Rule;

/// Most keys or members of a request that still counts as a single-key command.
const FEW_ARGS: usize = 8;

/// Most elements that a request may touch and still count as a range.
const RANGE_LEN_MAX: u64 = 128;

/// Most arguments of a request with many keys or members that still counts as a range.
const RANGE_ARGS_MAX: usize = 128;

struct Group {
    name: &'static str,
    service_time: Duration,
    share: f64,
    /// Past the policy: what operators, and clients that begin, need while everything else is busy.
    is_control: bool,
    commands: &'static [&'static str],
}

/// Each command is in the group of its worst case. [`RULES`] names the requests that are cheaper.
const GROUPS: [Group; 5] = [
    Group {
        name: "health",
        service_time: Duration::from_micros(1),
        share: 0.02,
        is_control: true,
        commands: &[
            "ACL",
            "ASKING",
            "AUTH",
            "CLIENT",
            "CLUSTER",
            "CONFIG",
            "ECHO",
            "FAILOVER",
            "FUNCTION KILL",
            "FUNCTION STATS",
            "HELLO",
            "INFO",
            "LASTSAVE",
            "LATENCY",
            "LOLWUT",
            "MODULE",
            "MONITOR",
            "PING",
            "PUBSUB NUMPAT",
            "PUBSUB NUMSUB",
            "PUBSUB SHARDNUMSUB",
            "QUIT",
            "READONLY",
            "READWRITE",
            "REPLICAOF",
            "RESET",
            "ROLE",
            "SCRIPT EXISTS",
            "SCRIPT KILL",
            "SELECT",
            "SHUTDOWN",
            "SLAVEOF",
            "SLOWLOG",
            "TIME",
        ],
    },
    Group {
        name: "read",
        service_time: Duration::from_micros(1),
        share: 0.6,
        is_control: false,
        commands: &[
            "DBSIZE",
            "EXPIRETIME",
            "GEODIST",
            "GET",
            "GETBIT",
            "GETRANGE",
            "HEXISTS",
            "HGET",
            "HLEN",
            "HSTRLEN",
            "LINDEX",
            "LLEN",
            "OBJECT",
            "PEXPIRETIME",
            "PTTL",
            "SCARD",
            "SISMEMBER",
            "STRLEN",
            "SUBSTR",
            "TTL",
            "TYPE",
            "WAIT",
            "XLEN",
            "ZCARD",
            "ZCOUNT",
            "ZLEXCOUNT",
            "ZRANK",
            "ZREVRANK",
            "ZSCORE",
        ],
    },
    Group {
        name: "write",
        service_time: Duration::from_nanos(1500),
        share: 0.3,
        is_control: false,
        commands: &[
            "APPEND",
            "BLMOVE",
            "BRPOPLPUSH",
            "DECR",
            "DECRBY",
            "DISCARD",
            "EXEC",
            "EXPIRE",
            "EXPIREAT",
            "GETDEL",
            "GETEX",
            "GETSET",
            "HINCRBY",
            "HINCRBYFLOAT",
            "HSETNX",
            "INCR",
            "INCRBY",
            "INCRBYFLOAT",
            "LMOVE",
            "LSET",
            "MULTI",
            "PERSIST",
            "PEXPIRE",
            "PEXPIREAT",
            "PSETEX",
            "PUBLISH",
            "MOVE",
            "RENAME",
            "RENAMENX",
            "RPOPLPUSH",
            "SET",
            "SETBIT",
            "SETEX",
            "SETNX",
            "SETRANGE",
            "SMOVE",
            "SPUBLISH",
            "UNWATCH",
            "XGROUP",
            "XSETID",
            "ZINCRBY",
        ],
    },
    Group {
        name: "range",
        service_time: Duration::from_micros(20),
        share: 0.079,
        is_control: false,
        commands: &[
            "BITCOUNT",
            "BITPOS",
            "COMMAND COUNT",
            "COMMAND GETKEYS",
            "COMMAND GETKEYSANDFLAGS",
            "COMMAND HELP",
            "COMMAND INFO",
            "COPY",
            "RANDOMKEY",
            "DUMP",
            "HGETALL",
            "HKEYS",
            "HVALS",
            "LINSERT",
            "LPOS",
            "LREM",
            "LTRIM",
            "MEMORY",
            "PFCOUNT",
            "SMEMBERS",
            "SWAPDB",
            "XINFO",
            "XTRIM",
            "ZREMRANGEBYLEX",
            "ZREMRANGEBYRANK",
            "ZREMRANGEBYSCORE",
        ],
    },
    Group {
        name: "scan",
        service_time: Duration::from_millis(10),
        share: 0.001,
        is_control: false,
        commands: &[
            "ACL LOAD",
            "ACL SAVE",
            "BITFIELD",
            "BITFIELD_RO",
            "BITOP",
            "BLMPOP",
            "BLPOP",
            "BRPOP",
            "BZMPOP",
            "BZPOPMAX",
            "BZPOPMIN",
            "COMMAND",
            "DEBUG",
            "DEL",
            "EVAL",
            "EVALSHA",
            "EVALSHA_RO",
            "EVAL_RO",
            "EXISTS",
            "FCALL",
            "FCALL_RO",
            "FLUSHALL",
            "FLUSHDB",
            "FUNCTION",
            "GEOADD",
            "GEOHASH",
            "GEOPOS",
            "GEORADIUS",
            "GEORADIUSBYMEMBER",
            "GEORADIUSBYMEMBER_RO",
            "GEORADIUS_RO",
            "GEOSEARCH",
            "GEOSEARCHSTORE",
            "HDEL",
            "HMGET",
            "HMSET",
            "HRANDFIELD",
            "HSCAN",
            "HSET",
            "KEYS",
            "LCS",
            "LMPOP",
            "LPOP",
            "LPUSH",
            "LPUSHX",
            "LRANGE",
            "MGET",
            "MSET",
            "MSETNX",
            "PFADD",
            "PFMERGE",
            "PSUBSCRIBE",
            "PUBSUB",
            "PUNSUBSCRIBE",
            "RESTORE",
            "RPOP",
            "RPUSH",
            "RPUSHX",
            "SADD",
            "SCAN",
            "SCRIPT",
            "SDIFF",
            "SDIFFSTORE",
            "SINTER",
            "SINTERCARD",
            "SINTERSTORE",
            "SMISMEMBER",
            "SORT",
            "SORT_RO",
            "SPOP",
            "SRANDMEMBER",
            "SREM",
            "SSCAN",
            "SSUBSCRIBE",
            "SUBSCRIBE",
            "SUNION",
            "SUNIONSTORE",
            "SUNSUBSCRIBE",
            "TOUCH",
            "UNLINK",
            "UNSUBSCRIBE",
            "WATCH",
            "XACK",
            "XADD",
            "XAUTOCLAIM",
            "XCLAIM",
            "XDEL",
            "XPENDING",
            "XRANGE",
            "XREAD",
            "XREADGROUP",
            "XREVRANGE",
            "ZADD",
            "ZDIFF",
            "ZDIFFSTORE",
            "ZINTER",
            "ZINTERCARD",
            "ZINTERSTORE",
            "ZMPOP",
            "ZMSCORE",
            "ZPOPMAX",
            "ZPOPMIN",
            "ZRANDMEMBER",
            "ZRANGE",
            "ZRANGEBYLEX",
            "ZRANGEBYSCORE",
            "ZRANGESTORE",
            "ZREM",
            "ZREVRANGE",
            "ZREVRANGEBYLEX",
            "ZREVRANGEBYSCORE",
            "ZSCAN",
            "ZUNION",
            "ZUNIONSTORE",
        ],
    },
];

const READS_OF_MANY: &[&str] = &[
    "BITFIELD_RO",
    "EXISTS",
    "GEOHASH",
    "GEOPOS",
    "HMGET",
    "MGET",
    "SMISMEMBER",
    "TOUCH",
    "WATCH",
    "ZMSCORE",
];

const WRITES_OF_MANY: &[&str] = &[
    "BITFIELD",
    "BLPOP",
    "BRPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "DEL",
    "GEOADD",
    "HDEL",
    "HMSET",
    "HSET",
    "LPUSH",
    "LPUSHX",
    "MSET",
    "MSETNX",
    "PFADD",
    "PSUBSCRIBE",
    "PUNSUBSCRIBE",
    "RPUSH",
    "RPUSHX",
    "SADD",
    "SREM",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "UNLINK",
    "UNSUBSCRIBE",
    "XACK",
    "XADD",
    "XCLAIM",
    "XDEL",
    "ZADD",
    "ZREM",
];

const POPS: &[&str] = &["LPOP", "RPOP", "SPOP", "ZPOPMAX", "ZPOPMIN"];

const POPS_OF_SEVERAL_KEYS: &[&str] = &["BLMPOP", "BZMPOP", "LMPOP", "ZMPOP"];

const RANDOM_MEMBERS: &[&str] = &["HRANDFIELD", "SRANDMEMBER", "ZRANDMEMBER"];

const CURSORS: &[&str] = &["HSCAN", "SCAN", "SSCAN", "ZSCAN"];

const READS_OF_STREAMS: &[&str] = &["XRANGE", "XREAD", "XREADGROUP", "XREVRANGE"];

const RANGES_BY_VALUE: &[&str] = &["ZRANGEBYLEX", "ZRANGEBYSCORE", "ZREVRANGEBYLEX", "ZREVRANGEBYSCORE"];

/// Requests that are of a cheaper type than their command's group, in the order in which the rules
/// are tried.
const RULES: [(&[&str], Rule, &str); 14] = [
    (READS_OF_MANY, Rule::ArgCount { max: FEW_ARGS }, "read"),
    (READS_OF_MANY, Rule::ArgCount { max: RANGE_ARGS_MAX }, "range"),
    (WRITES_OF_MANY, Rule::ArgCount { max: FEW_ARGS }, "write"),
    (WRITES_OF_MANY, Rule::ArgCount { max: RANGE_ARGS_MAX }, "range"),
    (POPS, count_up_to(FEW_ARGS as u64), "write"),
    (POPS, count_up_to(RANGE_LEN_MAX), "range"),
    (POPS_OF_SEVERAL_KEYS, COUNT_OF_A_RANGE, "range"),
    (RANDOM_MEMBERS, count_up_to(FEW_ARGS as u64), "read"),
    (RANDOM_MEMBERS, count_up_to(RANGE_LEN_MAX), "range"),
    (CURSORS, COUNT_OF_A_RANGE, "range"),
    (&["LRANGE", "ZREVRANGE"], span_from(2, &[]), "range"),
    // With BYSCORE or BYLEX, the arguments of ZRANGE are not indices.
    (&["ZRANGE"], span_from(2, &["BYSCORE", "BYLEX"]), "range"),
    (
        RANGES_BY_VALUE,
        Rule::Keyword {
            word: "LIMIT",
            numbers: 2,
            max: RANGE_LEN_MAX,
            if_absent: false,
        },
        "range",
    ),
    (
        READS_OF_STREAMS,
        Rule::Keyword {
            word: "COUNT",
            numbers: 1,
            max: RANGE_LEN_MAX,
            if_absent: false,
        },
        "range",
    ),
];

/// Without COUNT, a cursor returns 10 elements and a pop returns one.
const COUNT_OF_A_RANGE: Rule = Rule::Keyword {
    word: "COUNT",
    numbers: 1,
    max: RANGE_LEN_MAX,
    if_absent: true,
};

const fn count_up_to(max: u64) -> Rule {
    Rule::Number { arg: 2, max }
}

const fn span_from(start_arg: usize, unless: &'static [&'static str]) -> Rule {
    Rule::Span {
        start_arg,
        stop_arg: start_arg + 1,
        max: RANGE_LEN_MAX,
        unless,
    }
}

pub(super) fn classifier() -> RespClassifier {
    let grouped = GROUPS.iter().fold(RespClassifier::new(), |classifier, group| {
        let spec = TypeSpec::new(group.name).service_time(group.service_time).share(group.share);
        let spec = match group.is_control {
            true => spec.control(),
            false => spec,
        };
        classifier.group(spec, group.commands)
    });
    RULES.iter().fold(grouped, |classifier, (commands, rule, type_name)| {
        classifier.when(*commands, rule.clone(), type_name)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use psp_server::Classifier;

    use super::*;
    use crate::resp::head_of_line;

    #[test]
    fn each_command_is_in_one_group() {
        let mut seen = HashSet::new();
        for command in GROUPS.iter().flat_map(|group| group.commands) {
            assert!(seen.insert(command), "{command} is in two groups");
        }
        for (commands, _, type_name) in &RULES {
            assert!(GROUPS.iter().any(|group| group.name == *type_name));
            for command in *commands {
                assert!(seen.contains(command), "{command} has a rule but no group");
            }
        }
    }

    #[test]
    fn shares_add_up() {
        let sum: f64 = GROUPS.iter().map(|group| group.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn typical_requests_are_of_the_expected_type() {
        let classifier = RespClassifier::redis();
        let types = classifier.types();
        let many = |command: &str, count: usize| format!("{command}{}", " k".repeat(count));
        for (line, name) in [
            ("PING", "health"),
            ("client setinfo lib-name x", "health"),
            ("CLIENT LIST", "health"),
            ("CONFIG SET policy darc", "health"),
            ("FUNCTION KILL", "health"),
            ("FUNCTION LOAD x", "scan"),
            ("FCALL f 0", "scan"),
            ("COMMAND COUNT", "range"),
            ("MULTI", "write"),
            ("SCRIPT KILL", "health"),
            ("ACL WHOAMI", "health"),
            ("ACL LOAD", "scan"),
            ("COMMAND DOCS", "scan"),
            ("COMMAND", "scan"),
            ("DEBUG SLEEP 1", "scan"),
            ("GET k", "read"),
            ("SET k v EX 10", "write"),
            ("SETBIT b 7 1", "write"),
            ("BITFIELD b INCRBY u8 0 1", "write"),
            ("BITFIELD_RO b GET u8 0", "read"),
            ("LPUSH l a", "write"),
            ("BLPOP l 0", "write"),
            ("BLMPOP 0 1 l LEFT COUNT 10000", "scan"),
            (&many("LPUSH", 9), "range"),
            (&many("MGET", 8), "read"),
            (&many("MGET", 128), "range"),
            (&many("MGET", 1000), "scan"),
            (&many("DEL", 1), "write"),
            (&many("DEL", 1000), "scan"),
            ("SPOP s", "write"),
            ("SPOP s 100", "range"),
            ("SPOP s 1000", "scan"),
            ("SRANDMEMBER s -3", "read"),
            ("LRANGE l 0 99", "range"),
            ("LRANGE l 0 -1", "scan"),
            ("ZRANGE z 0 99 WITHSCORES", "range"),
            ("ZRANGE z 0 99 BYSCORE", "scan"),
            ("ZRANGE z 0 -1 WITHSCORES", "scan"),
            ("ZRANGEBYSCORE z -inf +inf LIMIT 0 10", "range"),
            ("ZRANGEBYSCORE z -inf +inf", "scan"),
            ("XADD s MAXLEN ~ 1000 * f v", "write"),
            ("XACK s g 1-1", "write"),
            ("XREADGROUP GROUP g c COUNT 10 STREAMS s >", "range"),
            ("XREAD STREAMS s 0", "scan"),
            ("XRANGE s - + COUNT 10", "range"),
            ("XRANGE s - +", "scan"),
            ("SCAN 0", "range"),
            ("SCAN 0 COUNT 10000", "scan"),
            ("HGETALL h", "range"),
            ("KEYS *", "scan"),
            ("SORT l", "scan"),
            ("SUNION a b", "scan"),
            ("FLUSHALL", "scan"),
            ("NOSUCHCOMMAND", "UNKNOWN"),
        ] {
            let (frame, head) = head_of_line(line);
            let slot = types.slot(classifier.classify(&frame, &head));
            assert_eq!(types.name_of_slot(slot), name, "{line}");
        }
    }
}
