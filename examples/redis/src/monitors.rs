//! MONITOR: clients that see all commands.
//!
//! ```text
//!   command ─► feed ── no monitors: one load
//!                └──── a line ─► Outbox of the transaction, if there is one ─► each monitor's Push
//! ```
//!
//! Commands of administration are not shown, as in Redis. A monitor for which more waits than the limit of subscribers
//! allows is closed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use psp_server::{PushBatch, no_preempt};
use psp_store::unix_time_us;

use crate::client::ClientInfo;
use crate::command::{CommandTable, Context, Flag};
use crate::pubsub::{Outlet, OutputLimit};
use crate::record::redacted;

/// All monitors.
#[derive(Default)]
pub struct Monitors {
    count: AtomicUsize,
    members: Mutex<BTreeMap<u64, Member>>,
}

/// A client that monitors.
struct Member {
    client: Arc<ClientInfo>,
    outlet: Box<dyn Outlet>,
    over_soft_since: Option<Instant>,
}

impl fmt::Debug for Monitors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitors").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Monitors {
    /// Whether there are monitors.
    #[inline]
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Adds a client, which gets its lines through `outlet`.
    pub fn add(&self, client: &Arc<ClientInfo>, outlet: Box<dyn Outlet>) {
        let member = Member { client: Arc::clone(client), outlet, over_soft_since: None };
        no_preempt(|| {
            let mut members = self.members.lock();
            members.insert(client.id, member);
            client.set_monitor(true);
            self.count.store(members.len(), Ordering::Relaxed);
        });
    }

    /// Removes a client.
    pub fn remove(&self, client: &ClientInfo) {
        let removed = no_preempt(|| {
            let mut members = self.members.lock();
            let removed = members.remove(&client.id);
            client.set_monitor(false);
            self.count.store(members.len(), Ordering::Relaxed);
            removed
        });
        drop(removed);
    }

    /// Sends a line to all monitors. Returns how many were closed because too much waited for them.
    pub fn send(&self, line: &Bytes, limit: &OutputLimit) -> u64 {
        let mut batch = PushBatch::default();
        let mut closed = 0;
        no_preempt(|| {
            let mut members = self.members.lock();
            members.retain(|_, member| {
                let is_sent = member.outlet.send(&mut batch, line.clone()).is_ok();
                let queued_bytes = member.outlet.queued_bytes();
                if is_sent && !limit.is_exceeded(queued_bytes, &mut member.over_soft_since) {
                    return true;
                }
                member.outlet.close();
                member.client.set_monitor(false);
                closed += 1;
                false
            });
            self.count.store(members.len(), Ordering::Relaxed);
        });
        closed
    }
}

/// When a command is shown: scripts before what they run, all others once they have run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

/// Shows the call `args` of a command, whose index in the [`CommandTable`] is `entry`, to the monitors.
#[inline]
pub(crate) fn feed(context: &Context<'_>, entry: usize, args: &[&[u8]], moment: Moment) {
    if context.server.clients.monitors.is_any() {
        show(context, entry, args, moment);
    }
}

/// [`feed`], where there are monitors.
#[cold]
pub(crate) fn show(context: &Context<'_>, entry: usize, args: &[&[u8]], moment: Moment) {
    let Some(entry) = CommandTable::get().entry(entry) else {
        return;
    };
    let flags = entry.facts.flags;
    let shown_at = match flags.contains(Flag::SkipMonitor) {
        true => Moment::Before,
        false => Moment::After,
    };
    if moment != shown_at || flags.contains(Flag::Admin) {
        return;
    }
    let source = if context.in_script {
        "lua".to_owned()
    } else {
        let peer = &context.client.peer;
        let (address, _) = context.server.local_addresses().of(peer);
        match (peer.ip(), address.strip_suffix(":0")) {
            (None, Some(path)) => format!("unix:{path}"),
            _ => address,
        }
    };
    let line = line_of(unix_time_us(), context.database, &source, &redacted(args));
    match context.outbox {
        Some(outbox) => outbox.add_line(line),
        None => context.server.clients.show(&line),
    }
}

