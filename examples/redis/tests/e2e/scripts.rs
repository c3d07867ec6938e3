//! Scripts beside other requests, and between many clients.

use std::thread;
use std::time::{Duration, Instant};

use crate::accounts::{self, ACCOUNTS, CLIENTS};
use crate::common::{Connection, Reply, Server, encode, get, goes_on_beside, wait_until};

/// Calls after which the server knows how long a script takes.
const MEASURED: usize = 40;

/// Counts to ARGV[1].
const LONG: &str = "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + i % 7 end return redis.call('incr', 'long')";
/// Releases a lock, as redis-py does.
const UNLOCK: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
/// Moves ARGV[1] from a key to another one that it has not declared.
const MOVE: &str = "
    local to = 'account' .. ARGV[2]
    redis.call('decrby', KEYS[1], ARGV[1])
    redis.call('incrby', to, ARGV[1])
    return redis.call('incr', 'moves')";
/// The sum of all accounts.
const SUM: &str = "
    local sum = 0
    for i = 0, tonumber(ARGV[1]) - 1 do sum = sum + redis.call('get', 'account' .. i) end
    return sum";

fn eval(client: &mut Connection, words: &[&str]) -> String {
    let words = [&["EVAL"], words].concat();
    client.request(&words).to_string()
}

