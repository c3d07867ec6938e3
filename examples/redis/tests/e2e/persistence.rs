//! The data set on disk: what is saved, what is loaded, and what clients see of both.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use psp_harness::{MemoryGroup, NO_MEMORY_GROUP, skip, wait_until};
use tempfile::TempDir;

use crate::common::{Connection, Options, Server, TOPOLOGIES, encode_line, pipeline};
use crate::payloads::{content, fill};

/// Keys of a data set that takes some time to save.
const MANY: usize = 200_000;

fn dump(dir: &TempDir) -> PathBuf {
    dir.path().join("dump.rdb")
}

fn options(dir: &TempDir, topology: &'static str, save: &'static str) -> Options {
    Options {
        dir: Some(dir.path().to_owned()),
        topology: Some(topology),
        workers: Some(2),
        save: Some(save),
        ..Options::default()
    }
}

/// A field of INFO persistence.
fn info(client: &mut Connection, field: &str) -> String {
    let text = client.info("persistence");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field} in {text}")).to_owned()
}

/// Waits until what the server began with is loaded.
fn loaded(server: &Server) -> Connection {
    let mut client = server.connect();
    wait_until("the data set is loaded", || client.ask("PING") == "+PONG");
    client
}

fn wait_for_save(client: &mut Connection) {
    wait_until("the save ends", || info(client, "rdb_bgsave_in_progress") == "0");
}

/// Sends SHUTDOWN, which has no reply, and waits for the end.
fn shut_down(mut server: Server, line: &str) {
    let mut client = server.connect();
    client.send(encode_line(line));
    assert!(client.try_reply().is_err(), "{line}: the connection ends");
    assert!(server.wait_for_exit().success(), "{:?}", server.log());
}

