//! Locks and tasks of requests: who waits for them leaves its worker to others.

use std::sync::atomic::Ordering;

use psp_server::wait;

use crate::common::until;
use crate::rig::{named, servers, start};

const CLIENTS: usize = 8;

#[test]
fn those_who_want_a_lock_let_others_run_and_all_have_it_in_turn() {
    for kind in servers() {
        let name = named(&kind);
        let server = start(kind.0, kind.1);
        let mut holder = server.connect();
        holder.send("lock-gate\n");
        let lock = &server.counter.count;
        until("it has the lock", || lock.try_lock().is_none());
        let begun = || server.begun.load(Ordering::SeqCst);
        let mut waiting: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut waiting {
            client.send("lock 1\n");
        }
        let mut counting = server.connect();
        counting.send(&format!("count {}\n", CLIENTS + 1));
        until("all wait", || begun() == CLIENTS + 2);
        let mut other = server.connect();
        for round in 0..30 {
            let short = format!("short {round}");
            assert_eq!(other.ask(&short), format!("ok {short}"), "{name}");
            assert_eq!(other.ask("nap 0"), "ok nap 0", "{name}");
        }
        for _ in 0..3 {
            assert_eq!(other.ask("lock-limit 1"), "late lock-limit 1", "{name}");
        }
        assert!(lock.try_lock().is_none(), "{name}");
        server.gate.open();
        assert_eq!(holder.line(), "ok lock-gate", "{name}");
        for client in &mut waiting {
            assert_eq!(client.line(), "ok lock 1", "{name}");
        }
        let counted = format!("ok count {}", CLIENTS + 1);
        assert_eq!(counting.line(), counted, "{name}");
        assert_eq!(other.ask("lock-limit 60000"), "ok lock-limit 60000", "{name}");
        assert_eq!(*wait(lock.lock()), CLIENTS as u64 + 2, "{name}");
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}

#[test]
fn tasks_end_beside_each_other_and_others_run_meanwhile() {
    for kind in servers() {
        let name = named(&kind);
        let server = start(kind.0, kind.1);
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for number in [0, 20] {
            for client in &mut clients {
                client.send(&format!("fan {number}\n"));
            }
            for client in &mut clients {
                assert_eq!(client.line(), format!("ok fan {number}"), "{name}");
            }
        }
        assert_eq!(clients[0].ask("oneshot 3"), "ok oneshot 3", "{name}");
        assert_eq!(clients[0].ask("oneshot-drop 3"), "ok oneshot-drop 3", "{name}");
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}
