//! `-Y`: clients of the text protocol that show who they are. As in memcached, the data of a `set` are a name and a
//! password, and nothing else runs before.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use psp_protocols::Sink;
use psp_protocols::memcached::text::{
    Request, Status, Store as StoreRequest, StoreMode, Words, client_error, status,
};
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
        let text =
            fs::read(path).with_context(|| format!("cannot read the passwords of {name}"))?;
        let lines: Vec<Vec<u8>> = text
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .filter(|line| !line.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
        let has_colon = |line: &Vec<u8>| line.contains(&b':');
        ensure!(
            lines.iter().all(has_colon),
            "{name} has a line without a colon"
        );
        ensure!(
            (1..=NAMES_MAX).contains(&lines.len()),
            "{name} must have 1 to {NAMES_MAX} names"
        );
        Ok(Self { lines })
    }

    /// Whether a name and its password are among these.
    fn contains(&self, name: &[u8], password: &[u8]) -> bool {
        let wanted = [name, b":", password].concat();
        self.lines
            .iter()
            .fold(false, |found, line| found | bool::from(line.ct_eq(&wanted)))
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
        Self {
            done: AtomicBool::new(!needs_password),
        }
    }

    /// Whether the client may run requests.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Takes a text request of a client that has not shown who it is, and writes the reply.
    pub fn attempt(
        &self,
        frame: &[u8],
        passwords: &Passwords,
        counters: &WorkerCounters,
        out: &mut dyn Sink,
    ) {
        let Ok(Request::Store(StoreRequest {
            mode: StoreMode::Set,
            cas: None,
            data,
            ..
        })) = Request::parse(frame)
        else {
            return client_error(out, "unauthenticated");
        };
        let mut words = Words::new(data);
        let (Some(name), Some(password)) = (words.next(), words.next()) else {
            return client_error(out, "bad authentication token format");
        };
        counters.count(Counter::AuthCmds);
        if passwords.contains(name, password) {
            self.done.store(true, Ordering::Release);
            status(out, Status::Stored);
        } else {
            counters.count(Counter::AuthErrors);
            client_error(out, "authentication failure");
        }
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
}
