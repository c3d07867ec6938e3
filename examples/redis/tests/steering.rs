//! Changing a server while it runs: CONFIG SET and SIGHUP.

mod common;

use common::{Options, Server, wait_until};

const POLICY: &str = "CONFIG GET policy";

fn policy(server: &Server) -> String {
    server.connect().ask(POLICY)
}

#[test]
fn config_set_changes_the_policy_and_says_what_is_wrong_with_one() {
    if !Server::is_psp_redis() {
        return;
    }
    let server = Server::start_with(&Options {
        topology: Some("dedicated"),
        ..Options::default()
    });
    let mut client = server.connect();
    assert_eq!(client.ask("CONFIG SET policy c-fcfs"), "+OK");
    assert_eq!(client.ask(POLICY), r#"["policy", "c-fcfs"]"#);
    let set = |client: &mut common::Connection, spelled: &str| {
        client
            .request(&["CONFIG", "SET", "policy", spelled])
            .to_string()
    };
    assert_eq!(set(&mut client, "mq quantum-us=20 requeue=tail"), "+OK");
    let spelled = client.ask(POLICY);
    assert!(
        spelled.contains("mq ") && spelled.contains("quantum-us=20"),
        "{spelled}"
    );
    let refused = set(&mut client, "mq quantum=20");
    assert!(refused.contains("quantum-us"), "{refused}");
    assert!(
        client
            .ask("CONFIG SET policy best")
            .contains("d-fcfs, c-fcfs")
    );
    assert_eq!(client.ask(POLICY), spelled, "the old one stays");
    assert_eq!(client.ask("CONFIG SET loglevel warn"), "+OK");
    assert_eq!(client.ask("CONFIG GET loglevel"), r#"["loglevel", "warn"]"#);
}

#[test]
fn a_policy_that_preempts_is_refused_where_the_net_thread_is_a_worker() {
    if !Server::is_psp_redis() {
        return;
    }
    let server = Server::start_with(&Options {
        topology: Some("inline"),
        ..Options::default()
    });
    let refused = server.connect().ask("CONFIG SET policy mq");
    assert!(refused.contains("needs topology dedicated"), "{refused}");
}

#[test]
fn a_hangup_reloads_the_file() {
    if !Server::is_psp_redis() {
        return;
    }
    let server = Server::start_with(&Options {
        config: Some("policy = 'c-fcfs'"),
        ..Options::default()
    });
    assert_eq!(policy(&server), r#"["policy", "c-fcfs"]"#);
    let text = "policy = 'sjf'\nport = 1\n[server]\nconnections_max = 77\nworkers = 9";
    std::fs::write(server.config_file(), text).unwrap();
    server.hang_up();
    wait_until("the policy changes", || {
        policy(&server) == r#"["policy", "sjf"]"#
    });
    let mut client = server.connect();
    wait_until("so do limits", || {
        client.ask("CONFIG GET maxclients") == r#"["maxclients", "77"]"#
    });
    wait_until("the rest is reported", || {
        let log = server.log().join("\n");
        log.contains("a restart is needed") && log.contains("server.workers")
    });
    std::fs::write(server.config_file(), "colour = 1").unwrap();
    server.hang_up();
    wait_until("nonsense is reported", || {
        server
            .log()
            .join("\n")
            .contains("configuration not reloaded")
    });
    assert_eq!(policy(&server), r#"["policy", "sjf"]"#);
}
