use super::*;
use crate::pubsub::TopicKind;
use crate::testing::{Heard, Session};

/// A client and what it hears.
struct Tracker {
    session: Session,
    heard: Heard,
    seen: usize,
}

impl Tracker {
    fn of(session: Session) -> Self {
        let heard = Heard::default();
        session.client.subscriber.attach(|| Some(heard.outlet()));
        Self { session, heard, seen: 0 }
    }

    /// A client of RESP3 that tracks.
    fn beside(other: &Session, options: &str) -> Self {
        let mut tracker = Self::of(other.beside().resp3());
        let line = format!("CLIENT TRACKING ON {options}");
        tracker.session.expect(&[(&line, "+OK")]);
        tracker
    }

    /// What came since the last call. A space stands for `\r\n`.
    fn news(&mut self) -> Vec<String> {
        let all = self.heard.messages();
        let news = all[self.seen..].iter();
        let news = news.map(|it| {
            let text = it.replace("\r\n", " ");
            let text = text.trim_end();
            text.strip_prefix(">2 $10 invalidate ").unwrap_or(text).to_owned()
        });
        let news = news.collect();
        self.seen = all.len();
        news
    }
}

fn key(name: &str) -> String {
    format!("*1 ${} {name}", name.len())
}

#[test]
fn a_client_hears_once_of_what_it_has_read() {
    let mut session = Session::new();
    let mut tracker = Tracker::beside(&session, "");
    tracker.session.expect(&[("GET a", "_"), ("MGET b c", "*2 _ _")]);
    let tracking = Arc::clone(&session.server.clients.tracking);
    assert_eq!((tracking.keys(), tracking.items()), (3, 3));
    session.expect(&[("SET a 1", "+OK"), ("SET other 1", "+OK"), ("SET a 2", "+OK")]);
    assert_eq!(tracker.news(), [key("a")]);
    session.expect(&[("MSET b 1 c 2", "+OK")]);
    assert_eq!(tracker.news(), [key("b"), key("c")]);
    assert_eq!((tracking.keys(), tracking.items()), (0, 0));
    // Its own changes, too.
    tracker.session.expect(&[("GET a", "$1 2"), ("DEL a", ":1"), ("DEL a", ":0")]);
    assert_eq!(tracker.news(), [key("a")]);
    tracker.session.expect(&[("GET a", "_"), ("CLIENT TRACKING OFF", "+OK")]);
    session.expect(&[("SET a 1", "+OK")]);
    assert_eq!(tracker.news(), [""; 0]);
    assert!(!tracking.is_any() && tracking.keys() > 0);
    session.expect(&[("FLUSHDB", "+OK")]);
    assert_eq!((tracking.keys(), tracker.news().len()), (0, 0));
}

#[test]
fn every_way_of_changing_a_key_counts() {
    let mut session = Session::new();
    session.expect(&[("CONFIG SET maxmemory-policy allkeys-random", "+OK")]);
    for (before, read, change) in [
        ("SET k 1", "GET k", "INCR k"),
        ("SET k 1", "STRLEN k", "SETRANGE k 0 2"),
        ("SET k 1", "TTL k", "EXPIRE k 100"),
        ("SET k 1", "EXISTS k", "RENAME k l"),
        ("SET l 1", "GET k", "RENAME l k"),
        ("SET l 1", "GET k", "COPY l k"),
        ("SET k 1", "GET k", "MOVE k 1"),
        ("SET k 1", "GET k", "EVAL redis.call('set','k','2') 0"),
        ("RPUSH k 1", "LRANGE k 0 -1", "LPOP k"),
        ("RPUSH k 1", "LLEN k", "LMOVE k l LEFT LEFT"),
        ("RPUSH l 1", "LLEN k", "LMOVE l k LEFT LEFT"),
        ("HSET k f 1", "HGET k f", "HSET k f 2"),
        ("SADD l m", "SCARD k", "SUNIONSTORE k l"),
        ("ZADD k 1 m", "ZSCORE k m", "ZADD k XX 2 m"),
        ("XADD k 1-1 f v", "XLEN k", "XTRIM k MAXLEN 0"),
        ("SET k 1", "GETBIT k 0", "SETBIT k 0 1"),
        ("PFADD k a", "PFCOUNT k", "PFADD k b"),
        ("SET k 1", "GET k", "GETEX k PERSIST"),
    ] {
        let mut tracker = Tracker::beside(&session, "");
        session.run("FLUSHALL");
        tracker.news();
        session.run(before);
        tracker.session.run(read);
        // The session cannot say so much with its words.
        let words: Vec<&[u8]> = change.split(' ').map(str::as_bytes).collect();
        session.run_args(&words);
        assert_eq!(tracker.news(), [key("k")], "{before}, {read}, {change}");
    }
}

