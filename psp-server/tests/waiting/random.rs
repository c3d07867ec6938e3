//! Requests that wait, defer their replies, time out, panic, yield and lose their clients at random: each that has
//! a client left is answered once, in its order.

use std::thread;

use crate::common::until;
use crate::rig::{WaitingServer, named, servers, start};

const CLIENTS: u64 = 12;
const ROUNDS: usize = 60;

/// Numbers that look random: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A request, and the beginning of its reply.
fn request(random: &mut Random) -> (String, &'static str) {
    let number = random.below(4);
    match random.below(20) {
        0 | 1 => (format!("nap {number}"), "ok nap"),
        2 => (format!("limit {number}"), "late limit"),
        3 => (format!("fail {number}"), "!failed fail"),
        4 => (format!("yield {number}"), "ok yield"),
        5 => (format!("spin {}", number * 100), "ok spin"),
        6 => (format!("spawn {number}"), "ok spawn"),
        7 => (format!("defer {number}"), "ok defer"),
        8 => (format!("defer-fail {number}"), "!defer-fail"),
        9 => (format!("defer-drop {number}"), "!failed defer-drop"),
        11 => (format!("block {number}"), "ok block"),
        12 => (format!("block-fail {number}"), "!failed block-fail"),
        10 => (format!("defer-panic {number}"), "!failed defer-panic"),
        13 => (format!("fan {number}"), "ok fan"),
        14 | 15 => (format!("lock {number}"), "ok lock"),
        16 => ("lock-limit 60000".to_owned(), "ok lock-limit"),
        17 => (format!("oneshot {number}"), "ok oneshot"),
        18 => (format!("oneshot-drop {number}"), "ok oneshot-drop"),
        _ => ("short".to_owned(), "ok short"),
    }
}

fn run_client(server: &WaitingServer, seed: u64) {
    let mut random = Random(seed + 1);
    let mut client = server.connect();
    for _ in 0..ROUNDS {
        let run: Vec<_> = (0..=random.below(4)).map(|_| request(&mut random)).collect();
        for (line, _) in &run {
            client.send(&format!("{line}\n"));
        }
        if random.below(5) == 0 {
            client = server.connect();
            continue;
        }
        for (line, expected) in &run {
            let reply = client.line();
            assert!(reply.starts_with(expected), "{reply} to {line}");
            assert_eq!(reply.rsplit(' ').next(), line.rsplit(' ').next());
        }
    }
    client.send("short last\n");
    assert_eq!(client.line(), "ok short last", "nothing is answered twice");
}

#[test]
fn each_request_is_answered_once() {
    for kind in servers() {
        let name = named(&kind);
        let server = start(kind.0, kind.1);
        thread::scope(|scope| {
            for seed in 0..CLIENTS {
                let server = &server;
                scope.spawn(move || run_client(server, seed));
            }
        });
        // Those of clients that left may still wait.
        until("all have ended", || {
            let types = server.handle.snapshot().types;
            let begun: u64 = types.iter().map(|it| it.arrivals).sum();
            let ended: u64 = types.iter().map(|it| it.completions + it.rejections + it.abandoned + it.expired).sum();
            assert!(ended <= begun, "{name}: {ended} of {begun}");
            ended == begun && server.handle.snapshot().net.replies_deferred == 0
        });
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}
