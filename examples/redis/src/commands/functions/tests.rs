//! FCALL and FUNCTION as a client sees them.

use std::thread;
use std::time::{Duration, Instant};

use super::{HELP, LIBRARY};
use crate::config::Config;
use crate::rdb;
use crate::scripts::profile::Kind;
use crate::testing::Session;

/// Loads a library whose text, but for its first line, is `code`. A space stands for `\r\n` in the reply.
fn load(session: &mut Session, name: &str, code: &str) -> String {
    let code = format!("#!lua name={name}\n{code}");
    ask(session, &["FUNCTION", "LOAD", "REPLACE", &code])
}

fn ask(session: &mut Session, words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
    let reply = session.run_args(&words).replace("\r\n", " ");
    reply.trim_end().to_owned()
}

/// The reply of a function that is loaded with this body.
fn result(session: &mut Session, body: &str) -> String {
    let code = format!("redis.register_function('f', function(keys, args) {body} end)");
    assert_eq!(load(session, "lib", &code), "$3 lib", "{body}");
    ask(session, &["FCALL", "f", "1", "k", "x", "y"])
}

#[test]
fn libraries_of_valkey_are_loaded() {
    let mut session = Session::new();
    let code = "server.register_function('f', function() return server.call('incr', 'n') end)";
    assert_eq!(load(&mut session, "lib", code), "$3 lib");
    session.expect(&[("FCALL f 0", ":1"), ("EVAL return(server.call('get','n')) 0", "$1 1")]);
}

#[test]
fn functions_get_keys_and_arguments_and_no_globals() {
    let mut session = Session::new();
    for (body, reply) in [
        ("return {keys[1], args[1], args[2], #keys, #args}", "*5 $1 k $1 x $1 y :1 :2"),
        ("redis.call('set', keys[1], args[2]) return redis.call('get', 'k')", "$1 y"),
        ("return {map = {a = 1}}", "*2 $1 a :1"),
        ("redis.setresp(3) return redis.call('get', 'nosuch') == nil", ":1"),
        ("return redis.pcall('nosuch').err", "$44 ERR Unknown Redis command called from script"),
        ("return loadstring('return 7')()", ":7"),
        ("return cjson.encode({1})", "$3 [1]"),
    ] {
        assert_eq!(result(&mut session, body), reply, "{body}");
    }
    let missing = "ERR user_function:2: Script attempted to access nonexistent global variable";
    for (body, error) in [
        ("return KEYS", &*format!("{missing} 'KEYS'")),
        ("return ARGV", &format!("{missing} 'ARGV'")),
        ("x = 1", "ERR user_function:2: Attempt to modify a readonly table"),
        ("error('oh')", "ERR user_function:2: oh"),
        ("redis.call('nosuch')", "ERR Unknown Redis command called from script"),
        (
            "redis.register_function('g', 1)",
            "ERR user_function:2: attempt to call field 'register_function' (a nil value)",
        ),
        ("redis.call('fcall', 'f', 0)", "ERR This Redis command is not allowed from script"),
    ] {
        // A script ran in the same interpreter.
        session.expect(&[("EVAL return(KEYS[1]) 1 a", "$1 a")]);
        let expected = format!("-{error} script: f, on @user_function:2.");
        assert_eq!(result(&mut session, body), expected, "{body}");
    }
}

#[test]
fn libraries_share_what_they_hide() {
    let mut session = Session::new();
    let code = "local function add(n) return n + 1 end
        redis.register_function('one', function() return add(0) end)
        redis.register_function{function_name = 'Two', callback = function() return add(1) end}";
    assert_eq!(load(&mut session, "lib", code), "$3 lib");
    session.expect(&[
        ("FCALL one 0", ":1"),
        ("FCALL two 0", ":2"),
        ("FCALL ONE 0", ":1"),
        (
            "FUNCTION STATS",
            "*4 $14 running_script $-1 $7 engines *2 $3 LUA *4 $15 libraries_count :1 $15 functions_count :2",
        ),
        ("FUNCTION DELETE lib", "+OK"),
        ("FCALL one 0", "-ERR Function not found"),
        ("FUNCTION DELETE lib", "-ERR Library not found"),
    ]);
}

