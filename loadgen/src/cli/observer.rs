//! Follows a run: prints the live line and writes the log, if there is one.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use psp_loadgen::clients::Observer;
use psp_loadgen::record::{HdrLog, Interval, LiveCounters};

use crate::cli::live::LiveLine;

pub(super) type Log = HdrLog<BufWriter<File>>;

pub(super) fn open_log(path: &Path, names: &[String]) -> anyhow::Result<Log> {
    let file = File::create(path).with_context(|| format!("--hdr {}", path.display()))?;
    let names = names.iter().map(String::as_str);
    Ok(HdrLog::new(BufWriter::new(file), names))
}

/// The live line, and the log if there is one.
pub(super) struct RunObserver<'a> {
    pub(super) live: LiveLine,
    hdr: Option<&'a mut Log>,
    /// The first error of the log. It ends the log.
    logged: io::Result<()>,
}

impl<'a> RunObserver<'a> {
    pub(super) fn new(names: Vec<String>, hdr: Option<&'a mut Log>) -> Self {
        Self { live: LiveLine::new(names), hdr, logged: Ok(()) }
    }

    /// Returns whether the log was written.
    pub(super) fn finish(self) -> io::Result<()> {
        self.logged
    }

    fn log(&mut self, write: impl FnOnce(&mut Log) -> io::Result<()>) {
        if let (Some(log), Ok(())) = (&mut self.hdr, &self.logged) {
            self.logged = write(log);
        }
    }
}

impl Observer for RunObserver<'_> {
    fn started(&mut self, measured_from: SystemTime) {
        self.log(|log| log.started(measured_from));
    }

    fn interval(&mut self, interval: &Interval) {
        self.log(|log| log.interval(interval));
    }

    fn second(&mut self, elapsed: Duration, counters: &[Arc<LiveCounters>]) {
        self.live.second(elapsed, counters);
    }
}
