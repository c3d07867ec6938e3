//! Clients that wait for keys: who is served, in which order, and what ends their waits.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::waiting::{TOPOLOGIES, start, start_with, wait_for_blocked, waiting};
use crate::common::{Connection, Options, Server, encode, encode_line, raise_descriptor_limit, wait_until};

/// Descriptors of this process that tests of other suites may have at the same time.
const DESCRIPTORS_LEFT: usize = 4000;
/// On a machine with other work to do, a burst may take longer than the default lets it.
const PATIENT_QUEUES: &str = "[server]\nbackpressure-ms = 30000\n";

fn replies(clients: &mut [Connection]) -> Vec<String> {
    let replies = clients.iter_mut().map(|client| client.reply().to_string());
    replies.collect()
}

#[test]
fn clients_are_served_in_the_order_in_which_they_came() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut pusher = server.connect();
        let mut clients = waiting(
            &server,
            &[
                "BLPOP none l 0",
                "BRPOP l 0",
                "BLMPOP 0 2 none l LEFT COUNT 2",
                "BLMOVE l moved LEFT RIGHT 0",
                "BRPOPLPUSH l moved 0",
                "BLPOP l 0",
            ],
        );
        assert_eq!(pusher.ask("RPUSH l 1 2 3 4 5 6 7"), "7", "{topology}");
        assert_eq!(
            replies(&mut clients),
            [
                r#"["l", "1"]"#,
                r#"["l", "7"]"#,
                r#"["l", ["2", "3"]]"#,
                r#""4""#,
                r#""6""#,
                r#"["l", "5"]"#,
            ],
            "{topology}"
        );
        // They were served before the pushing client got its reply.
        assert_eq!(pusher.ask("EXISTS l"), "0", "{topology}");
        assert_eq!(pusher.ask("LRANGE moved 0 -1"), r#"["6", "4"]"#);

        let mut clients = waiting(&server, &["BZPOPMIN z 0", "BZPOPMAX z 0", "BZMPOP 0 1 z MIN"]);
        assert_eq!(pusher.ask("ZADD z 1 a 2 b 3 c"), "3", "{topology}");
        assert_eq!(
            replies(&mut clients),
            [r#"["z", "a", "1"]"#, r#"["z", "c", "3"]"#, r#"["z", [["b", "2"]]]"#],
            "{topology}"
        );
        wait_for_blocked(&mut pusher, 0);
    }
}

/// Each client pops what was pushed at its place, however many there are.
#[test]
fn elements_pushed_one_by_one_reach_clients_in_order() {
    const CLIENTS: usize = 50;
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut clients = waiting(&server, &["BLPOP l 0"; CLIENTS]);
        let mut pusher = server.connect();
        let pushes = (0..CLIENTS).map(|number| encode_line(&format!("RPUSH l {number}")));
        pusher.send(pushes.collect::<Vec<_>>().concat());
        for (number, client) in clients.iter_mut().enumerate() {
            let expected = format!(r#"["l", "{number}"]"#);
            assert_eq!(client.reply().to_string(), expected, "{topology}");
        }
    }
}

#[test]
fn waits_end_when_their_time_is_over_and_no_earlier() {
    const TIMEOUT: Duration = Duration::from_millis(100);
    const COMMANDS: [&str; 8] = [
        "BLPOP a b 0.1",
        "BRPOP a 0.1",
        "BLMPOP 0.1 1 a LEFT",
        "BLMOVE a b LEFT LEFT 0.1",
        "BRPOPLPUSH a b 0.1",
        "BZPOPMIN a 0.1",
        "BZPOPMAX a 0.1",
        "BZMPOP 0.1 1 a MIN",
    ];
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut patient = waiting(&server, &["BLPOP a 1000", "BLPOP a 9e15"]);
        let mut client = server.connect();
        for line in COMMANDS {
            let started = Instant::now();
            assert_eq!(client.ask(line), "nil", "{topology}: {line}");
            assert!(started.elapsed() >= TIMEOUT, "{topology}: {line}");
        }
        let mut pusher = server.connect();
        wait_for_blocked(&mut pusher, 2);
        assert_eq!(pusher.ask("RPUSH a 1 2"), "2");
        let expected = [r#"["a", "1"]"#, r#"["a", "2"]"#];
        assert_eq!(replies(&mut patient), expected, "{topology}");
        for line in ["BLPOP a 0.0001", "BLPOP a 1e-300"] {
            assert_eq!(pusher.ask(line), "nil", "{topology}: {line}");
        }
    }
}

