//! Functions beside other requests, between many clients, and on their way to redis-server and back.

use crate::accounts::{self, ACCOUNTS, CLIENTS};
use crate::common::{Connection, Reply, Server, TOPOLOGIES, encode, goes_on_beside, wait_until};

/// Calls after which the server knows how long a function takes.
const MEASURED: usize = 40;

const LIBRARY: &str = "#!lua name=lib
    local function add(keys, args) return redis.call('incrby', keys[1], args[1]) end
    redis.register_function('add', add)
    redis.register_function('move', function(keys, args)
        redis.call('decrby', keys[1], args[1])
        add({'account' .. args[2]}, args)
        return redis.call('incr', 'moves')
    end)
    redis.register_function{function_name = 'sum', flags = {'no-writes'}, callback = function(keys, args)
        local sum = 0
        for i = 0, tonumber(args[1]) - 1 do sum = sum + redis.call('get', 'account' .. i) end
        return sum
    end}
    redis.register_function('count', function(keys, args)
        local n = 0
        for i = 1, tonumber(args[1]) do n = n + i % 7 end
        return redis.call('incr', 'long')
    end)
    redis.register_function('stay', function() redis.call('set', 'a', 1) while true do end end)";

fn start(topology: &'static str) -> Server {
    let server = Server::start_in(topology);
    load(&mut server.connect(), LIBRARY);
    server
}

fn load(client: &mut Connection, code: &str) {
    let reply = client.request(&["FUNCTION", "LOAD", "REPLACE", code]);
    assert_eq!(reply.to_string(), "\"lib\"");
}

#[test]
fn sums_stay_whole_while_the_library_is_replaced() {
    const MOVES: usize = 200;
    for topology in TOPOLOGIES {
        let server = start(topology);
        let transfer = |client: &mut Connection, seed, step| {
            let [from, to, amount] = accounts::step(seed, step);
            let reply = client.ask(&format!("FCALL move 1 account{from} {amount} {to}"));
            assert!(reply.parse::<usize>().is_ok(), "{reply}");
            true
        };
        let mut version = 0;
        let sum = |witness: &mut Connection| {
            let sum = witness.ask(&format!("FCALL_RO sum 0 {ACCOUNTS}"));
            version += 1;
            load(witness, &format!("{LIBRARY} -- {version}"));
            sum
        };
        accounts::sums_stay_whole(&server, topology, MOVES, transfer, sum);
        let moves = server.connect().ask("GET moves");
        assert_eq!(moves, format!("\"{}\"", CLIENTS * MOVES), "{topology}");
    }
}

#[test]
fn gets_and_short_functions_go_on_beside_a_long_one() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut witness = server.connect();
        witness.ask("SET k 0");
        let short = |witness: &mut Connection| {
            witness.ask("GET k");
            assert!(witness.ask("FCALL add 1 k 1").parse::<u64>().is_ok());
        };
        let prepare = |attempt: usize, witness: &mut Connection, _: &mut Connection| {
            // On a slow machine the short function may count as long, until it has run more often.
            (0..MEASURED * attempt).for_each(|_| short(witness));
            encode(&["FCALL", "count", "0", &(2_000_000 * attempt).to_string()])
        };
        let check = |attempt: usize, reply: Reply| assert_eq!(reply.to_string(), attempt.to_string());
        let is_beside = goes_on_beside([&mut witness, &mut server.connect()], prepare, short, check);
        assert!(is_beside, "{topology}: no calls beside it");
    }
}

#[test]
fn a_function_that_does_not_end_is_shown_and_killed() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut witness = server.connect();
        assert_eq!(witness.ask("CONFIG SET busy-reply-threshold 50"), "+OK");
        let mut endless = server.connect();
        endless.send(encode(&["FCALL", "stay", "0"]));
        wait_until("FUNCTION STATS", || witness.ask("FUNCTION STATS").contains("\"stay\""));
        wait_until("FUNCTION KILL", || witness.ask("FUNCTION KILL") == "+OK");
        let reply = endless.reply().to_string();
        assert!(reply.contains("FUNCTION KILL"), "{topology}: {reply}");
        assert_eq!(witness.ask("EXISTS a"), "0", "{topology}");
        assert!(!witness.ask("FUNCTION STATS").contains("stay"), "{topology}");
    }
}

#[test]
fn libraries_outlive_the_keys() {
    let server = Server::start();
    let mut client = server.connect();
    load(&mut client, LIBRARY);
    assert_eq!(client.ask("FCALL add 1 k 5"), "5");
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    assert_eq!(client.ask("FCALL add 1 k 5"), "5");
    assert_eq!(client.ask("FUNCTION DELETE lib"), "+OK");
    assert_eq!(client.ask("FCALL add 1 k 5"), "-ERR Function not found");
}
