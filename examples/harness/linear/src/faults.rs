//! What the checker is there for: servers with a fault, whose clients see what no order explains.
//!
//! A server here has five clients. In each step one of them sends a request, or its request goes one step further. So
//! requests of several steps see what others did in between.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::history::{Call, PENDING};
use crate::keyspace::{Calling, Keyspace, Reply, Request, Script, Side};
use crate::model::Operation;
use crate::partition::partitions;
use crate::recorder::Draw;
use crate::testing::{call, is_accepted};

use Request::{Append, Copy, Del, Get, IncrBy, PopManyWaiting, PopWaiting, Push, Run, Set, Transaction, Watched};

/// What a server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Others come between the commands of a transaction.
    TornTransaction,
    /// Others come between the commands of a script.
    TornScript,
    /// EXEC ignores that a watched key has changed.
    NoWatch,
    /// EXEC stops transactions whose watched key no client touched.
    TimidWatch,
    /// A pop that waits gives up although its list has never been empty.
    EarlyTimeout,
    /// A pop that waits gets its element without removing it.
    NoRemoval,
    /// Keys expire between the commands of a transaction.
    ExpiresInside,
    /// INCRBY makes a key immortal.
    LosesExpiry,
}

/// Clients of a server.
const CLIENTS: usize = 5;
/// Requests of a history.
const REQUESTS: u64 = 500;

/// A request on its way.
struct Running {
    begun: u64,
    sequence: u64,
    request: Request,
    /// What it has read in the steps before.
    read: Vec<Reply>,
    /// The reply, once it has happened.
    reply: Option<Reply>,
}

/// One step of a request. The last one leaves a reply.
fn go_on(running: &mut Running, fault: Fault, state: &mut Keyspace) {
    let steps = running.read.len();
    let is = |wanted| fault == wanted;
    match &running.request {
        // The read stands for the watch, too.
        Watched(_, key, _) if steps == 0 => running.read.push(Get(*key).apply(state)),
        Watched(_, key, requests) => {
            let has_changed = Get(*key).apply(state) != running.read[0];
            let stops = has_changed && !is(Fault::NoWatch) || is(Fault::TimidWatch);
            let done = match stops {
                true => Reply::Nil,
                false => Transaction(requests.clone()).apply(state),
            };
            running.reply = Some(Reply::List(vec![running.read[0].clone(), done]));
        }
        Transaction(requests) if is(Fault::TornTransaction) => {
            running.read.push(requests[steps].apply(state));
            if running.read.len() == requests.len() {
                running.reply = Some(Reply::List(running.read.clone()));
            }
        }
        Run(Script::Transfer, _, keys) if is(Fault::TornScript) => {
            let (key, amount) = [(keys[0], -3), (keys[1], 3)][steps];
            let reply = IncrBy(key, amount).apply(state);
            running.read.push(reply.clone());
            if steps == 1 || matches!(reply, Reply::Error(_)) {
                running.reply = Some(reply);
            }
        }
        Transaction(requests) if is(Fault::ExpiresInside) => {
            let replies = requests.iter().map(|request| {
                let reply = request.apply(state);
                state.expire();
                reply
            });
            running.reply = Some(Reply::List(replies.collect()));
        }
        IncrBy(key, _) if is(Fault::LosesExpiry) => {
            let reply = running.request.apply(state);
            state.immortalize(*key);
            running.reply = Some(reply);
        }
        PopWaiting(..) | PopManyWaiting(..) if is(Fault::EarlyTimeout) => {
            running.reply = Some(Reply::Nil);
        }
        PopWaiting(..) if is(Fault::NoRemoval) => {
            running.reply = Some(running.request.apply(&mut state.clone()));
        }
        request => running.reply = Some(request.apply(state)),
    }
}

