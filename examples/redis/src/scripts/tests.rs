//! Scripts as a client sees them.

use std::thread;
use std::time::{Duration, Instant};

use super::digest::Digest;
use crate::testing::Session;

/// Runs `body` with KEYS a, b and ARGV x, y. A space stands for `\r\n` in the reply.
pub(super) fn eval(session: &mut Session, body: &str) -> String {
    let words = ["EVAL", body, "2", "a", "b", "x", "y"];
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let reply = session.run_args(&words).replace("\r\n", " ");
    reply.trim_end().to_owned()
}

#[track_caller]
fn check(session: &mut Session, cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        assert_eq!(eval(session, body), *expected, "{body}");
    }
}

/// The reply of a script that fails at its line 1 with `error`.
fn failure(body: &str, error: &str) -> String {
    let digest = Digest::of(body.as_bytes());
    format!("-{error} script: {digest}, on @user_script:1.")
}

#[track_caller]
fn check_failures(session: &mut Session, cases: &[(&str, &str)]) {
    for (body, error) in cases {
        assert_eq!(eval(session, body), failure(body, error), "{body}");
    }
}

#[test]
fn values_of_lua_become_replies() {
    let mut session = Session::new();
    check(
        &mut session,
        &[
            ("return 'text'", "$4 text"),
            ("return 7", ":7"),
            ("return 3.99", ":3"),
            ("return -3.99", ":-3"),
            ("return 1/0", ":-9223372036854775808"),
            ("return 0/0", ":-9223372036854775808"),
            ("return 2^53", ":9007199254740992"),
            ("return true", ":1"),
            ("return false", "$-1"),
            ("return nil", "$-1"),
            ("", "$-1"),
            ("return {1, 'two', {3}, nil, 5}", "*3 :1 $3 two *1 :3"),
            ("return {}", "*0"),
            ("return {ok = 'FINE'}", "+FINE"),
            ("return {err = 'MY error'}", "-MY error"),
            ("return {double = 3.5}", "$3 3.5"),
            ("return {map = {a = 1}}", "*2 $1 a :1"),
            ("return {set = {a = true}}", "*1 $1 a"),
            ("return {big_number = '123'}", "$3 123"),
            ("return {verbatim_string = {string = 'hi', format = 'txt'}}", "$2 hi"),
            ("return redis.status_reply('GOOD')", "+GOOD"),
            ("return redis.error_reply('MY oh')", "-MY oh"),
            ("return redis.error_reply('oh')", "-ERR oh"),
            ("return {KEYS[1], KEYS[2], KEYS[3]}", "*2 $1 a $1 b"),
            ("return {ARGV[1], ARGV[2], #ARGV}", "*3 $1 x $1 y :2"),
        ],
    );
    let mut session = session.resp3();
    check(
        &mut session,
        &[
            ("return nil", "_"),
            ("return true", ":1"),
            ("redis.setresp(3) return true", "#t"),
            ("redis.setresp(3) return false", "#f"),
            ("return {double = 3.5}", ",3.5"),
            ("return {map = {a = 1}}", "%1 $1 a :1"),
            ("return {set = {a = true}}", "~1 $1 a"),
            ("return {big_number = '123'}", "(123"),
            ("return {verbatim_string = {string = 'hi', format = 'txt'}}", "=6 txt:hi"),
        ],
    );
}

