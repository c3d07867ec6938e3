//! Loads: from the file to the databases.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::ensure;
use psp_server::sync::oneshot;
use psp_server::wait;

use super::gate::LOADING;
use super::load::{LoadError, Loaded, Present, load};
use super::saving::IN_PROGRESS;
use super::{Persistence, changes};
use crate::commands::functions::remove_libraries;
use crate::config::Config;
use crate::error::CommandError;
use crate::state::ServerState;

const NOT_LOADED: CommandError = CommandError::line("ERR Error trying to load the RDB dump, check server logs.");

/// What DEBUG RELOAD does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reload {
    /// It saves what there is.
    pub(crate) saves: bool,
    /// It removes what there is.
    pub(crate) flushes: bool,
    /// What becomes of what is there then.
    pub(crate) present: Present,
}

impl Persistence {
    /// Says in the log if nothing is saved.
    pub(crate) fn announce(&self) {
        if !self.saves_by_default() {
            tracing::info!(
                "keys are in memory alone, and are lost at the end: `save` (--save) is not set, such as '3600 1 300 100'"
            );
        }
    }

    /// The file that the server begins with, if there is one.
    ///
    /// # Errors
    /// There is no folder for the file.
    pub(crate) fn first_file(&self, config: &Config) -> anyhow::Result<Option<PathBuf>> {
        let own = self.place.read().path();
        let dir = self.dir();
        ensure!(dir.is_dir(), "dir (--dir) is {}, which is no folder", dir.display());
        Ok(match &config.load {
            Some(other) if own.exists() => {
                let (own, other) = (own.display(), other.display());
                tracing::warn!("{other} is not read: {own} is there, and has what was saved since");
                Some(self.place.read().path())
            }
            Some(other) => Some(other.clone()),
            None => own.exists().then_some(own),
        })
    }

    /// Begins to load this file. Until that is done, commands get an error. If it fails, calls `end` and has
    /// [`Saver::end`] tell.
    pub(crate) fn load_first(&self, server: &ServerState, path: PathBuf, end: impl FnOnce() + Send + 'static) {
        self.set_loading(true);
        self.run(
            server,
            Box::new(move |server| {
                let persistence = &server.persistence;
                if let Err(error) = persistence.load(server, &path, Present::IsError) {
                    if !matches!(error, LoadError::GivenUp) {
                        let what = format!("cannot load {}", path.display());
                        *persistence.load_failed.lock() = Some(anyhow::Error::new(error).context(what));
                    }
                    end();
                    return;
                }
                persistence.set_loading(false);
            }),
        );
    }

    /// DEBUG RELOAD: saves, removes all, and loads, as it is told. Other commands get an error meanwhile.
    ///
    /// # Errors
    /// The message for the client.
    pub(crate) fn reload(&self, server: &ServerState, reload: Reload) -> Result<(), CommandError> {
        let Reload { saves, flushes, present } = reload;
        if self.is_loading.swap(true, Ordering::Relaxed) {
            return Err(LOADING);
        }
        self.set_gate();
        let saved = match saves {
            true => self.save_and_wait(server).map_err(|_refused| IN_PROGRESS),
            false => Ok(Ok(())),
        };
        let loaded = saved.and_then(|saved| saved.map_err(|error| CommandError::Other(format!("ERR {error}").into())));
        let loaded = loaded.and_then(|()| {
            let (done, receiver) = oneshot::channel();
            self.run(
                server,
                Box::new(move |server| {
                    let path = server.persistence.place.read().path();
                    if flushes {
                        server.databases.clear();
                        let _no_room_needed = remove_libraries(server);
                    }
                    let loaded = server.persistence.load(server, &path, present);
                    if let Err(error) = &loaded {
                        tracing::error!("cannot load {}: {error}", path.display());
                        // What is left shall not take the place of the file by itself.
                        server.persistence.set_saves_at_end(Some(false));
                    }
                    let _heard = done.send(loaded.is_ok());
                }),
            );
            let is_loaded = wait(receiver).unwrap_or(false);
            is_loaded.then_some(()).ok_or(NOT_LOADED)
        });
        self.set_loading(false);
        loaded
    }

    /// Reads a file.
    fn load(&self, server: &ServerState, path: &Path, present: Present) -> Result<(), LoadError> {
        let began = Instant::now();
        let goes_on = || !self.is_ending.load(Ordering::Relaxed);
        let loaded = load(server, path, present, &self.load_progress, &goes_on)?;
        let Loaded { keys, expired, empty, libraries } = loaded;
        tracing::info!(
            "loaded {keys} keys and {libraries} libraries of functions from {} in {:.3} s; {expired} keys had expired, \
             {empty} were empty",
            path.display(),
            began.elapsed().as_secs_f64(),
        );
        let is_own = *path == self.place.read().path();
        let changes = changes(server);
        self.with_status(|status| {
            status.loaded = loaded;
            // What comes from elsewhere is not saved here yet.
            if is_own {
                status.saved_changes = changes;
                status.file_changes = Some(changes);
            }
        });
        Ok(())
    }

    pub(super) fn set_loading(&self, is_loading: bool) {
        self.is_loading.store(is_loading, Ordering::Relaxed);
        self.set_gate();
    }
}
