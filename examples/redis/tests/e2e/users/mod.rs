//! Users and what they may do, after Redis's own tests `acl.tcl` and `acl-v2.tcl`.

mod differential;

use std::fs;

use psp_harness::wait_until;

use crate::common::{Connection, Options, Server, TOPOLOGIES};

/// A server whose users are these lines of an ACL file, which is in its folder.
fn start_with_file(topology: &'static str, lines: &str) -> Server {
    let options = Options {
        topology: Server::is_psp_redis().then_some(topology),
        aclfile: Some(lines.to_owned()),
        ..Options::default()
    };
    Server::start_with(&options)
}

fn log_in(server: &Server, name: &str, password: &str) -> Connection {
    let mut client = server.connect();
    assert_eq!(client.ask(&format!("AUTH {name} {password}")), "+OK");
    client
}

#[test]
fn a_change_of_a_user_counts_for_its_clients_at_once() {
    for (topology, server) in Server::start_each() {
        let mut admin = server.connect();
        admin.ask("ACL SETUSER alice on >pw +@all ~* &*");
        let mut clients: Vec<_> = (0..20).map(|_| log_in(&server, "alice", "pw")).collect();
        for rights in ["-get", "+get resetkeys ~other", "allkeys"] {
            assert_eq!(admin.ask(&format!("ACL SETUSER alice {rights}")), "+OK");
            for client in &mut clients {
                let reply = client.ask("GET key");
                let expected = match rights {
                    "-get" => "-NOPERM this user has no permissions to run the 'get' command",
                    "allkeys" => "nil",
                    _ => "-NOPERM this user has no permissions to access one of the keys used as arguments",
                };
                assert_eq!(reply, expected, "{topology}: {rights}");
            }
        }
        assert_eq!(admin.ask("ACL DELUSER alice"), "1", "{topology}");
        for client in &mut clients {
            assert!(client.read_to_close().is_empty(), "{topology}");
        }
        admin.wait_for_clients(1);
    }
}

