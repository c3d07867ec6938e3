//! Follows a run: prints the live line and writes logs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use psp_loadgen::clients::Observer;
use psp_loadgen::record::{Interval, IntervalLog, LiveCounters};

use crate::cli::live::LiveLine;

/// The logs of a measurement, and what each is called on the command line.
#[derive(Default)]
pub(super) struct Logs {
    logs: Vec<(&'static str, Box<dyn IntervalLog>)>,
    /// The first error. It ends the logs.
    error: Option<anyhow::Error>,
}

impl Logs {
    /// Creates the file of a log, if there shall be one.
    pub(super) fn add(
        &mut self,
        flag: &'static str,
        path: Option<&Path>,
        log: impl FnOnce(Box<dyn Write>) -> Box<dyn IntervalLog>,
    ) -> anyhow::Result<()> {
        if let Some(path) = path {
            let file = open(path).with_context(|| format!("{flag} {}", path.display()))?;
            self.logs.push((flag, log(file)));
        }
        Ok(())
    }

    fn write(&mut self, mut write: impl FnMut(&mut Box<dyn IntervalLog>) -> io::Result<()>) {
        for (flag, log) in &mut self.logs {
            if self.error.is_none() {
                self.error = write(log).context(*flag).err();
            }
        }
    }

    /// Writes buffered data. Returns whether all was written.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.write(|log| log.finish());
        self.error.take().map_or(Ok(()), Err)
    }
}

/// A file that is written anew, or standard output, where the report goes, too.
fn open(path: &Path) -> io::Result<Box<dyn Write>> {
    let is_stdout = ["-", "/dev/stdout"].map(Path::new).contains(&path);
    Ok(match is_stdout {
        true => Box::new(io::stdout()),
        false => Box::new(BufWriter::new(File::create(path)?)),
    })
}

/// The live line, and the logs.
pub(super) struct RunObserver<'a> {
    pub(super) live: LiveLine,
    logs: &'a mut Logs,
}

impl<'a> RunObserver<'a> {
    pub(super) fn new(names: Vec<String>, logs: &'a mut Logs) -> Self {
        Self { live: LiveLine::new(names), logs }
    }

    /// Returns whether the logs were written.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.logs.finish()
    }
}

impl Observer for RunObserver<'_> {
    fn started(&mut self, measured_from: SystemTime) {
        self.logs.write(|log| log.started(measured_from));
    }

    fn interval(&mut self, interval: &Interval) {
        self.logs.write(|log| log.interval(interval));
    }

    fn unwatched(&mut self, reason: &io::Error) {
        // The measurement goes on also if the line cannot be printed.
        let _ = writeln!(io::stderr(), "warning: --calm: {reason}; no request is told calm");
    }

    fn second(&mut self, elapsed: Duration, counters: &[Arc<LiveCounters>]) {
        self.live.second(elapsed, counters);
    }
}