/// There are no replicas for which WAIT could wait: its time ends it, and CLIENT UNBLOCK does.
#[test]
fn wait_answers_at_once_or_when_its_time_is_over() {
    const TIMEOUT: Duration = Duration::from_millis(100);
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut client = server.connect();
        for line in ["WAIT 0 0", "WAIT -1 100000"] {
            assert_eq!(client.ask(line), "0", "{topology}: {line}");
        }
        let started = Instant::now();
        assert_eq!(client.ask("WAIT 1 100"), "0", "{topology}");
        assert!(started.elapsed() >= TIMEOUT, "{topology}");

        for (end, reply) in [("TIMEOUT", "0"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")] {
            let mut patient = server.connect();
            let id = patient.ask("CLIENT ID");
            patient.send(encode_line("WAIT 1 0"));
            wait_for_blocked(&mut client, 1);
            let unblock = format!("CLIENT UNBLOCK {id} {end}");
            assert_eq!(client.ask(&unblock), "1", "{topology}");
            assert_eq!(patient.reply().to_string(), reply, "{topology}");
            assert_eq!(patient.ask("PING"), "+PONG", "{topology}");
        }
        for line in ["MULTI", "WAIT 1 0", "WAIT 0 0"] {
            client.ask(line);
        }
        assert_eq!(client.ask("EXEC"), "[0, 0]", "{topology}");
    }
}

#[test]
fn client_unblock_ends_a_wait_as_it_says() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut operator = server.connect();
        for (end, reply) in [
            ("", "nil"),
            ("TIMEOUT", "nil"),
            ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        ] {
            let mut client = server.connect();
            let id = client.ask("CLIENT ID");
            let unblock = format!("CLIENT UNBLOCK {id} {end}");
            assert_eq!(operator.ask(&unblock), "0", "{topology}");
            client.send(encode_line("BZPOPMAX z 0"));
            wait_for_blocked(&mut operator, 1);
            assert!(operator.ask("CLIENT LIST").contains("flags=b "));
            assert_eq!(operator.ask(&unblock), "1", "{topology}");
            assert_eq!(client.reply().to_string(), reply, "{topology}");
            assert_eq!(operator.ask(&unblock), "0", "{topology}");
            // The connection goes on.
            assert_eq!(client.ask("PING"), "+PONG");
        }
        assert_eq!(operator.ask("ZADD z 1 a"), "1");
        assert_eq!(operator.ask("ZCARD z"), "1");
    }
}

#[test]
fn transactions_and_scripts_do_not_wait() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut client = server.connect();
        for line in [
            "MULTI",
            "BLPOP l 0",
            "BLMOVE l m LEFT LEFT 0",
            "BZMPOP 0 1 z MIN",
            "RPUSH l a",
            "BLPOP l 0",
        ] {
            client.ask(line);
        }
        assert_eq!(client.ask("EXEC"), r#"[nil, nil, nil, 1, ["l", "a"]]"#);
        // Redis 7.0 refuses most of them here.
        for call in [
            "'blmpop',0,1,'l','left'",
            "'bzmpop',0,1,'z','min'",
            "'blpop','l',0",
            "'blmove','l','m','left','left',0",
            "'bzpopmax','z',0",
            "'xread','block',0,'streams','s','$'",
        ] {
            let script = format!("return redis.call({call})");
            let reply = client.request(&["EVAL", &script, "0"]).to_string();
            assert_eq!(reply, "nil", "{topology} {call}");
        }
        let waited = client.request(&["EVAL", "return redis.call('wait', 1, 0)", "0"]);
        assert_eq!(waited.to_string(), "0", "{topology}");
    }
}

