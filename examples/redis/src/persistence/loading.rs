//! Loads: from the file to the databases.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::ensure;

use super::gate::LOADING;
use super::load::{LoadError, Loaded, Present, load};
use super::place::SaveError;
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

/// What a server begins with, and whether it logs changes.
#[derive(Debug)]
pub(crate) struct First {
    source: Source,
    is_logged: bool,
}

#[derive(Debug)]
enum Source {
    Nothing,
    File(PathBuf),
    Log,
}

/// Tools that start a server wait for these words of Redis in its log.
fn say_ready() {
    tracing::info!("Ready to accept connections");
}

impl Persistence {
    /// Says in the log that the server runs, and if nothing is saved.
    pub(crate) fn announce(&self, config: &Config) {
        if !self.saves_by_default() && !config.appendonly {
            tracing::info!(
                "keys are in memory alone, and are lost at the end: neither `save` (--save), such as '3600 1 300 100', nor `appendonly` is set"
            );
        }
        // As in Redis: tools look for the number in the log.
        tracing::info!("Server initialized, PID: {}", std::process::id());
        if !self.is_loading() {
            say_ready();
        }
    }

    /// What the server begins with.
    ///
    /// # Errors
    /// There is no folder for the file, or the log's manifest cannot be read.
    pub(crate) fn first(&self, config: &Config) -> anyhow::Result<First> {
        let is_logged = config.appendonly;
        let source = match self.first_file(config)? {
            _ if is_logged && self.log.is_there()? => Source::Log,
            None => Source::Nothing,
            Some(path) => Source::File(path),
        };
        Ok(First { source, is_logged })
    }

    fn first_file(&self, config: &Config) -> anyhow::Result<Option<PathBuf>> {
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

    /// Begins to load this. Until that is done, commands get an error. If it fails, calls `end` and has
    /// [`Saver::end`] tell.
    pub(crate) fn load_first(&self, server: &ServerState, first: First, end: impl FnOnce() + Send + 'static) {
        let First { source, is_logged } = first;
        if matches!(source, Source::Nothing) && !is_logged {
            return;
        }
        self.set_loading(true);
        self.run(
            server,
            Box::new(move |server| {
                let persistence = &server.persistence;
                if let Err(error) = persistence.load_source(server, &source) {
                    // What cannot be read at the end says nothing of the file.
                    if !matches!(error, LoadError::GivenUp) && !persistence.is_ending() {
                        let what = match &source {
                            Source::File(path) => format!("cannot load {}", path.display()),
                            Source::Log | Source::Nothing => "cannot load the append-only file".to_owned(),
                        };
                        *persistence.load_failed.lock() = Some(anyhow::Error::new(error).context(what));
                    }
                    return end();
                }
                if is_logged && let Err(error) = persistence.log.begin(server, &|| !persistence.is_ending()) {
                    let what = "cannot begin the append-only file";
                    *persistence.load_failed.lock() = Some(anyhow::Error::new(error).context(what));
                    return end();
                }
                persistence.set_loading(false);
                say_ready();
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
            let is_loaded = self.run_and_wait(server, move |server| {
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
                loaded.is_ok()
            });
            is_loaded.unwrap_or(false).then_some(()).ok_or(NOT_LOADED)
        });
        self.set_loading(false);
        loaded
    }

    fn load_source(&self, server: &ServerState, source: &Source) -> Result<(), LoadError> {
        match source {
            Source::Nothing => Ok(()),
            Source::File(path) => self.load(server, path, Present::IsError),
            Source::Log => self.load_log(server),
        }
    }

    /// Runs the log again.
    fn load_log(&self, server: &ServerState) -> Result<(), LoadError> {
        let began = Instant::now();
        let (loaded, replayed) = self.log.load(server, &self.load_progress, &|| !self.is_ending())?;
        tracing::info!(
            "loaded {} keys from the base of the log, and ran {} commands of it, of which {} failed, in {:.3} s",
            loaded.keys,
            replayed.commands,
            replayed.failed,
            began.elapsed().as_secs_f64(),
        );
        self.with_status(|status| status.loaded = loaded);
        Ok(())
    }

    /// CONFIG SET appendonly: begins or ends the log, and waits for that.
    ///
    /// # Errors
    /// There is no base for it.
    pub(crate) fn set_logged(&self, server: &ServerState, is_logged: bool) -> Result<(), String> {
        let changed = self.run_and_wait(server, move |server| {
            let persistence = &server.persistence;
            match (is_logged, persistence.log.is_on()) {
                (true, false) => persistence.log.begin(server, &|| !persistence.is_ending())?,
                (false, true) => persistence.log.close(server),
                _ => {}
            }
            Ok(())
        });
        let changed = changed.unwrap_or(Err(SaveError::GivenUp));
        changed.map_err(|error| error.to_string())
    }

    /// DEBUG LOADAOF: what the log has takes the place of what there is. Other commands get an error meanwhile.
    ///
    /// # Errors
    /// The message for the client.
    pub(crate) fn reload_log(&self, server: &ServerState) -> Result<(), CommandError> {
        if self.is_loading.swap(true, Ordering::Relaxed) {
            return Err(LOADING);
        }
        self.set_gate();
        let is_loaded = self.run_and_wait(server, |server| {
            let persistence = &server.persistence;
            let was_logged = persistence.log.is_on();
            persistence.log.close(server);
            server.databases.clear();
            let _no_room_needed = remove_libraries(server);
            let mut loaded = persistence.load_log(server).map_err(|error| error.to_string());
            if was_logged && loaded.is_ok() {
                let begun = persistence.log.begin(server, &|| !persistence.is_ending());
                loaded = begun.map_err(|error| error.to_string());
            }
            if let Err(error) = &loaded {
                tracing::error!("cannot load the append-only file: {error}");
            }
            loaded.is_ok()
        });
        self.set_loading(false);
        is_loaded
            .unwrap_or(false)
            .then_some(())
            .ok_or(CommandError::line("ERR Error trying to load the AOF files, check server logs."))
    }

    /// Reads a file.
    fn load(&self, server: &ServerState, path: &Path, present: Present) -> Result<(), LoadError> {
        let began = Instant::now();
        let loaded = load(server, path, present, &self.load_progress, &|| !self.is_ending())?;
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
