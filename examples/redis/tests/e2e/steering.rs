//! Changes to a running server by CONFIG SET and SIGHUP. Long commands that yield to others.

use crate::common::{Options, Server, wait_until};
use psp_harness::{Exchange, Load, reloads_under_load};

const POLICY: &str = "CONFIG GET policy";

fn policy(server: &Server) -> String {
    server.connect().ask(POLICY)
}

#[test]
fn config_set_changes_the_policy_or_explains_the_error() {
    psp_harness::only_psp!();
    let server = Server::start_with(&Options { topology: Some("dedicated"), ..Options::default() });
    let mut client = server.connect();
    assert_eq!(client.ask("CONFIG SET policy c-fcfs"), "+OK");
    assert_eq!(client.ask(POLICY), r#"["policy", "c-fcfs"]"#);
    let set = |client: &mut crate::common::Connection, spelled: &str| {
        client.request(&["CONFIG", "SET", "policy", spelled]).to_string()
    };
    assert_eq!(set(&mut client, "mq quantum-us=20 requeue=tail"), "+OK");
    let spelled = client.ask(POLICY);
    assert!(spelled.contains("mq ") && spelled.contains("quantum-us=20"), "{spelled}");
    let refused = set(&mut client, "mq quantum=20");
    assert!(refused.contains("quantum-us"), "{refused}");
    assert!(client.ask("CONFIG SET policy best").contains("d-fcfs, c-fcfs"));
    assert_eq!(client.ask(POLICY), spelled, "the policy changed although the change was refused");
    assert_eq!(client.ask("CONFIG SET loglevel warn"), "+OK");
    assert_eq!(client.ask("CONFIG GET loglevel"), r#"["loglevel", "warning"]"#);
}

#[test]
fn the_inline_topology_refuses_a_policy_that_preempts() {
    psp_harness::only_psp!();
    let server = Server::start_with(&Options { topology: Some("inline"), ..Options::default() });
    let refused = server.connect().ask("CONFIG SET policy mq");
    assert!(refused.contains("needs topology dedicated"), "{refused}");
}

#[test]
fn a_hangup_reloads_the_file() {
    psp_harness::only_psp!();
    let server = Server::start_with(&Options { config: Some("policy = 'c-fcfs'"), ..Options::default() });
    assert_eq!(policy(&server), r#"["policy", "c-fcfs"]"#);
    let text = "policy = 'sjf'\nport = 1\n[server]\nconnections_max = 77\nworkers = 9";
    std::fs::write(server.config_file(), text).unwrap();
    server.hang_up();
    wait_until("the policy changes", || policy(&server) == r#"["policy", "sjf"]"#);
    let mut client = server.connect();
    wait_until("the limits change", || client.ask("CONFIG GET maxclients") == r#"["maxclients", "77"]"#);
    wait_until("the log names the settings that need a restart", || {
        let log = server.log().join("\n");
        log.contains("a restart is needed") && log.contains("server.workers")
    });
}

#[test]
fn reloading_a_valid_or_broken_file_loses_no_request() {
    psp_harness::only_psp!();
    let server = Server::start_with(&Options { config: Some("policy = 'c-fcfs'"), ..Options::default() });
    assert_eq!(server.connect().ask("SET a x"), "+OK");
    let exchange = Exchange {
        request: b"GET a\r\n",
        reply: b"$1\r\nx\r\n",
        policy: &|| {
            let reply = policy(&server);
            let name = reply.strip_prefix(r#"["policy", ""#);
            name.and_then(|name| name.strip_suffix(r#""]"#)).unwrap_or(&reply).to_owned()
        },
    };
    reloads_under_load(&server, &server.config_file(), exchange);
}

/// How often requests have yielded.
pub(crate) fn preemptions(client: &mut crate::common::Connection) -> u64 {
    let info = client.info("psp");
    let workers = info.lines().filter(|line| line.starts_with("psp_worker_"));
    let figures = workers.map(|line| {
        let (_, rest) = line.split_once("preemptions_honoured=").expect("a figure");
        let figure = rest.split(',').next().expect("a number");
        figure.parse::<u64>().expect("a number")
    });
    figures.sum()
}

#[test]
fn commands_with_many_arguments_yield() {
    const ELEMENTS: usize = 100_000;
    psp_harness::only_psp!();
    let server = Server::start_under("dedicated", "sq quantum-us=200", 1);
    let mut client = server.connect();
    assert_eq!(client.ask("SET a x"), "+OK");
    let load = Load::start(server.address(), 2, b"GET a\r\n", b"$1\r\nx\r\n");
    load.goes_on();
    let names: Vec<String> = (0..ELEMENTS).map(|index| format!("name{index}")).collect();
    let alone = |name: &String| vec![name.clone()];
    let numbered = |name: &String| vec!["1".to_owned(), name.clone()];
    let with_value = |name: &String| vec![name.clone(), "1".to_owned()];
    let all = ELEMENTS.to_string();
    for (words, each, reply) in [
        (&["SADD", "set"][..], &alone as &dyn Fn(&String) -> Vec<String>, &*all),
        (&["SREM", "set"], &alone, &all),
        (&["ZADD", "sorted"], &numbered, &all),
        (&["ZREM", "sorted"], &alone, &all),
        (&["HSET", "hash"], &with_value, &all),
        (&["HDEL", "hash"], &alone, &all),
        (&["RPUSH", "list"], &alone, &all),
        (&["MSET"], &with_value, "+OK"),
        (&["DEL"], &alone, &all),
    ] {
        let head = words.iter().map(|&word| word.to_owned());
        let request: Vec<String> = head.chain(names.iter().flat_map(each)).collect();
        let before = preemptions(&mut client);
        assert_eq!(client.request(&request).to_string(), reply, "{words:?}");
        let yields = preemptions(&mut client) - before;
        assert!(yields > 0, "{words:?} did not yield");
    }
    load.finish();
}
