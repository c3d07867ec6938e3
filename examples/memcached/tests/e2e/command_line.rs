//! Flags as memcached has them.

use std::fs;
use std::process::Command;

use psp_harness::{free_port, other_server};

use crate::common::{Connection, Server, wait_until};

#[test]
fn what_is_disabled_is_refused() {
    let server = Server::start_with(&["-F", "-X"]);
    let mut client = server.connect();
    for (request, reply) in [
        ("set a 0 0 1|x", "STORED"),
        ("flush_all", "CLIENT_ERROR flush_all not allowed"),
        ("lru_crawler metadump all", "ERROR metadump not allowed"),
        ("stats cachedump 1 1", "CLIENT_ERROR stats cachedump not allowed"),
        ("get a", "VALUE a 0 1|x|END"),
    ] {
        client.expect(request, reply);
    }
    if !Server::is_psp() {
        // memcached does not answer a binary flush then.
        return;
    }
    let mut flush = [0; 24];
    (flush[0], flush[1]) = (0x80, 0x08);
    client.send(flush);
    let mut refused = flush;
    (refused[0], refused[7], refused[11]) = (0x81, 0x20, 13);
    client.expect_reply("a binary flush", &[&refused[..], b"Auth failure."].concat());
}

#[test]
fn flags_without_effect_are_logged() {
    psp_harness::only_psp!();
    let server = Server::start_with(&["-C", "-R", "20", "-o", "slab_reassign,maxconns_fast"]);
    wait_until("the log names them", || {
        let log = server.log().join("\n");
        ["-C", "-R", "-o slab_reassign", "-o maxconns_fast"]
            .iter()
            .all(|flag| log.contains(&format!("{flag} has no effect")))
    });
}

#[test]
fn what_is_wrong_is_named_as_it_was_written() {
    psp_harness::only_psp!();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("psp-memcached.toml");
    fs::write(&file, "listen = []").expect("a file");
    let file = file.to_str().expect("a path of ASCII");
    for (open_files, flags, expected) in [
        (
            20,
            &[][..],
            "Error: the limit of open files (ulimit -n) is 20: the server needs 33 at least",
        ),
        (1024, &["--config", file], "listen (--listen) is empty"),
        (1024, &["-c", "0"], "server.connections-max (--conn-limit) is 0"),
        (1024, &["-a", "700"], "sockets.unix-mode (--unix-mask) is 0o700, it must be unset"),
    ] {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {open_files}; exec timeout 10 \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_psp-memcached"), "-p", "0"]);
        let output = shell.args(flags).output().expect("a shell");
        let printed = String::from_utf8(output.stderr).expect("text");
        assert!(!output.status.success() && printed.contains(expected), "{printed}");
    }
}

#[test]
fn a_server_in_the_background_has_a_file_with_its_process_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pid");
    let port = free_port();
    let program = other_server().unwrap_or_else(|| env!("CARGO_BIN_EXE_psp-memcached").into());
    let mut command = Command::new(program);
    command.args(["-d", "-A", "-u", "root", "-l", "127.0.0.1", "-p", &port.to_string(), "-P"]);
    assert!(command.arg(&file).status().expect("it starts").success());
    let address = ([127, 0, 0, 1], port).into();
    let mut client = None;
    wait_until("it listens, and the file is written", || {
        client = client.take().or_else(|| Connection::open(address).ok());
        client.is_some() && fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'))
    });
    let mut client = client.expect("a connection");
    let id = client.stat("stats", "pid");
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{id}\n"));
    client.send("shutdown\r\n");
    wait_until("the file is gone", || !file.exists());
}

#[test]
fn clients_show_a_password_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("passwords");
    fs::write(&file, "foo:bar\nbaaaz:quux\n").expect("a file");
    let server = Server::start_with(&["-Y", file.to_str().expect("a path"), "-U", "0"]);
    let mut client = server.connect();
    let refused = "CLIENT_ERROR unauthenticated";
    for (request, reply) in [
        ("get a", refused),
        ("version", refused),
        ("mn", refused),
        ("set a 0 0 7|foo bab", "CLIENT_ERROR authentication failure"),
        ("set a 0 0 2|hi", "CLIENT_ERROR bad authentication token format"),
        ("set any 0 0 7|foo bar", "STORED"),
        ("get any", "END"),
        ("set a 0 0 2|hi", "STORED"),
        ("get a", "VALUE a 0 2|hi|END"),
    ] {
        client.expect(request, reply);
    }
    assert_eq!(client.stat("stats", "auth_cmds"), 2);
    assert_eq!(client.stat("stats", "auth_errors"), 1);
    let mut other = server.connect();
    other.expect("get a", refused);
    other.expect("set x 0 0 10|baaaz quux|get a", "STORED|VALUE a 0 2|hi|END");
    if !Server::is_psp() {
        return;
    }
    let mut binary = server.connect();
    let mut noop = [0; 24];
    (noop[0], noop[1]) = (0x80, 0x0a);
    binary.send(noop);
    assert_eq!(binary.read_to_close(), b"");
    // The file is read again.
    fs::write(&file, "new:word\n").expect("a file");
    server.hang_up();
    wait_until("the new password is known", || {
        let reply = server.connect().ask("set x 0 0 8\r\nnew word");
        reply == "STORED"
    });
    server.connect().expect("set x 0 0 7|foo bar", "CLIENT_ERROR authentication failure");
}

#[test]
fn clients_of_the_binary_protocol_show_a_password_by_sasl() {
    psp_harness::only_psp!();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("passwords");
    fs::write(&file, "foo:bar\n").expect("a file");
    let server = Server::start_with(&["-S", "-Y", file.to_str().expect("a path")]);
    let packet = |magic: u8, opcode: u8, status: u8, key: &[u8], value: &[u8]| {
        let mut packet = vec![magic, opcode, 0, key.len() as u8, 0, 0, 0, status];
        packet.extend(((key.len() + value.len()) as u32).to_be_bytes());
        packet.extend([0; 12]);
        packet.extend([key, value].concat());
        packet
    };
    let (get, noop, list, auth, step) = (0x00, 0x0a, 0x20, 0x21, 0x22);
    let refused = |opcode| packet(0x81, opcode, 0x20, b"", b"Auth failure.");
    let mut client = server.connect();
    for (opcode, key, value, reply) in [
        (list, &b""[..], &b""[..], packet(0x81, list, 0, b"", b"PLAIN")),
        (auth, b"PLAIN", b"\0foo\0baz", refused(auth)),
        (auth, b"CRAM-MD5", b"", refused(auth)),
        (step, b"PLAIN", b"\0foo\0bar", refused(step)),
        (auth, b"PLAIN", b"\0foo\0bar", packet(0x81, auth, 0, b"", b"Authenticated")),
        (noop, b"", b"", packet(0x81, noop, 0, b"", b"")),
        (get, b"k", b"", packet(0x81, get, 1, b"", b"Not found")),
    ] {
        client.send(packet(0x80, opcode, 0, key, value));
        client.expect_reply(&format!("{opcode:#x}"), &reply);
    }
    let mut stranger = server.connect();
    stranger.send(packet(0x80, get, 0, b"k", b""));
    assert_eq!(stranger.read_to_close(), refused(get));
    let mut of_text = server.connect();
    of_text.send("get k\r\n");
    assert_eq!(of_text.read_to_close(), b"");
}