#[test]
fn what_clients_stored_is_there_after_the_end() {
    for topology in TOPOLOGIES {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_with(&options(&dir, topology, "3600 1"));
        let mut client = server.connect();
        assert_eq!(client.ask("MSET a 1 b 2"), "+OK");
        shut_down(server, "SHUTDOWN");
        let mut server = Server::start_with(&options(&dir, topology, "3600 1"));
        let mut client = loaded(&server);
        assert_eq!(client.ask("MGET a b"), r#"["1", "2"]"#, "{topology}");
        assert_eq!(client.ask("SET c 3"), "+OK");
        server.terminate();
        assert!(server.wait_for_exit().success());
        let server = Server::start_with(&options(&dir, topology, ""));
        let mut client = loaded(&server);
        assert_eq!(client.ask("MGET a b c"), r#"["1", "2", "3"]"#, "{topology}");
        assert_eq!(client.ask("SET c 4"), "+OK");
        shut_down(server, "SHUTDOWN");
        let server = Server::start_with(&options(&dir, topology, "3600 1"));
        let mut client = loaded(&server);
        assert_eq!(client.ask("GET c"), r#""3""#, "{topology}: without save points nothing is saved");
        client.ask("SET c 5");
        shut_down(server, "SHUTDOWN NOSAVE");
        let server = Server::start_with(&options(&dir, topology, ""));
        let mut client = loaded(&server);
        assert_eq!(client.ask("GET c"), r#""3""#, "{topology}");
        client.ask("SET c 6");
        shut_down(server, "SHUTDOWN SAVE");
        let server = Server::start_with(&options(&dir, topology, ""));
        assert_eq!(loaded(&server).ask("GET c"), r#""6""#, "{topology}");
    }
}

#[test]
fn the_log_says_if_nothing_is_saved() {
    psp_harness::only_psp!();
    let dir = tempfile::tempdir().unwrap();
    for (save, expected) in [("", 1), ("3600 1", 0)] {
        let server = Server::start_with(&options(&dir, "inline", save));
        let log = server.log();
        let lines = log
            .iter()
            .filter(|line| line.contains("keys are in memory alone, and are lost at the end"));
        assert_eq!(lines.count(), expected, "{log:?}");
    }
}

#[test]
fn a_save_point_saves_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&options(&dir, "inline", "1 2"));
    let mut client = server.connect();
    client.ask("SET a 1");
    assert_eq!(info(&mut client, "rdb_changes_since_last_save"), "1");
    client.ask("SET a 2");
    wait_until("the data set is saved", || dump(&dir).exists());
    wait_for_save(&mut client);
    assert_eq!(info(&mut client, "rdb_changes_since_last_save"), "0");
}

#[test]
fn saves_and_reloads_hold_no_thread() {
    for topology in TOPOLOGIES {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_with(&options(&dir, topology, ""));
        let (mut client, mut other) = (server.connect(), server.connect());
        client.ask(&format!("DEBUG POPULATE {MANY} key 100"));
        client.send(encode_line("SAVE"));
        let mut answered = 0;
        while !client.has_received() {
            assert_eq!(other.ask("EXISTS key:1"), "1");
            answered += 1;
        }
        assert_eq!(client.reply().to_string(), "+OK");
        assert!(answered > 20 || !Server::is_psp_redis(), "{topology}: {answered}");
        assert_eq!(client.ask("DEBUG RELOAD"), "+OK", "{topology}");
        assert_eq!(client.ask("DBSIZE"), MANY.to_string());
    }
}

/// The file has all keys as they were at BGSAVE, whatever clients wrote and read meanwhile.
#[test]
fn a_save_in_the_background_has_one_instant_and_delays_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&options(&dir, "inline", ""));
    let mut client = server.connect();
    client.ask(&format!("DEBUG POPULATE {MANY} key 100"));
    assert_eq!(client.ask("SET last 0"), "+OK");
    assert_eq!(client.ask("BGSAVE"), "+Background saving started");
    assert_eq!(client.ask("BGSAVE"), "-ERR Background save already in progress");
    assert_eq!(client.ask("SAVE"), "-ERR Background save already in progress");
    let mut rounds = 0;
    while info(&mut client, "rdb_bgsave_in_progress") == "1" {
        rounds += 1;
        let lines: Vec<String> = (0..100)
            .flat_map(|index| {
                let key = (rounds * 7919 + index * 101) % MANY;
                [format!("SET key:{key} new"), format!("GET key:{key}"), "INCR last".to_owned()]
            })
            .collect();
        let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
        for replies in pipeline(&mut client, &lines).chunks(3) {
            assert_eq!(replies[..2], ["+OK", r#""new""#]);
        }
    }
    assert!(rounds > 2, "{rounds} rounds of a hundred during the save");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    drop(server);
    let server = Server::start_with(&options(&dir, "inline", ""));
    let mut client = loaded(&server);
    assert_eq!(client.ask("DBSIZE"), (MANY + 1).to_string());
    assert_eq!(client.ask("GET last"), r#""0""#);
    for first in (0..MANY).step_by(1000) {
        let keys: Vec<String> = (first..first + 1000).map(|key| format!("key:{key}")).collect();
        let words = [vec!["MGET".to_owned()], keys].concat();
        let values = client.request(&words).into_items();
        assert!(values.iter().all(|value| value.to_string().starts_with("\"value:")), "{first}");
    }
}

/// A save that does not go on, since the pipe that it writes to is not read.
struct HeldSave(fs::File);

impl HeldSave {
    fn begin(server: &Server, dir: &TempDir) -> Self {
        let pipe = dir.path().join(format!("temp-{}.rdb", server.id()));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(server.connect().ask("BGSAVE"), "+Background saving started");
        Self(fs::File::open(pipe).unwrap())
    }
}

/// Stores as many keys of a thousand bytes. Returns whether all were stored.
fn write_all(client: &mut Connection, keys: usize, mut between: impl FnMut()) -> bool {
    let value = "v".repeat(1000);
    (0..keys).step_by(100).all(|first| {
        between();
        let lines: Vec<String> = (first..first + 100).map(|key| format!("SET key:{key} {value}")).collect();
        let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
        pipeline(client, &lines).iter().all(|reply| reply == "+OK")
    })
}

fn used_bytes(client: &mut Connection) -> usize {
    let memory = client.info("memory");
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.unwrap().parse().unwrap()
}

/// What a save keeps is in memory until it ends. To evict keys would free none of it.
#[test]
fn a_save_evicts_no_keys_and_refuses_no_writes() {
    const KEYS: usize = 60_000;
    psp_harness::only_psp!();
    for policy in ["allkeys-lru", "noeviction"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_with(&options(&dir, "inline", ""));
        let mut client = server.connect();
        client.ask(&format!("CONFIG SET maxmemory 100mb maxmemory-policy {policy}"));
        assert!(write_all(&mut client, KEYS, || {}));
        let held = HeldSave::begin(&server, &dir);
        for _ in 0..2 {
            assert!(write_all(&mut client, KEYS, || {}), "{policy}");
        }
        let used = used_bytes(&mut client);
        assert!(used > 110 << 20, "the save keeps what was there: {used}");
        assert_eq!(client.ask("DBSIZE"), KEYS.to_string());
        assert_eq!(info(&mut client, "rdb_bgsave_in_progress"), "1");
        // Without a reader the pipe takes no more, and the save fails.
        drop(held);
        wait_for_save(&mut client);
        assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
        assert_eq!(client.ask("DBSIZE"), KEYS.to_string());
        assert!(client.info("stats").contains("evicted_keys:0\r\n"));
    }
}

/// The disk is slow, and clients change everything meanwhile.
#[test]
#[ignore = "needs root, and memory; run by .ci/run"]
fn a_save_is_given_up_before_the_control_group_has_no_memory_left() {
    psp_harness::only_psp!();
    let Some(group) = MemoryGroup::new(256) else {
        return skip(NO_MEMORY_GROUP);
    };
    let dir = tempfile::tempdir().unwrap();
    let group = Some(Arc::new(group));
    let server = Server::start_with(&Options { memory_group: group, ..options(&dir, "inline", "") });
    let mut client = server.connect();
    client.ask("CONFIG SET rdbcompression no");
    let limit = client.request(&["CONFIG", "GET", "maxmemory"]).into_items();
    let limit: usize = String::from_utf8(limit[1].clone().into_bytes()).unwrap().parse().unwrap();
    let keys = limit / 1500 / 100 * 100;
    assert!(write_all(&mut client, keys, || {}));
    let mut held = HeldSave::begin(&server, &dir);
    let mut piece = vec![0; 16 * 1024];
    for _ in 0..10 {
        assert!(write_all(&mut client, keys, || drop(held.0.read(&mut piece))));
    }
    assert_eq!(info(&mut client, "rdb_bgsave_in_progress"), "0");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
    let log = server.log().join("\n");
    assert!(log.contains("what clients change takes more memory than there is"), "{log}");
    assert_eq!(client.ask("DBSIZE"), keys.to_string());
}

#[test]
fn a_save_of_what_is_gone_is_given_up() {
    psp_harness::only_psp!();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&options(&dir, "inline", ""));
    let mut client = server.connect();
    client.ask("DEBUG POPULATE 10000 key 100");
    let mut held = HeldSave::begin(&server, &dir);
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    std::io::copy(&mut held.0, &mut std::io::sink()).unwrap();
    wait_for_save(&mut client);
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    assert!(!dump(&dir).exists());
}

#[test]
fn a_server_that_is_killed_while_it_saves_leaves_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&options(&dir, "inline", ""));
    let mut client = server.connect();
    client.ask("SET old 1");
    assert_eq!(client.ask("SAVE"), "+OK");
    let old = fs::read(dump(&dir)).unwrap();
    client.ask(&format!("DEBUG POPULATE {MANY} key 1000"));
    assert_eq!(client.ask("BGSAVE"), "+Background saving started");
    wait_until("the new file grows", || {
        let mut files = fs::read_dir(dir.path()).unwrap().flatten();
        let new = files.find(|file| file.file_name().to_string_lossy().starts_with("temp-"));
        new.is_some_and(|file| file.metadata().is_ok_and(|file| file.len() > 0))
    });
    assert_eq!(info(&mut client, "rdb_bgsave_in_progress"), "1");
    drop(server);
    assert_eq!(fs::read(dump(&dir)).unwrap(), old);
    let server = Server::start_with(&options(&dir, "inline", ""));
    assert_eq!(loaded(&server).ask("DBSIZE"), "1");
}

#[test]
fn the_end_gives_up_a_save_in_the_background_for_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&options(&dir, "inline", ""));
    let mut client = server.connect();
    client.ask(&format!("DEBUG POPULATE {MANY} key 100"));
    assert_eq!(client.ask("BGSAVE"), "+Background saving started");
    client.ask("SET last 1");
    shut_down(server, "SHUTDOWN SAVE");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "one file is left");
    let server = Server::start_with(&options(&dir, "inline", ""));
    assert_eq!(loaded(&server).ask("EXISTS key:1 last"), "2");
}