/// What the clients of a server saw.
fn history(fault: Fault, random: &mut StdRng) -> Vec<Call<Request>> {
    let mut state = Keyspace::default();
    let mut clients: [Option<Running>; CLIENTS] = Default::default();
    let (mut calls, mut number) = (Vec::new(), 0);
    for time in 0.. {
        if number == REQUESTS && clients.iter().all(Option::is_none) {
            break;
        }
        if random.random_ratio(1, 20) {
            state.expire();
        }
        let session = random.random_range(0..CLIENTS);
        let client = &mut clients[session];
        match client {
            Some(running) if running.reply.is_none() => go_on(running, fault, &mut state),
            Some(_) => {
                let done = client.take().expect("a request");
                for (operation, reply) in done.request.parts(done.reply) {
                    calls.push(Call {
                        session: session as u64,
                        sequence: done.sequence,
                        begun: done.begun,
                        ended: reply.as_ref().map_or(PENDING, |_| time),
                        operation,
                        reply,
                    });
                }
            }
            None if number < REQUESTS => {
                let draw = Draw { random: &mut *random, first_key: 0, number };
                *client = Some(Running {
                    begun: time,
                    sequence: number,
                    request: Request::draw(draw),
                    read: Vec::new(),
                    reply: None,
                });
                number += 1;
            }
            None => {}
        }
    }
    calls
}

/// How many of some histories of a server are accepted.
fn accepted(fault: Fault, histories: usize) -> usize {
    let random = &mut StdRng::seed_from_u64(1);
    let is_explained = |_: &usize| {
        let parts = partitions(history(fault, random));
        parts.into_iter().all(is_accepted)
    };
    (0..histories).filter(is_explained).count()
}

#[test]
fn servers_without_a_fault_are_accepted() {
    assert_eq!(accepted(Fault::None, 100), 100);
}

#[test]
fn each_fault_is_found() {
    for fault in [
        Fault::TornTransaction,
        Fault::TornScript,
        Fault::NoWatch,
        Fault::TimidWatch,
        Fault::EarlyTimeout,
        Fault::NoRemoval,
        Fault::ExpiresInside,
        Fault::LosesExpiry,
    ] {
        let accepted = accepted(fault, 20);
        assert!(accepted <= 15, "{fault:?}: {accepted} of 20");
    }
}

fn text(value: &str) -> Reply {
    Reply::Text(value.into())
}

#[test]
fn a_script_is_one_step() {
    let calls = |one, other| {
        vec![
            call(0, 1, Set(0, "a".into()), Reply::Ok),
            call(2, 3, Set(1, "b".into()), Reply::Ok),
            call(4, 20, Run(Script::Swap, Calling::Eval, [0, 1]), Reply::List(vec![text("a"), text("b")])),
            call(5, 6, Get(0), text(one)),
            call(7, 8, Get(1), text(other)),
        ]
    };
    assert!(is_accepted(calls("a", "b")), "before the script");
    assert!(is_accepted(calls("b", "a")), "after it");
    assert!(is_accepted(calls("a", "a")), "the script between the reads");
    assert!(!is_accepted(calls("b", "b")), "half of it");
}

#[test]
fn what_a_script_wrote_before_an_error_stays() {
    let error = Reply::Error("WRONGTYPE Operation against a key holding the wrong kind of value".into());
    let calls = |left| {
        vec![
            call(0, 1, Push(Side::Left, 3, vec!["x".into()]), Reply::Number(1)),
            call(2, 3, Run(Script::Transfer, Calling::EvalSha, [0, 3]), error.clone()),
            call(4, 5, Get(0), left),
        ]
    };
    assert!(is_accepted(calls(text("-3"))));
    assert!(!is_accepted(calls(Reply::Nil)));
}

#[test]
fn a_pop_gives_up_only_if_the_list_was_empty_meanwhile() {
    let pop = |keys: &[u32]| PopWaiting(Side::Left, keys.to_vec());
    let calls = |begun| {
        vec![
            call(10, 11, Push(Side::Left, 3, vec!["x".into()]), Reply::Number(1)),
            call(begun, begun + 20, pop(&[3]), Reply::Nil),
        ]
    };
    assert!(is_accepted(calls(9)), "it began before the push");
    assert!(!is_accepted(calls(12)), "it began after the push");
}

/// The calls that a request becomes, from `begun` to `ended`.
fn calls_of(begun: u64, ended: u64, request: Request, reply: impl Into<Option<Reply>>) -> Vec<Call<Request>> {
    let parts = request.parts(reply.into()).into_iter();
    let calls = parts.map(|(operation, reply)| call(begun, ended, operation, reply));
    calls.collect()
}