#[test]
fn replies_of_commands_become_values_of_lua() {
    let mut session = Session::new();
    session.expect(&[
        ("SET a 5", "+OK"),
        ("RPUSH l 1 2", ":2"),
        ("HSET h f v", ":1"),
        ("SADD s m", ":1"),
        ("ZADD z 1.5 m", ":1"),
    ]);
    check(
        &mut session,
        &[
            ("return redis.call('get', KEYS[1])", "$1 5"),
            ("return type(redis.call('incr', KEYS[1]))", "$6 number"),
            ("return redis.call('set', KEYS[2], 1).ok", "$2 OK"),
            ("return tostring(redis.call('get', 'none'))", "$5 false"),
            ("return redis.call('lrange', 'l', 0, -1)", "*2 $1 1 $1 2"),
            ("return tostring(redis.call('mget', 'a', 'none')[2])", "$5 false"),
            (
                "redis.call('sadd', 's2', 'd', 'b', 'c', 'a') return redis.call('sort', 's2', 'by', 'nothing')",
                "*4 $1 a $1 b $1 c $1 d",
            ),
            (
                "return redis.pcall('incr', 'l').err",
                "$65 WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("return redis.call('hgetall', 'h')", "*2 $1 f $1 v"),
            ("redis.setresp(3) return redis.call('hgetall', 'h').map.f", "$1 v"),
            ("redis.setresp(3) return tostring(redis.call('smembers', 's').set.m)", "$4 true"),
            ("redis.setresp(3) return tostring(redis.call('zscore', 'z', 'm').double)", "$3 1.5"),
            ("redis.setresp(3) return tostring(redis.call('get', 'none'))", "$3 nil"),
            ("redis.call('set', 'n', 1.5) return redis.call('get', 'n')", "$3 1.5"),
            ("redis.call('set', 'n', 10) return redis.call('get', 'n')", "$2 10"),
        ],
    );
}

/// Short arguments come from Lua as one text, others one by one.
#[test]
fn arguments_of_all_kinds_reach_commands() {
    let mut session = Session::new();
    check(
        &mut session,
        &[
            ("return redis.call('echo', '')", "$0"),
            ("return redis.call('ECHO', 12)", "$2 12"),
            ("return redis.call('echo', -7)", "$2 -7"),
            ("return redis.call('echo', 999999999999999)", "$15 999999999999999"),
            ("return redis.call('echo', -1e15)", "$17 -1000000000000000"),
            ("return redis.call('echo', 1e15)", "$16 1000000000000000"),
            ("return redis.call('echo', 1e20)", "$5 1e+20"),
            ("return redis.call('echo', 0.1)", "$19 0.10000000000000001"),
            ("return redis.call('echo', 0 * -1)", "$2 -0"),
            ("return redis.call('echo', 1 / 0)", "$3 inf"),
            ("return redis.call('echo', 'a\\0b') == 'a\\0b'", ":1"),
            ("return redis.call('echo', '\\255\\254') == '\\255\\254'", ":1"),
            (
                "local ok, e = pcall(redis.call) return e",
                "$64 ERR Please specify at least one argument for this redis lib call",
            ),
            (
                "local t = {} for i = 1, 600 do t[i] = i end return redis.call('rpush', 'l', unpack(t))",
                ":600",
            ),
            (
                "redis.call('rpush', 'm', 1, 2.5, 'x') return redis.call('lrange', 'm', 0, -1)",
                "*3 $1 1 $3 2.5 $1 x",
            ),
            ("return redis.pcall('echo', nil).err ~= nil", ":1"),
        ],
    );
    for len in [254, 255, 256, 300, 509, 511, 512, 513, 100_000] {
        let body = format!(
            "local text = ('x'):rep({len}) return redis.call('echo', text) == text and redis.call('echo', text .. 'y') == text .. 'y'"
        );
        assert_eq!(eval(&mut session, &body), ":1", "{len}");
    }
}

/// Replies are made without a look at the limit while there is room for them.
#[test]
fn replies_count_as_memory_of_the_script() {
    let mut session = Session::new();
    let body = "
        redis.call('set', KEYS[1], ('x'):rep(1024 * 1024))
        local t = {} for i = 1, 2000 do t[i] = false end
        for i = 1, 2000 do
            redis.call('setrange', KEYS[1], 0, i)
            t[i] = redis.call('get', KEYS[1])
        end
        return 'never'";
    let reply = eval(&mut session, body);
    assert!(reply.starts_with("-ERR ") && reply.contains("not enough memory"), "{reply}");
    let documents = "
        local text, t = '[' .. ('[],'):rep(100000) .. '1]', {}
        for i = 1, 1000 do t[i] = cjson.decode(text) end
        return 'never'";
    let reply = eval(&mut session, documents);
    assert!(reply.starts_with("-ERR ") && reply.contains("not enough memory"), "{reply}");
    assert_eq!(eval(&mut session, "return 1"), ":1");
}

/// The collector's finalizers find no room on the stack at some depth, where an error would be one of the reply's.
#[test]
fn replies_are_made_at_any_depth() {
    let mut session = Session::new();
    let body = "
        redis.call('rpush', KEYS[1], unpack((function() local t = {} for i = 1, 100 do t[i] = 'element ' .. i end return t end)()))
        local calls = 0
        local function reply()
            for i = 1, 200 do redis.call('lrange', KEYS[1], 0, -1) calls = calls + 1 end
            return true
        end
        local function in_c(depth) if depth == 0 then return reply() end local _, reached = pcall(in_c, depth - 1) return reached end
        local function in_lua(depth) if depth == 0 then return reply() end return (in_lua(depth - 1)) end
        for depth = 180, 200 do
            for i = 1, 20 do pcall(redis.call, 'nosuch') end
            in_c(depth)
        end
        for depth = 16360, 16390 do
            for i = 1, 20 do pcall(redis.call, 'nosuch') end
            pcall(in_lua, depth)
        end
        return calls >= 20 * 10";
    assert_eq!(eval(&mut session, body), ":1");
    let hoard = "local t = {} for i = 1, 1000 do t[i] = ('x'):rep(1024 * 1024) .. i end";
    let reply = eval(&mut session, hoard);
    assert!(reply.contains("not enough memory"), "the limit holds again: {reply}");
}

#[test]
fn errors_are_those_of_redis() {
    let mut session = Session::new();
    session.expect(&[
        (
            "EVALSHA 0123456789012345678901234567890123456789 0",
            "-NOSCRIPT No matching script. Please use EVAL.",
        ),
        ("EVALSHA short 0", "-NOSCRIPT No matching script. Please use EVAL."),
        ("EVAL return 1", "-ERR Number of keys can't be greater than number of args"),
        ("EVAL return -1", "-ERR Number of keys can't be negative"),
        ("EVAL return x", "-ERR value is not an integer or out of range"),
        ("EVAL return", "-ERR wrong number of arguments for 'eval' command"),
        ("SET text x", "+OK"),
    ]);
    check(
        &mut session,
        &[(
            "return x y",
            "-ERR Error compiling script (new function): user_script:1: '<eof>' expected near 'y'",
        )],
    );
    check_failures(
        &mut session,
        &[
            ("error('oh')", "ERR user_script:1: oh"),
            ("error({err = 'MY oh'})", "MY oh"),
            ("local x = nil; return x.y", "ERR user_script:1: attempt to index local 'x' (a nil value)"),
            ("redis.call('nosuch')", "ERR Unknown Redis command called from script"),
            ("redis.call('get')", "ERR Wrong number of args calling Redis command from script"),
            ("redis.call()", "ERR Please specify at least one argument for this redis lib call"),
            ("redis.call('get', {})", "ERR Lua redis lib command arguments must be strings or integers"),
            ("redis.call('multi')", "ERR This Redis command is not allowed from script"),
            ("redis.call('eval', 'return 1', 0)", "ERR This Redis command is not allowed from script"),
            ("redis.call('auth', 'x')", "ERR This Redis command is not allowed from script"),
            (
                "redis.call('cluster', 'reset', 'hard')",
                "ERR This Redis command is not allowed from script",
            ),
            ("redis.call('incr', 'text')", "ERR value is not an integer or out of range"),
            (
                "redis.call('lpush', 'text', 1)",
                "WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("redis.sha1hex()", "ERR wrong number of arguments"),
            ("redis.setresp(4)", "ERR RESP version must be 2 or 3."),
            (
                "return nosuch",
                "ERR user_script:1: Script attempted to access nonexistent global variable 'nosuch'",
            ),
            ("x = 1", "ERR user_script:1: Attempt to modify a readonly table"),
            ("redis.x = 1", "ERR user_script:1: Attempt to modify a readonly table"),
            ("string.x = 1", "ERR user_script:1: Attempt to modify a readonly table"),
            ("rawset(_G, 'x', 1)", "ERR Attempt to modify a readonly table"),
            ("setmetatable(_G, {})", "ERR Attempt to modify a readonly table"),
            ("getmetatable(_G).__index = {}", "ERR user_script:1: Attempt to modify a readonly table"),
            ("rawset(getmetatable(_G), '__index', {})", "ERR Attempt to modify a readonly table"),
            ("setmetatable(getmetatable(redis), {})", "ERR Attempt to modify a readonly table"),
            (
                "cjson.decode('{')",
                "ERR user_script:1: Expected object key string but found T_END at character 2",
            ),
            (
                "bit.band('x')",
                "ERR user_script:1: bad argument #1 to 'band' (number expected, got string)",
            ),
        ],
    );
    let two_lines = "local x = 1\nreturn redis.call('nosuch', x)";
    assert!(eval(&mut session, two_lines).ends_with(", on @user_script:2."));
    // What a script catches is as in Redis.
    check(
        &mut session,
        &[
            (
                "local ok, e = pcall(redis.call, 'nosuch') return {tostring(ok), e}",
                "*2 $5 false $44 ERR Unknown Redis command called from script",
            ),
            ("return redis.pcall('nosuch').err", "$44 ERR Unknown Redis command called from script"),
            ("local ok, e = pcall(error, 'oh') return e", "$2 oh"),
            ("local ok, e = pcall(cjson.decode, 'x') return type(e)", "$6 string"),
            ("return redis.pcall('incr', 'text')", "-ERR value is not an integer or out of range"),
        ],
    );
}

#[test]
fn what_a_script_wrote_before_its_error_stays() {
    let mut session = Session::new();
    assert!(eval(&mut session, "redis.call('set', 'a', 1) error('oh')").starts_with("-ERR user_script"));
    session.expect(&[("GET a", "$1 1")]);
}

#[test]
fn scripts_are_found_by_their_digest() {
    let mut session = Session::new();
    let digest = Digest::of(b"return ARGV[1]").to_string();
    let load = session.run_args(&[b"SCRIPT", b"LOAD", b"return ARGV[1]"]);
    assert_eq!(load, format!("$40\r\n{digest}\r\n"));
    session.expect(&[
        (&format!("EVALSHA {digest} 0 hi"), "$2 hi"),
        (&format!("EVALSHA_RO {} 0 hi", digest.to_uppercase()), "$2 hi"),
        (&format!("SCRIPT EXISTS {digest} nosuch"), "*2 :1 :0"),
        (&format!("SCRIPT SHOW {digest}"), "$14 return ARGV[1]"),
        ("SCRIPT SHOW nosuch", "-NOSCRIPT No matching script. Please use EVAL."),
        ("SCRIPT FLUSH", "+OK"),
        (&format!("EVALSHA {digest} 0 hi"), "-NOSCRIPT No matching script. Please use EVAL."),
        (&format!("SCRIPT EXISTS {digest}"), "*1 :0"),
        ("SCRIPT FLUSH NOW", "-ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
        ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now."),
        ("SCRIPT NOPE", "-ERR unknown subcommand 'NOPE'. Try SCRIPT HELP."),
    ]);
    assert_eq!(eval(&mut session, "return ARGV[1]"), "$1 x");
    session.expect(&[(&format!("SCRIPT EXISTS {digest}"), "*1 :1")]);
    let broken = session.run_args(&[b"SCRIPT", b"LOAD", b"retrn"]);
    assert!(broken.starts_with("-ERR Error compiling script (new function): user_script:1:"));
}

#[test]
fn read_only_scripts_write_nothing() {
    let mut session = Session::new();
    let refused = "ERR Write commands are not allowed from read-only scripts.";
    let body = "return redis.call('set', 'a', 1)";
    let reply = session.run_args(&[b"EVAL_RO", body.as_bytes(), b"0"]);
    assert_eq!(reply.trim_end(), failure(body, refused));
    let body = "#!lua flags=no-writes\nreturn redis.call('set', 'a', 1)";
    let reply = eval(&mut session, body);
    assert!(reply.starts_with(&format!("-{refused}")) && reply.ends_with(":2."), "{reply}");
    session.expect(&[("EXISTS a", ":0")]);
    for call in ["'publish', 'c', 'm'", "'spublish', 'c', 'm'", "'pfcount', 'a'"] {
        let body = format!("return redis.call({call})");
        let reply = session.run_args(&[b"EVAL_RO", body.as_bytes(), b"0"]);
        assert_eq!(reply.trim_end(), failure(&body, refused));
        assert_eq!(eval(&mut session, &body), ":0");
    }
}

#[test]
fn readonly_tables_list_what_they_have() {
    let names = |table: &str| {
        let listed = format!("local t = {{}} for k in pairs({table}) do t[#t + 1] = tostring(k) end table.sort(t)");
        format!("{listed} return table.concat(t, ' ')")
    };
    let mut session = Session::new();
    let mut listed = |table| eval(&mut session, &names(table)).split_once(' ').expect("text").1.to_owned();
    assert_eq!(
        listed("redis"),
        "LOG_DEBUG LOG_NOTICE LOG_VERBOSE LOG_WARNING REDIS_VERSION REDIS_VERSION_NUM REPL_ALL REPL_AOF REPL_NONE \
         REPL_REPLICA REPL_SLAVE acl_check_cmd breakpoint call debug error_reply log pcall replicate_commands set_repl \
         setresp sha1hex status_reply"
    );
    assert_eq!(
        listed("string"),
        "byte char find format gfind gmatch gsub len lower match rep reverse sub upper"
    );
    assert_eq!(listed("{7, 8, x = 9}"), "1 2 x");
    let globals = listed("_G");
    for name in ["KEYS", "_G", "pairs", "redis", "xpcall"] {
        assert!(globals.split(' ').any(|it| it == name), "{name}: {globals}");
    }
    check(
        &mut session,
        &[
            ("return next(redis) ~= nil and redis[next(redis)] ~= nil", ":1"),
            ("return {next({}), 1}", "*0"),
            ("for k in pairs(_G) do if k == 'print' then return k end end", "$-1"),
        ],
    );
    check_failures(
        &mut session,
        &[
            (
                "local _, t = pairs(redis) t.x = 1",
                "ERR user_script:1: Attempt to modify a readonly table",
            ),
            ("pairs(nil)", "ERR user_script:1: bad argument #1 to 'pairs' (table expected, got nil)"),
            ("string.gfind('x', ('a'):rep(3000))", "ERR user_script:1: pattern too long"),
        ],
    );
}

#[test]
fn the_sandbox_holds() {
    let mut session = Session::new();
    for name in [
        "print", "dofile", "loadfile", "require", "module", "io", "package", "debug", "newproxy", "setfenv", "getfenv",
    ] {
        let body = format!("return type({name})");
        let expected = failure(
            &body,
            &format!("ERR user_script:1: Script attempted to access nonexistent global variable '{name}'"),
        );
        assert_eq!(eval(&mut session, &body), expected, "{name}");
    }
    check(
        &mut session,
        &[
            ("return type(os.clock())", "$6 number"),
            ("return tostring(os.execute)", "$3 nil"),
            ("return tostring(string.dump)", "$3 nil"),
            ("return tostring((loadstring('\\27Lua')))", "$3 nil"),
            ("return loadstring('return 1 + 2')()", ":3"),
            ("return select(2, loadstring('x y', '=c'))", "$26 c:1: '=' expected near 'y'"),
            ("return load(function() return nil end) and 1", ":1"),
            ("return tostring(getmetatable(''))", "$5 false"),
            ("return ('x'):rep(3)", "$3 xxx"),
            ("return tostring(rawget(_G, 'nosuch'))", "$3 nil"),
            ("return type(rawget(_G, 'redis'))", "$5 table"),
            ("table.insert(_G, 1) return 1", ":1"),
        ],
    );
    let leaked = eval(&mut session, "return _G[1]");
    assert!(leaked.contains("nonexistent global variable '1'"), "{leaked}");
}

#[test]
fn recursion_and_memory_have_bounds() {
    let mut session = Session::new();
    for body in [
        "local function f() return 1 + f() end return f()",
        "local function f(x) return (x:gsub('.', f)) end return f('x')",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local function f() return pcall(f) and error('x') end f() local function g() return {g()} end return g()",
        "local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
        "return cjson.decode(('['):rep(100000))",
        "return ('a'):rep(5000):find(('.?'):rep(5000))",
        "return ('x'):rep(1024 * 1024 * 1024)",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1024 * 1024) .. i end",
        "local s = ('('):rep(5000) .. ')' return assert(loadstring(s))",
    ] {
        let reply = eval(&mut session, body);
        assert!(reply.starts_with("-ERR "), "{body}: {reply:.200}");
    }
    assert!(eval(&mut session, "local t = {} for i = 1, 100000 do t = {t} end return t").contains("lua stack limit"));
    assert_eq!(eval(&mut session, "return 1"), ":1");
}

#[test]
fn a_script_is_killed_even_if_it_catches_everything() {
    let session = Session::new();
    let mut other = session.beside();
    other.expect(&[("CONFIG SET busy-reply-threshold 20", "+OK")]);
    for body in [
        "redis.call('set', 'a', 1) while true do end",
        "redis.call('set', 'a', 1) while true do pcall(function() while true do end end) end",
        "redis.call('set', 'a', 1) while true do xpcall(function() while true do end end, function() end) end",
        "redis.call('set', 'a', 1) while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "redis.call('set', 'a', 1) while true do coroutine.wrap(function() while true do end end)() end",
        "while true do redis.pcall('set', 'a', 1) end",
    ] {
        let mut runner = session.beside();
        let reply = thread::scope(|scope| {
            let run = scope.spawn(move || eval(&mut runner, body));
            let started = Instant::now();
            while other.run("SCRIPT KILL") != "+OK\r\n" {
                assert!(started.elapsed() < Duration::from_secs(30), "{body}");
                thread::sleep(Duration::from_millis(1));
            }
            run.join().unwrap()
        });
        assert_eq!(reply, "-ERR Script killed by user with SCRIPT KILL.", "{body}");
        other.expect(&[("EXISTS a", ":0")]);
    }
}

#[test]
fn a_script_that_takes_too_long_has_no_effect() {
    let mut session = Session::new();
    session.expect(&[("CONFIG SET script-time-limit-ms 20", "+OK")]);
    let reply = eval(&mut session, "redis.call('set', 'a', 1) while true do end");
    assert_eq!(reply, "-ERR Script stopped: it ran longer than script-time-limit-ms.");
    session.expect(&[("EXISTS a", ":0")]);
    assert_eq!(eval(&mut session, "return 1"), ":1");
}

/// Rust has room for 8000 references to values of Lua.
#[test]
fn tables_of_many_strings_and_many_scripts_are_no_error() {
    let mut session = Session::new();
    let table = "local t = {} for i = 1, 20000 do t[i] = 'x' .. i end";
    let pairs = "local t = {} for i = 1, 20000 do t['x' .. i] = {'y'} end";
    let reply = eval(&mut session, &format!("{table} return t"));
    assert!(reply.starts_with("*20000 $2 x1 ") && reply.ends_with("$6 x20000"), "{reply:.100}");
    for kind in ["map", "set"] {
        let reply = eval(&mut session, &format!("{pairs} return {{{kind} = t}}"));
        assert!(reply.contains(" $6 x20000"), "{kind}: {reply:.100}");
    }
    for (body, expected) in [
        ("return #cjson.decode(cjson.encode(t))", ":20000"),
        ("return #cmsgpack.unpack(cmsgpack.pack(t))", ":20000"),
    ] {
        let body = format!("{table} {body}");
        assert_eq!(eval(&mut session, &body), expected, "{body}");
    }
    for (body, expected) in [
        ("return cjson.decode(cjson.encode(t)).x20000", "*1 $1 y"),
        ("return cmsgpack.unpack(cmsgpack.pack(t)).x20000", "*1 $1 y"),
    ] {
        let body = format!("{pairs} {body}");
        assert_eq!(eval(&mut session, &body), expected, "{body}");
    }
    for number in 0..9000 {
        let reply = eval(&mut session, &format!("return {number}"));
        assert_eq!(reply, format!(":{number}"));
    }
}

#[test]
fn scripts_run_in_transactions() {
    let mut session = Session::new();
    session.expect(&[("MULTI", "+OK")]);
    assert_eq!(eval(&mut session, "return redis.call('incr', KEYS[1])"), "+QUEUED");
    session.expect(&[("INCR a", "+QUEUED"), ("EXEC", "*2 :1 :2"), ("GET a", "$1 2")]);
}

#[test]
fn libraries_do_what_redis_does() {
    let mut session = Session::new();
    check(
        &mut session,
        &[
            ("return cjson.encode({1, 2, {a = 'b'}})", r#"$15 [1,2,{"a":"b"}]"#),
            ("return cjson.encode({})", "$2 {}"),
            ("return cjson.encode({[5] = 1})", "$23 [null,null,null,null,1]"),
            (r#"return cjson.encode('a"/\n\1')"#, r#"$15 "a\"\/\n\u0001""#),
            ("return cjson.encode({1.5, 1e20, 0.1, true, cjson.null})", "$25 [1.5,1e+20,0.1,true,null]"),
            ("return cjson.decode('[1, {\"a\": [true, null]}]')[2].a[1] and 1", ":1"),
            ("return tostring(cjson.decode('[null]')[1] == cjson.null)", "$4 true"),
            (r#"return cjson.decode('"\\u00e9\\ud83d\\ude00\\n."')"#, "$8 é😀\n."),
            ("return tostring(cjson.decode('1.25e2'))", "$3 125"),
            ("return bit.band(0xff, 0x0f)", ":15"),
            ("return bit.tobit(0xffffffff)", ":-1"),
            ("return bit.bnot(0)", ":-1"),
            ("return bit.rshift(-1, 28)", ":15"),
            ("return bit.arshift(-16, 2)", ":-4"),
            ("return bit.lshift(1, 33)", ":2"),
            ("return bit.tohex(255, 4)", "$4 00ff"),
            ("return bit.bswap(0x12345678)", ":2018915346"),
            ("return redis.sha1hex('')", "$40 da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("return redis.REDIS_VERSION", "$5 7.4.1"),
            ("return {redis.LOG_DEBUG, redis.LOG_WARNING}", "*2 :0 :3"),
            ("redis.log(redis.LOG_DEBUG, 'text', 1) return redis.replicate_commands()", ":1"),
        ],
    );
}

/// A script that packs with `pack` and returns the bytes in hexadecimal.
fn hex(pack: &str) -> String {
    format!("return ({pack}):gsub('.', function(c) return string.format('%02x', c:byte()) end)")
}

#[test]
fn documents_of_any_size_are_what_they_were() {
    let mut session = Session::new();
    for len in [0, 1, 63, 64, 65, 128, 1000] {
        let body = format!(
            "local list, object = {{}}, {{}}
            for i = 1, {len} do list[i], object['key ' .. i] = {{i, 'text'}}, i / 4 end
            local list_read, object_read = cjson.decode(cjson.encode(list)), cjson.decode(cjson.encode(object))
            for i = 1, {len} do
                if list_read[i][1] ~= i or list_read[i][2] ~= 'text' or object_read['key ' .. i] ~= i / 4 then return i end
            end
            return #list_read"
        );
        assert_eq!(eval(&mut session, &body), format!(":{len}"));
    }
    check(
        &mut session,
        &[
            (r#"return cjson.decode('{"a":1,"a":"2"}').a"#, "$1 2"),
            (r#"return cjson.decode('["\\u00e9\\n"]')[1] == 'é\n'"#, ":1"),
            (r#"return cjson.decode('["\255"]')[1] == '\255'"#, ":1"),
            (
                r#"return cjson.encode({'a/b"\\', true, 1e14, 0.5, -2.5e-7})"#,
                r#"$36 ["a\/b\"\\",true,1e+14,0.5,-2.5e-07]"#,
            ),
            ("return cjson.encode({[1] = 1, x = 2}) ~= '[1]'", ":1"),
            ("return cjson.encode({[1] = 1, [3] = 3})", "$10 [1,null,3]"),
        ],
    );
}

#[test]
fn messages_are_packed_and_unpacked() {
    let mut session = Session::new();
    for (pack, expected) in [
        ("cmsgpack.pack({1, 2, 3})", "93010203"),
        ("cmsgpack.pack({a = true})", "81a161c3"),
        ("cmsgpack.pack({})", "90"),
        ("cmsgpack.pack(-1, -33, 200, 70000, 5000000000)", "ffd0dfccc8ce00011170cf000000012a05f200"),
        ("cmsgpack.pack(0.5, 0.1)", "ca3f000000cb3fb999999999999a"),
        ("cmsgpack.pack(nil, false, 'x')", "c0c2a178"),
        ("struct.pack('>HBi', 258, 3, -2)", "010203fffffffe"),
        ("struct.pack('<I2dc2s', 1, 1, 'abc', 'z')", "0100000000000000f03f61627a00"),
        ("struct.pack('>!4 b i', 1, 2)", "0100000000000002"),
    ] {
        let reply = eval(&mut session, &hex(pack));
        assert_eq!(reply, format!("${} {expected}", expected.len()), "{pack}");
    }
    let same = |text: &str| format!("local t = cmsgpack.unpack(cmsgpack.pack({text})) return cjson.encode(t)");
    for text in ["{1,-1,-200,100000,-100000,0.5}", "{\"a\",{true,false}}", "{}"] {
        let expected = text.replace('{', "[").replace('}', "]");
        let expected = if text == "{}" { "{}" } else { &expected };
        let reply = eval(&mut session, &same(text));
        assert_eq!(reply, format!("${} {expected}", expected.len()), "{text}");
    }
    check(
        &mut session,
        &[
            ("return {cmsgpack.unpack(cmsgpack.pack(1, 'a', 3))}", "*3 :1 $1 a :3"),
            ("return {cmsgpack.unpack_one('\\1\\2\\3', 1)}", "*2 :2 :2"),
            ("return {cmsgpack.unpack_limit('\\1\\2\\3', 2)}", "*3 :2 :1 :2"),
            ("return {cmsgpack.unpack_one('\\1')}", "*2 :-1 :1"),
            ("return {struct.unpack('>Hs', struct.pack('>Hs', 7, 'text'))}", "*3 :7 $4 text :8"),
            ("return {struct.unpack('Bc0', struct.pack('Bc0', 3, 'abc'))}", "*2 $3 abc :5"),
            ("return {struct.unpack('<i3', struct.pack('<i3', -5))}", "*2 :-5 :4"),
            ("return struct.size('!8bd')", ":16"),
        ],
    );
    check_failures(
        &mut session,
        &[
            ("struct.unpack('>i', 'a')", "ERR user_script:1: data string too short"),
            ("struct.unpack('!16d', 'a', 1e308)", "ERR user_script:1: data string too short"),
            ("struct.pack('y', 1)", "ERR user_script:1: invalid format option 'y'"),
            (
                "struct.pack('i100', 1)",
                "ERR user_script:1: integral size 100 is larger than limit of 32",
            ),
        ],
    );
    assert!(eval(&mut session, "cmsgpack.unpack('\\147\\1')").contains("Missing bytes in input."));
    assert!(eval(&mut session, "cmsgpack.unpack(('\\145'):rep(100000))").contains("Bad data format"));
}
