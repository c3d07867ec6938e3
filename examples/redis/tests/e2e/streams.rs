//! Streams on sockets: those who wait for entries, groups that share them, and long reads beside short requests.

use std::collections::BTreeMap;
use std::thread;

use crate::common::waiting::{TOPOLOGIES, start, waiting};
use crate::common::{Reply, encode_line, wait_until};

/// The IDs of the entries in a reply of XREAD or XREADGROUP on one stream.
fn ids(reply: Reply) -> Vec<String> {
    let mut streams = reply.into_items();
    let mut stream = streams.remove(0).into_items();
    let entries = stream.remove(1).into_items().into_iter();
    let ids = entries.map(|entry| entry.into_items().remove(0).into_bytes());
    ids.map(|id| String::from_utf8(id).expect("digits")).collect()
}

#[test]
fn readers_all_get_an_entry_and_members_of_a_group_share_it() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut writer = server.connect();
        assert_eq!(writer.ask("XGROUP CREATE s g $ MKSTREAM"), "+OK");
        let mut clients = waiting(
            &server,
            &[
                "XREADGROUP GROUP g a BLOCK 0 STREAMS s >",
                "XREAD BLOCK 0 STREAMS s $",
                "XREADGROUP GROUP g b BLOCK 0 STREAMS s >",
                "XREAD COUNT 1 BLOCK 0 STREAMS other s 0 0",
            ],
        );
        assert_eq!(writer.ask("XADD s 1 f v"), r#""1-0""#, "{topology}");
        let entry = |id: u32| format!(r#"[["s", [["{id}-0", ["f", "v"]]]]]"#);
        for place in [0, 1, 3] {
            assert_eq!(clients[place].reply().to_string(), entry(1), "{topology}");
        }
        // They were served before the writing client got its reply.
        assert!(writer.info("clients").contains("blocked_clients:1\r\n"));
        assert_eq!(writer.ask("XADD s 2 f v"), r#""2-0""#);
        assert_eq!(clients[2].reply().to_string(), entry(2), "{topology}");
        let pending = r#"[2, "1-0", "2-0", [["a", "1"], ["b", "1"]]]"#;
        assert_eq!(writer.ask("XPENDING s g"), pending, "{topology}");
    }
}

#[test]
fn members_hear_that_their_group_or_stream_is_gone() {
    for topology in TOPOLOGIES {
        let server = start(topology);
        let mut writer = server.connect();
        for (end, error) in [
            ("XGROUP DESTROY s g", "-NOGROUP No such key"),
            ("DEL s", "-NOGROUP No such key"),
            ("SET s v", "-WRONGTYPE"),
            ("FLUSHALL", "-NOGROUP No such key"),
        ] {
            writer.ask("DEL s");
            writer.ask("XGROUP CREATE s g $ MKSTREAM");
            let mut clients = waiting(&server, &["XREADGROUP GROUP g a BLOCK 0 STREAMS s >"]);
            writer.ask(end);
            let reply = clients[0].reply().to_string();
            assert!(reply.starts_with(error), "{topology} {end}: {reply}");
        }
        // The stream expires.
        writer.ask("DEL s");
        writer.ask("XGROUP CREATE s g $ MKSTREAM");
        let mut clients = waiting(&server, &["XREADGROUP GROUP g a BLOCK 0 STREAMS s >"]);
        writer.ask("PEXPIRE s 20");
        wait_until("the key expires", || writer.ask("EXISTS s") == "0");
        let reply = clients[0].reply().to_string();
        assert!(reply.starts_with("-NOGROUP"), "{topology}: {reply}");
    }
}

/// Whatever overlaps, each entry goes to one member of the group, and each reader sees all entries in their order.
#[test]
fn entries_reach_one_member_and_every_reader() {
    const WRITERS: usize = 3;
    const MEMBERS: usize = 3;
    const READERS: usize = 2;
    const ADDED: usize = 300;
    for topology in TOPOLOGIES {
        let server = &start(topology);
        server.connect().ask("XGROUP CREATE s g 0 MKSTREAM");
        let (by_members, by_readers, written) = thread::scope(|scope| {
            let members = [(); MEMBERS].map(|()| {
                scope.spawn(move || {
                    let mut client = server.connect();
                    let mut read = Vec::new();
                    let name = format!("{:?}", thread::current().id());
                    loop {
                        let line = "XREADGROUP GROUP g NAME COUNT 2 BLOCK 0 STREAMS s >";
                        client.send(encode_line(&line.replace("NAME", &name)));
                        let reply = client.reply();
                        if matches!(reply, Reply::Error(_)) {
                            return read;
                        }
                        for id in ids(reply) {
                            assert_eq!(client.ask(&format!("XACK s g {id}")), "1");
                            read.push(id);
                        }
                    }
                })
            });
            let readers = [(); READERS].map(|()| {
                scope.spawn(move || {
                    let mut client = server.connect();
                    let mut read = vec!["0-0".to_owned()];
                    while read.len() <= WRITERS * ADDED {
                        let last = read.last().expect("an ID");
                        client.send(encode_line(&format!("XREAD COUNT 7 BLOCK 0 STREAMS s {last}")));
                        read.extend(ids(client.reply()));
                    }
                    read.split_off(1)
                })
            });
            let writers = [(); WRITERS].map(|()| {
                scope.spawn(move || {
                    let mut client = server.connect();
                    let written = (0..ADDED).map(|number| {
                        let id = client.ask(&format!("XADD s * number {number}"));
                        id.trim_matches('"').to_owned()
                    });
                    written.collect::<Vec<_>>()
                })
            });
            let written = writers.map(|writer| writer.join().expect("a writer"));
            let by_readers = readers.map(|reader| reader.join().expect("a reader"));
            let mut witness = server.connect();
            wait_until("the group has acknowledged all", || {
                let group = witness.ask("XINFO GROUPS s");
                [r#""pending", 0,"#, r#""lag", 0]"#].iter().all(|part| group.contains(part))
            });
            witness.ask("XGROUP DESTROY s g");
            let by_members = members.map(|member| member.join().expect("a member"));
            (by_members, by_readers, written)
        });
        let mut shared: Vec<_> = by_members.into_iter().flatten().collect();
        let mut all: Vec<_> = written.into_iter().flatten().collect();
        shared.sort();
        all.sort();
        assert_eq!(shared, all, "{topology}");
        for read in by_readers {
            let number = |id: &String| {
                let (ms, seq) = id.split_once('-').expect("an ID");
                (ms.parse::<u64>().expect("digits"), seq.parse::<u64>().expect("digits"))
            };
            assert!(read.is_sorted_by_key(number), "{topology}: a reader sees no entry late");
            let mut read = read;
            read.sort();
            assert_eq!(read, all, "{topology}");
        }
    }
}

/// XRANGE of many entries yields to short requests, and reads them as they were at one instant.
#[test]
fn a_long_range_is_of_one_instant_and_delays_no_short_request() {
    const ENTRIES: usize = 50_000;
    for topology in ["inline", "dedicated"] {
        let server = start(topology);
        let mut writer = server.connect();
        for first in (0..ENTRIES).step_by(1000) {
            let adds = (first..first + 1000).map(|id| encode_line(&format!("XADD s {}-1 f v", id + 1)));
            writer.send(adds.collect::<Vec<_>>().concat());
            (0..1000).for_each(|_| drop(writer.reply()));
        }
        let mut reader = server.connect();
        reader.send(encode_line("XRANGE s - +"));
        // It is answered while the other client has read nothing of its long reply.
        assert_eq!(writer.ask("XADD s 99999-1 f v"), r#""99999-1""#, "{topology}");
        assert_eq!(writer.ask("XTRIM s MAXLEN 5"), (ENTRIES - 4).to_string(), "{topology}");
        let entries = reader.reply().into_items();
        assert!(entries.len() >= ENTRIES, "{topology}: {}", entries.len());
        let info = writer.info("commandstats");
        let calls: BTreeMap<_, _> = info.lines().filter_map(|line| line.split_once(':')).collect();
        assert!(calls.contains_key("cmdstat_xrange"), "{topology}: {info}");
    }
}