/// Programs that pass SIGTERM on send it twice, or send it to a server that was asked to end by SHUTDOWN.
#[test]
fn signals_do_not_end_the_last_save() {
    for (save, line) in [("3600 1", None), ("", Some("SHUTDOWN SAVE"))] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::start_with(&options(&dir, "inline", save));
        let mut client = server.connect();
        client.ask(&format!("DEBUG POPULATE {MANY} key 100"));
        if let Some(line) = line {
            client.send(encode_line(line));
            let half = |name: &str| name.starts_with("temp-");
            wait_until("the save has begun", || {
                let files = fs::read_dir(dir.path()).unwrap();
                { files }.any(|file| half(&file.unwrap().file_name().to_string_lossy())) || dump(&dir).exists()
            });
        }
        server.terminate();
        server.terminate();
        assert!(server.wait_for_exit().success(), "{:?}", server.log());
        let server = Server::start_with(&options(&dir, "inline", ""));
        assert_eq!(loaded(&server).ask("DBSIZE"), MANY.to_string(), "{line:?}");
    }
}

#[test]
fn a_save_that_fails_leaves_the_old_file_and_stops_writes() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let server = Server::start_with(&Options {
        dir: Some(inner.clone()),
        save: Some("3600 1"),
        ..Options::default()
    });
    let mut client = server.connect();
    client.ask("SET a 1");
    assert_eq!(client.ask("SAVE"), "+OK");
    let moved = dir.path().join("moved");
    fs::rename(&inner, &moved).unwrap();
    // Redis works on in the folder that was moved.
    if Server::is_psp_redis() {
        let refused = client.ask("SAVE");
        assert!(refused.starts_with("-ERR cannot make the file "), "{refused}");
        assert_eq!(client.ask("BGSAVE"), "+Background saving started");
        wait_for_save(&mut client);
        assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
        for line in ["SET a 2", "PING"] {
            let refused = client.ask(line);
            assert!(refused.starts_with("-MISCONF Redis is configured to save RDB snapshots"), "{refused}");
        }
        assert_eq!(client.ask("GET a"), r#""1""#);
        assert_eq!(client.ask("SHUTDOWN"), "-ERR Errors trying to SHUTDOWN. Check logs.");
        assert!(moved.join("dump.rdb").exists());
        fs::rename(&moved, &inner).unwrap();
        assert_eq!(client.ask("BGSAVE"), "+Background saving started");
        wait_for_save(&mut client);
        assert_eq!(client.ask("SET a 2"), "+OK");
    }
}