/// All ways in which a key gets a value that somebody waits for.
#[test]
fn whatever_stores_a_list_or_a_sorted_set_serves_those_who_wait() {
    const WAYS: &[(&str, &[&str])] = &[
        ("BLPOP k 0", &["LPUSH k x"]),
        ("BLPOP k 0", &["RPUSH a x", "RENAME a k"]),
        ("BLPOP k 0", &["RPUSH a x", "RENAMENX a k"]),
        ("BLPOP k 0", &["RPUSH a x", "COPY a k"]),
        ("BLPOP k 0", &["RPUSH a x", "LMOVE a k LEFT LEFT"]),
        ("BLPOP k 0", &["RPUSH a x", "SORT a ALPHA STORE k"]),
        ("BLPOP k 0", &["EVAL redis.call('rpush','k','x') 0"]),
        ("BLPOP k 0", &["MULTI", "LPUSH k y", "LPUSH k x", "EXEC"]),
        ("BLPOP k 0", &["SET k string", "SADD a x", "SORT a ALPHA STORE k"]),
        ("BZPOPMIN k 0", &["ZADD k 1 x"]),
        ("BZPOPMIN k 0", &["ZINCRBY k 1 x"]),
        ("BZPOPMIN k 0", &["SADD a x", "ZUNIONSTORE k 1 a"]),
        ("BZPOPMIN k 0", &["ZADD a 1 x", "ZRANGESTORE k a 0 -1"]),
        ("BZPOPMIN k 0", &["RPUSH k list", "DEL k", "ZADD k 1 x"]),
        ("BZPOPMIN k 0", &["MULTI", "ZADD a 1 x", "RENAME a k", "EXEC"]),
    ];
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut writer = server.connect();
        for (waits, ways) in WAYS {
            let mut clients = waiting(&server, &[waits]);
            for line in *ways {
                let reply = writer.ask(line);
                assert!(!reply.starts_with('-'), "{topology}: {line}: {reply}");
            }
            let reply = clients[0].reply().to_string();
            assert!(reply.starts_with(r#"["k", "x""#), "{topology}: {ways:?}: {reply}");
            writer.ask("FLUSHALL");
        }
    }
}

#[test]
fn only_a_value_of_the_awaited_type_ends_a_wait() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut clients = waiting(&server, &["BZPOPMIN k 0", "BLPOP k 0", "BLMOVE l s LEFT LEFT 0"]);
        let mut writer = server.connect();
        for line in [
            "SET k string",
            "SET s string",
            "DEL k",
            "MULTI",
            "RPUSH k gone",
            "DEL k",
            "EXEC",
            "RPUSH k x",
        ] {
            writer.ask(line);
        }
        assert_eq!(clients[1].reply().to_string(), r#"["k", "x"]"#, "{topology}");
        wait_for_blocked(&mut writer, 2);
        // A destination of another type is an error, and the element stays.
        assert_eq!(writer.ask("RPUSH l x"), "1");
        assert!(clients[2].reply().to_string().starts_with("-WRONGTYPE "));
        assert_eq!(writer.ask("LLEN l"), "1");
        writer.ask("ZADD k 1 m");
        assert_eq!(clients[0].reply().to_string(), r#"["k", "m", "1"]"#);
    }
}

#[test]
fn a_moved_element_serves_those_who_wait_for_its_destination() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut clients = waiting(
            &server,
            &[
                "BLMOVE b c LEFT RIGHT 0",
                "BLPOP c 0",
                "BRPOPLPUSH a b 0",
                "BLMOVE circle circle LEFT RIGHT 0",
            ],
        );
        let mut pusher = server.connect();
        assert_eq!(pusher.ask("RPUSH a x"), "1");
        assert_eq!(pusher.ask("RPUSH circle 1 2"), "2");
        assert_eq!(replies(&mut clients), [r#""x""#, r#"["c", "x"]"#, r#""x""#, r#""1""#], "{topology}");
        assert_eq!(pusher.ask("LRANGE circle 0 -1"), r#"["2", "1"]"#);
        assert_eq!(pusher.ask("EXISTS a b c"), "0", "{topology}");
    }
}

#[test]
fn what_is_pipelined_behind_a_wait_is_answered_after_it() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut client = server.connect();
        let lines = ["SET k 1", "BLPOP l 0", "INCR k", "BLPOP l 0", "GET k"];
        let requests: Vec<_> = lines.iter().map(|line| encode_line(line)).collect();
        client.send(requests.concat());
        assert_eq!(client.reply().to_string(), "+OK");
        let mut pusher = server.connect();
        wait_for_blocked(&mut pusher, 1);
        assert_eq!(pusher.ask("GET k"), r#""1""#, "{topology}");
        assert!(!client.has_received(), "{topology}");
        pusher.ask("RPUSH l a");
        assert_eq!(client.reply().to_string(), r#"["l", "a"]"#);
        assert_eq!(client.reply().to_string(), "2", "{topology}");
        wait_for_blocked(&mut pusher, 1);
        pusher.ask("RPUSH l b");
        assert_eq!(client.reply().to_string(), r#"["l", "b"]"#);
        assert_eq!(client.reply().to_string(), r#""2""#, "{topology}");
    }
}

/// How many connections the server has received.
fn received(client: &mut Connection) -> usize {
    let info = client.info("stats");
    let mut lines = info.lines();
    let count = lines.find_map(|line| line.strip_prefix("total_connections_received:"));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn a_client_that_left_takes_nothing() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut pusher = server.connect();
        let mut clients = waiting(&server, &["BLPOP l 0", "BLPOP l 0", "BLMOVE l m LEFT LEFT 0"]);
        let mut stays = clients.remove(1);
        drop(clients);
        wait_for_blocked(&mut pusher, 1);
        assert_eq!(pusher.ask("RPUSH l a b"), "2", "{topology}");
        assert_eq!(stays.reply().to_string(), r#"["l", "a"]"#, "{topology}");
        assert_eq!(pusher.ask("LRANGE l 0 -1"), r#"["b"]"#, "{topology}");
        assert_eq!(pusher.ask("EXISTS m"), "0");
        // One that leaves as soon as it has asked, and one that leaves commands behind.
        for lines in [&["BLPOP none 0"][..], &["BLPOP none 0", "DEL l"]] {
            let before = received(&mut pusher);
            let mut hasty = server.connect();
            let requests: Vec<_> = lines.iter().map(|line| encode_line(line)).collect();
            hasty.send(requests.concat());
            drop(hasty);
            wait_until("it is received", || received(&mut pusher) > before);
            wait_for_blocked(&mut pusher, 0);
            pusher.wait_for_clients(2);
        }
        assert_eq!(pusher.ask("RPUSH none x"), "1");
        assert_eq!(pusher.ask("LLEN none"), "1", "{topology}");
        assert_eq!(pusher.ask("LLEN l"), "1", "{topology}");
    }
}

#[test]
fn a_client_that_left_is_gone_at_once() {
    const LEAVERS: u32 = 16;
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut witness = server.connect();
        let begun = Instant::now();
        for _ in 0..LEAVERS {
            drop(waiting(&server, &["BLPOP none 0"]));
            wait_until("the client is gone", || !witness.ask("CLIENT LIST").contains("cmd=blpop"));
        }
        // Who is found by a look at all clients each second waits half of it.
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(250) * LEAVERS, "{topology}: {took:?}");
    }
}

#[test]
fn an_idle_timeout_is_not_for_those_who_wait() {
    for topology in TOPOLOGIES {
        let options = Options { timeout_s: Some(1), ..Options::default() };
        let server = start_with(topology, options);
        let mut client = server.connect();
        assert_eq!(client.ask("BLPOP l 2.5"), "nil", "{topology}");
    }
}

#[test]
fn a_server_that_stops_lets_nobody_wait() {
    const CLIENTS: usize = 100;
    const CONFIG: &str = "[server]\ndrain-timeout-ms = 3600000\n";
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let options = Options { config: Some(CONFIG), ..Options::default() };
        let mut server = start_with(topology, options);
        let mut clients = waiting(&server, &["BLPOP l 0", "BLPOP l 3600"]);
        let mut more: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut more {
            client.send(encode_line("BZPOPMIN z 1000"));
        }
        wait_for_blocked(&mut server.connect(), CLIENTS + 2);
        server.terminate();
        clients.append(&mut more);
        for reply in replies(&mut clients) {
            assert_eq!(reply, "-UNBLOCKED the server is shutting down", "{topology}");
        }
        assert!(server.wait_for_exit().success(), "{topology}");
    }
}

/// As many clients as there may be wait, for 100 keys. That costs much the same in each topology. Another client's GETs
/// go on and cost the server no more; then all are served, each once.
#[test]
fn gets_cost_no_more_beside_very_many_who_wait() {
    const CLIENTS_MAX: usize = 9_990;
    const KEYS: usize = 100;
    /// GETs are pipelined, so that wake-ups of threads, whose cost varies with the machine's load, are few.
    const GETS: usize = 100;
    const PIPELINES: usize = 20;
    const ROUNDS: usize = 5;
    /// 9900 clients of which each costs every GET 10 ns would make it 50 times.
    const COST_MAX: u32 = 4;
    /// A topology in which each request costs something for every connection has 20 times the cost of the others.
    const TOPOLOGY_COST_MAX: u32 = 8;
    psp_harness::only_psp!();
    let room = raise_descriptor_limit().saturating_sub(DESCRIPTORS_LEFT);
    let count = room.min(CLIENTS_MAX) / KEYS * KEYS;
    let gets = encode_line("GET k").repeat(GETS);
    let costs = TOPOLOGIES.map(|topology| {
        let options = Options { config: Some(PATIENT_QUEUES), ..Options::default() };
        let server = start_with(topology, options);
        let mut reader = server.connect();
        reader.ask("SET k v");
        let mut get = || {
            reader.send(&gets);
            (0..GETS).for_each(|_| assert_eq!(reader.reply().to_string(), "\"v\""));
        };
        // The least of some rounds: the machine may do other work meanwhile.
        let mut cost = || {
            let rounds = (0..ROUNDS).map(|_| {
                let before = server.processor_time();
                (0..PIPELINES).for_each(|_| get());
                server.processor_time().saturating_sub(before)
            });
            rounds.min().expect("a round")
        };
        let alone = cost();
        let mut clients: Vec<_> = (0..count).map(|_| server.connect()).collect();
        let before = server.processor_time();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(encode_line(&format!("BLPOP l{} 1000000", number % KEYS)));
        }
        let mut pusher = server.connect();
        wait_for_blocked(&mut pusher, count);
        let of_waiting = server.processor_time().saturating_sub(before);
        let beside = cost();
        assert!(
            beside < alone * COST_MAX,
            "{topology}: GETs cost {beside:?} beside {count} clients who wait, {alone:?} alone"
        );
        thread::scope(|scope| {
            let reader = scope.spawn(|| (0..PIPELINES).for_each(|_| get()));
            for key in 0..KEYS {
                let mut push = vec!["RPUSH".to_owned(), format!("l{key}")];
                push.extend((0..count / KEYS).map(|place| place.to_string()));
                pusher.send(encode(&push));
            }
            let mut places = vec![Vec::new(); KEYS];
            for (number, client) in clients.iter_mut().enumerate() {
                let items = client.reply().into_items();
                let [key, place] = <[_; 2]>::try_from(items)
                    .unwrap()
                    .map(|item| String::from_utf8(item.into_bytes()).unwrap());
                assert_eq!(key, format!("l{}", number % KEYS), "{topology}");
                places[number % KEYS].push(place.parse::<usize>().unwrap());
            }
            // In which order the requests of several connections came is not known here.
            for mut places in places {
                places.sort_unstable();
                assert!(places.into_iter().eq(0..count / KEYS), "{topology}");
            }
            reader.join().unwrap();
        });
        (0..KEYS).for_each(|_| drop(pusher.reply()));
        wait_for_blocked(&mut pusher, 0);
        of_waiting
    });
    let least = costs.into_iter().min().expect("a topology");
    assert!(
        costs.iter().all(|&cost| cost < least * TOPOLOGY_COST_MAX),
        "{count} clients who begin to wait cost {costs:?} in {TOPOLOGIES:?}"
    );
}

/// Elements go to exactly one client each while many push and wait at the same time, and some waits time out.
#[test]
fn elements_are_popped_once_while_many_push_and_wait() {
    const PUSHERS: usize = 2;
    const POPPERS: usize = 4;
    const ELEMENTS: usize = 2_000;
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut popped: Vec<String> = thread::scope(|scope| {
            for pusher in 0..PUSHERS {
                let mut client = server.connect();
                scope.spawn(move || {
                    for number in 0..ELEMENTS / PUSHERS {
                        client.ask(&format!("RPUSH l{} {pusher}:{number}", number % 2));
                    }
                });
            }
            let poppers: Vec<_> = (0..POPPERS)
                .map(|popper| {
                    let mut client = server.connect();
                    let line = match popper % 2 {
                        0 => "BLPOP l0 l1 0.001",
                        _ => "BLPOP l1 l0 0",
                    };
                    scope.spawn(move || {
                        let mut popped = Vec::new();
                        while popped.len() < ELEMENTS / POPPERS {
                            let reply = client.ask(line);
                            popped.extend((reply != "nil").then_some(reply));
                        }
                        popped
                    })
                })
                .collect();
            let popped = poppers.into_iter().flat_map(|it| it.join().unwrap());
            popped.collect()
        });
        popped.sort();
        popped.dedup();
        assert_eq!(popped.len(), ELEMENTS, "{topology}");
        assert_eq!(server.connect().ask("EXISTS l0 l1"), "0", "{topology}");
    }
}

