//! The scripts that clients have sent, by digest.
//!
//! SCRIPT LOAD keeps a script until SCRIPT FLUSH. The bodies of EVAL are kept while there is room: those that were used
//! least recently go first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;

use super::digest::Digest;
use super::shebang::Flags;

/// Bytes of the bodies of EVAL.
const SENT_BYTES_MAX: usize = 16 << 20;
/// Bytes of the scripts of SCRIPT LOAD.
const LOADED_BYTES_MAX: usize = 256 << 20;
/// What an entry takes beside its body.
const ENTRY_BYTES: usize = 200;

/// A script.
#[derive(Debug)]
pub struct Script {
    /// Its name.
    pub digest: Digest,
    /// Its text.
    pub body: Box<[u8]>,
    /// What its first line declares; `None` without such a line.
    pub flags: Option<Flags>,
    loaded: AtomicBool,
    used_at: AtomicU64,
}

impl Script {
    /// A script that no library has yet.
    pub(crate) fn new(digest: Digest, body: &[u8], flags: Option<Flags>) -> Self {
        Self {
            digest,
            body: body.into(),
            flags,
            loaded: AtomicBool::new(false),
            used_at: AtomicU64::new(0),
        }
    }

    fn bytes(&self) -> usize {
        self.body.len() + ENTRY_BYTES
    }
}

/// All scripts of a server.
#[derive(Debug, Default)]
pub struct Library {
    shelves: RwLock<Shelves>,
    /// Counts uses.
    clock: AtomicU64,
}

#[derive(Debug, Default)]
struct Shelves {
    scripts: HashMap<Digest, Arc<Script>>,
    sent_bytes: usize,
    loaded_bytes: usize,
}

/// There is no room for another script of SCRIPT LOAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Library {
    /// The script with this digest, which is now the one used last.
    #[must_use]
    pub fn find(&self, digest: &Digest) -> Option<Arc<Script>> {
        let script = self.shelves.read().scripts.get(digest).map(Arc::clone)?;
        self.touch(&script);
        Some(script)
    }

    fn touch(&self, script: &Script) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        script.used_at.store(now, Ordering::Relaxed);
    }

    /// Whether there is a script with this digest.
    #[must_use]
    pub fn contains(&self, digest: &Digest) -> bool {
        self.shelves.read().scripts.contains_key(digest)
    }

    /// Number of scripts, and their bytes.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let shelves = self.shelves.read();
        (shelves.scripts.len(), shelves.sent_bytes + shelves.loaded_bytes)
    }

    /// Adds a script that EVAL sent.
    pub(crate) fn add(&self, script: &Arc<Script>) {
        if script.bytes() > SENT_BYTES_MAX / 2 {
            return;
        }
        self.touch(script);
        let mut shelves = self.shelves.write();
        if shelves.scripts.contains_key(&script.digest) {
            return;
        }
        shelves.sent_bytes += script.bytes();
        shelves.scripts.insert(script.digest, Arc::clone(script));
        if shelves.sent_bytes > SENT_BYTES_MAX {
            shelves.make_room();
        }
    }

    /// Adds a script of SCRIPT LOAD, or keeps one that EVAL sent.
    pub(crate) fn load(&self, script: &Arc<Script>) -> Result<(), Full> {
        let mut shelves = self.shelves.write();
        let found = shelves.scripts.get(&script.digest).map(Arc::clone);
        let is_new = found.is_none();
        let script = found.unwrap_or_else(|| Arc::clone(script));
        if script.loaded.load(Ordering::Relaxed) {
            return Ok(());
        }
        if shelves.loaded_bytes + script.bytes() > LOADED_BYTES_MAX {
            return Err(Full);
        }
        script.loaded.store(true, Ordering::Relaxed);
        shelves.loaded_bytes += script.bytes();
        if is_new {
            shelves.scripts.insert(script.digest, script);
        } else {
            shelves.sent_bytes -= script.bytes();
        }
        Ok(())
    }

    /// Removes all scripts.
    pub(crate) fn clear(&self) {
        let shelves = std::mem::take(&mut *self.shelves.write());
        drop(shelves);
    }
}

impl Shelves {
    /// Removes the bodies of EVAL that were used least recently, down to half of the room, so that the next ones need
    /// no search.
    fn make_room(&mut self) {
        let is_sent = |script: &&Arc<Script>| !script.loaded.load(Ordering::Relaxed);
        let sent = self.scripts.values().filter(is_sent);
        let mut by_age: Vec<_> = sent.map(|script| (script.used_at.load(Ordering::Relaxed), script.digest)).collect();
        by_age.sort_unstable_by_key(|(used_at, _)| *used_at);
        for (_, digest) in by_age {
            if self.sent_bytes <= SENT_BYTES_MAX / 2 {
                break;
            }
            if let Some(script) = self.scripts.remove(&digest) {
                self.sent_bytes -= script.bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(number: usize, len: usize) -> Arc<Script> {
        let mut body = format!("return {number} --").into_bytes();
        body.resize(len, b'x');
        Arc::new(Script::new(Digest::of(&body), &body, None))
    }

    #[test]
    fn bodies_of_eval_go_and_loaded_scripts_stay() {
        let library = Library::default();
        let loaded = script(0, 1000);
        library.add(&loaded);
        library.load(&loaded).unwrap();
        let favourite = script(1, 1000);
        library.add(&favourite);
        let others: Vec<_> = (2..30).map(|number| script(number, 1 << 20)).collect();
        for other in &others {
            library.add(other);
            assert!(library.find(&favourite.digest).is_some());
        }
        let (count, bytes) = library.size();
        assert!(count > 2 && count < 20, "{count}");
        assert!(bytes <= SENT_BYTES_MAX + LOADED_BYTES_MAX);
        assert!(library.contains(&loaded.digest));
        assert!(!library.contains(&others[0].digest));
        assert!(library.contains(&others[27].digest));
        library.clear();
        assert_eq!(library.size(), (0, 0));
    }

    #[test]
    fn loaded_scripts_have_a_bound() {
        let library = Library::default();
        let scripts = (0..).map(|number| script(number, 8 << 20));
        let refused = scripts.take(40).filter(|it| library.load(it) == Err(Full));
        assert_eq!(refused.count(), 9);
    }
}