/// The server begins with a file that comes as the test writes it.
#[test]
fn clients_hear_that_the_data_set_is_loading() {
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_with(&options(&dir, topology, ""));
        let mut client = server.connect();
        client.ask("MSET a 1 b 2");
        client.ask("SAVE");
        drop(server);
        let whole = fs::read(dump(&dir)).unwrap();
        for is_cut in [false, true] {
            fs::remove_file(dump(&dir)).unwrap();
            assert!(Command::new("mkfifo").arg(dump(&dir)).status().unwrap().success());
            let mut server = Server::start_with(&options(&dir, topology, "3600 1"));
            let mut file = fs::File::options().write(true).open(dump(&dir)).unwrap();
            let (before, after) = whole.split_at(whole.len() - 9);
            file.write_all(before).unwrap();
            let mut client = server.connect();
            for line in ["GET a", "PING", "SAVE", "MGET a b"] {
                assert_eq!(client.ask(line), "-LOADING Redis is loading the dataset in memory", "{topology}");
            }
            assert_eq!(info(&mut client, "loading"), "1");
            if is_cut {
                drop(file);
                assert_eq!(server.wait_for_exit().code(), Some(1));
                let log = server.log().join("\n");
                assert!(log.contains("cannot load ") && log.contains("the file ends within"), "{log}");
            } else {
                file.write_all(after).unwrap();
                drop(file);
                let mut client = loaded(&server);
                assert_eq!(client.ask("MGET a b"), r#"["1", "2"]"#);
                assert_eq!(info(&mut client, "rdb_last_load_keys_loaded"), "2");
            }
        }
    }
}

