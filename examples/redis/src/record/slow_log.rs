//! Commands whose service time was long: SLOWLOG.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use psp_server::{Peer, no_preempt};
use psp_store::unix_time_ms;

use super::redacted;
use crate::client::ClientInfo;

/// Arguments of a command that are kept, and bytes of an argument, as in Redis.
const ARGS_MAX: usize = 32;
const ARG_LEN_MAX: usize = 128;

/// Nothing is slow.
const NEVER: u64 = u64::MAX;

/// The slow log.
#[derive(Debug)]
pub struct SlowLog {
    /// From how many microseconds on a command is slow; [`NEVER`] if none is.
    threshold_us: AtomicU64,
    len_max: AtomicUsize,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    last: u64,
    /// The last one first.
    commands: VecDeque<Arc<SlowCommand>>,
}

/// A command that was slow.
#[derive(Debug)]
pub struct SlowCommand {
    /// Its number; none is used twice.
    pub id: u64,
    /// When it ended, in seconds since the Unix epoch.
    pub ended_at_s: u64,
    /// Its service time in microseconds.
    pub busy_us: u64,
    /// Its arguments, trimmed.
    pub args: Vec<Box<[u8]>>,
    /// Who sent it.
    pub peer: Peer,
    /// The client's name for itself.
    pub client_name: String,
}

impl Default for SlowLog {
    /// As in Redis: from 10 ms on, the last 128 commands.
    fn default() -> Self {
        Self {
            threshold_us: AtomicU64::new(10_000),
            len_max: AtomicUsize::new(128),
            log: Mutex::default(),
        }
    }
}

impl SlowLog {
    /// From how many microseconds on a command is slow.
    pub(super) fn slow_from_us(&self) -> u64 {
        self.threshold_us.load(Ordering::Relaxed)
    }

    /// `slowlog-log-slower-than`, in microseconds; -1 for never.
    #[must_use]
    pub fn threshold_us(&self) -> i64 {
        i64::try_from(self.threshold_us.load(Ordering::Relaxed)).unwrap_or(-1)
    }

    /// Sets `slowlog-log-slower-than`. A negative number means never.
    pub(super) fn set_threshold_us(&self, us: i64) {
        let us = u64::try_from(us).unwrap_or(NEVER);
        self.threshold_us.store(us, Ordering::Relaxed);
    }

    /// `slowlog-max-len`.
    #[must_use]
    pub fn len_max(&self) -> usize {
        self.len_max.load(Ordering::Relaxed)
    }

    /// Sets `slowlog-max-len`. A log that is longer is cut by the next slow command, as in Redis.
    pub fn set_len_max(&self, len: usize) {
        self.len_max.store(len, Ordering::Relaxed);
    }

    /// Adds a command.
    pub(super) fn add(&self, client: &ClientInfo, args: &[&[u8]], busy_us: u64) {
        let command = |id| SlowCommand {
            id,
            ended_at_s: unix_time_ms() / 1000,
            busy_us,
            args: trimmed(&redacted(args)),
            peer: client.peer,
            client_name: client.labels().name,
        };
        let mut command = command(0);
        no_preempt(|| {
            let mut log = self.log.lock();
            command.id = log.last;
            log.last += 1;
            log.commands.push_front(Arc::new(command));
            log.commands.truncate(self.len_max());
        });
    }

    /// Number of commands.
    #[must_use]
    pub fn len(&self) -> usize {
        no_preempt(|| self.log.lock().commands.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last `count` commands, the last one first.
    #[must_use]
    pub fn last(&self, count: usize) -> Vec<Arc<SlowCommand>> {
        no_preempt(|| self.log.lock().commands.iter().take(count).cloned().collect())
    }

    /// Forgets all commands.
    pub fn clear(&self) {
        let commands = no_preempt(|| std::mem::take(&mut self.log.lock().commands));
        drop(commands);
    }
}

/// The arguments that are kept, in Redis's form.
fn trimmed(args: &[&[u8]]) -> Vec<Box<[u8]>> {
    let shown = if args.len() > ARGS_MAX {
        ARGS_MAX - 1
    } else {
        args.len()
    };
    let trim = |arg: &&[u8]| match arg.split_at_checked(ARG_LEN_MAX) {
        Some((kept, rest)) if !rest.is_empty() => {
            let more = format!("... ({} more bytes)", rest.len());
            [kept, more.as_bytes()].concat().into()
        }
        _ => Box::from(*arg),
    };
    let mut kept: Vec<_> = args[..shown].iter().map(trim).collect();
    if shown < args.len() {
        let more = format!("... ({} more arguments)", args.len() - shown);
        kept.push(more.into_bytes().into());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_trimmed_as_in_redis() {
        let texts = |args: &[&[u8]]| {
            let kept = trimmed(args);
            let texts = kept.iter().map(|arg| String::from_utf8_lossy(arg).into_owned());
            texts.collect::<Vec<_>>()
        };
        let many = vec![&b"a"[..]; 33];
        assert_eq!(texts(&many[..32]).len(), 32);
        let kept = texts(&many);
        assert_eq!((kept.len(), &*kept[31]), (32, "... (2 more arguments)"));
        let long = vec![b'A'; 129];
        assert_eq!(texts(&[&long[..128]])[0].len(), 128);
        assert!(texts(&[&long])[0].ends_with("A... (1 more bytes)"));
    }
}
