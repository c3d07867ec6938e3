//! Clients that show who they are. As in memcached, nothing else runs before.
//!
//! | flag | protocol | a client's first request                                    |
//! |------|----------|-------------------------------------------------------------|
//! | `-Y` | text     | a `set` whose data are a name, a space and a password        |
//! | `-S` | binary   | SASL's mechanism PLAIN, RFC 4616                             |

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use psp_protocols::Sink;
use psp_protocols::memcached::text::{Request, Status, Store as StoreRequest, StoreMode, Words, client_error, status};
use subtle::ConstantTimeEq as _;

use crate::counters::{Counter, WorkerCounters};

/// Most names, as in memcached.
const NAMES_MAX: usize = 8;

/// The names and passwords of a file: a line `name:password` for each.
#[derive(Debug, Clone)]
pub struct Passwords {
    lines: Vec<Vec<u8>>,
}

impl Passwords {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a line has no colon, or there are too many.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = fs::read(path).with_context(|| format!("cannot read the passwords of {name}"))?;
        let lines: Vec<Vec<u8>> = text
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .filter(|line| !line.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
        let has_colon = |line: &Vec<u8>| line.contains(&b':');
        ensure!(lines.iter().all(has_colon), "{name} has a line without a colon");
        ensure!((1..=NAMES_MAX).contains(&lines.len()), "{name} must have 1 to {NAMES_MAX} names");
        Ok(Self { lines })
    }

    /// Whether a name and its password are among these.
    fn contains(&self, name: &[u8], password: &[u8]) -> bool {
        let wanted = [name, b":", password].concat();
        self.lines.iter().fold(false, |found, line| found | bool::from(line.ct_eq(&wanted)))
    }
}

/// Whether the client of a connection has shown who it is.
#[derive(Debug)]
pub struct Login {
    done: AtomicBool,
}

impl Login {
    /// The state of a new connection.
    #[must_use]
    pub fn new(needs_password: bool) -> Self {
        Self { done: AtomicBool::new(!needs_password) }
    }

    /// Whether the client may run requests.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Takes a text request of a client that has not shown who it is, and writes the reply.
    pub fn attempt(&self, frame: &[u8], passwords: &Passwords, counters: &WorkerCounters, out: &mut dyn Sink) {
        let Ok(Request::Store(StoreRequest { mode: StoreMode::Set, cas: None, data, .. })) = Request::parse(frame)
        else {
            return client_error(out, "unauthenticated");
        };
        let mut words = Words::new(data);
        let (Some(name), Some(password)) = (words.next(), words.next()) else {
            return client_error(out, "bad authentication token format");
        };
        if self.check(name, password, passwords, counters) {
            status(out, Status::Stored);
        } else {
            client_error(out, "authentication failure");
        }
    }

    /// Takes the message of SASL's mechanism PLAIN: an identity to act as, which must be empty or the name, the name
    /// and the password, with zeros between them. Returns whether the client is known.
    pub fn attempt_plain(&self, message: &[u8], passwords: &Passwords, counters: &WorkerCounters) -> bool {
        let mut parts = message.splitn(3, |byte| *byte == 0);
        let (identity, name, password) = (parts.next(), parts.next(), parts.next());
        let name = name.unwrap_or_default();
        let acts_as_itself = identity.is_some_and(|identity| identity.is_empty() || identity == name);
        let password = password.filter(|_| acts_as_itself).unwrap_or_default();
        self.check(name, password, passwords, counters)
    }

    fn check(&self, name: &[u8], password: &[u8], passwords: &Passwords, counters: &WorkerCounters) -> bool {
        counters.count(Counter::AuthCmds);
        let is_known = !password.is_empty() && passwords.contains(name, password);
        match is_known {
            true => self.done.store(true, Ordering::Release),
            false => counters.count(Counter::AuthErrors),
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passwords(text: &str) -> anyhow::Result<Passwords> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("passwords");
        fs::write(&file, text).expect("a file");
        Passwords::load(&file)
    }

    #[test]
    fn names_and_passwords_are_compared_as_a_whole() {
        let passwords = passwords("foo:bar\r\nbaaaz:quux:x\n").expect("passwords");
        for (name, password, expected) in [
            ("foo", "bar", true),
            ("baaaz", "quux:x", true),
            ("foo", "ba", false),
            ("foo", "barr", false),
            ("fo", "o:bar", false),
            ("bar", "foo", false),
        ] {
            let is_known = passwords.contains(name.as_bytes(), password.as_bytes());
            assert_eq!(is_known, expected, "{name} {password}");
        }
    }

    #[test]
    fn files_that_say_nothing_are_refused() {
        for text in ["", "\n", "foo", &"a:b\n".repeat(NAMES_MAX + 1)] {
            assert!(passwords(text).is_err(), "{text:?}");
        }
    }
    #[test]
    fn a_message_of_plain_has_an_identity_a_name_and_a_password() {
        let passwords = passwords("foo:bar\n").expect("passwords");
        for (message, expected) in [
            (&b"\0foo\0bar"[..], true),
            (b"foo\0foo\0bar", true),
            (b"other\0foo\0bar", false),
            (b"\0foo\0ba", false),
            (b"\0foo\0bar\0", false),
            (b"\0foo:bar\0", false),
            (b"foo\0bar", false),
            (b"", false),
        ] {
            let login = Login::new(true);
            let counters = WorkerCounters::default();
            let is_known = login.attempt_plain(message, &passwords, &counters);
            assert_eq!(is_known, expected, "{}", message.escape_ascii());
            assert_eq!(login.is_done(), expected);
        }
    }
}