#[test]
fn what_changes_nothing_tells_nobody() {
    let mut session = Session::new();
    session.expect(&[("SET k 1", "+OK"), ("RPUSH l 1", ":1"), ("HSET h f 1", ":1")]);
    let mut tracker = Tracker::beside(&session, "");
    tracker.session.run("MGET k l none h");
    for line in [
        "SET k 2 NX",
        "SETNX k 2",
        "MSETNX k 2 m 3",
        "DEL none",
        "LPUSH k 2",
        "HSETNX h f 2",
        "EXPIRE none 10",
        "RENAMENX k l",
        "LREM l 0 x",
        "SORT l",
        "GETEX k",
        "BITFIELD k GET u8 0",
        "NOPE k",
        "SET k",
    ] {
        session.run(line);
        assert_eq!(tracker.news(), [""; 0], "{line}");
    }
}

#[test]
fn keys_that_expire_are_evicted_or_flushed_count() {
    let mut session = Session::new();
    session.expect(&[("SET k 1", "+OK")]);
    let mut tracker = Tracker::beside(&session, "");
    tracker.session.expect(&[("GET k", "$1 1")]);
    // Its time is over, and no client has looked for it.
    let expire = |slot: &mut psp_store::Slot<'_>| slot.set_expire_at_ms(Some(1));
    session.store().update(b"k", expire);
    assert_eq!(tracker.news(), [""; 0]);
    session.expect(&[("GET k", "$-1")]);
    assert_eq!(tracker.news(), [key("k")]);
    tracker.session.run("GET k");
    session.server.clients.tracking.invalidate(None, &[b"k"]);
    assert_eq!(tracker.news(), [key("k")]);
    for line in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        tracker.session.run("GET k");
        session.expect(&[(line, "+OK")]);
        assert_eq!(tracker.news(), ["_"], "{line}");
        assert_eq!(session.server.clients.tracking.keys(), 0);
    }
}

#[test]
fn a_transaction_tells_of_its_changes_when_it_is_carried_out() {
    let mut session = Session::new();
    let mut tracker = Tracker::beside(&session, "");
    let mut broad = Tracker::beside(&session, "BCAST");
    tracker.session.run("MGET a b c");
    session.expect(&[
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("SET a 2", "+QUEUED"),
        ("SET b 1", "+QUEUED"),
        ("GET c", "+QUEUED"),
    ]);
    assert_eq!(tracker.news(), [""; 0]);
    session.expect(&[("EXEC", "*4 +OK +OK +OK $-1")]);
    assert_eq!(tracker.news(), [key("a"), key("b")]);
    assert_eq!(broad.news(), ["*2 $1 a $1 b"]);
    // What is read in a transaction is tracked.
    tracker.session.expect(&[("MULTI", "+OK"), ("GET a", "+QUEUED"), ("EXEC", "*1 $1 2")]);
    session.expect(&[("WATCH a", "+OK"), ("SET a 3", "+OK")]);
    assert_eq!(tracker.news(), [key("a")]);
    tracker.session.run("GET a");
    session.expect(&[("MULTI", "+OK"), ("SET a 4", "+QUEUED"), ("EXEC", "*-1")]);
    assert_eq!(tracker.news(), [""; 0], "it was not carried out");
}

