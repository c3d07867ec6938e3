//! The log at the start and at the end: what it has is run again, and it goes on.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::log_reader::{LogError, LogReader};
use super::manifest::Part;
use super::replay::{Replay, Replayed};
use super::{Log, writer};
use psp_store::Databases;

use crate::effects::RespEncoding;
use crate::persistence::file_reader::FileReader;
use crate::persistence::load::{LoadError, LoadProgress, Loaded, Present, Watched, load_from};
use crate::persistence::place::SaveError;
use crate::state::ServerState;

/// What an RDB file begins with.
const RDB: &[u8] = b"REDIS";

impl Log {
    /// Whether there is a log to begin with.
    ///
    /// # Errors
    /// Its manifest cannot be read.
    pub(in crate::persistence) fn is_there(&self) -> io::Result<bool> {
        Ok(self.folder.read()?.is_some())
    }

    /// Runs again what the files have.
    ///
    /// # Errors
    /// One of them is not there, or is damaged.
    pub(in crate::persistence) fn load(
        &self,
        server: &ServerState,
        progress: &LoadProgress,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(Loaded, Replayed), LoadError> {
        let folder = &self.folder;
        let manifest = folder.read()?.unwrap_or_default();
        // What expired before is in the log as removed.
        let _repeated = Repeated::begin(&server.databases);
        let parts: Vec<&Part> = manifest.base.iter().chain(&manifest.increments).collect();
        progress.begin(folder.bytes_of(&manifest));
        let mut loaded = Loaded::default();
        let mut replay = Replay::new(server);
        let mut last_len = 0;
        for (index, part) in parts.iter().enumerate() {
            let path = folder.file(&part.name);
            let file = File::open(&path).map_err(|error| LoadError::Part { path: path.clone(), error })?;
            let is_last = index + 1 == parts.len();
            replay.begin_part();
            last_len =
                self.load_part((server, &mut replay, &mut loaded), (file, &path), is_last, (progress, goes_on))?;
        }
        let mut state = self.state.lock();
        state.goes_on = manifest.increments.last().map(|part| (part.clone(), last_len));
        let size = folder.bytes_of(&manifest);
        self.size.store(size, Ordering::Relaxed);
        state.base_size = size;
        state.manifest = manifest;
        state.is_complete = true;
        Ok((loaded, replay.done()))
    }

    /// Returns the length of the file, which may have been truncated.
    fn load_part(
        &self,
        (server, replay, loaded): (&ServerState, &mut Replay<'_>, &mut Loaded),
        (mut file, path): (File, &Path),
        is_last: bool,
        (progress, goes_on): (&LoadProgress, &dyn Fn() -> bool),
    ) -> Result<u64, LoadError> {
        let mut offset = 0;
        if begins_as_rdb(&mut file)? {
            let watched = Watched::new(file.try_clone()?, path, progress, goes_on);
            let mut reader = FileReader::new(watched, server.settings.config.rdbchecksum)?.begins_log();
            loaded.add(load_from(server, &mut reader, Present::IsError, goes_on)?);
            offset = reader.offset();
            file.seek(SeekFrom::Start(offset))?;
        }
        let len = file.metadata()?.len();
        let mut reader = LogReader::new(Watched::new(file, path, progress, goes_on), offset);
        let mut whole = offset;
        let problem = loop {
            match reader.next() {
                Ok(Some(command)) => {
                    let at = reader.offset();
                    replay.run(command).map_err(|what| LoadError::log(path, at, what))?;
                    if !replay.is_within_transaction() {
                        whole = at;
                    }
                }
                Ok(None) if replay.is_within_transaction() => break LogError::Truncated,
                Ok(None) => return Ok(reader.offset()),
                Err(_) if !goes_on() => return Err(LoadError::GivenUp),
                Err(problem) => break problem,
            }
        };
        match problem {
            LogError::System(error) => Err(error.into()),
            LogError::Damaged(what) => {
                let what = format!("Bad file format reading the append only file: {what}");
                Err(LoadError::log(path, reader.offset(), what))
            }
            LogError::Truncated if is_last && self.loads_truncated() => {
                tracing::warn!(
                    "{} ends within a command or a transaction: {} bytes of {len} are kept (aof-load-truncated)",
                    path.display(),
                    whole,
                );
                let file = OpenOptions::new().write(true).open(path)?;
                file.set_len(whole)?;
                file.sync_all()?;
                Ok(whole)
            }
            LogError::Truncated => {
                let what =
                    "Unexpected end of file reading the append only file: it ends within a command or a transaction";
                Err(LoadError::log(path, reader.offset(), what))
            }
        }
    }

    /// Logs all changes from now on. What was loaded goes on; otherwise a first base is made of what there is.
    ///
    /// # Errors
    /// There is no thread, or no base.
    pub(in crate::persistence) fn begin(
        self: &Arc<Self>,
        server: &ServerState,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), SaveError> {
        let system = |what| {
            let path = self.folder.path.display().to_string();
            move |error| SaveError::System { what, path, error }
        };
        let has_files = self.state.lock().is_complete;
        if !has_files {
            self.forget_files().map_err(system("read the manifest in"))?;
        }
        self.is_closing.store(false, Ordering::Release);
        self.note_mended();
        server.databases.journal().begin(RespEncoding);
        let thread = writer::start(&server.databases, self).map_err(system("start the thread of"))?;
        *self.thread.lock() = Some(thread);
        self.is_on.store(true, Ordering::Release);
        let begun = match has_files {
            true => {
                server.databases.journal().cut();
                self.wake();
                Ok(())
            }
            false => self.rewrite(server, goes_on),
        };
        if begun.is_err() {
            self.close(server);
        }
        begun
    }

    /// Files that are there say nothing of what there is now. They are kept until there are others.
    fn forget_files(&self) -> io::Result<()> {
        let found = self.folder.read()?.unwrap_or_default();
        let mut state = self.state.lock();
        state.manifest.history = found.history.into_iter().chain(found.base).chain(found.increments).collect();
        state.goes_on = None;
        Ok(())
    }

    /// Writes what there is, has the disk keep it, and logs nothing any more.
    pub(in crate::persistence) fn close(&self, server: &ServerState) {
        if !self.is_on() {
            return;
        }
        self.is_closing.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.lock().take() {
            let _panicked = thread.join();
        }
        self.is_on.store(false, Ordering::Release);
        server.databases.journal().stop();
        let mut state = self.state.lock();
        (state.is_complete, state.goes_on, state.cut) = (false, None, None);
        // Nothing is refused that is not logged.
        drop(state);
        self.note_mended();
    }

    /// The file that the next part of the log is in, its length, and its place among the others.
    pub(super) fn open_next(&self) -> io::Result<(File, u64, Part)> {
        let folder = &self.folder;
        let mut state = self.state.lock();
        if let Some((part, len)) = state.goes_on.take() {
            let file = OpenOptions::new().append(true).open(folder.file(&part.name))?;
            return Ok((file, len, part));
        }
        let number = state.manifest.next_increment();
        let part = Part { name: folder.increment_name(number), number };
        let file = OpenOptions::new().append(true).create(true).open(folder.file(&part.name))?;
        file.set_len(0)?;
        let mut manifest = state.manifest.clone();
        manifest.increments.push(part.clone());
        if state.is_complete {
            folder.write(&manifest)?;
        }
        state.manifest = manifest;
        Ok((file, 0, part))
    }
}

/// Changes are repeated that were made at other times, until it is dropped.
struct Repeated<'d>(&'d Databases);

impl<'d> Repeated<'d> {
    fn begin(databases: &'d Databases) -> Self {
        databases.expire_nothing(true);
        Self(databases)
    }
}

impl Drop for Repeated<'_> {
    fn drop(&mut self) {
        self.0.expire_nothing(false);
    }
}

fn begins_as_rdb(file: &mut File) -> io::Result<bool> {
    let mut head = Vec::new();
    file.take(RDB.len() as u64).read_to_end(&mut head)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(head == RDB)
}