/// While clients authenticate and others subscribe, their user loses a channel: none of them keeps it.
#[test]
fn no_subscriber_keeps_a_channel_that_its_user_lost() {
    const ROUNDS: usize = 40;
    for (topology, server) in Server::start_each() {
        let mut admin = server.connect();
        for round in 0..ROUNDS {
            admin.ask("ACL SETUSER alice reset on >pw +@all &c");
            let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
            for (index, client) in clients.iter_mut().enumerate() {
                client.send(b"AUTH alice pw\r\nSUBSCRIBE c\r\n");
                if index == round % 8 {
                    admin.ask("ACL SETUSER alice resetchannels");
                }
            }
            for mut client in clients {
                let subscribed = loop {
                    match client.try_reply() {
                        Ok(reply) if reply.to_string() == "+OK" => {}
                        Ok(reply) if reply.to_string().starts_with("-NOPERM") => break false,
                        Ok(_) => break true,
                        Err(_) => break false,
                    }
                };
                if subscribed {
                    client.read_to_close();
                }
            }
            assert_eq!(admin.ask("PUBSUB NUMSUB c"), r#"["c", 0]"#, "{topology}");
        }
    }
}

#[test]
fn who_waits_for_a_key_was_allowed_to() {
    for (topology, server) in Server::start_each() {
        let mut admin = server.connect();
        admin.ask("ACL SETUSER alice on >pw +blpop +blmove ~a*");
        let mut alice = log_in(&server, "alice", "pw");
        let denied = alice.ask("BLPOP b 0");
        assert!(denied.starts_with("-NOPERM"), "{topology}: {denied}");
        let denied = alice.ask("BLMOVE a b LEFT LEFT 0");
        assert!(denied.starts_with("-NOPERM"), "{topology}: {denied}");
        alice.send(b"BLPOP a 0\r\n");
        wait_until("a client waits", || admin.info("clients").contains("blocked_clients:1\r\n"));
        admin.ask("RPUSH a x");
        assert_eq!(alice.reply().to_string(), r#"["a", "x"]"#, "{topology}");
        alice.send(b"BLPOP a 0\r\n");
        wait_until("a client waits", || admin.info("clients").contains("blocked_clients:1\r\n"));
        assert_eq!(admin.ask("ACL DELUSER alice"), "1", "{topology}");
        assert!(alice.read_to_close().is_empty(), "{topology}");
        admin.ask("RPUSH a x");
        assert_eq!(admin.ask("LLEN a"), "1", "{topology}");
    }
}

#[test]
fn a_file_of_users_is_read_and_written() {
    const USERS: &str = "user alice on allcommands allkeys &* >alice\n\
        user bob on -@all +@set +acl ~set* &* >bob\nuser default on nopass ~* &* +@all\n";
    for topology in TOPOLOGIES {
        let server = start_with_file(topology, USERS);
        let mut admin = server.connect();
        let mut bob = log_in(&server, "bob", "bob");
        assert_eq!(bob.ask("SADD set 1 2 3"), "3", "{topology}");
        assert!(bob.ask("SET key value").starts_with("-NOPERM"), "{topology}");
        assert_eq!(admin.ask("ACL SETUSER eve +get allkeys >eve on"), "+OK");
        assert_eq!(admin.ask("ACL SAVE"), "+OK", "{topology}");
        assert_eq!(admin.ask("ACL LOAD"), "+OK", "{topology}");
        assert!(bob.read_to_close().is_empty(), "{topology}");
        let mut eve = log_in(&server, "eve", "eve");
        assert_eq!(eve.ask("GET key"), "nil", "{topology}");
        let path = server.directory().join("users.acl");
        let saved = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{saved}user alice on nopass ~* -@all\n")).unwrap();
        let refused = admin.ask("ACL LOAD");
        assert!(refused.contains("Duplicate user 'alice' found on line 5"), "{topology}: {refused}");
        assert_eq!(eve.ask("GET key"), "nil", "{topology}");
        // A connection that runs ACL LOAD and is closed for it gets the reply first.
        fs::write(&path, &saved).unwrap();
        let mut alice = log_in(&server, "alice", "alice");
        assert_eq!(alice.ask("ACL LOAD"), "+OK", "{topology}");
        assert!(alice.read_to_close().is_empty(), "{topology}");
        server.assert_alive();
    }
}

#[test]
fn wrong_users_stop_the_start_with_a_clear_error() {
    psp_harness::only_psp!();
    let directory = tempfile::tempdir().unwrap();
    let (config, users) = (directory.path().join("psp-redis.toml"), directory.path().join("users.acl"));
    let fails_with = |text: &str, flags: &[&str]| {
        fs::write(&config, text).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_psp-redis"))
            .args(["--port", "0", "--config"])
            .arg(&config)
            .args(flags)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{text}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let error = fails_with("port = 0\nuser = [\n  'alice on',\n  'bob +nope',\n]\n", &[]);
    for part in ["line 2", "user 'bob'", "'+nope'", "Unknown command"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let error = fails_with("user = ['alice on', 'alice off']", &[]);
    assert!(error.contains("Duplicate user 'alice'"), "{error}");
    let error = fails_with("", &["--user", "alice on", "--user", "alice on"]);
    assert!(error.contains("Duplicate user 'alice'"), "{error}");
    let error = fails_with("", &["--user", "alice nonsense"]);
    assert!(error.contains("--user") && error.contains("'nonsense'"), "{error}");
    fs::write(&users, "user alice on\n\nuser bob +nope\n").unwrap();
    let path = users.to_str().unwrap();
    let error = fails_with("", &["--aclfile", path]);
    assert!(error.contains(&format!("{path}:3:")) && error.contains("'+nope'"), "{error}");
    let error = fails_with("", &["--aclfile", path, "--requirepass", "x"]);
    assert!(error.contains("'requirepass' has no effect"), "{error}");
    let error = fails_with("user = ['alice on']", &["--aclfile", path]);
    assert!(error.contains("exclude each other"), "{error}");
}

#[test]
fn users_of_the_configuration_survive_a_reload() {
    psp_harness::only_psp!();
    let server = Server::start_with(&Options {
        config: Some("user = ['alice on >pw +@all ~*', 'default on >root ~* &* +@all']\n"),
        ..Options::default()
    });
    let mut admin = server.connect();
    assert_eq!(admin.ask("PING"), "-NOAUTH Authentication required.");
    assert_eq!(admin.ask("AUTH root"), "+OK");
    assert_eq!(admin.ask("ACL SETUSER bob on nopass +@all"), "+OK");
    fs::write(server.config_file(), "acllog-max-len = 7\n").unwrap();
    server.hang_up();
    wait_until("the reload", || admin.ask("CONFIG GET acllog-max-len") == r#"["acllog-max-len", "7"]"#);
    assert_eq!(admin.ask("ACL USERS"), r#"["alice", "bob", "default"]"#);
    let mut stranger = server.connect();
    assert_eq!(stranger.ask("PING"), "-NOAUTH Authentication required.");
    log_in(&server, "alice", "pw");
}
