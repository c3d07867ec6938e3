//! The thread that owns the log's last file: it writes what the journal has, and has the disk keep it.
//!
//! ```text
//!   journal ─ take ─► write ─► fdatasync: at once (always), each second (everysec), when the system likes (no) ─► fences
//!                       └ a cut ─► the next file
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use psp_store::Databases;

use super::{Fsync, Log};

/// Time between two looks at the journal, if nothing waits.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Time between two fsyncs of `everysec`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// The part of an fsync's time for which the next one waits for those who were released together, and the most of it.
const COMPANY_DIVISOR: u32 = 2;
const COMPANY_MAX: Duration = Duration::from_millis(1);
/// Time after which a write that failed is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Where the next bytes go.
struct Target {
    file: File,
    len: u64,
}

/// What was taken from the journal, in order.
enum Piece {
    /// Bytes, and where they end in the journal.
    Bytes(Bytes, u64),
    /// The next file begins at this place of the journal.
    Cut(u64),
}

/// What the thread knows.
pub(super) struct Writer {
    databases: Arc<Databases>,
    log: Arc<Log>,
    target: Option<Target>,
    /// What was taken and is not written yet.
    pending: VecDeque<Piece>,
    /// Where the last bytes that were written end in the journal.
    end: u64,
    /// No unit of the log has begun, but is not written yet.
    is_between_units: bool,
    /// The last time that the file has, in seconds of Unix.
    noted_s: u64,
    is_synced: bool,
    last_sync: Instant,
    sync_took: Duration,
}

impl Writer {
    fn new(databases: Arc<Databases>, log: Arc<Log>) -> Self {
        Self {
            databases,
            log,
            target: None,
            pending: VecDeque::new(),
            end: 0,
            is_between_units: false,
            noted_s: 0,
            is_synced: true,
            last_sync: Instant::now(),
            sync_took: Duration::ZERO,
        }
    }

    /// Writes until the log is [closed](Log::close), and then what is left.
    fn run(mut self) {
        loop {
            let is_closing = self.log.is_closing.load(Ordering::Acquire);
            self.take();
            let written = self.write();
            match &written {
                Ok(()) => self.log.note_written(),
                Err((what, error)) => self.log.note_failure(what, error),
            }
            let released = self.sync_if_due(is_closing);
            // At the end there is no later.
            if is_closing {
                return;
            }
            self.wait_for_company(released);
            match written {
                // What came while the disk was busy is next.
                Ok(()) if self.log.synced.waiting() > 0 => {}
                Ok(()) => self.log.sleep(LOOK_INTERVAL),
                Err(_) => self.log.sleep(RETRY_INTERVAL),
            }
        }
    }

    /// Takes what the journal has, unless much could not be written yet.
    fn take(&mut self) {
        if !self.pending.is_empty() {
            return;
        }
        let batch = self.databases.journal().take();
        let mut at = batch.begin;
        let mut cuts = batch.cuts.into_iter().peekable();
        for mut part in batch.parts {
            while let Some(cut) = cuts.next_if(|cut| *cut < at + part.len() as u64) {
                let before = part.split_to((cut - at) as usize);
                at = cut;
                self.pending.extend((!before.is_empty()).then_some(Piece::Bytes(before, at)));
                self.pending.push_back(Piece::Cut(cut));
            }
            at += part.len() as u64;
            self.pending.push_back(Piece::Bytes(part, at));
        }
        self.pending.extend(cuts.map(Piece::Cut));
        // The journal hands out whole units.
        self.is_between_units = true;
    }

