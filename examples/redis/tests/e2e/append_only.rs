//! The append-only file: what clients heard to be done is there after whatever end.
//!
//! `PSP_KILLS` kills more servers than `.ci/run` does:
//!
//! ```sh
//! PSP_KILLS=200 cargo test -p psp-redis --test e2e append_only::
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use psp_harness::{skip, wait_until};
use rand::RngExt as _;
use tempfile::TempDir;

use crate::common::{Connection, Options, Server, TOPOLOGIES, encode, encode_line};
use crate::differential::generator::Generator;
use crate::persistence::refusal;

/// Servers that are killed without `PSP_KILLS`.
const KILLS: u64 = 6;
/// Random commands, and after how many the log is read again.
const COMMANDS: usize = 6_000;
const COMMANDS_PER_LOAD: usize = 500;
/// Clients that write until the server is killed.
const WRITERS: usize = 4;
/// Longest life of a server that is killed.
const LIFE_MS_MAX: u64 = 120;

fn options(dir: &TempDir, topology: &'static str, appendfsync: &'static str) -> Options {
    Options {
        dir: Some(dir.path().to_owned()),
        topology: Some(topology),
        workers: Some(2),
        appendfsync: Some(appendfsync),
        ..Options::default()
    }
}

fn folder(dir: &TempDir) -> PathBuf {
    dir.path().join("appendonlydir")
}

/// The files whose names end so, in order.
fn files(dir: &TempDir, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(dir)).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    found.sort();
    found
}

/// Waits until what the server began with is loaded.
fn loaded(server: &Server) -> Connection {
    let mut client = server.connect();
    wait_until("the data set is loaded", || client.ask("PING") == "+PONG");
    client
}

fn info(client: &mut Connection, field: &str) -> String {
    let text = client.info("persistence");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field} in {text}")).to_owned()
}