fn line_of(now_us: u64, database: usize, source: &str, args: &[&[u8]]) -> Bytes {
    let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
    let mut line = format!("+{seconds}.{micros:06} [{database} {source}]").into_bytes();
    for arg in args {
        line.extend(b" \"");
        for &byte in *arg {
            match byte {
                b'\\' | b'"' => line.extend([b'\\', byte]),
                b'\n' => line.extend(b"\\n"),
                b'\r' => line.extend(b"\\r"),
                b'\t' => line.extend(b"\\t"),
                0x07 => line.extend(b"\\a"),
                0x08 => line.extend(b"\\b"),
                b' '..=b'~' => line.push(byte),
                _ => line.extend(format!("\\x{byte:02x}").bytes()),
            }
        }
        line.push(b'"');
    }
    line.extend(b"\r\n");
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Heard, Session};

    #[test]
    fn lines_are_quoted_as_redis_does() {
        let line = line_of(1_700_000_000_000_042, 3, "127.0.0.1:5", &[b"set", b"a\"\\\n\x00\xff b"]);
        assert_eq!(&line[..], b"+1700000000.000042 [3 127.0.0.1:5] \"set\" \"a\\\"\\\\\\n\\x00\\xff b\"\r\n");
    }

    fn monitored(lines: &[&str]) -> Vec<String> {
        let mut session = Session::new();
        let monitor = session.beside();
        let heard = Heard::default();
        let monitors = &session.server.clients.monitors;
        monitors.add(monitor.client.info(), heard.outlet());
        for line in lines {
            let words: Vec<Vec<u8>> = line.split(' ').map(|it| it.replace('_', " ").into()).collect();
            let words: Vec<&[u8]> = words.iter().map(|it| &it[..]).collect();
            session.run_args(&words);
        }
        let texts = heard.messages();
        let shown = texts.iter().map(|text| text.split_once(" [0 ").map_or("", |(_, rest)| rest));
        shown.map(|text| text.trim_end().replace("127.0.0.1:50000", "peer")).collect()
    }

    #[test]
    fn commands_are_shown_in_the_order_in_which_they_run() {
        let shown = monitored(&[
            "SET a 1",
            "CONFIG SET save x",
            "CLIENT SETNAME x",
            "AUTH secret",
            "NOPE",
            "MULTI",
            "GET a",
            "EXEC",
            "EVAL return_redis.call('get',KEYS[1]) 1 a",
        ]);
        assert_eq!(
            shown,
            [
                "peer] \"SET\" \"a\" \"1\"",
                "peer] \"CLIENT\" \"SETNAME\" \"x\"",
                "peer] \"AUTH\" \"(redacted)\"",
                "peer] \"MULTI\"",
                "peer] \"GET\" \"a\"",
                "peer] \"EXEC\"",
                "peer] \"EVAL\" \"return redis.call('get',KEYS[1])\" \"1\" \"a\"",
                "lua] \"get\" \"a\"",
            ]
        );
    }

    #[test]
    fn a_monitor_that_does_not_read_is_closed() {
        let session = Session::new();
        let monitors = &session.server.clients.monitors;
        let heard = Heard::default();
        monitors.add(session.client.info(), heard.outlet());
        let limit = OutputLimit { hard_bytes: 10, soft_bytes: 0, soft_s: 0, normal_bytes: None };
        assert_eq!(monitors.send(&Bytes::from_static(b"1234"), &limit), 0);
        assert!(monitors.is_any() && !heard.is_closed());
        assert_eq!(monitors.send(&Bytes::from_static(b"12345678"), &limit), 1);
        assert!(!monitors.is_any() && heard.is_closed());
    }

    #[test]
    fn monitors_end_with_reset_and_with_their_connections() {
        let mut session = Session::new();
        let second = session.beside();
        let clients = Arc::clone(&session.server.clients);
        for client in [session.client.info(), second.client.info()] {
            clients.monitors.add(client, Heard::default().outlet());
        }
        assert!(session.run("CLIENT LIST").contains(" flags=O "));
        session.expect(&[("RESET", "+RESET")]);
        assert!(clients.monitors.is_any());
        drop(second);
        assert!(!clients.monitors.is_any());
        session.expect(&[
            ("MULTI", "+OK"),
            ("MONITOR", "+QUEUED"),
            ("EXEC", "*1 -ERR MONITOR isn't allowed for DENY BLOCKING client"),
        ]);
    }
}
