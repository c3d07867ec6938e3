//! A new base: a snapshot as an RDB file, after which the increments begin anew.
//!
//! ```text
//!   snapshot + cut ─► write base N+1, fsync, rename ─► manifest: base N+1, increments from the cut on ─► remove the others
//! ```

use std::fs;
use std::io;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::Log;
use super::manifest::{Folder, Manifest, Part};
use crate::persistence::file_writer::{FileWriter, Form, Image};
use crate::persistence::place::{Place, SaveError};
use crate::persistence::saving::uses_of;
use crate::state::ServerState;

/// Time between two looks whether the file behind the cut has begun.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// After an automatic rewrite that failed, the next one waits for so long.
const RETRY_AFTER: Duration = Duration::from_secs(60);

impl Log {
    /// Makes a new base. On the saver's thread.
    ///
    /// # Errors
    /// Why there is none. The log is as it was.
    pub(in crate::persistence) fn rewrite(
        &self,
        server: &ServerState,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), SaveError> {
        let began = Instant::now();
        {
            let mut state = self.state.lock();
            state.rewriting = Some(began);
            state.is_rewrite_scheduled = false;
        }
        let written = self.write_base(server, goes_on);
        let mut state = self.state.lock();
        state.rewriting = None;
        state.last_rewrite_s = Some(began.elapsed().as_secs());
        state.last_rewrite_failed = written.is_err();
        match &written {
            Ok(name) => {
                state.rewrites += 1;
                state.next_automatic = None;
                tracing::info!("the log has a new base, {name}, after {:.3} s", began.elapsed().as_secs_f64());
            }
            Err(SaveError::GivenUp) => tracing::info!("a rewrite of the log was given up"),
            Err(error) => {
                state.next_automatic = Some(Instant::now() + RETRY_AFTER);
                tracing::error!("the log is not rewritten: {error}");
            }
        }
        written.map(drop)
    }

    fn write_base(&self, server: &ServerState, goes_on: &dyn Fn() -> bool) -> Result<String, SaveError> {
        let folder = &self.folder;
        fs::create_dir_all(&folder.path).map_err(|error| refused("make the folder", folder, error))?;
        let is_on = self.is_on();
        let journal = server.databases.journal();
        let (snapshot, cut) = server.databases.snapshot(|| is_on.then(|| journal.cut()));
        self.wake();
        let image = Image {
            libraries: server.scripts.functions.libraries(),
            uses: uses_of(server),
            used_bytes: server.memory.used_bytes(),
            is_base: true,
            snapshot,
        };
        let number = self.state.lock().manifest.next_base();
        let base = Part { name: folder.base_name(number), number };
        let place = Place { dir: folder.path.clone(), name: base.name.clone() };
        let form = Form {
            compresses: server.persistence.compresses(),
            has_checksum: server.settings.config.rdbchecksum,
        };
        place.replace(|file| {
            let file = FileWriter::new(file, form).write(image, server.databases.get(0), goes_on)?;
            Ok(Some(file).filter(|_| goes_on()))
        })?;
        let first = match cut {
            None => None,
            Some(cut) => Some(self.wait_for_cut(cut, goes_on)?),
        };
        self.adopt(base, first).map_err(|error| refused("write the manifest in", folder, error))
    }

    /// The file that begins at the cut, which what was recorded before may have to reach the disk for.
    fn wait_for_cut(&self, cut: u64, goes_on: &dyn Fn() -> bool) -> Result<Part, SaveError> {
        loop {
            if let Some((_, part)) = self.state.lock().cut.as_ref().filter(|(at, _)| *at == cut) {
                return Ok(part.clone());
            }
            if !goes_on() {
                return Err(SaveError::GivenUp);
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// The base and the files from `first` on are the log from now on.
    fn adopt(&self, base: Part, first: Option<Part>) -> io::Result<String> {
        let folder = &self.folder;
        let mut state = self.state.lock();
        let name = base.name.clone();
        let is_kept = |part: &Part| first.as_ref().is_some_and(|first| part.number >= first.number);
        let old = &state.manifest;
        let (increments, gone): (Vec<Part>, Vec<Part>) = old.increments.iter().cloned().partition(is_kept);
        let history = old.history.iter().chain(&old.base).chain(&gone).cloned().collect();
        let mut manifest = Manifest { base: Some(base), increments, history };
        folder.write(&manifest)?;
        // What is removed next is needed no more, even if the server ends before it has said so.
        folder.remove_history(&mut manifest);
        folder.write(&manifest)?;
        let size = folder.bytes_of(&manifest);
        self.size.store(size, Ordering::Relaxed);
        state.base_size = size;
        state.manifest = manifest;
        state.is_complete = true;
        drop(state);
        self.note_mended();
        Ok(name)
    }

    /// Whether the log has grown by so much that it is to be rewritten.
    pub(in crate::persistence) fn is_rewrite_due(&self) -> bool {
        let state = self.state.lock();
        if state.is_rewrite_scheduled {
            return true;
        }
        let (size, percentage) = (self.size.load(Ordering::Relaxed), self.rewrite_percentage());
        let waits = state.next_automatic.is_some_and(|at| Instant::now() < at);
        let grown = size.saturating_sub(state.base_size).saturating_mul(100) / state.base_size.max(1);
        self.is_on() && !waits && percentage > 0 && size >= self.rewrite_size_min() && grown >= percentage
    }

    /// Lets a rewrite be due. `false` if one is, or goes on.
    pub(in crate::persistence) fn schedule_rewrite(&self) -> bool {
        let mut state = self.state.lock();
        let is_free = state.rewriting.is_none() && !state.is_rewrite_scheduled;
        state.is_rewrite_scheduled |= is_free;
        is_free
    }
}

fn refused(what: &'static str, folder: &Folder, error: io::Error) -> SaveError {
    SaveError::System { what, path: folder.path.display().to_string(), error }
}
