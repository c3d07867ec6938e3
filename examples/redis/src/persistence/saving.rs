//! Saves: from a snapshot to the file.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use psp_server::sync::oneshot;
use psp_server::{no_preempt, wait};
use psp_store::unix_time_ms;

use super::file_writer::{FileWriter, Form, Image, Uses};
use super::place::{Place, SaveError};
use super::saver::Job;
use super::status::{Save, Status};
use super::{Persistence, changes};
use crate::error::CommandError;
use crate::state::ServerState;

/// After a save that failed, save points wait for so long.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The error for who saves while a save goes on.
pub(crate) const IN_PROGRESS: CommandError = CommandError::line("ERR Background save already in progress");

/// Why a save does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// One goes on.
    InProgress,
}

impl Persistence {
    /// BGSAVE: begins a save of what there is now.
    ///
    /// # Errors
    /// A save goes on.
    pub(crate) fn save_in_background(&self, server: &ServerState) -> Result<(), Refused> {
        let (save, image) = self.begin(server, true)?;
        tracing::info!("a save in the background has begun");
        self.run(server, Box::new(move |server| drop(server.persistence.save(server, &save, image))));
        Ok(())
    }

    /// BGSAVE where there is no snapshot, or while another save goes on: saves soon.
    pub(crate) fn schedule(&self) {
        self.with_status(|status| status.is_scheduled = true);
    }

    /// SAVE: saves what there is now, and waits for that.
    ///
    /// # Errors
    /// A save goes on. Why it failed.
    pub(crate) fn save_and_wait(&self, server: &ServerState) -> Result<Result<(), SaveError>, Refused> {
        let (save, image) = self.begin(server, false)?;
        let saved = self.run_and_wait(server, move |server| server.persistence.save(server, &save, image));
        Ok(saved.unwrap_or(Err(SaveError::GivenUp)))
    }

