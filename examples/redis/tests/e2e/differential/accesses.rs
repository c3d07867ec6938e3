//! Which commands count as an access to a key, and end its idle time.

use crate::common::{Connection, Options, Server};

/// What the keys hold: `s`, `l`, `h`, `e` and `z`.
const KEYS: &[&str] = &["SET s v", "RPUSH l a b", "HSET h f 1", "SADD e m", "ZADD z 1 m"];
/// Before a command its key has been idle for so many seconds.
const IDLE_S: i64 = 1000;

/// Commands with a key, which is looked at after them.
const COMMANDS: &[(&str, &str)] = &[
    ("s", "EXISTS s"),
    ("s", "TTL s"),
    ("s", "PTTL s"),
    ("s", "EXPIRETIME s"),
    ("s", "TYPE s"),
    ("s", "OBJECT ENCODING s"),
    ("s", "OBJECT REFCOUNT s"),
    ("s", "OBJECT IDLETIME s"),
    ("s", "DUMP s"),
    ("s", "KEYS *"),
    ("s", "SCAN 0"),
    ("s", "COPY s t"),
    ("s", "COPY l s"),
    ("s", "STRLEN s"),
    ("s", "GET s"),
    ("s", "MGET x s"),
    ("s", "TOUCH s"),
    ("s", "EXPIRE s 100"),
    ("s", "EXPIRE s 100 GT"),
    ("s", "PERSIST s"),
    ("s", "GETEX s"),
    ("s", "SETNX s x"),
    ("s", "MSETNX s x"),
    ("s", "MSETNX x 1 s x"),
    ("s", "SET s x NX"),
    ("s", "SET s x KEEPTTL"),
    ("s", "APPEND s x"),
    ("s", "GETBIT s 0"),
    ("s", "BITCOUNT s"),
    ("s", "GETRANGE s 0 1"),
    ("s", "LCS s s"),
    ("s", "PFCOUNT s"),
    ("s", "XLEN s"),
    ("s", "WATCH s"),
    ("s", "MEMORY USAGE s"),
    ("s", "RENAME s s"),
    ("s", "RENAMENX l s"),
    ("s", "MOVE s 1"),
    ("s", "EVAL return(redis.call('exists','s')) 0"),
    ("s", "EVAL return(redis.call('get','s')) 1 s"),
    ("l", "LLEN l"),
    ("l", "LRANGE l 0 -1"),
    ("l", "LPOS l a"),
    ("l", "LPUSHX l x"),
    ("l", "LREM l 0 zz"),
    ("l", "SORT l ALPHA"),
    ("l", "LMOVE none l LEFT LEFT"),
    ("h", "HLEN h"),
    ("h", "HGET h f"),
    ("h", "HEXISTS h f"),
    ("h", "HSTRLEN h f"),
    ("h", "HSETNX h f 2"),
    ("h", "HDEL h zz"),
    ("e", "SCARD e"),
    ("e", "SISMEMBER e m"),
    ("e", "SUNION e e"),
    ("e", "SINTERCARD 1 e"),
    ("e", "SMOVE e f zz"),
    ("e", "SREM e zz"),
    ("e", "SADD e m"),
    ("z", "ZCARD z"),
    ("z", "ZSCORE z m"),
    ("z", "ZRANK z m"),
    ("z", "ZREM z zz"),
    ("z", "ZADD z XX 1 zz"),
];

/// Whether the key is idle after the command as it was before, or what else is there.
fn is_idle(client: &mut Connection, key: &str, command: &str) -> String {
    client.ask("UNWATCH");
    client.ask("FLUSHALL");
    for line in KEYS {
        client.ask(line);
    }
    let payload = client.request(&["DUMP", key]).into_bytes();
    let idle = IDLE_S.to_string();
    let restore = [
        b"RESTORE".as_slice(),
        key.as_bytes(),
        b"0",
        &payload,
        b"REPLACE",
        b"IDLETIME",
        idle.as_bytes(),
    ];
    assert_eq!(client.request(&restore).to_string(), "+OK");
    client.ask(command);
    let idle = client.request(&["OBJECT", "IDLETIME", key]).to_string();
    match idle.parse::<i64>() {
        Ok(idle_s) => (idle_s >= IDLE_S).to_string(),
        Err(_) => idle,
    }
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn the_commands_that_are_accesses_for_redis_server_are_accesses() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    for (key, command) in COMMANDS {
        let [ours, redis] = clients.each_mut().map(|client| is_idle(client, key, command));
        assert_eq!(ours, redis, "{command}");
    }
}