#[test]
fn a_server_that_ends_while_it_loads_saves_nothing() {
    psp_harness::only_psp!();
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dump(&dir)).status().unwrap().success());
    let mut server = Server::start_with(&options(&dir, "inline", "3600 1"));
    let mut file = fs::File::options().write(true).open(dump(&dir)).unwrap();
    file.write_all(b"REDIS0010").unwrap();
    server.terminate();
    for number in 0_u32.. {
        let key = [&b"\x00\x04"[..], &number.to_be_bytes(), b"\x01v"].concat();
        if file.write_all(&key).is_err() {
            break;
        }
    }
    let status = server.wait_for_exit();
    assert!(status.success(), "{status}: {:?}", server.log());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the pipe");
}

/// What a server prints that does not begin with this file.
/// What the program prints that ends at once, with these flags.
pub(crate) fn refusal(dir: &Path, flags: &[&str]) -> String {
    let mut command = Command::new("timeout");
    command.args(["20", env!("CARGO_BIN_EXE_psp-redis"), "--port", "0", "--log-level", "error", "--dir"]);
    let output = command.arg(dir).args(flags).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_server_does_not_begin_with_a_file_that_it_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    for (file, expected) in [
        (
            &b"REDIS0011\x00\x01k\x01"[..],
            "the file ends within the key \"k\" from byte 9 on, of type String (at byte 13)",
        ),
        (
            b"REDIS0010\xff12345678",
            "RDB CRC error: the checksum is 3837363534333231, and that of the content is ",
        ),
        (b"REDIS0011\x07\x01k\x81\x27\x48\x4e\x22\x0d\x1f\xfc\x04", " is of the module "),
        (b"REDIS0099", "the file has version 99, and 12 is the last one known (at byte 9)"),
        (b"", "the file ends within the file's head (at byte 0)"),
    ] {
        fs::write(dump(&dir), file).unwrap();
        let printed = refusal(dir.path(), &[]);
        let named = format!("Error: cannot load {}: ", dump(&dir).canonicalize().unwrap().display());
        assert!(printed.starts_with(&named) && printed.contains(expected), "{printed}");
        assert_eq!(fs::read(dump(&dir)).unwrap(), file);
    }
    let printed = refusal(&dir.path().join("none"), &[]);
    assert!(
        printed.contains("dir (--dir) is ") && printed.contains(", which is no folder"),
        "{printed}"
    );
    let printed = refusal(tempfile::tempdir().unwrap().path(), &["--load", "/nonexistent.rdb"]);
    assert!(printed.contains("cannot load /nonexistent.rdb: No such file or directory"), "{printed}");
    let printed = refusal(dir.path(), &["--dbfilename", "a/b"]);
    assert!(printed.contains("dbfilename can't be a path"), "{printed}");
}

