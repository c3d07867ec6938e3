//! Whatever clients do at the same time, there is an order of their commands that explains all replies, and all CAS
//! values that they see.
//!
//! Five clients share few keys, and close some connections before they have read all replies. Meanwhile the policy
//! changes every few milliseconds. docs/testing.md has the command for a long run.

use std::collections::HashMap;
use std::fs;
use std::thread;
use std::time::Duration;

use psp_linear::cache::{Command, Reply};
use psp_linear::{Client, Draw, Key, assert_linearizable};
use psp_server::Policy;

use crate::common::{Connection, Server};

/// Commands of all clients of one server.
const COMMANDS: u64 = 20_000;
/// How long each policy lasts.
const POLICY_LASTS: Duration = Duration::from_millis(5);
const WORKERS: usize = 3;

/// A client that keeps the last CAS value that it has seen of each key.
struct Caching {
    connection: Connection,
    uniques: HashMap<Key, u64>,
}

impl Client<Command> for Caching {
    fn draw(&mut self, draw: Draw<'_>) -> Command {
        Command::draw(draw, |key| self.uniques.get(&key).copied())
    }

    fn send(&mut self, commands: &[Command]) {
        let bytes: String = commands.iter().map(Command::bytes).collect();
        self.connection.send(bytes);
    }

    fn receive(&mut self, command: &Command) -> Reply {
        let line = self.connection.line();
        let Some(item) = line.strip_prefix("VALUE ") else {
            return Reply::Line(line);
        };
        let words: Vec<&str> = item.split(' ').collect();
        let len: usize = words[2].parse().expect("a length");
        let data = self.connection.bytes(len + 2);
        assert_eq!(self.connection.line(), "END");
        let value = String::from_utf8_lossy(&data[..len]).into_owned();
        match (command, words.get(3)) {
            (Command::Gets(key), Some(unique)) => {
                let unique = unique.parse().expect("a CAS value");
                self.uniques.insert(*key, unique);
                Reply::Unique(value, unique)
            }
            _ => Reply::Value(value),
        }
    }
}

fn check(topology: &str, policies: &[&str]) {
    let workers = WORKERS.to_string();
    let flags = ["--topology", topology];
    let first = format!("policy = '{}'", policies[0]);
    let server = Server::start_psp(&["-t", &workers], &flags, &first);
    let fits = |name: &&&str| {
        let policy: Policy = name.parse().expect("a policy's name");
        policy.validate(WORKERS).is_ok()
    };
    let mut policies = policies.iter().filter(fits).cycle();
    let change_policy = || {
        let policy = policies.next().expect("a policy");
        fs::write(server.config_file(), format!("policy = '{policy}'")).expect("a file");
        server.hang_up();
        thread::sleep(POLICY_LASTS);
    };
    let connect = || Caching { connection: server.connect(), uniques: HashMap::new() };
    assert_linearizable(COMMANDS, connect, change_policy);
}

#[test]
fn inline() {
    check("inline", &Policy::names_to_completion());
}

#[test]
fn distributed() {
    for policy in ["d-fcfs", "stealing", "darc-distributed"] {
        check("distributed", &[policy]);
    }
}

#[test]
fn dedicated() {
    check("dedicated", &Policy::NAMES);
}