fn end(mut server: Server) {
    server.connect().send(encode_line("SHUTDOWN NOSAVE"));
    assert!(server.wait_for_exit().success(), "{:?}", server.log());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Sends random commands. Their keys do not expire meanwhile.
fn send_random(client: &mut Connection, generator: &mut Generator, count: usize) {
    for _ in 0..count {
        let (words, _) = generator.command();
        client.request(&words);
    }
    client.ask("RESET");
}

/// What is there, as a number. What is about to expire is gone.
fn digest(client: &mut Connection) -> String {
    client.ask("DEBUG DIGEST")
}

#[test]
fn the_log_has_what_random_commands_have_done() {
    psp_harness::only_psp!();
    for (seed, topology) in (1..).zip(TOPOLOGIES) {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_with(&options(&dir, topology, "no"));
        let mut client = loaded(&server);
        let mut generator = Generator::new(seed);
        for step in 0..COMMANDS / COMMANDS_PER_LOAD {
            send_random(&mut client, &mut generator, COMMANDS_PER_LOAD);
            if step % 4 == 3 {
                client.ask("BGREWRITEAOF");
            }
            let before = digest(&mut client);
            assert_eq!(client.ask("DEBUG LOADAOF"), "+OK", "{:?}", server.log());
            assert_eq!(digest(&mut client), before, "{topology}, seed {seed}, step {step}");
        }
        let before = digest(&mut client);
        end(server);
        let server = Server::start_with(&options(&dir, topology, "always"));
        let mut client = loaded(&server);
        let after = digest(&mut client);
        assert_eq!(after, before, "{topology}, then {}: {:?}", digest(&mut client), server.log());
    }
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn the_files_go_both_ways_with_redis_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut generator = Generator::new(7);
    let ours = |dir: &TempDir| Server::start_with(&options(dir, "inline", "no"));
    let redis = |dir: &TempDir| Server::redis_server(&options(dir, "inline", "no"));
    let starts: [&dyn Fn(&TempDir) -> Server; 4] = [&ours, &redis, &ours, &redis];
    let mut expected = None;
    for (index, start) in starts.into_iter().enumerate() {
        let server = start(&dir);
        let mut client = loaded(&server);
        if let Some(expected) = expected {
            assert_eq!(digest(&mut client), expected, "server {index}: {:?}", server.log());
        }
        send_random(&mut client, &mut generator, 1_500);
        if index % 2 == 1 {
            client.ask("BGREWRITEAOF");
            wait_until("the rewrite ends", || info(&mut client, "aof_rewrite_in_progress") == "0");
            send_random(&mut client, &mut generator, 500);
        }
        expected = Some(digest(&mut client));
        end(server);
    }
}

/// Writes numbers until the connection ends, alone and in pairs. Returns the last ones that were acknowledged.
fn write_until_the_end(server: &Server, writer: usize, acknowledged: &AtomicU64, is_over: &AtomicBool) -> [u64; 2] {
    let mut client = server.connect();
    let (mut single, mut pair) = (0, 0);
    for number in 1.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let number_text = number.to_string();
        let lines = [
            encode(&["RPUSH", &format!("list{writer}"), &number_text]),
            encode_line("MULTI"),
            encode(&["SET", &format!("a{writer}"), &number_text]),
            encode(&["SET", &format!("b{writer}"), &number_text]),
            encode_line("EXEC"),
        ];
        client.send(lines.concat());
        let replies: Vec<_> = (0..lines.len()).map_while(|_| client.try_reply().ok()).collect();
        single = if replies.is_empty() { single } else { number };
        if replies.len() < lines.len() {
            break;
        }
        pair = number;
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    [single, pair]
}

/// What a writer finds after the end: its list, and its pair.
fn found(client: &mut Connection, writer: usize) -> (Vec<u64>, [u64; 2]) {
    let list = client.request(&["LRANGE", &format!("list{writer}"), "0", "-1"]).into_items();
    let number = |reply: crate::common::Reply| String::from_utf8(reply.into_bytes()).unwrap().parse().unwrap();
    let list = list.into_iter().map(number).collect();
    let pair = [format!("a{writer}"), format!("b{writer}")];
    let pair = pair.map(|key| client.ask(&format!("GET {key}")).trim_matches('"').parse().unwrap_or(0));
    (list, pair)
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let kills = std::env::var("PSP_KILLS").ok().map_or(KILLS, |kills| kills.parse().unwrap());
    let settings = TOPOLOGIES.into_iter().zip(["always", "always", "everysec"]).cycle();
    for (_, (topology, appendfsync)) in (0..kills).zip(settings) {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::start_with(&options(&dir, topology, appendfsync));
        loaded(&server);
        let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let life = Duration::from_millis(rand::rng().random_range(1..LIFE_MS_MAX));
        let last: Vec<[u64; 2]> = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (server, acknowledged, is_over) = (&server, &acknowledged, &is_over);
                    scope.spawn(move || write_until_the_end(server, writer, acknowledged, is_over))
                })
                .collect();
            wait_until("something is acknowledged", || acknowledged.load(Ordering::Relaxed) > 0);
            let mut client = server.connect();
            client.send(encode_line("BGREWRITEAOF"));
            thread::sleep(life);
            server.kill();
            is_over.store(true, Ordering::Relaxed);
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let _killed = server.wait_for_exit();
        let server = Server::start_with(&options(&dir, topology, appendfsync));
        let mut client = loaded(&server);
        for (writer, [single, pair]) in last.into_iter().enumerate() {
            let (list, [a, b]) = found(&mut client, writer);
            let what = format!("{topology} {appendfsync} writer {writer}, after {life:?}");
            assert!(list.iter().copied().eq(1..=list.len() as u64), "{what}: {list:?} is no prefix");
            assert_eq!(a, b, "{what}: half of a transaction");
            assert!([0, 1].contains(&(list.len() as u64 - a)), "{what}: {a} without {}", list.len());
            if appendfsync == "always" {
                assert!(
                    list.len() as u64 >= single && a >= pair,
                    "{what}: {} and {a} of {single} and {pair}",
                    list.len()
                );
            }
        }
    }
}