#[test]
fn what_those_who_wait_hold_is_bounded() {
    /// Keys with long names. Twice as many are more than a command may wait for.
    const MANY_KEYS: usize = 300;
    /// Clients with so many keys that there is room for.
    const FIT: Range<usize> = 100..200;
    psp_harness::only_psp!();
    let name = |number: usize| format!("{number:0>1000}");
    let blpop = |keys: usize| {
        let names = (0..keys).map(name);
        let words = [vec!["BLPOP".to_owned()], names.collect(), vec!["0".to_owned()]];
        encode(&words.concat())
    };
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut client = server.connect();
        client.send(blpop(2 * MANY_KEYS));
        let refused = client.reply().to_string();
        assert_eq!(refused, "-ERR too many keys to wait for", "{topology}");
        let mut witness = server.connect();
        let mut clients: Vec<Connection> = Vec::new();
        loop {
            let mut client = server.connect();
            client.send(blpop(MANY_KEYS));
            let line = format!("blocked_clients:{}\r\n", clients.len() + 1);
            wait_until("it waits or is refused", || {
                client.has_received() || witness.info("clients").contains(&line)
            });
            if client.has_received() {
                let reply = client.reply().to_string();
                assert_eq!(reply, "-BUSY clients wait for too many keys", "{topology}");
                break;
            }
            clients.push(client);
            assert!(clients.len() < FIT.end, "{topology}");
        }
        assert!(FIT.contains(&clients.len()), "{topology}: {}", clients.len());
        // All have room again once the others are gone.
        drop(clients);
        wait_for_blocked(&mut witness, 0);
        client.send(blpop(MANY_KEYS));
        wait_for_blocked(&mut witness, 1);
        witness.ask(&format!("RPUSH {} x", name(7)));
        let expected = format!(r#"["{}", "x"]"#, name(7));
        assert_eq!(client.reply().to_string(), expected, "{topology}");
    }
}