#[test]
fn a_pop_takes_from_the_first_key_that_has_something() {
    let push = |key| Push(Side::Left, key, vec!["x".into()]);
    let pop = PopWaiting(Side::Left, vec![3, 4]);
    let calls = |begun| {
        let mut calls = vec![call(0, 1, push(4), Reply::Number(1)), call(10, 11, push(3), Reply::Number(1))];
        let reply = Reply::List(vec![text("k4"), text("x")]);
        calls.extend(calls_of(begun, begun + 20, pop.clone(), reply));
        calls
    };
    assert!(is_accepted(calls(9)), "the first key was empty then");
    assert!(!is_accepted(calls(12)), "the first key had something");
}

#[test]
fn an_unanswered_pop_of_several_keys_may_have_popped_from_any() {
    let push = |key| Push(Side::Left, key, vec!["x".into(), "y".into()]);
    for (key, len) in [(3, 2), (4, 3), (4, 4)] {
        let mut calls = vec![call(0, 1, push(3), Reply::Number(2)), call(2, 3, push(4), Reply::Number(2))];
        calls.extend(calls_of(4, PENDING, PopWaiting(Side::Left, vec![3, 4]), None));
        // The next request of its connection.
        let mut next = call(4, 5, push(key), Reply::Number(len));
        next.sequence = 1;
        calls.push(next);
        assert_eq!(is_accepted(calls), len != 2, "{key} {len}");
    }
}

#[test]
fn a_transaction_that_watches_sees_no_change_in_between() {
    let watched = Watched(7, 0, vec![Append(0, "c".into())]);
    let done = |read| Reply::List(vec![read, Reply::List(vec![Reply::Number(2)])]);
    let stopped = |read| Reply::List(vec![read, Reply::Nil]);
    let calls = |change: Option<Request>, reply| {
        let mut calls = vec![call(0, 1, Set(0, "a".into()), Reply::Ok)];
        calls.extend(change.map(|change| {
            let reply = change.apply(&mut Keyspace::default());
            call(4, 5, change, reply)
        }));
        calls.extend(calls_of(3, 9, watched.clone(), reply));
        is_accepted(calls)
    };
    let set = || Some(Set(0, "b".into()));
    assert!(calls(set(), done(text("b"))), "all of it after the change");
    assert!(calls(set(), stopped(text("a"))));
    assert!(calls(set(), stopped(text("b"))), "the watch before, the read after the change");
    assert!(calls(None, done(text("a"))));
    assert!(!calls(None, stopped(text("a"))), "no client touched the key");
    assert!(!calls(Some(Get(1)), stopped(text("a"))), "nor did a read of another");
    let late = vec![
        call(0, 1, Set(0, "a".into()), Reply::Ok),
        call(2, 3, Set(0, "b".into()), Reply::Ok),
        call(6, 7, Del(0), Reply::Number(1)),
    ];
    let seen = |reply| [late.clone(), calls_of(4, 5, watched.clone(), reply)].concat();
    assert!(!is_accepted(seen(stopped(text("b")))), "changes before and after it alone");
    assert!(!is_accepted(seen(done(text("a")))), "an old value");
}

#[test]
fn a_watched_copy_counts_as_touched() {
    let calls = [
        vec![call(0, 1, Set(0, "a".into()), Reply::Ok)],
        calls_of(2, 9, Watched(1, 1, Vec::new()), Reply::List(vec![Reply::Nil, Reply::Nil])),
        vec![call(3, 4, Copy(0, 1, true), Reply::Number(1))],
    ];
    assert!(is_accepted(calls.concat()));
}

#[test]
fn an_unanswered_transaction_that_watches_may_have_been_stopped() {
    let calls = |read| {
        let mut calls = vec![call(0, 1, Set(0, "a".into()), Reply::Ok)];
        calls.extend(calls_of(2, PENDING, Watched(1, 0, vec![Del(0)]), None));
        let mut next = call(2, 3, Get(0), read);
        next.sequence = 1;
        calls.push(next);
        is_accepted(calls)
    };
    assert!(calls(text("a")) && calls(Reply::Nil));
    assert!(!calls(text("b")));
}