#[test]
fn too_many_values_are_an_error_and_no_panic() {
    let server = Server::start();
    let mut client = server.connect();
    let ones = |count: usize| format!("local t = {{}} for i = 1, {count} do t[i] = '1' end ");
    let texts = "string.rep(string.char(0xa1) .. 'a', 7999)";
    for (script, reply) in [
        ("return redis.call('DEL', unpack(t, 2))", "too many results to unpack"),
        (
            "local ok, why = pcall(unpack, t) return redis.error_reply('ERR ' .. why)",
            "too many results to unpack",
        ),
        ("return cjson.encode(unpack(t, 1, 7998))", "too many results to unpack"),
        (format!("return select('#', cmsgpack.unpack({texts}))").as_str(), "too many return values"),
        (
            "return select('#', struct.unpack(string.rep('c1', #t), string.rep('a', #t)))",
            "too many results",
        ),
    ] {
        let script = ones(7999) + script;
        let error = client.request(&["EVAL", &script, "0"]).to_string();
        assert!(error.starts_with("-ERR ") && error.contains(reply), "{error}");
    }
    let script = ones(7700) + "return redis.call('DEL', unpack(t))";
    assert_eq!(client.request(&["EVAL", &script, "0"]).to_string(), "0");
    let log = server.log().join("\n");
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn sums_stay_whole_among_many_clients() {
    const MOVES: usize = 200;
    for (topology, server) in Server::start_each() {
        let transfer = |client: &mut Connection, seed, step| {
            let [from, to, amount] = accounts::step(seed, step).map(|number| number.to_string());
            let from = format!("account{from}");
            let reply = eval(client, &[MOVE, "1", &from, &amount, &to]);
            assert!(reply.parse::<usize>().is_ok(), "{reply}");
            true
        };
        let sum = |witness: &mut Connection| eval(witness, &[SUM, "0", &ACCOUNTS.to_string()]);
        accounts::sums_stay_whole(&server, topology, MOVES, transfer, sum);
        let moves = server.connect().ask("GET moves");
        assert_eq!(moves, format!("\"{}\"", CLIENTS * MOVES), "{topology}");
    }
}

#[test]
fn gets_and_short_scripts_go_on_beside_a_long_one() {
    psp_harness::only_psp!();
    for (topology, server) in Server::start_each() {
        let mut witness = server.connect();
        witness.ask("SET k v");
        let short = |witness: &mut Connection| {
            get(witness);
            witness.request(&["SET", "lock", "me"]);
            assert_eq!(eval(witness, &[UNLOCK, "1", "lock", "me"]), "1");
        };
        let prepare = |attempt: usize, witness: &mut Connection, _: &mut Connection| {
            // On a slow machine the short script may count as long, until it has run more often.
            (0..MEASURED * attempt).for_each(|_| short(witness));
            encode(&["EVAL", LONG, "0", &(2_000_000 * attempt).to_string()])
        };
        let check = |attempt: usize, reply: Reply| assert_eq!(reply.to_string(), attempt.to_string());
        let is_beside = goes_on_beside([&mut witness, &mut server.connect()], prepare, short, check);
        assert!(is_beside, "{topology}: no locks beside the script");
    }
}

#[test]
fn the_type_of_a_script_is_that_of_its_runs() {
    psp_harness::only_psp!();
    let server = Server::start_in("dedicated");
    let mut client = server.connect();
    let arrivals = |client: &mut Connection, name: &str| -> u64 {
        let info = String::from_utf8(client.request(&["INFO", "psp"]).into_bytes()).unwrap();
        let prefix = format!("psp_type_{name}:");
        let line = info.lines().find_map(|line| line.strip_prefix(&prefix));
        let arrivals = line.and_then(|line| {
            let mut fields = line.split(',');
            fields.find_map(|field| field.strip_prefix("arrivals="))
        });
        arrivals.unwrap_or_else(|| panic!("{info}")).parse().unwrap()
    };
    let scans = arrivals(&mut client, "scan");
    for _ in 0..MEASURED * 5 {
        eval(&mut client, &["return 1", "0"]);
    }
    let measured = arrivals(&mut client, "scan");
    assert!(measured < scans + (MEASURED * 5) as u64, "all were scans");
    assert!(measured > scans, "none was a scan before it was measured");
    for _ in 0..MEASURED {
        eval(&mut client, &[LONG, "0", "1000000"]);
    }
    let scans = arrivals(&mut client, "scan");
    assert_eq!(scans, measured + MEASURED as u64, "long scripts stay scans");
    const MAYBE: &str = "if ARGV[1] == '1' then return 1 end while true do end";
    for _ in 0..MEASURED {
        eval(&mut client, &[MAYBE, "0", "1"]);
    }
    let mut endless = server.connect();
    endless.send(encode(&["EVAL", MAYBE, "0", "2"]));
    wait_until("a script is a scan that another run of it makes one", || {
        let scans = arrivals(&mut client, "scan");
        eval(&mut client, &[MAYBE, "0", "1"]);
        arrivals(&mut client, "scan") > scans
    });
    assert!(!endless.has_received(), "that run has not ended");
}

#[test]
fn a_script_that_does_not_end_is_killed_and_changes_nothing() {
    psp_harness::only_psp!();
    for (topology, server) in Server::start_each() {
        let mut witness = server.connect();
        assert_eq!(witness.ask("CONFIG SET busy-reply-threshold 50"), "+OK");
        let mut endless = server.connect();
        endless.send(encode(&["EVAL", "redis.call('set', 'a', 1) while true do end", "0"]));
        let started = Instant::now();
        while witness.ask("SCRIPT KILL") != "+OK" {
            assert!(started.elapsed() < Duration::from_secs(60), "{topology}");
            thread::sleep(Duration::from_millis(5));
        }
        let reply = endless.reply().to_string();
        assert!(reply.contains("Script killed by user"), "{topology}: {reply}");
        assert_eq!(witness.ask("EXISTS a"), "0", "{topology}");
    }
}

#[test]
fn deep_recursion_is_an_error_and_no_crash() {
    for (topology, server) in Server::start_each() {
        let mut client = server.connect();
        for body in [
            "local function f() return 1 + f() end return f()",
            "local function f(x) return (x:gsub('.', f)) end return f('x')",
            "local function f() return coroutine.wrap(f)() end return f()",
            "return cjson.decode(('['):rep(100000))",
            "local function f(n) return select(2, pcall(f, n + 1)) end return f(0)",
            "return loadstring(('('):rep(5000))()",
            "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end return t[1]",
        ] {
            for _ in 0..3 {
                let reply = eval(&mut client, &[body, "0"]);
                assert!(reply.starts_with('-') || body.contains("pcall"), "{topology} {body}: {reply}");
            }
        }
        assert_eq!(client.ask("PING"), "+PONG", "{topology}");
    }
}