/// Both servers refuse the same arguments.
#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn errors_are_those_of_redis_server() {
    const LINES: &[&str] = &[
        "BLPOP 0",
        "BLPOP l x",
        "BLPOP l -1",
        "BLPOP l -0.1",
        "BLPOP l nan",
        "BRPOP s l 0",
        "BZPOPMIN s 0",
        "BZPOPMIN z -1",
        "BLMOVE l m LEFT UP -1",
        "BLMOVE l m LEFT LEFT -1",
        "BLMOVE full s LEFT LEFT 0",
        "BRPOPLPUSH l m x",
        "BRPOPLPUSH s m 0",
        "BLMPOP x 1 l LEFT",
        "BLMPOP -1 0 l LEFT",
        "BLMPOP -1 1 l UP",
        "BLMPOP 0 -1 l LEFT",
        "BLMPOP 0 2 l LEFT",
        "BLMPOP 0 1 l LEFT COUNT 0",
        "BLMPOP 0 1 l LEFT COUNT x",
        "BLMPOP 0 1 l LEFT COUNT 1 COUNT 2",
        "BLMPOP 0 1 s LEFT",
        "BZMPOP x 1 z UP",
        "BZMPOP 0 1 z MIN COUNT 0",
        "BZMPOP 0 2 s z MIN",
        "CLIENT UNBLOCK",
        "CLIENT UNBLOCK x",
        "CLIENT UNBLOCK 1 WRONG",
        "CLIENT UNBLOCK 999999",
        "CLIENT UNBLOCK -1",
        "BLPOP none full 0",
        "BZPOPMAX none zfull 0",
        "BZMPOP 0 2 none zfull MAX COUNT 5",
        "BLMPOP 0.001 2 none l LEFT COUNT 5",
        "WAIT",
        "WAIT 1",
        "WAIT 1 0 0",
        "WAIT x x",
        "WAIT 0 x",
        "WAIT 1 -1",
        "WAIT 0 1.5",
        "WAIT 99999999999999999999 0",
        "WAIT 0 99999999999999999999",
        "WAIT -1 0",
        "WAIT 1 1",
    ];
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = servers.each_ref().map(Server::connect);
    for client in &mut clients {
        for line in ["SET s v", "RPUSH full 1 2 3", "ZADD zfull 1 a 2 b 3 c"] {
            client.ask(line);
        }
    }
    for line in LINES {
        let [ours, redis] = clients.each_mut().map(|client| client.ask(line));
        assert_eq!(ours, redis, "{line}");
    }
    for name in [
        "BLPOP",
        "BRPOP",
        "BLMOVE",
        "BRPOPLPUSH",
        "BLMPOP",
        "BZPOPMIN",
        "BZPOPMAX",
        "BZMPOP",
        "WAIT",
    ] {
        let [ours, redis] = clients.each_mut().map(|client| {
            let mut command = client.request(&["COMMAND", "INFO", name]).into_items();
            let mut rows = command.remove(0).into_items();
            rows.truncate(6);
            let flags = rows.remove(2).into_items();
            let mut flags: Vec<_> = flags.iter().map(ToString::to_string).collect();
            // psp-redis does not tell the first of any command. Since Redis 7.2 scripts may call them, and WAIT has
            // the last.
            flags.retain(|flag| !["+movablekeys", "+noscript", "+blocking"].contains(&&**flag));
            flags.sort();
            (format!("{rows:?}"), flags)
        });
        assert_eq!(ours, redis, "{name}");
    }
}
