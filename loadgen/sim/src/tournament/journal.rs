//! The capacities found so far, a line of JSON each, so that a tournament goes on where it was stopped.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::grid::{Cell, Extent, Search, key};

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Entry {
    /// Where.
    #[serde(flatten)]
    pub cell: Cell,
    /// Seed of the simulations.
    pub seed: u64,
    /// The policy with all its settings.
    pub policy: String,
    /// How closely the search looked.
    #[serde(flatten)]
    pub extent: Extent,
    /// The highest load that kept the objective; 0 when no load did.
    pub load: f64,
}

/// What is known, and the file that keeps it.
#[derive(Debug, Default)]
pub struct Journal {
    loads: BTreeMap<String, f64>,
    file: Option<Mutex<File>>,
}

/// Why a journal cannot be read.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is no entry.
    #[error("line {line}: {error}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
}

impl Entry {
    /// What `search` has found.
    #[must_use]
    pub fn new(search: &Search, extent: Extent, load: f64) -> Self {
        Self {
            cell: search.cell,
            seed: search.seed,
            policy: search.policy.spelled(),
            extent,
            load,
        }
    }

    fn key(&self) -> String {
        key(&self.cell, self.seed, &self.policy)
    }
}

impl Journal {
    /// The journal in the file at `path`, which is created if it is not there. Entries of another extent do not count,
    /// nor those that are not `kept`. A last line that was cut off is dropped.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path, extent: Extent, kept: impl Fn(&Entry) -> bool) -> Result<Self, JournalError> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut journal = Self::default();
        let mut reader = BufReader::new(&file);
        let mut text = String::new();
        let mut whole_bytes = 0;
        for line in 1.. {
            text.clear();
            let bytes = reader.read_line(&mut text)?;
            if !text.ends_with('\n') {
                break;
            }
            whole_bytes += bytes as u64;
            let entry: Entry = serde_json::from_str(&text).map_err(|error| JournalError::Line { line, error })?;
            if entry.extent == extent && kept(&entry) {
                journal.note(&entry);
            }
        }
        file.set_len(whole_bytes)?;
        journal.file = Some(Mutex::new(file));
        Ok(journal)
    }

    /// Adds an entry to what is known.
    pub fn note(&mut self, entry: &Entry) {
        self.loads.insert(entry.key(), entry.load);
    }

    /// Writes an entry to the file, if there is one. What is known stays as it is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, entry: &Entry) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let line = serde_json::to_string(entry)? + "\n";
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
    }

    /// What `search` has found.
    #[must_use]
    pub fn load(&self, search: &Search) -> Option<f64> {
        self.loads.get(&search.key()).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use psp_policy::Policy;

    use super::*;

    const EXTENT: Extent = Extent { requests: 10, relative_tolerance: 0.1 };

    /// A file of this process's own, which is removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("psp-tournament-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn open(&self) -> Result<Journal, JournalError> {
            Journal::open(&self.0, EXTENT, |entry| entry.seed < 3)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    fn search(seed: u64) -> Search {
        let cell = Cell {
            mix: 3,
            workers: 2,
            slowdown: 10.0,
            preempt_ns: 2_000,
            migrates: false,
        };
        Search::new(cell, seed, Policy::mq())
    }

    fn entry(seed: u64, load: f64) -> Entry {
        Entry::new(&search(seed), EXTENT, load)
    }

    #[test]
    fn what_was_found_is_known_again() {
        let scratch = Scratch::new("again");
        let journal = scratch.open().unwrap();
        for (seed, load) in [(1, 0.5), (3, 0.7), (2, 0.25), (1, 0.75)] {
            journal.write(&entry(seed, load)).unwrap();
        }
        let other = Entry { extent: Extent { requests: 11, ..EXTENT }, ..entry(2, 0.9) };
        journal.write(&other).unwrap();
        assert_eq!(journal.load(&search(1)), None, "only the file knows");
        let journal = scratch.open().unwrap();
        let known = [1, 2, 3].map(|seed| journal.load(&search(seed)));
        assert_eq!(known, [Some(0.75), Some(0.25), None], "the last counts");
    }

    #[test]
    fn a_capacity_to_within_a_tolerance_of_the_load_does_not_count() {
        let scratch = Scratch::new("absolute");
        let line = serde_json::to_string(&entry(1, 0.5)).unwrap();
        let before = line.replace("relative_tolerance", "tolerance");
        fs::write(&scratch.0, format!("{before}\n{line}\n")).unwrap();
        assert_eq!(scratch.open().unwrap().load(&search(1)), Some(0.5));
        fs::write(&scratch.0, format!("{before}\n")).unwrap();
        assert_eq!(scratch.open().unwrap().load(&search(1)), None);
    }

    #[test]
    fn a_line_that_was_cut_off_is_dropped() {
        let scratch = Scratch::new("cut");
        scratch.open().unwrap().write(&entry(1, 0.5)).unwrap();
        let whole = fs::read_to_string(&scratch.0).unwrap();
        fs::write(&scratch.0, format!("{whole}{}", &whole[..20])).unwrap();
        let journal = scratch.open().unwrap();
        assert_eq!(journal.load(&search(1)), Some(0.5));
        assert_eq!(fs::read_to_string(&scratch.0).unwrap(), whole);
        fs::write(&scratch.0, format!("{whole}nonsense\n")).unwrap();
        let error = scratch.open().unwrap_err().to_string();
        assert!(error.starts_with("line 2: "), "{error}");
    }
}