    /// The same before the server ends: a save in the background is given up for it.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) fn save_before_the_end(&self, server: &ServerState) -> Result<(), SaveError> {
        loop {
            if let Ok(saved) = self.save_and_wait(server) {
                return saved;
            }
            if let Some(running) = self.with_status(|status| status.running.clone()) {
                if running.is_background {
                    running.give_up();
                }
                let ended = running.ended();
                let is_running =
                    |status: &mut Status| status.running.as_ref().is_some_and(|it| Arc::ptr_eq(it, &running));
                if self.with_status(is_running) {
                    drop(running);
                    let _closed = wait(ended);
                }
            }
        }
    }

    /// All keys were removed: as in Redis, a save in the background that has them is given up. It keeps them in memory.
    pub(crate) fn forget_all(&self) {
        if let Some(save) = self.running_in_background() {
            save.give_up();
        }
        if self.saves_by_default() {
            self.schedule();
        }
    }

    /// Gives a save in the background up if memory `is_short`: what it keeps is needed.
    pub(crate) fn give_up_if(&self, is_short: impl FnOnce() -> bool) {
        if let Some(save) = self.running_in_background().filter(|_| is_short()) {
            save.give_up_for_memory();
        }
    }

    fn running_in_background(&self) -> Option<Arc<Save>> {
        self.with_status(|status| status.running.clone()).filter(|save| save.is_background)
    }

    /// What to do at the end, whatever save points say; `None` leaves it to them. Returns what it was.
    pub(crate) fn set_saves_at_end(&self, saves: Option<bool>) -> Option<bool> {
        self.with_status(|status| std::mem::replace(&mut status.saves_at_end, saves))
    }

    /// Whether SHUTDOWN saves unless it is told otherwise.
    pub(crate) fn saves_by_default(&self) -> bool {
        !self.save_points.read().is_empty()
    }

    /// Takes a snapshot.
    fn begin(&self, server: &ServerState, is_background: bool) -> Result<(Arc<Save>, Image), Refused> {
        if self.is_saving() {
            return Err(Refused::InProgress);
        }
        let (snapshot, functions) = server.databases.snapshot(|| server.scripts.functions.changes());
        let image = Image {
            libraries: server.scripts.functions.libraries(),
            uses: uses_of(server),
            used_bytes: server.memory.used_bytes(),
            is_base: false,
            snapshot,
        };
        let save = Save::new(is_background, image.snapshot.changes() + functions, image.snapshot.len() as u64);
        self.with_status(|status| {
            if status.running.is_some() {
                return Err(Refused::InProgress);
            }
            status.running = Some(Arc::clone(&save));
            status.last_try = Instant::now();
            Ok((save, image))
        })
    }

    pub(crate) fn is_saving(&self) -> bool {
        self.with_status(|status| status.running.is_some())
    }

    /// Writes the file. Ends what [`begin`](Self::begin) began.
    fn save(&self, server: &ServerState, save: &Save, image: Image) -> Result<(), SaveError> {
        let _ended = Ended(self);
        let place = self.place.read().clone();
        let form = Form {
            compresses: self.compresses(),
            has_checksum: self.has_checksum,
        };
        let saved = place.replace(|file| {
            let file = FileWriter::new(file, form).write(image, server.databases.get(0), &|| save.goes_on())?;
            Ok(Some(file).filter(|_| !save.is_given_up()))
        });
        let saved = saved.map_err(|error| if save.lacks_memory() { SaveError::Memory } else { error });
        self.note(save, &place, &saved);
        self.set_gate();
        saved
    }

    fn note(&self, save: &Save, place: &Place, saved: &Result<(), SaveError>) {
        let seconds = save.started.elapsed().as_secs_f64();
        match saved {
            Ok(()) => tracing::info!("saved {} keys to {} in {seconds:.3} s", save.all_keys, place.path().display()),
            Err(SaveError::GivenUp) => tracing::info!("a save was given up"),
            Err(error) => tracing::error!("the data set is not saved: {error}"),
        }
        let is_here = *self.place.read() == *place;
        self.with_status(|status| {
            match saved {
                Ok(()) => {
                    status.last_save = Instant::now();
                    status.last_save_s = unix_time_ms() / 1000;
                    status.saved_changes = save.changes;
                    status.file_changes = is_here.then_some(save.changes);
                    status.last_background_failed = false;
                    status.saves += 1;
                }
                Err(SaveError::GivenUp) => {}
                Err(_) => status.last_background_failed |= save.is_background,
            }
            if save.is_background {
                status.last_background_s = Some(save.started.elapsed().as_secs());
            }
        });
    }

    /// Saves if that is scheduled, or a save point is reached. On the saver's thread.
    pub(super) fn save_if_due(&self, server: &ServerState) {
        self.rewrite_if_due(server);
        let is_due = self.with_status(|status| {
            let waits = status.last_background_failed && status.last_try.elapsed() < RETRY_AFTER;
            let seconds = status.last_save.elapsed().as_secs();
            let new = || changes(server).saturating_sub(status.saved_changes);
            std::mem::take(&mut status.is_scheduled) || (!waits && self.save_points.read().are_due(seconds, new))
        });
        if !is_due || self.is_loading() {
            return;
        }
        match self.begin(server, true) {
            Ok((save, image)) => drop(self.save(server, &save, image)),
            Err(Refused::InProgress) => self.schedule(),
        }
    }

    fn rewrite_if_due(&self, server: &ServerState) {
        if !self.is_loading() && self.log.is_rewrite_due() {
            let _told = self.log.rewrite(server, &|| !self.is_ending());
        }
    }

    /// BGREWRITEAOF: the saver's thread makes a new base. `false` if one is being made.
    pub(crate) fn rewrite_log(&self, server: &ServerState) -> bool {
        let is_free = self.log.schedule_rewrite();
        if is_free {
            self.run(server, Box::new(|server| server.persistence.rewrite_if_due(server)));
        }
        is_free
    }

    /// Has the saver's thread do the job; where there is none, as in tests, this one does.
    pub(super) fn run(&self, server: &ServerState, job: Job) {
        let jobs = no_preempt(|| self.jobs.lock().clone());
        match jobs {
            Some(jobs) => drop(jobs.send(job)),
            None => job(server),
        }
    }

    /// The same, and waits for what it returns; `None` if the thread ends, or panics.
    pub(super) fn run_and_wait<R: Send + 'static>(
        &self,
        server: &ServerState,
        job: impl FnOnce(&ServerState) -> R + Send + 'static,
    ) -> Option<R> {
        let (done, receiver) = oneshot::channel();
        self.run(server, Box::new(move |server| drop(done.send(job(server)))));
        wait(receiver).ok()
    }

    /// Ends what goes on: the server ends.
    pub(super) fn stop(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.jobs.lock().take();
        if let Some(save) = &self.status.lock().running {
            save.give_up();
        }
    }

    /// See [`Saver::end`].
    pub(super) fn end(&self, server: &ServerState) -> anyhow::Result<()> {
        self.log.close(server);
        if let Some(error) = self.load_failed.lock().take() {
            return Err(error);
        }
        let changes = changes(server);
        let (saves, is_saved) = self.with_status(|status| {
            let saves = status.saves_at_end.unwrap_or(self.saves_by_default());
            (saves, status.file_changes == Some(changes))
        });
        // What was not read to its end would be lost.
        if !saves || self.is_loading() || (is_saved && self.place.read().path().exists()) {
            return Ok(());
        }
        let begun = self.begin(server, false);
        let (save, image) = begun.map_err(|_| anyhow::anyhow!("a save has not ended"))?;
        Ok(self.save(server, &save, image)?)
    }
}

/// What is known of the uses of keys, and matters.
pub(super) fn uses_of(server: &ServerState) -> Uses {
    match server.evictions.policy() {
        policy if policy.is_lfu() => Uses::Frequency,
        policy if policy.is_lru() => Uses::IdleTime,
        _ => Uses::Nothing,
    }
}

/// A save ends, however it does.
struct Ended<'p>(&'p Persistence);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        // Those who wait for it are told when its last share is dropped.
        self.0.with_status(|status| status.running = None);
    }
}
