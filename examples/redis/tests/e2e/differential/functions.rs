//! Functions and their libraries: what both servers say of them, and that they exchange them.

use crate::common::{Options, Server};

/// Libraries for FCALL, with one function each: redis-server lists several ones in no order.
pub(super) const LIBRARIES: [&str; 3] = [
    "#!lua name=s0
    redis.register_function('call', function(keys, args) return redis.call(unpack(args)) end)",
    "#!lua name=tries
    redis.register_function('try', function(keys, args) return redis.pcall(unpack(args)) end)",
    "#!lua name=reads
    redis.register_function{function_name = 'peek', flags = {'no-writes'}, callback = function(keys)
        return redis.call('get', keys[1]) end}",
];

/// The servers read each other's payloads.
#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn libraries_go_to_redis_server_and_come_back() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    // Long enough for redis-server to compress it, and so long that its length takes four bytes.
    let long = format!(
        "#!lua name=long\nredis.register_function('len', function(keys, args) return #args[1] end)\n--{}",
        "text ".repeat(10_000)
    );
    let codes = LIBRARIES.into_iter().chain([&*long]);
    for from in 0..2 {
        let [source, target] = &mut clients;
        let (source, target) = if from == 0 { (source, target) } else { (target, source) };
        source.ask("FUNCTION FLUSH");
        for code in codes.clone() {
            source.request(&["FUNCTION", "LOAD", code]);
        }
        let payload = source.request(&["FUNCTION", "DUMP"]).into_bytes();
        target.ask("FUNCTION FLUSH");
        let restored = target.request(&[b"FUNCTION", b"RESTORE".as_slice(), &payload]);
        assert_eq!(restored.to_string(), "+OK");
        assert_eq!(target.ask("FCALL len 0 four"), "4");
        assert_eq!(target.ask("FCALL call 0 PING"), "+PONG");
        let listed = clients.each_mut().map(|client| {
            let list = ["FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "long"];
            client.request(&list).to_string()
        });
        assert_eq!(listed[0], listed[1]);
    }
}

/// Requests about functions that go wrong, one after the other.
const WRONG: &[&[&str]] = &[
    &["FUNCTION"],
    &["FUNCTION", "NOPE"],
    &["FUNCTION", "LOAD"],
    &["FUNCTION", "LOAD", "x"],
    &["FUNCTION", "LOAD", "REPLACE"],
    &["FUNCTION", "LOAD", "REPLACE", "x", "y"],
    &["FUNCTION", "LOAD", "#!lua"],
    &["FUNCTION", "LOAD", "#!lua\n"],
    &["FUNCTION", "LOAD", "#!\n"],
    &["FUNCTION", "LOAD", "#! name=a\n"],
    &["FUNCTION", "LOAD", "#!js name=a\n"],
    &["FUNCTION", "LOAD", "#!lua name=a.b\n"],
    &["FUNCTION", "LOAD", "#!lua name=\"a\n"],
    &["FUNCTION", "LOAD", "#!lua name=a name=b\n"],
    &["FUNCTION", "LOAD", "#!lua name=a b=c\n"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nx y"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nreturn 1"],
    &["FUNCTION", "LOAD", "#!lua name=lib\na = 1"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nmath.random()"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nredis.call('ping')"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nredis.log(9, 'x')"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('a', 1)"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function{function_name = 'a'}"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function{flags = {'x'}}"],
    &[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('f', function(keys, args)\n\
       if args[1] == 'error' then error('oh') end\n\
       if args[1] == 'global' then x = 1 end\n\
       if args[1] == 'keys' then return KEYS end\n\
       if args[1] == 'object' then error({err = 'MY oh'}) end\n\
       if args[1] == 'register' then redis.register_function('g', 1) end\n\
       return redis.call(unpack(args)) end)",
    ],
    &["FUNCTION", "LOAD", "#!lua name=lib\n"],
    &["FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('F', function() end)"],
    &["FCALL", "f", "0", "error"],
    &["FCALL", "f", "0", "global"],
    &["FCALL", "f", "0", "keys"],
    &["FCALL", "f", "0", "object"],
    &["FCALL", "f", "0", "register"],
    &["FCALL", "f", "0", "NOPE"],
    &["FCALL", "f", "0", "GET"],
    &["FCALL", "f", "0", "CONFIG", "NOPE"],
    &["FCALL", "f", "0", "FCALL", "f", "0"],
    &["FCALL", "f", "0"],
    &["FCALL", "f", "x"],
    &["FCALL", "f", "-1"],
    &["FCALL", "f", "1"],
    &["FCALL", "f"],
    &["FCALL_RO", "f", "0", "PING"],
    &["FCALL", "nosuch", "0"],
    &["FUNCTION", "LIST", "x"],
    &["FUNCTION", "LIST", "LIBRARYNAME"],
    &["FUNCTION", "LIST", "WITHCODE", "WITHCODE"],
    &["FUNCTION", "DELETE"],
    &["FUNCTION", "DELETE", "nosuch"],
    &["FUNCTION", "FLUSH", "x"],
    &["FUNCTION", "FLUSH", "SYNC", "x"],
    &["FUNCTION", "KILL"],
    &["FUNCTION", "KILL", "x"],
    &["FUNCTION", "RESTORE"],
    &["FUNCTION", "RESTORE", "x"],
    &["FUNCTION", "RESTORE", "x", "y"],
    &["FUNCTION", "RESTORE", "x", "y", "z"],
    &["FUNCTION", "HELP"],
    &["FUNCTION", "LIST", "WITHCODE"],
    &["EVAL_RO", "#!lua\nreturn 1", "0"],
    &["EVAL_RO", "#!lua flags=no-writes\nreturn redis.call('set', 'x', 1)", "0"],
    &["EVAL", "#!lua flags=no-writes,\nreturn 1", "0"],
    &["EVAL", "#!LUA\nreturn 1", "0"],
    &["EVAL", "#!lua \"\nreturn 1", "0"],
    &["EVAL", "return redis.call('config', 'nope')", "0"],
    &["EVAL", "return redis.set_repl(9)", "0"],
    &["EVAL", "return redis.acl_check_cmd()", "0"],
    &["EVAL", "return 1/0", "0"],
    &["SCRIPT", "HELP"],
    &["SCRIPT", "DEBUG", "x"],
    &["SCRIPT", "FLUSH", "x"],
];

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn what_goes_wrong_with_functions_is_said_as_redis_server_says_it() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    for words in WRONG {
        let [ours, redis] = clients.each_mut().map(|client| client.request(words).to_string());
        assert_eq!(ours, redis, "after {words:?}");
    }
}