#[test]
fn a_library_that_fails_changes_nothing() {
    let mut session = Session::new();
    load(&mut session, "lib", "redis.register_function('f', function() return 1 end)");
    let registering = |error: &str| format!("-ERR Error registering functions: ERR {error}");
    let missing = |name: &str| {
        registering(&format!(
            "user_function:2: Script attempted to access nonexistent global variable '{name}'"
        ))
    };
    let readonly = registering("user_function:2: Attempt to modify a readonly table");
    for (code, error) in [
        ("x y", "-ERR Error compiling function: user_function:2: '=' expected near 'y'".to_owned()),
        ("return 1", "-ERR No functions registered".to_owned()),
        ("while true do end", registering("FUNCTION LOAD timeout")),
        (
            "('x'):rep(1000):gsub('.', function() while true do end end)",
            registering("FUNCTION LOAD timeout"),
        ),
        ("math.random()", missing("math")),
        ("pcall(redis.log)", missing("pcall")),
        ("getmetatable(_G)", missing("getmetatable")),
        ("redis.call('ping')", missing("call")),
        ("redis.setresp(3)", missing("setresp")),
        ("a = 1", readonly.clone()),
        ("redis.x = 1", readonly),
        (
            "local x; x.y = 1",
            registering("user_function:2: attempt to index local 'x' (a nil value)"),
        ),
        ("redis.log()", registering("redis.log() requires two arguments or more.")),
        (
            "redis.register_function()",
            registering("wrong number of arguments to redis.register_function"),
        ),
        (
            "redis.register_function(1, 2, 3)",
            registering("wrong number of arguments to redis.register_function"),
        ),
        (
            "redis.register_function('f')",
            registering(
                "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
            ),
        ),
        (
            "redis.register_function({}, 1)",
            registering("first argument to redis.register_function must be a string"),
        ),
        (
            "redis.register_function('a', 1)",
            registering("second argument to redis.register_function must be a function"),
        ),
        (
            "redis.register_function('a b', function() end)",
            registering(
                "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
            ),
        ),
        (
            "redis.register_function{}",
            registering("redis.register_function must get a function name argument"),
        ),
        (
            "redis.register_function{function_name = 'a'}",
            registering("redis.register_function must get a callback argument"),
        ),
        ("redis.register_function{flags = {'nope'}}", registering("unknown flag given")),
        ("redis.register_function{flags = {{}}}", registering("unknown flag given")),
        (
            "redis.register_function{[{}] = 1}",
            registering("named argument key given to redis.register_function is not a string"),
        ),
        (
            "redis.register_function{nope = 1}",
            registering("unknown argument given to redis.register_function"),
        ),
        (
            "local function f() end redis.register_function('a', f) redis.register_function('A', f)",
            registering("Function already exists in the library"),
        ),
    ] {
        assert_eq!(load(&mut session, "lib", code), error, "{code}");
    }
    let taken = "redis.register_function('F', function() end)";
    assert_eq!(load(&mut session, "other", taken), "-ERR Function F already exists");
    let again = ask(&mut session, &["FUNCTION", "LOAD", "#!lua name=lib\n"]);
    assert_eq!(again, "-ERR Library 'lib' already exists");
    session.expect(&[
        ("FUNCTION LOAD a b", "-ERR Unknown option given: a"),
        ("FUNCTION LOAD REPLACE", "-ERR Missing library metadata"),
        ("FUNCTION LOAD", "-ERR wrong number of arguments for 'function|load' command"),
        ("FCALL f 0", ":1"),
        ("FCALL f x", "-ERR Bad number of keys provided"),
        ("FCALL f -1", "-ERR Number of keys can't be negative"),
        ("FCALL f 1", "-ERR Number of keys can't be greater than number of args"),
        ("FCALL nosuch 0", "-ERR Function not found"),
    ]);
}

/// Rust has room for 8000 references to values of Lua.
#[test]
fn many_functions_and_many_libraries_are_no_error() {
    let mut session = Session::new();
    let code = "local f = redis.register_function
        for i = 1, 10000 do f('f' .. i, function() return i end) end";
    assert_eq!(load(&mut session, "lib", code), "$3 lib");
    session.expect(&[("FCALL f1 0", ":1"), ("FCALL F10000 0", ":10000")]);
    for number in 0..9000 {
        let code = format!("redis.register_function('f', function() return {number} end)");
        assert_eq!(load(&mut session, "many", &code), "$4 many");
    }
    session.expect(&[("FCALL f 0", ":8999")]);
}