#[test]
fn a_file_from_elsewhere_is_read_once() {
    psp_harness::only_psp!();
    let (elsewhere, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start_with(&options(&elsewhere, "inline", ""));
    let mut client = server.connect();
    client.ask("SET a 1");
    client.ask("SAVE");
    drop(server);
    let from = format!("load = '{}'\n", dump(&elsewhere).display());
    let from: &'static str = Box::leak(from.into_boxed_str());
    let start = || {
        let options = Options { config: Some(from), ..options(&dir, "inline", "3600 1") };
        Server::start_with(&options)
    };
    let mut server = start();
    assert_eq!(loaded(&server).ask("GET a"), r#""1""#);
    server.terminate();
    assert!(server.wait_for_exit().success());
    assert!(dump(&dir).exists(), "what was read elsewhere is saved, without any change");
    let mut server = start();
    loaded(&server).ask("SET a 2");
    server.terminate();
    server.wait_for_exit();
    let server = start();
    assert_eq!(loaded(&server).ask("GET a"), r#""2""#);
}

/// Keys of each type in several databases, some of which expire, and functions.
fn fill_all(client: &mut Connection) {
    fill(client);
    let code = "#!lua name=library\nredis.register_function('answer', function() return 42 end)";
    client.request(&["FUNCTION", "LOAD", code]);
    for line in [
        "PEXPIREAT short 4102444800000",
        "PEXPIREAT events 4102444800001",
        "COPY list list DB 3",
        "COPY log log DB 9",
    ] {
        client.ask(line);
    }
    client.request(&["SET", "large", &"ab".repeat(3_000_000)]);
    client.request(&["SET", "binary", "\u{0}\r\n\u{ff}"]);
}

fn contents(client: &mut Connection) -> Vec<String> {
    let mut all = Vec::new();
    for database in 0..16 {
        client.ask(&format!("SELECT {database}"));
        let mut keys: Vec<String> = { client.request(&["KEYS", "*"]).into_items() }
            .into_iter()
            .map(|key| String::from_utf8(key.into_bytes()).unwrap())
            .collect();
        keys.sort();
        for key in keys {
            let expires = client.ask(&format!("PEXPIRETIME {key}"));
            let content = content(client, &key);
            all.push(format!("{database} {key} {expires} {content}"));
        }
    }
    client.ask("SELECT 0");
    all.push(client.ask("FCALL answer 0"));
    all
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn files_go_to_redis_server_and_come_back() {
    for compression in ["yes", "no"] {
        for from_redis in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let start = |is_redis: bool| match is_redis {
                true => Server::redis_server(&Options { dir: Some(dir.path().to_owned()), ..Options::default() }),
                false => Server::start_with(&options(&dir, "inline", "")),
            };
            let server = start(from_redis);
            let mut client = server.connect();
            client.ask(&format!("CONFIG SET rdbcompression {compression}"));
            fill_all(&mut client);
            let before = contents(&mut client);
            assert!(before.len() > 30);
            assert_eq!(client.ask("SAVE"), "+OK");
            drop(server);
            let checked = Command::new("redis-check-rdb").arg(dump(&dir)).output().unwrap();
            assert!(checked.status.success(), "{checked:?}");
            let server = start(!from_redis);
            let after = contents(&mut loaded(&server));
            for (before, after) in before.iter().zip(&after) {
                let shown = &before[..before.len().min(200)];
                assert!(before == after, "compression {compression}, from redis {from_redis}: {shown}");
            }
            assert_eq!(before.len(), after.len());
        }
    }
}
