//! Whatever clients do at the same time, there is an order of their commands that explains all replies.
//!
//! Five clients share few keys, and close some connections before they have read all replies. Meanwhile the policy
//! changes every few milliseconds. docs/testing.md has the command for a long run.

use std::thread;
use std::time::Duration;

use psp_harness::RawConnection;
use psp_linear::keyspace::{Reply, Request, Script};
use psp_linear::{Client, Draw, assert_linearizable};
use psp_server::Policy;

use crate::common::{self, Connection, Options, Server, encode};

/// Commands of all clients of one server.
const COMMANDS: u64 = 20_000;
/// How long each policy lasts.
const POLICY_LASTS: Duration = Duration::from_millis(5);
const WORKERS: usize = 3;

impl Client<Request> for Connection {
    fn draw(&mut self, draw: Draw<'_>) -> Request {
        Request::draw(draw)
    }

    fn send(&mut self, commands: &[Request]) {
        let bytes: Vec<u8> = commands.iter().flat_map(Request::commands).flat_map(|words| encode(&words)).collect();
        RawConnection::send(self, &bytes);
    }

    fn receive(&mut self, request: &Request) -> Reply {
        let commands = request.commands();
        let (_, before) = commands.split_last().expect("a request has commands");
        let mut read = Vec::new();
        for words in before {
            let reply = self.reply();
            match reply.to_string().as_str() {
                "+OK" | "+QUEUED" => {}
                _ if words[0] == "GET" => read.push(spelled(reply)),
                other => panic!("{words:?}: {other}"),
            }
        }
        let last = spelled(self.reply());
        if read.is_empty() {
            return request.timeless(last);
        }
        read.push(last);
        request.timeless(Reply::List(read))
    }
}

/// A reply as the model spells it.
fn spelled(reply: common::Reply) -> Reply {
    match reply {
        common::Reply::Simple(text) if text == "OK" => Reply::Ok,
        common::Reply::Nil => Reply::Nil,
        common::Reply::Integer(value) => Reply::Number(value),
        common::Reply::Bulk(bytes) => Reply::Text(String::from_utf8(bytes).expect("digits").into()),
        common::Reply::Array(items) => Reply::List(items.into_iter().map(spelled).collect()),
        // Behind that, an error in a script names the script and the line.
        common::Reply::Error(text) => Reply::Error(match text.split_once(" script: ") {
            Some((error, _)) => error.into(),
            None => text.into(),
        }),
        other => panic!("no command here answers {other}"),
    }
}

fn check(topology: &'static str, policies: &[&'static str]) {
    let server = Server::start_with(&Options {
        topology: Some(topology),
        policy: policies.first().copied(),
        workers: Some(WORKERS),
        ..Options::default()
    });
    let fits = |name: &&&str| {
        let policy: Policy = name.parse().expect("a policy's name");
        policy.validate(WORKERS).is_ok()
    };
    let mut policies = policies.iter().filter(fits).cycle();
    let mut operator = server.connect();
    for script in Script::ALL {
        operator.request(&["SCRIPT", "LOAD", &script.body()]);
    }
    let change_policy = || {
        if Server::is_psp_redis() {
            let policy = policies.next().expect("a policy");
            assert_eq!(operator.ask(&format!("CONFIG SET policy {policy}")), "+OK");
        }
        thread::sleep(POLICY_LASTS);
    };
    assert_linearizable(COMMANDS, || server.connect(), change_policy);
}

#[test]
fn inline() {
    check("inline", &Policy::names_to_completion());
}

#[test]
fn distributed() {
    let policies = ["d-fcfs", "stealing", "jsq", "synergy", "darc-distributed"];
    check("distributed", &policies);
}

#[test]
fn dedicated() {
    check("dedicated", &Policy::NAMES);
}