#[test]
fn a_captured_library_table_registers_nothing_later() {
    let mut session = Session::new();
    let code = "local lib = redis
        lib.register_function('f', function() lib.x = 1 end)
        lib.register_function('g', function() lib.register_function('h', function() end) end)";
    load(&mut session, "lib", code);
    let reply = session.run("FCALL f 0");
    assert!(reply.contains("Attempt to modify a readonly table"), "{reply}");
    let reply = session.run("FCALL g 0");
    assert!(reply.contains("can only be called on FUNCTION LOAD command"), "{reply}");
}

#[test]
fn flags_decide_what_a_function_may_do() {
    let mut session = Session::new();
    let register = |name: &str, flags: &str| {
        format!(
            "redis.register_function{{function_name = '{name}', flags = {{{flags}}}, callback = function(keys)
                return redis.call('incr', keys[1]) end}}\n"
        )
    };
    let read = "redis.register_function{function_name = 'read', flags = {'no-writes'}, callback = function(keys)
        return redis.call('get', keys[1]) end}";
    let code = [
        &*register("any", ""),
        &register("none", "'NO-WRITES'"),
        &register("oom", "'allow-oom'"),
        read,
    ];
    assert_eq!(load(&mut session, "lib", &code.concat()), "$3 lib");
    let refused = "-ERR Can not execute a script with write flag using *_ro command.";
    session.expect(&[
        ("FCALL any 1 k", ":1"),
        ("FCALL_RO any 1 k", refused),
        ("FCALL_RO oom 1 k", refused),
        ("FCALL_RO read 1 k", "$1 1"),
    ]);
    for command in ["FCALL", "FCALL_RO"] {
        let reply = session.run(&format!("{command} none 1 k"));
        assert!(
            reply.starts_with("-ERR Write commands are not allowed from read-only scripts. script: none,"),
            "{reply}"
        );
    }
    let dump = session.run_raw(&[b"FUNCTION", b"DUMP"]);
    let short = "-OOM command not allowed when used memory > 'maxmemory'.";
    session.expect(&[
        ("CONFIG SET maxmemory 1", "+OK"),
        ("FCALL any 1 k", short),
        ("FCALL_RO any 1 k", short),
        ("FCALL oom 1 k", ":2"),
        ("FCALL read 1 k", "$1 2"),
        ("FUNCTION LOAD x", short),
    ]);
    let reply = session.run_raw(&[b"FUNCTION", b"RESTORE", &dump]);
    assert_eq!(String::from_utf8_lossy(&reply).trim_end(), short);
    session.expect(&[("FUNCTION FLUSH", "+OK"), ("CONFIG SET maxmemory 0", "+OK")]);
}

#[test]
fn libraries_are_listed() {
    let mut session = Session::new();
    let code = "redis.register_function{function_name = 'f', callback = function() end,
        flags = {'allow-stale', 'no-writes'}, description = 'text'}";
    load(&mut session, "lib", code);
    load(&mut session, "other", "redis.register_function('g', function() end)");
    let lib = "*6 $12 library_name $3 lib $6 engine $3 LUA $9 functions *1 *6 $4 name $1 f $11 description \
               $4 text $5 flags *2 +no-writes +allow-stale";
    let other = "*6 $12 library_name $5 other $6 engine $3 LUA $9 functions *1 *6 $4 name $1 g $11 description \
                 $-1 $5 flags *0";
    session.expect(&[
        ("FUNCTION LIST", &format!("*2 {lib} {other}")),
        ("FUNCTION LIST LIBRARYNAME L*", &format!("*1 {lib}")),
        ("FUNCTION LIST LIBRARYNAME nothing*", "*0"),
        ("FUNCTION LIST LIBRARYNAME", "-ERR library name argument was not given"),
        ("FUNCTION LIST nope", "-ERR Unknown argument nope"),
        ("FUNCTION LIST WITHCODE WITHCODE", "-ERR Unknown argument WITHCODE"),
        ("FLUSHALL", "+OK"),
        ("FLUSHDB", "+OK"),
        ("FCALL f 0", "$-1"),
        ("FUNCTION FLUSH NOW", "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option"),
        (
            "FUNCTION FLUSH SYNC x",
            "-ERR unknown subcommand or wrong number of arguments for 'FLUSH'. Try FUNCTION HELP.",
        ),
        ("FUNCTION FLUSH ASYNC", "+OK"),
        ("FUNCTION LIST", "*0"),
    ]);
    load(&mut session, "lib", code);
    let reply = ask(&mut session, &["FUNCTION", "LIST", "WITHCODE"]);
    assert!(reply.contains("$12 library_code"), "{reply}");
    assert!(reply.contains(code), "{reply}");
    let help = session.run("FUNCTION HELP");
    assert!(help.starts_with(&format!("*{}\r\n", HELP.len() + 3)), "{help}");
    let mut session = session.resp3();
    let listed = session.run("FUNCTION LIST").replace("\r\n", " ");
    assert!(listed.contains("%3 $12 library_name") && listed.contains("~2 +no-writes"), "{listed}");
}