#[test]
fn a_file_that_ends_within_a_command_is_cut_there_unless_it_must_not() {
    psp_harness::only_psp!();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&options(&dir, "inline", "always"));
    let mut client = loaded(&server);
    for line in ["SET a 1", "MULTI", "SET b 2", "SET c 3", "EXEC"] {
        client.ask(line);
    }
    end(server);
    let [file] = &files(&dir, ".incr.aof")[..] else {
        panic!("{:?}", files(&dir, ""));
    };
    let whole = fs::read(file).unwrap();
    for lost in [1, 10, 40] {
        fs::write(file, &whole[..whole.len() - lost]).unwrap();
        let printed = refusal(dir.path(), &["--appendonly", "yes", "--aof-load-truncated", "no"]);
        assert!(printed.contains("Unexpected end of file reading the append only file: it ends within a command or a transaction (behind byte "), "{printed}");
        let server = Server::start_with(&options(&dir, "inline", "always"));
        let mut client = loaded(&server);
        assert_eq!(client.ask("MGET a b c"), r#"["1", nil, nil]"#, "without {lost} bytes");
        // What comes next stands behind what is whole.
        client.ask("SET d 4");
        end(server);
        let server = Server::start_with(&options(&dir, "inline", "always"));
        assert_eq!(loaded(&server).ask("MGET a b d"), r#"["1", nil, "4"]"#);
        end(server);
    }
    let mut damaged = whole.clone();
    let at = damaged.len() / 2;
    damaged[at..at + 4].copy_from_slice(b"\0\0\0\0");
    fs::write(file, damaged).unwrap();
    // What is damaged in its middle is not served.
    let printed = refusal(dir.path(), &["--appendonly", "yes"]);
    assert!(printed.contains(" (behind byte "), "{printed}");
}

#[test]
fn a_log_grows_and_is_rewritten_by_itself_and_begins_with_what_was_saved() {
    psp_harness::only_psp!();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&Options { appendfsync: None, ..options(&dir, "inline", "no") });
    let mut client = server.connect();
    client.ask("SET saved 1");
    client.ask("SAVE");
    end(server);
    let mut growing = options(&dir, "inline", "everysec");
    growing.flags = ["--auto-aof-rewrite-min-size", "10kb"].map(str::to_owned).to_vec();
    let server = Server::start_with(&growing);
    let mut client = loaded(&server);
    assert_eq!(client.ask("GET saved"), r#""1""#, "an RDB file is what a first log begins with");
    for number in 0..1_000 {
        client.ask(&format!("SET k {number}"));
    }
    wait_until("the log is rewritten", || info(&mut client, "aof_rewrites") != "1");
    assert_eq!(client.ask("CONFIG SET appendonly no"), "+OK");
    client.ask("SET lost 1");
    assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
    client.ask("SET k last");
    assert_eq!(client.ask("WAITAOF 1 0 0"), "[1, 0]");
    end(server);
    assert_eq!(files(&dir, ".base.rdb").len(), 1, "what was replaced is removed");
    let server = Server::start_with(&growing);
    assert_eq!(loaded(&server).ask("MGET saved k lost"), r#"["1", "last", "1"]"#);
}

/// strace, if it is there, with faults in calls on the log's first file.
fn faulty(dir: &TempDir, inject: &str) -> Option<Vec<String>> {
    let works = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status()
        .is_ok_and(|status| status.success());
    let file = folder(dir).join("appendonly.aof.1.incr.aof").display().to_string();
    let calls = inject.split(':').next().unwrap_or_default();
    let args = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", &file, "-e"];
    let words = args.map(str::to_owned).into_iter();
    works.then(|| {
        words
            .chain([format!("trace={calls}"), "-e".to_owned(), format!("inject={inject}")])
            .collect()
    })
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    psp_harness::only_psp!();
    let dir = tempfile::tempdir().unwrap();
    let mut full = options(&dir, "inline", "everysec");
    let Some(under) = faulty(&dir, "write:error=ENOSPC:when=2..4") else {
        return skip("no strace");
    };
    full.under = under;
    let server = Server::start_with(&full);
    let mut client = loaded(&server);
    assert_eq!(client.ask("SET a 1"), "+OK");
    wait_until("it is written", || info(&mut client, "aof_buffer_length") == "0");
    assert_eq!(client.ask("SET b 2"), "+OK");
    let refused = |client: &mut Connection| client.ask("SET c 3");
    wait_until("writes are refused", || {
        refused(&mut client).starts_with("-MISCONF Errors writing to the AOF file: No space left on device")
    });
    assert_eq!(client.ask("GET b"), r#""2""#, "reads are served");
    assert_eq!(info(&mut client, "aof_last_write_status"), "err");
    wait_until("there is room", || refused(&mut client) == "+OK");
    end(server);
    let server = Server::start_with(&options(&dir, "inline", "everysec"));
    assert_eq!(loaded(&server).ask("MGET a b c"), r#"["1", "2", "3"]"#);
}

#[test]
fn after_an_fsync_that_failed_nothing_is_acknowledged_until_there_is_a_new_log() {
    psp_harness::only_psp!();
    let dir = tempfile::tempdir().unwrap();
    let mut broken = options(&dir, "inline", "always");
    let Some(under) = faulty(&dir, "fdatasync:error=EIO:when=3+") else {
        return skip("no strace");
    };
    broken.under = under;
    let server = Server::start_with(&broken);
    let mut client = loaded(&server);
    let mut number = 0;
    // The first fsyncs are of the begin of the file.
    let failed = loop {
        client.send(encode_line(&format!("RPUSH l {number}")));
        match client.try_reply() {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 10, "the fsync fails");
    };
    assert_eq!(failed.kind(), std::io::ErrorKind::UnexpectedEof, "{failed}");
    let mut client = server.connect();
    let refused = client.ask("SET a 1");
    assert!(refused.starts_with("-MISCONF Errors writing to the AOF file: "), "{refused}");
    let len = client.ask("LLEN l");
    assert!(len.parse::<u64>().is_ok(), "reads are served: {len}");
    assert!(client.ask("BGREWRITEAOF").starts_with('+'));
    wait_until("there is a new log", || client.ask("SET a 1") == "+OK");
    end(server);
    let server = Server::start_with(&options(&dir, "inline", "always"));
    let mut client = loaded(&server);
    let len: u64 = client.ask("LLEN l").parse().unwrap();
    assert!(len >= number, "{len} of {number}");
    assert_eq!(client.ask("GET a"), r#""1""#);
}

/// What a key was made of and what kept it alive is there, though its time is over when the log is read.
#[test]
fn keys_that_expire_meanwhile_are_what_they_were() {
    psp_harness::only_psp!();
    for rewrites in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_with(&options(&dir, "inline", "always"));
        let mut client = loaded(&server);
        let end = Instant::now() + Duration::from_secs(3);
        for key in ["counter", "kept"] {
            assert_eq!(client.ask(&format!("SET {key} 5 PX 3000")), "+OK");
        }
        client.ask("HSET fields counter 5 kept 5 stays 5");
        assert_eq!(client.ask("HPEXPIRE fields 3000 FIELDS 2 counter kept"), "[1, 1]");
        client.ask("SET later 5");
        assert_eq!(client.ask("PEXPIRE later 3000"), "1");
        if rewrites {
            client.ask("BGREWRITEAOF");
            wait_until("the log is rewritten", || info(&mut client, "aof_rewrites") == "2");
        }
        client.ask("INCR counter");
        client.ask("HINCRBY fields counter 1");
        let is_field_kept = client.ask("HPERSIST fields FIELDS 1 kept") == "[1]";
        let is_kept = ["PERSIST kept", "PERSIST later"].map(|line| client.ask(line) == "1");
        server.kill();
        thread::sleep(end.saturating_duration_since(Instant::now()) + Duration::from_millis(50));
        let server = Server::start_with(&options(&dir, "inline", "always"));
        let mut client = loaded(&server);
        assert_eq!(client.ask("GET counter"), "nil", "it does not begin anew");
        assert_eq!(client.ask("HMGET fields counter stays"), r#"[nil, "5"]"#);
        assert_eq!(client.ask("HGET fields kept") == r#""5""#, is_field_kept);
        for (key, is_kept) in ["kept", "later"].into_iter().zip(is_kept) {
            assert_eq!(client.ask(&format!("EXISTS {key}")), u8::from(is_kept).to_string(), "{key}");
        }
        // A machine that is slow for so long shows nothing.
        assert_eq!(is_kept[0], client.ask("GET kept") == r#""5""#);
    }
}

#[test]
fn a_log_without_its_manifest_is_not_replaced() {
    psp_harness::only_psp!();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&options(&dir, "inline", "always"));
    loaded(&server).ask("SET k v");
    end(server);
    let manifest = folder(&dir).join("appendonly.aof.manifest");
    let kept = dir.path().join("kept");
    fs::rename(&manifest, &kept).unwrap();
    let printed = refusal(dir.path(), &["--appendonly", "yes"]);
    assert!(printed.contains("has a log, and no manifest that names its files"), "{printed}");
    // The base of a log that redis-server has taken over from an older one has commands, whatever its name says.
    fs::rename(&kept, &manifest).unwrap();
    let base = &files(&dir, ".base.rdb")[0];
    let mut content = fs::read(base).unwrap();
    content.extend(encode(&["SET", "of-base", "1"]));
    fs::write(base, content).unwrap();
    let server = Server::start_with(&options(&dir, "inline", "always"));
    assert_eq!(loaded(&server).ask("MGET k of-base"), r#"["v", "1"]"#);
    end(server);
    fs::write(base, encode(&["SET", "of-base", "2"])).unwrap();
    let server = Server::start_with(&options(&dir, "inline", "always"));
    assert_eq!(loaded(&server).ask("MGET k of-base"), r#"["v", "2"]"#);
}

#[test]
fn a_full_disk_holds_up_no_command_that_writes_nothing() {
    psp_harness::only_psp!();
    let dir = tempfile::tempdir().unwrap();
    let mut full = options(&dir, "inline", "always");
    let Some(under) = faulty(&dir, "write:error=ENOSPC:when=1+") else {
        return skip("no strace");
    };
    full.under = under;
    let server = Server::start_with(&full);
    let mut client = loaded(&server);
    let mut writer = server.connect();
    writer.send(encode_line("SET a 1"));
    wait_until("the write fails", || info(&mut client, "aof_last_write_status") == "err");
    assert!(client.ask("SET b 2").starts_with("-MISCONF"));
    assert_eq!(client.request(&["EVAL", "return redis.call('get','b')", "0"]).to_string(), "nil");
    assert_eq!(client.ask("PUBLISH a b"), "0");
    assert!(client.ask("PFCOUNT a").starts_with("-WRONGTYPE"));
    let refused = client.request(&["EVAL", "return redis.call('set','b','2')", "0"]).to_string();
    assert!(refused.starts_with("-MISCONF"), "{refused}");
    // It would outlive strace, and waits for room at its end.
    let text = client.info("server");
    let number = text.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
    assert!(Command::new("kill").args(["-9", number]).status().unwrap().success());
}

#[test]
fn a_copy_of_the_folder_is_a_backup() {
    psp_harness::only_psp!();
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start_with(&options(&dir, "inline", "no"));
    let mut client = loaded(&server);
    client.ask("SELECT 3");
    client.ask("SET k v");
    client.request(&["FUNCTION", "LOAD", "#!lua name=x\nredis.register_function('f', function() return 7 end)"]);
    assert_eq!(client.ask("WAITAOF 1 0 0"), "[1, 0]");
    copy(&folder(&dir), &folder(&other));
    let server = Server::start_with(&options(&other, "inline", "no"));
    let mut client = loaded(&server);
    client.ask("SELECT 3");
    assert_eq!(client.ask("GET k"), r#""v""#);
    assert_eq!(client.ask("FCALL f 0"), "7");
}