    /// With `aof-timestamp-enabled`, the line that says when what follows was written: one for a second at most.
    fn time_note(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.is_between_units) || !self.log.notes_times() {
            return None;
        }
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let is_new = std::mem::replace(&mut self.noted_s, now_s) != now_s;
        is_new.then(|| format!("#TS:{now_s}\r\n"))
    }

    /// Writes what was taken.
    ///
    /// # Errors
    /// What could not be done. It is tried again.
    fn write(&mut self) -> Result<(), (&'static str, io::Error)> {
        while let Some(piece) = self.pending.front() {
            match piece {
                Piece::Bytes(..) => self.write_bytes().map_err(|error| ("write to the log", error))?,
                Piece::Cut(at) => {
                    let at = *at;
                    self.begin_file(at).map_err(|error| ("begin the next file of the log", error))?;
                    self.pending.pop_front();
                }
            }
        }
        Ok(())
    }

    /// Writes all bytes up to the next cut. If that fails, the file ends where it ended before.
    fn write_bytes(&mut self) -> io::Result<()> {
        let note = self.time_note().unwrap_or_default();
        let run = self.pending.iter().map_while(|piece| match piece {
            Piece::Bytes(bytes, end) => Some((&bytes[..], *end, 1)),
            Piece::Cut(_) => None,
        });
        let (mut count, mut end, mut len) = (0, self.end, 0);
        // What comes before the first cut belongs to no file.
        if let Some(target) = &mut self.target {
            let noted = std::iter::once((note.as_bytes(), self.end, 0));
            for (bytes, its_end, pieces) in noted.chain(run) {
                if let Err(error) = target.file.write_all(bytes) {
                    // Part of a command would end the file.
                    target.file.set_len(target.len)?;
                    return Err(error);
                }
                (count, end, len) = (count + pieces, its_end, len + bytes.len() as u64);
            }
            target.len += len;
            self.is_synced = false;
        } else {
            for (_, its_end, pieces) in run {
                (count, end) = (count + pieces, its_end);
            }
        }
        self.pending.drain(..count);
        self.end = end;
        self.log.size.fetch_add(len, Ordering::Relaxed);
        self.log.written.pass(end);
        Ok(())
    }

    /// A part of the log begins: the file that is to go on, or a new one.
    fn begin_file(&mut self, cut: u64) -> io::Result<()> {
        self.sync();
        (self.is_between_units, self.noted_s) = (true, 0);
        let (file, len, part) = self.log.open_next()?;
        self.target = Some(Target { file, len });
        self.end = cut;
        self.log.written.pass(cut);
        self.is_synced = false;
        self.log.note_cut(cut, part);
        Ok(())
    }

    /// Those who were `released` together write again at about the same time. To begin with the first of them would let
    /// the others wait for two fsyncs.
    fn wait_for_company(&self, released: usize) {
        let until = Instant::now() + (self.sync_took / COMPANY_DIVISOR).min(COMPANY_MAX);
        while released > 1 && self.log.synced.waiting() < released {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.log.sleep(left);
        }
    }

    /// Returns how many have waited for it.
    fn sync_if_due(&mut self, is_closing: bool) -> usize {
        let is_awaited = || self.log.is_sync_wanted();
        let is_due = match self.log.fsync() {
            Fsync::Always => true,
            Fsync::Everysec => self.last_sync.elapsed() >= SYNC_INTERVAL || is_awaited(),
            Fsync::No => is_awaited(),
        };
        if is_due || is_closing { self.sync() } else { 0 }
    }

    /// Has the disk keep what was written. The first failure ends that for good: what a second try would say of the
    /// same bytes is not true. Returns how many have waited for it.
    fn sync(&mut self) -> usize {
        if self.log.is_broken() {
            return 0;
        }
        if !self.is_synced
            && let Some(target) = &self.target
        {
            let began = Instant::now();
            let synced = target.file.sync_data();
            self.last_sync = Instant::now();
            self.sync_took = began.elapsed();
            self.log.note_sync(self.sync_took);
            if let Err(error) = synced {
                self.log.note_broken(&error);
                return 0;
            }
            self.is_synced = true;
        }
        self.log.synced.pass(self.end)
    }
}

/// Starts the thread.
///
/// # Errors
/// The system has no thread.
pub(super) fn start(databases: &Arc<Databases>, log: &Arc<Log>) -> io::Result<thread::JoinHandle<()>> {
    let writer = Writer::new(Arc::clone(databases), Arc::clone(log));
    thread::Builder::new().name("psp-journal".to_owned()).spawn(move || writer.run())
}