#[test]
fn payloads_bring_libraries_back() {
    let mut session = Session::new();
    let returns = |value: &str| format!("redis.register_function('f', function() return {value} end)");
    load(&mut session, "lib", &returns("1"));
    let payload = |session: &mut Session| {
        let reply = session.run_raw(&[b"FUNCTION", b"DUMP"]);
        let start = memchr::memchr(b'\n', &reply).unwrap() + 1;
        reply[start..reply.len() - 2].to_vec()
    };
    let dump = payload(&mut session);
    let restore = |session: &mut Session, payload: &[u8], policy: &str| {
        let reply = session.run_args(&[b"FUNCTION", b"RESTORE", payload, policy.as_bytes()]);
        reply.trim_end().to_owned()
    };
    let taken = "-ERR Library lib already exists";
    assert_eq!(restore(&mut session, &dump, "APPEND"), taken);
    load(&mut session, "lib", &returns("2"));
    assert_eq!(restore(&mut session, &dump, "REPLACE"), "+OK");
    session.expect(&[("FCALL f 0", ":1"), ("FUNCTION DELETE lib", "+OK")]);
    load(&mut session, "other", &returns("3"));
    assert_eq!(restore(&mut session, &dump, "REPLACE"), "-ERR Function f already exists");
    session.expect(&[("FCALL f 0", ":3")]);
    assert_eq!(restore(&mut session, &dump, "flush"), "+OK");
    session.expect(&[("FCALL f 0", ":1"), ("FUNCTION DELETE other", "-ERR Library not found")]);
    assert_eq!(
        restore(&mut session, &dump, "MERGE"),
        "-ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
    );
    let damaged = "-ERR DUMP payload version or checksum are wrong";
    assert_eq!(restore(&mut session, b"x", "FLUSH"), damaged);
    assert_eq!(restore(&mut session, &dump[1..], "FLUSH"), damaged);
    let sealed = |libraries: &[&str]| {
        let mut parts = Vec::new();
        for code in libraries {
            parts.push(LIBRARY);
            rdb::put_string(code.as_bytes(), &mut parts);
        }
        rdb::seal(parts, &|| {})
    };
    let twice = format!("#!lua name=lib\n{}", returns("1"));
    for (payload, error) in [
        (rdb::seal(vec![1], &|| {}), "-ERR given type is not a function"),
        (rdb::seal(vec![LIBRARY, 9], &|| {}), "-ERR Failed loading library payload"),
        (sealed(&["x"]), "-ERR Missing library metadata"),
        (sealed(&["#!lua name=a\n"]), "-ERR No functions registered"),
        (sealed(&[&twice, &twice]), "-ERR Library 'lib' already exists"),
    ] {
        assert_eq!(restore(&mut session, &payload, "FLUSH"), error);
    }
    session.expect(&[("FCALL f 0", ":1")]);
    assert_eq!(payload(&mut session), dump);
    assert_eq!(restore(&mut session, &rdb::seal(Vec::new(), &|| {}), "FLUSH"), "+OK");
    session.expect(&[("FUNCTION LIST", "*0")]);
}

/// From redis-server 7.0, which had compressed it.
#[test]
fn payloads_of_redis_are_read() {
    let payload = include_bytes!("testdata/functions.rdb");
    let mut session = Session::new();
    let reply = session.run_args(&[b"FUNCTION", b"RESTORE", payload]);
    assert_eq!(reply, "+OK\r\n");
    session.expect(&[("FCALL sum 0 1 2 3", ":6"), ("FCALL longest 0 a bbb cc", "$3 bbb")]);
}

