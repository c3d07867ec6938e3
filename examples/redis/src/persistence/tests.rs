use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use psp_store::{Element, Hash, Set, SortedSet, Value};
use tempfile::TempDir;

use super::file_reader::{FileReader, Item};
use super::format::opcode;
use super::load::{LoadError, LoadProgress, Loaded, load};
use super::*;
use crate::config::{Config, DebugAccess};
use crate::rdb;
use crate::testing::Session;

fn config(dir: &TempDir) -> Config {
    Config {
        dir: dir.path().to_owned(),
        enable_debug_command: DebugAccess::Yes,
        ..Config::default()
    }
}

fn session() -> (TempDir, Session) {
    let dir = tempfile::tempdir().expect("a folder");
    let session = Session::with(config(&dir));
    (dir, session)
}

fn dump(dir: &TempDir) -> PathBuf {
    dir.path().join("dump.rdb")
}

/// Reads the file into an empty server.
fn read(path: &Path) -> (Session, Result<Loaded, LoadError>) {
    let session = Session::new();
    let progress = LoadProgress::default();
    let loaded = load(&session.server, path, Present::IsError, &progress, &|| true);
    (session, loaded)
}

/// A database, a key, when it expires, and its payload. Of a library, its name and its text.
type Content = (usize, Vec<u8>, Option<u64>, Vec<u8>);

fn contents(session: &Session) -> Vec<Content> {
    let mut all = Vec::new();
    for database in session.server.databases.used() {
        database.for_each(|entry| {
            let mut payload = Vec::new();
            rdb::put_value(entry.value(), &|| {}, &mut payload);
            all.push((database.number(), entry.key().to_vec(), entry.expire_at_ms(), payload));
        });
    }
    for library in session.server.scripts.functions.libraries() {
        all.push((usize::MAX, library.name.as_bytes().to_vec(), None, library.code.to_vec()));
    }
    all.sort();
    all
}