#[test]
fn prefixes_divide_what_is_broadcast() {
    let mut session = Session::new();
    let mut tracker = Tracker::beside(&session, "BCAST PREFIX user: PREFIX item:");
    let mut other = Tracker::beside(&session, "BCAST PREFIX us NOLOOP");
    assert_eq!(session.server.clients.tracking.prefixes(), 3);
    session.expect(&[("MSET user:1 a item:1 b user:2 c x d", "+OK")]);
    assert_eq!(tracker.news(), [key("item:1"), "*2 $6 user:1 $6 user:2".to_owned()]);
    assert_eq!(other.news(), ["*2 $6 user:1 $6 user:2"]);
    other.session.expect(&[("SET user:1 b", "+OK")]);
    assert_eq!(other.news(), [""; 0]);
    assert_eq!(tracker.news(), [key("user:1")]);
    session.expect(&[("FLUSHALL", "+OK")]);
    assert_eq!((tracker.news(), other.news()), (vec!["_".to_owned()], vec!["_".to_owned()]));
    drop((tracker, other));
    assert_eq!(session.server.clients.tracking.prefixes(), 0);
    assert!(!session.server.clients.tracking.is_any());
}

#[test]
fn options_that_do_not_go_together_are_errors() {
    let mut session = Session::new();
    let other_mode = "mode before disabling tracking for this client, and then re-enabling it with a different mode.";
    session.expect(&[
        ("CLIENT TRACKING ON PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled"),
        ("CLIENT TRACKING ON BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
        (
            "CLIENT TRACKING ON OPTIN OPTOUT",
            "-ERR You can't specify both OPTIN mode and OPTOUT mode",
        ),
        ("CLIENT TRACKING ON REDIRECT 77", "-ERR The client ID you want redirect to does not exist"),
        ("CLIENT TRACKING ON REDIRECT", "-ERR syntax error"),
        ("CLIENT TRACKING MAYBE", "-ERR syntax error"),
        (
            "CLIENT TRACKING ON BCAST PREFIX foo PREFIX foobar",
            "-ERR Prefix 'foo' overlaps with another provided prefix 'foobar'. Prefixes for a single client must not \
             overlap.",
        ),
        (
            "CLIENT CACHING YES",
            "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
             enabled",
        ),
        ("CLIENT GETREDIR", ":-1"),
        ("CLIENT TRACKINGINFO", "*6 $5 flags *1 $3 off $8 redirect :-1 $8 prefixes *0"),
        ("CLIENT TRACKING ON BCAST PREFIX foo PREFIX bar", "+OK"),
        (
            "CLIENT TRACKING ON BCAST PREFIX fo",
            "-ERR Prefix 'fo' overlaps with an existing prefix 'foo'. Prefixes for a single client must not overlap.",
        ),
        (
            "CLIENT TRACKINGINFO",
            "*6 $5 flags *2 $2 on $5 bcast $8 redirect :0 $8 prefixes *2 $3 bar $3 foo",
        ),
        (
            "CLIENT TRACKING ON",
            "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling \
             it with a different mode.",
        ),
        ("CLIENT TRACKING OFF", "+OK"),
        ("CLIENT TRACKING ON OPTIN", "+OK"),
        ("CLIENT TRACKING ON OPTOUT", &format!("-ERR You can't switch OPTIN/OPTOUT {other_mode}")),
        (
            "CLIENT CACHING NO",
            "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        ),
        ("CLIENT CACHING YES", "+OK"),
        (
            "CLIENT TRACKINGINFO",
            "*6 $5 flags *3 $2 on $5 optin $11 caching-yes $8 redirect :0 $8 prefixes *0",
        ),
        ("GET a", "$-1"),
        ("CLIENT TRACKINGINFO", "*6 $5 flags *2 $2 on $5 optin $8 redirect :0 $8 prefixes *0"),
    ]);
    assert!(session.run("CLIENT LIST").contains(" flags=t "));
    assert!(session.run("CLIENT INFO").contains(" redir=0 "));
    session.expect(&[("RESET", "+RESET"), ("CLIENT GETREDIR", ":-1")]);
    let mut many = vec!["CLIENT", "TRACKING", "ON", "BCAST"];
    let prefixes: Vec<String> = (1000..1300).map(|number| number.to_string()).collect();
    prefixes.iter().for_each(|prefix| many.extend(["PREFIX", prefix]));
    assert_eq!(session.run(&many.join(" ")), "-ERR too many prefixes\r\n");
}

#[test]
fn a_client_may_choose_what_is_tracked() {
    let mut session = Session::new();
    let mut opt_in = Tracker::beside(&session, "OPTIN");
    opt_in.session.expect(&[
        ("GET a", "_"),
        ("CLIENT CACHING YES", "+OK"),
        ("MULTI", "+OK"),
        ("GET b", "+QUEUED"),
        ("GET c", "+QUEUED"),
        ("EXEC", "*2 _ _"),
        ("GET d", "_"),
    ]);
    let mut opt_out = Tracker::beside(&session, "OPTOUT");
    opt_out
        .session
        .expect(&[("GET a", "_"), ("CLIENT CACHING NO", "+OK"), ("GET b", "_"), ("GET c", "_")]);
    session.expect(&[("MSET a 1 b 2 c 3 d 4", "+OK")]);
    assert_eq!(opt_in.news(), [key("b"), key("c")]);
    assert_eq!(opt_out.news(), [key("a"), key("c")]);
}

#[test]
fn a_script_tracks_what_it_declares_and_what_it_reads() {
    let session = Session::new();
    let mut writer = session.beside();
    let mut tracker = Tracker::beside(&session, "");
    let change = |writer: &mut Session| writer.run("MSET a 1 b 2 c 3");
    for (script, expected) in [
        ("redis.call('set','d','1')", vec![]),
        ("redis.call('ping')", vec![]),
        ("redis.call('get','c')", vec![key("a"), key("b"), key("c")]),
    ] {
        for command in [&b"eval"[..], b"eval_ro"] {
            let reply = tracker.session.run_args(&[command, script.as_bytes(), b"2", b"a", b"b"]);
            assert!(reply.starts_with('_') || script.contains("set"), "{reply}");
            change(&mut writer);
            assert_eq!(tracker.news(), expected, "{script}");
        }
    }
}

#[test]
fn messages_go_to_another_client_until_it_leaves() {
    let mut session = Session::new();
    let mut target = Tracker::of(session.beside());
    let id = target.session.client.id;
    let mut tracker = Tracker::beside(&session, &format!("REDIRECT {id}"));
    let (get, set) = (("GET a", "_"), ("SET a 1", "+OK"));
    tracker.session.expect(&[("CLIENT GETREDIR", &format!(":{id}")), get]);
    session.expect(&[set]);
    assert_eq!(target.news(), [""; 0], "it has no subscription");
    let info = Arc::clone(target.session.client.info());
    let pubsub = &session.server.clients.pubsub;
    pubsub.subscribe(&info, TopicKind::Channel, b"__redis__:invalidate").unwrap();
    tracker.session.run("GET a");
    session.expect(&[set]);
    assert_eq!(target.news(), ["*3 $7 message $20 __redis__:invalidate *1 $1 a"]);
    target.session = target.session.resp3();
    tracker.session.run("GET a");
    session.expect(&[set]);
    assert_eq!(target.news(), [key("a")]);
    drop(target);
    tracker.session.run("GET a");
    session.expect(&[set]);
    assert_eq!(tracker.news(), [format!(">2 $21 tracking-redir-broken :{id}")]);
    assert!(tracker.session.run("CLIENT TRACKINGINFO").contains("broken_redirect"));
    assert!(tracker.session.run("CLIENT INFO").contains(" flags=tR "));
}

#[test]
fn the_table_is_bounded() {
    let mut session = Session::new();
    let tracking = Arc::clone(&session.server.clients.tracking);
    let mut tracker = Tracker::beside(&session, "");
    session.expect(&[("CONFIG SET tracking-table-max-keys 10", "+OK")]);
    for number in 0..100 {
        tracker.session.run(&format!("GET k{number}"));
        assert!(tracking.keys() <= 10);
    }
    assert_eq!((tracker.news().len(), tracking.items()), (90, 10));
    session.expect(&[("CONFIG SET tracking-table-max-keys 1", "+OK")]);
    assert_eq!((tracker.news().len(), tracking.keys()), (9, 1));
    // A few long names take as much as many short ones.
    session.expect(&[("CONFIG SET tracking-table-max-keys 0", "+OK")]);
    let long = vec![b'x'; 20 << 20];
    for number in 0..20_u8 {
        tracker.session.run_args(&[b"EXISTS", &[&long[..], &[number]].concat()]);
    }
    assert!(tracking.keys() < 14, "{}", tracking.keys());
}

#[test]
fn who_leaves_is_forgotten() {
    let session = Session::new();
    let tracking = Arc::clone(&session.server.clients.tracking);
    let mut stays = Tracker::beside(&session, "");
    let mut leaves = Tracker::beside(&session, "");
    for number in 0..KEYS_AT_ONCE {
        leaves.session.run(&format!("GET k{number}"));
    }
    stays.session.run("GET k0");
    assert_eq!((tracking.keys(), tracking.items()), (KEYS_AT_ONCE, KEYS_AT_ONCE + 1));
    let gone = Arc::clone(leaves.session.client.info());
    drop(leaves);
    assert_eq!((tracking.clients(), tracking.keys(), tracking.items()), (1, 1, 1));
    // A request that still runs.
    tracking.remember(&gone, &[b"k7"]);
    assert_eq!((tracking.keys(), tracking.items()), (1, 1));
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let mut session = Session::new();
    let limit = OutputLimit { hard_bytes: 100, ..session.server.clients.pubsub.limit() };
    session.server.clients.pubsub.set_limit(limit);
    let tracker = Tracker::beside(&session, "BCAST");
    for _ in 0..10 {
        session.run("SET a 1");
    }
    assert!(tracker.heard.is_closed());
    assert!(session.server.clients.pubsub.closed() > 0);
}

#[test]
fn a_client_that_waited_hears_of_its_own_change_behind_its_reply() {
    let session = Session::new();
    let mut other = session.beside();
    let mut tracker = Tracker::beside(&session, "");
    tracker.session.expect(&[("LRANGE to 0 -1", "*0"), ("BLMOVE from to LEFT LEFT 0", "")]);
    let mut reader = Tracker::beside(&session, "");
    reader.session.run("LLEN to");
    other.expect(&[("RPUSH from x", ":1")]);
    let late = tracker.session.late_soon();
    assert_eq!(late, "$1 x >2 $10 invalidate *1 $2 to");
    assert_eq!(reader.news(), [key("to")]);
}

#[test]
fn a_client_that_a_pause_held_forgets_all() {
    let mut session = Session::new();
    let _thread = crate::pause::PauseThread::start(Arc::clone(&session.server)).expect("a thread");
    let mut tracker = Tracker::beside(&session, "");
    session.expect(&[("CLIENT PAUSE 1000000 ALL", "+OK")]);
    tracker.session.expect(&[("GET a", "")]);
    session.expect(&[("CLIENT UNPAUSE", "+OK")]);
    assert_eq!(tracker.session.late_soon(), "_ >2 $10 invalidate _");
}

#[test]
fn changes_count_that_began_when_nobody_tracked() {
    let session = Session::new();
    let mut tracker = Tracker::of(session.beside().resp3());
    let tracking = Arc::clone(&session.server.clients.tracking);
    // The commands of a transaction ran before the client began to track.
    let mut gathered = Gathered::default();
    gathered.note_others();
    tracker.session.expect(&[("CLIENT TRACKING ON", "+OK"), ("GET a", "_")]);
    tracking.invalidate_gathered(1, &gathered);
    assert_eq!(tracker.news(), ["_"]);
}

#[test]
fn no_touch_leaves_keys_as_they_were() {
    let mut session = Session::new();
    session.expect(&[("SET k 1", "+OK"), ("CLIENT NO-TOUCH ON", "+OK")]);
    assert!(session.run("CLIENT INFO").contains(" flags=T "));
    let mark = |session: &Session| session.store().access(b"k").unwrap();
    session.store().update(b"k", |slot| slot.set_idle_s(1000));
    let before = mark(&session);
    session.expect(&[("GET k", "$1 1"), ("APPEND k 2", ":2"), ("STRLEN k", ":2")]);
    assert_eq!(mark(&session), before);
    session.expect(&[("TOUCH k", ":1")]);
    assert_ne!(mark(&session), before);
    session.store().update(b"k", |slot| slot.set_idle_s(1000));
    session.expect(&[("CLIENT NO-TOUCH OFF", "+OK"), ("GET k", "$2 12")]);
    assert_ne!(mark(&session), before);
    session.expect(&[("CLIENT NO-TOUCH MAYBE", "-ERR syntax error")]);
}