#[test]
fn a_function_is_killed_by_its_own_command() {
    let mut session = Session::new();
    load(
        &mut session,
        "lib",
        "redis.register_function('f', function() redis.call('set', 'a', 1) while true do end end)",
    );
    session.expect(&[("CONFIG SET busy-reply-threshold 20", "+OK")]);
    for (words, mine, others, stats) in [
        (
            &["FCALL", "f", "0"][..],
            "FUNCTION KILL",
            "SCRIPT KILL",
            "$1 f $7 command *3 $5 FCALL $1 f $1 0 $11 duration_ms :",
        ),
        (&["EVAL", "while true do end", "0"], "SCRIPT KILL", "FUNCTION KILL", "$-1 "),
    ] {
        let mut runner = session.beside();
        let reply = thread::scope(|scope| {
            let run = scope.spawn(move || ask(&mut runner, words));
            let started = Instant::now();
            while !session.run(others).starts_with("-BUSY ") {
                assert!(started.elapsed() < Duration::from_secs(30), "{words:?}");
                thread::sleep(Duration::from_millis(1));
            }
            let shown = session.run("FUNCTION STATS").replace("\r\n", " ");
            assert!(shown.contains(stats), "{shown}");
            session.expect(&[(mine, "+OK")]);
            run.join().unwrap()
        });
        assert_eq!(reply, format!("-ERR Script killed by user with {mine}."));
        session.expect(&[("EXISTS a", ":0"), (mine, "-NOTBUSY No scripts in execution right now.")]);
    }
}

#[test]
fn a_function_is_measured_until_its_library_changes() {
    let mut session = Session::new();
    let code = "redis.register_function('Get', function(keys) return redis.call('get', keys[1]) end)";
    let kind = |session: &Session| {
        let profile = &session.server.scripts.profile;
        profile.kind_of(profile.tag_of_function(b"get").unwrap())
    };
    let measure = |session: &mut Session| {
        for _ in 0..10_000 {
            session.expect(&[("FCALL get 1 a", "$-1")]);
            if kind(session) != Kind::Long {
                return;
            }
        }
        panic!("a function of one GET stays long");
    };
    load(&mut session, "lib", code);
    assert_eq!(kind(&session), Kind::Long);
    measure(&mut session);
    load(&mut session, "lib", code);
    assert_ne!(kind(&session), Kind::Long, "the same text");
    load(&mut session, "lib", &format!("{code} -- changed"));
    assert_eq!(kind(&session), Kind::Long);
    measure(&mut session);
    session.expect(&[("FUNCTION DELETE lib", "+OK")]);
    assert_eq!(kind(&session), Kind::Long);
    load(&mut session, "lib", code);
    measure(&mut session);
    session.expect(&[("FUNCTION FLUSH", "+OK")]);
    assert_eq!(kind(&session), Kind::Long);
}

#[test]
fn functions_run_in_transactions_and_are_stopped_in_time() {
    let mut session = Session::with(Config { script_time_limit_ms: 20, ..Config::default() });
    load(
        &mut session,
        "lib",
        "redis.register_function('incr', function(keys) return redis.call('incr', keys[1]) end)
         redis.register_function('stay', function(keys) redis.call('incr', keys[1]) while true do end end)",
    );
    session.expect(&[
        ("MULTI", "+OK"),
        ("FCALL incr 1 a", "+QUEUED"),
        ("INCR a", "+QUEUED"),
        ("EXEC", "*2 :1 :2"),
        ("FCALL stay 1 a", "-ERR Script stopped: it ran longer than script-time-limit-ms."),
        ("GET a", "$1 2"),
    ]);
}

#[test]
fn many_interpreters_load_a_library_when_they_need_it() {
    let mut session = Session::new();
    load(
        &mut session,
        "lib",
        "redis.register_function('f', function(keys) return redis.call('incr', keys[1]) end)",
    );
    thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = session.beside();
            scope.spawn(move || {
                for _ in 0..50 {
                    assert!(client.run("FCALL f 1 a").starts_with(':'));
                }
            });
        }
    });
    session.expect(&[("GET a", "$3 200")]);
    load(&mut session, "lib", "redis.register_function('f', function() return 'new' end)");
    session.expect(&[("FCALL f 1 a", "$3 new")]);
}