fn values() -> impl Strategy<Value = Value> {
    let text = || {
        prop_oneof![
            vec(any::<u8>(), 0..40),
            (any::<u8>(), 0..300_usize).prop_map(|(byte, len)| vec![byte; len])
        ]
    };
    let texts = move || vec(text(), 1..40);
    prop_oneof![
        text().prop_map(|text| Value::string(&text)),
        texts().prop_map(|texts| Value::List(texts.iter().map(|text| Element::from(&**text)).collect())),
        texts().prop_map(|texts| {
            let mut set = Set::new();
            for text in &texts {
                set.insert(text);
            }
            Value::Set(set)
        }),
        vec((text(), text()), 1..40).prop_map(|pairs| {
            let mut hash = Hash::new();
            for (field, value) in &pairs {
                hash.insert(field, Element::from(&**value));
            }
            Value::Hash(hash)
        }),
        vec((text(), -1e9..1e9_f64), 1..40).prop_map(|pairs| {
            let mut set = SortedSet::new();
            for (member, score) in &pairs {
                set.insert(member, *score).unwrap();
            }
            Value::SortedSet(set)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_saved_is_loaded(
        keys in vec((0..16_usize, vec(any::<u8>(), 0..30), values(), proptest::option::of(1_u64 << 45..1 << 50)), 0..60),
        compresses: bool,
        has_checksum: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { rdbcompression: compresses, rdbchecksum: has_checksum, ..config(&dir) };
        let mut session = Session::with(config);
        for (database, key, value, expire_at_ms) in keys {
            session.server.databases.get(database).update(&key, |slot| {
                slot.insert(value);
                slot.set_expire_at_ms(expire_at_ms);
            });
        }
        session.expect(&[
            ("XADD log 5-1 a 1 b 2", "$3 5-1"),
            ("XADD log 6-0 c 3", "$3 6-0"),
            ("XGROUP CREATE log readers 5", "+OK"),
            ("SAVE", "+OK"),
        ]);
        let (again, loaded) = read(&dump(&dir));
        let keys = contents(&session);
        prop_assert_eq!(loaded.unwrap().keys, keys.len() as u64);
        prop_assert_eq!(contents(&again), keys);
    }
}

fn filled() -> (TempDir, Session) {
    let (dir, mut session) = session();
    let code = b"#!lua name=library\nredis.register_function('answer', function() return 42 end)";
    session.run_args(&[b"FUNCTION", b"LOAD", code]);
    let long = "long text ".repeat(30);
    for line in [
        "SET short text PXAT 4102444800000",
        "RPUSH list a b c",
        "SADD set 1 2 x",
        "HSET hash f 1 g 2",
        "ZADD scores 1.5 a -inf b",
        "XADD log 5-1 sensor 1",
        "XGROUP CREATE log readers 0",
        "XREADGROUP GROUP readers alice COUNT 2 STREAMS log >",
        "SELECT 3",
    ] {
        let reply = session.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    session.run_args(&[b"SET", b"long", long.as_bytes()]);
    session.expect(&[("SAVE", "+OK")]);
    (dir, session)
}

#[test]
fn every_kind_of_value_and_functions_come_back() {
    let (dir, session) = filled();
    let (mut again, loaded) = read(&dump(&dir));
    let loaded = loaded.unwrap();
    assert_eq!((loaded.keys, loaded.libraries, loaded.expired), (7, 1, 0));
    assert_eq!(contents(&again), contents(&session));
    again.expect(&[("FCALL answer 0", ":42"), ("PEXPIRETIME short", ":4102444800000")]);
    let text = std::fs::read(dump(&dir)).unwrap();
    assert!(text.starts_with(b"REDIS0010"));
    assert!(text.len() < 700, "the long text is compressed: {}", text.len());
}

#[test]
fn a_damaged_file_is_refused_wherever_the_damage_is() {
    let (dir, _session) = filled();
    let whole = std::fs::read(dump(&dir)).unwrap();
    let items = |bytes: &[u8], checks: bool| -> Result<u64, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let mut reader = FileReader::new(bytes, checks).map_err(|error| told(&error))?;
        let mut count = 0;
        while !matches!(reader.next(&|| {}).map_err(|error| told(&error))?, Item::End) {
            count += 1;
        }
        Ok(count)
    };
    let all = items(&whole, true).expect("it is whole");
    for len in 0..whole.len() {
        let error = items(&whole[..len], true).expect_err("it is cut off");
        assert!(
            error.contains("the file ends within") && error.ends_with(&format!("(at byte {len})")),
            "{len}: {error}"
        );
        let mut flipped = whole.clone();
        flipped[len] ^= 1 << (len % 8);
        let error = items(&flipped, true).expect_err("it is changed");
        assert!(error.contains(" (at byte "), "{error}");
        // Without the checksum, content may be other content.
        drop(items(&flipped, false));
    }
    let unsummed = [&whole[..whole.len() - 8], &[0; 8]].concat();
    assert_eq!(items(&unsummed, true), Ok(all));
    let longer = [&whole[..], b"*1\r\n"].concat();
    assert!(items(&longer, true).unwrap_err().contains("something follows"));
}

/// A file without a checksum that has these bytes.
fn file_of(content: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = [b"REDIS0012", content, &[opcode::END], &[0; 8]].concat();
    std::fs::write(dump(&dir), file).unwrap();
    dir
}

#[test]
fn what_is_not_known_is_refused_by_its_name() {
    let module = (("ReJSON-RL".bytes().fold(0_u64, |number, letter| {
        let place = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            _ => 62,
        };
        number << 6 | u64::from(place)
    }) << 10)
        | 3)
    .to_be_bytes();
    let of_module = |before: &[u8]| [before, b"\x81", &module, b"\x02\x00"].concat();
    for (content, expected) in [
        (of_module(b"\x07\x03doc"), "the key \"doc\" is of the module ReJSON-RL"),
        (of_module(b"\xf7"), "data of the module ReJSON-RL"),
        (b"\xf6\x01a".to_vec(), "preview of Redis 7"),
        (
            b"\x09\x01k\x01a".to_vec(),
            "type 9 is not known here: a hash in the form of Redis before 2.6",
        ),
        (
            b"\xc8\x01k\x01a".to_vec(),
            "type 200 is not known here: a value or an opcode of a later version",
        ),
        (b"\xfe\x10\x00\x01k\x01v".to_vec(), "more databases than the setting `databases`: 16"),
        (b"\x00\x01k\x01v\x00\x01k\x01v".to_vec(), "a key comes twice"),
        (
            b"\x02\x01k\x02\x01a\x01a".to_vec(),
            "the key \"k\" from byte 9 on, of type Set is damaged",
        ),
        (b"\xf5\x03abc".to_vec(), "a library of functions cannot be loaded: ERR"),
    ] {
        let dir = file_of(&content);
        let (_session, loaded) = read(&dump(&dir));
        let error = loaded.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    for (head, expected) in [
        (&b"REDIS0013rest"[..], "the file has version 13, and 12 is the last one known"),
        (b"VALKEY081....", "the file has version 81, and 80 is the last one known"),
        (b"*1\r\n$4\r\nPING", "it does not begin with REDIS"),
    ] {
        let error = FileReader::new(head, true).err().expect(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_beside_keys_is_read_or_skipped() {
    let far = 4_102_444_800_u32;
    let content = [
        b"\xfa\x09redis-ver\x057.4.0\xfa\x04else\x00\xfe\x02\xfb\x05\x01\xf4\x00\x01\x01".as_slice(),
        b"\xfd",
        &(far as i32).to_le_bytes(),
        b"\x00\x05gone1\x01v",
        b"\xfc",
        &(u64::from(far) * 1000).to_le_bytes(),
        b"\xf8\x40\xc8\x00\x04idle\x01v",
        b"\xfc\x01\x00\x00\x00\x00\x00\x00\x00\xf9\x07\x00\x05gone2\x01v",
        b"\xf9\x07\x00\x04used\x01v",
        b"\x02\x05empty\x00",
    ]
    .concat();
    let dir = file_of(&content);
    let (mut session, loaded) = read(&dump(&dir));
    let loaded = loaded.unwrap();
    // The seconds of the first key are of 32 bits with a sign.
    assert_eq!(loaded, Loaded { keys: 2, expired: 2, empty: 1, libraries: 0 });
    session.expect(&[
        ("SELECT 2", "+OK"),
        ("PEXPIRETIME idle", ":4102444800000"),
        ("OBJECT IDLETIME idle", ":200"),
        ("PEXPIRETIME used", ":-1"),
        ("DBSIZE", ":2"),
    ]);
}

#[test]
fn a_file_of_valkey_is_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dump(&dir), b"VALKEY080\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0").unwrap();
    let (mut session, loaded) = read(&dump(&dir));
    assert_eq!(loaded.unwrap().keys, 1);
    session.expect(&[("GET k", "$1 v")]);
}

#[test]
fn a_file_that_is_loaded_has_what_its_uses_were() {
    let (dir, mut session) = session();
    session.expect(&[("CONFIG SET maxmemory-policy allkeys-lru", "+OK"), ("SET k v", "+OK")]);
    session.store().update(b"k", |slot| slot.set_idle_s(5_000));
    session.expect(&[("SAVE", "+OK")]);
    let (mut again, _) = read(&dump(&dir));
    again.expect(&[("OBJECT IDLETIME k", ":5000")]);
    session.expect(&[("CONFIG SET maxmemory-policy allkeys-lfu", "+OK")]);
    session.store().update(b"k", |slot| slot.set_frequency(77));
    session.expect(&[("SAVE", "+OK")]);
    let again = Session::new();
    again.server.databases.count_accesses(true);
    load(&again.server, &dump(&dir), Present::IsError, &LoadProgress::default(), &|| true).unwrap();
    assert_eq!(again.store().peek(b"k", |entry| again.store().frequency(entry.unwrap())), 77);
}

#[test]
fn commands_say_what_they_do_in_the_words_of_redis() {
    let (_dir, mut session) = session();
    session.expect(&[
        ("BGSAVE NOW", "-ERR syntax error"),
        ("BGSAVE SCHEDULE NOW", "-ERR syntax error"),
        ("SET a 1", "+OK"),
        ("BGSAVE", "+Background saving started"),
        ("BGSAVE SCHEDULE", "+Background saving started"),
        ("MULTI", "+OK"),
        ("BGSAVE", "+QUEUED"),
        ("EXEC", "*1 +Background saving scheduled"),
        ("MULTI", "+OK"),
        ("SAVE", "-ERR Command not allowed inside a transaction"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("SHUTDOWN NOW NOPE", "-ERR syntax error"),
        ("SHUTDOWN SAVE NOSAVE", "-ERR syntax error"),
        ("SHUTDOWN ABORT NOW", "-ERR syntax error"),
        ("SHUTDOWN ABORT", "-ERR No shutdown in progress."),
        ("PING", "+PONG"),
    ]);
    let saved: u64 = session.run("LASTSAVE")[1..].trim_end().parse().expect("an integer");
    assert!(saved >= session.server.started_at_ms / 1000);
    assert!(!session.closed);
    assert_eq!(session.run("SHUTDOWN NOSAVE"), "");
    assert!(session.closed);
}

/// The value of a field of INFO.
fn info(session: &mut Session, field: &str) -> String {
    let text = session.run("INFO persistence");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field} in {text}")).to_owned()
}

#[test]
fn figures_are_those_of_the_last_save() {
    let (_dir, mut session) = session();
    assert_eq!(info(&mut session, "rdb_last_bgsave_time_sec"), "-1");
    session.expect(&[("MSET a 1 b 2", "+OK"), ("DEL a none", ":1"), ("GET b", "$1 2")]);
    assert_eq!(info(&mut session, "rdb_changes_since_last_save"), "3");
    session.expect(&[("BGSAVE", "+Background saving started")]);
    for (field, expected) in [
        ("rdb_changes_since_last_save", "0"),
        ("rdb_saves", "1"),
        ("rdb_bgsave_in_progress", "0"),
        ("rdb_last_bgsave_status", "ok"),
        ("rdb_last_bgsave_time_sec", "0"),
        ("rdb_current_bgsave_time_sec", "-1"),
        ("loading", "0"),
    ] {
        assert_eq!(info(&mut session, field), expected, "{field}");
    }
    session.run_args(&[b"FUNCTION", b"LOAD", b"#!lua name=x\nredis.register_function('f', function() end)"]);
    assert_eq!(info(&mut session, "rdb_changes_since_last_save"), "1");
}

#[test]
fn writes_stop_while_saves_fail() {
    let (dir, mut session) = session();
    let misconf = format!("-{}", gate::MISCONFIGURED);
    session.expect(&[
        ("SET a 1", "+OK"),
        ("SAVE", "+OK"),
        (
            "CONFIG SET save '",
            "-ERR CONFIG SET failed (possibly related \
      to argument 'save') - Invalid save parameters",
        ),
    ]);
    session.run_args(&[b"CONFIG", b"SET", b"save", b"3600 1"]);
    let kept = dir.path().join("kept");
    std::fs::rename(dump(&dir), &kept).unwrap();
    std::fs::create_dir(dump(&dir)).unwrap();
    let refused = session.run("SAVE");
    assert!(refused.starts_with("-ERR cannot put the new file in the place of "), "{refused}");
    assert_eq!(info(&mut session, "rdb_last_bgsave_status"), "ok");
    session.expect(&[("SET a 2", "+OK"), ("MULTI", "+OK"), ("SET a 3", "+QUEUED"), ("BGSAVE", "+QUEUED")]);
    let mut other = session.beside();
    other.expect(&[
        ("BGSAVE", "+Background saving started"),
        ("SET a 4", &misconf),
        ("PING", &misconf),
        ("GET a", "$1 2"),
        ("EVAL return(redis.call('get','a')) 0", "$1 2"),
        ("PUBLISH a b", ":0"),
        ("SHUTDOWN", "-ERR Errors trying to SHUTDOWN. Check logs."),
    ]);
    assert_eq!(info(&mut other, "rdb_last_bgsave_status"), "err");
    let aborted = session.run("EXEC");
    assert!(
        aborted.starts_with("-EXECABORT Transaction discarded because of: MISCONF Redis"),
        "{aborted}"
    );
    let stopped = session.run("EVAL return(redis.call('set','a',1)) 0");
    assert!(stopped.starts_with("-MISCONF "), "{stopped}");
    let declared = |flags: &str| format!("#!lua{flags}\nreturn 1");
    let stopped = session.run_args(&[b"EVAL", declared("").as_bytes(), b"0"]);
    assert!(stopped.starts_with("-MISCONF "), "{stopped}");
    let read = session.run_args(&[b"EVAL", declared(" flags=no-writes").as_bytes(), b"0"]);
    assert!(read.starts_with(":1"), "{read}");
    session.expect(&[
        ("CONFIG SET stop-writes-on-bgsave-error no", "+OK"),
        ("SET a 5", "+OK"),
        ("CONFIG SET stop-writes-on-bgsave-error yes", "+OK"),
        ("SET a 6", &misconf),
    ]);
    std::fs::remove_dir(dump(&dir)).unwrap();
    session.expect(&[("SAVE", "+OK"), ("SET a 6", "+OK"), ("SHUTDOWN FORCE", "")]);
    assert!(session.closed);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no file is left half");
}

#[test]
fn only_what_needs_no_keys_is_served_while_the_data_set_is_read() {
    let (_dir, mut session) = session();
    session.expect(&[("SET a 1", "+OK")]);
    session.server.persistence.set_loading(true);
    let loading = "-LOADING Redis is loading the dataset in memory";
    session.expect(&[
        ("GET a", loading),
        ("PING", loading),
        ("SAVE", loading),
        ("DEBUG RELOAD", loading),
        ("LASTSAVE now", "-ERR wrong number of arguments for 'lastsave' command"),
        ("CONFIG GET save", "*2 $4 save $0"),
    ]);
    assert_eq!(info(&mut session, "loading"), "1");
    assert_eq!(info(&mut session, "loading_loaded_perc"), "0.00");
    session.server.persistence.set_loading(false);
    session.expect(&[("GET a", "$1 1")]);
}

#[test]
fn a_reload_changes_nothing() {
    let (dir, mut session) = filled();
    let before = contents(&session);
    session.expect(&[("DEBUG RELOAD", "+OK")]);
    assert_eq!(contents(&session), before);
    session.expect(&[
        ("SET new 1", "+OK"),
        ("DEBUG RELOAD NOSAVE", "+OK"),
        ("EXISTS new", ":0"),
        ("SET new 1", "+OK"),
        ("DEBUG RELOAD NOSAVE NOFLUSH MERGE", "+OK"),
        ("EXISTS new", ":1"),
        (
            "DEBUG RELOAD NOPE",
            "-ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
        ),
        (
            "DEBUG RELOAD NOSAVE NOFLUSH",
            "-ERR Error trying to load the RDB dump, check server logs.",
        ),
    ]);
    std::fs::remove_file(dump(&dir)).unwrap();
    session.expect(&[
        (
            "DEBUG RELOAD NOSAVE NOFLUSH",
            "-ERR Error trying to load the RDB dump, check server logs.",
        ),
        ("EXISTS new", ":1"),
    ]);
}

#[test]
fn the_place_is_protected_and_may_be_changed_where_the_configuration_says_so() {
    let (dir, mut session) = session();
    let failed = |argument: &str, why: &str| {
        format!("-ERR CONFIG SET failed (possibly related to argument '{argument}') - {why}")
    };
    session.expect(&[
        ("CONFIG SET dir /tmp", &failed("dir", "can't set protected config")),
        ("CONFIG SET dbfilename x", &failed("dbfilename", "can't set protected config")),
        ("CONFIG SET rdbchecksum no", &failed("rdbchecksum", "can't set immutable config")),
        ("CONFIG GET dbfilename", "*2 $10 dbfilename $8 dump.rdb"),
    ]);
    let config = Config { enable_protected_configs: DebugAccess::Local, ..config(&dir) };
    let mut session = Session::with(config);
    let inner = dir.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    session.expect(&[
        ("CONFIG SET dir /nonexistent", &failed("dir", "No such file or directory")),
        (
            "CONFIG SET dbfilename a/b",
            &failed("dbfilename", "dbfilename can't be a path, just a filename"),
        ),
        ("CONFIG SET dir inner dbfilename other.rdb", "+OK"),
        ("SAVE", "+OK"),
    ]);
    assert!(inner.join("other.rdb").exists());
    let shown = session.run("CONFIG GET dir");
    assert!(shown.contains(&*inner.canonicalize().unwrap().to_string_lossy()), "{shown}");
}
