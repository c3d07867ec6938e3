//! Recorded arrivals: files with one per line.
//!
//! ```text
//! # seconds  type, or command
//! 0.000000   GET
//! 0.000125   GET
//! 0.000130   LRANGE big 0 -1
//! ```
//!
//! A file is read twice: before a run to check all of it, and during the run by a thread of its own
//! that keeps a bounded number of arrivals ahead. It may be larger than the memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use rand::RngExt;

use crate::arrivals::stream_rng;
use crate::lot::Lot;

/// Longest line.
const LINE_BYTES_MAX: u64 = 4096;

/// Types that a file may name where no mix does.
const TYPES_MAX: usize = 256;

/// Latest arrival, in seconds from the first: a hundred days.
const TIME_S_MAX: f64 = 8.64e6;

/// Arrivals that are handed over at once, and how many times as many are read ahead.
const CHUNK_ARRIVALS: usize = 4096;
const CHUNKS_AHEAD: usize = 8;

/// Random stream of the types of lines that name none.
const TYPE_STREAM: u64 = 2 << 32;

/// What the second column of a file stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum TraceTypes {
    /// Names of these types. Lines without one are of a type drawn by the weights.
    Named(Vec<(String, f64)>),
    /// Commands: each that occurs is a type. Every line has one.
    Commands,
}

/// A file whose every line has been checked.
#[derive(Debug, Clone)]
pub struct Trace {
    path: PathBuf,
    speed: f64,
    /// What stands in the second column, by the type's number.
    columns: Vec<String>,
    /// For lines with one column.
    lot: Option<Lot>,
    counts: Vec<u64>,
    unnamed: u64,
    length_ns: u64,
}

/// Why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{path}:{line}: {reason}")]
    Line {
        /// The file.
        path: String,
        /// The line's number, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// There are no arrivals.
    #[error("{path} has no arrivals")]
    Empty {
        /// The file.
        path: String,
    },
    /// The speed is out of its range.
    #[error("a trace's speed is a number above 0, not {speed}")]
    Speed {
        /// The speed.
        speed: f64,
    },
}

/// One arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceArrival {
    /// Number of its type.
    pub(crate) index: usize,
    /// Nanoseconds after the first.
    pub(crate) at_ns: u64,
}

impl Trace {
    /// Reads the whole file and checks it. Times count from the first line's and pass `speed` times
    /// as fast.
    ///
    /// # Errors
    /// [`TraceError`] says which line is wrong and why.
    pub fn open(path: &Path, speed: f64, types: TraceTypes) -> Result<Self, TraceError> {
        if !(speed.is_finite() && speed > 0.0) {
            return Err(TraceError::Speed { speed });
        }
        let (columns, lot, may_grow) = match types {
            TraceTypes::Named(types) => {
                let lot = Lot::new(types.iter().map(|(_, weight)| *weight));
                let names: Vec<_> = types.into_iter().map(|(name, _)| name).collect();
                (names, lot, false)
            }
            TraceTypes::Commands => (Vec::new(), None, true),
        };
        let mut trace = Self {
            path: path.to_owned(),
            speed,
            counts: vec![0; columns.len()],
            columns,
            lot,
            unnamed: 0,
            length_ns: 0,
        };
        let mut lines = Lines::open(path)?;
        let mut any = false;
        while let Some((at_s, column)) = lines.next_arrival()? {
            any = true;
            trace.length_ns = trace.scaled_ns(at_s);
            let Some(column) = column else {
                if trace.lot.is_none() {
                    return Err(lines.fault("there is no command after the time"));
                }
                trace.unnamed += 1;
                continue;
            };
            let index = match trace.columns.iter().position(|known| known == column) {
                Some(index) => index,
                None if !may_grow => {
                    let reason = format!(
                        "there is no type `{column}`, only {}",
                        trace.columns.join(", ")
                    );
                    return Err(lines.fault(&reason));
                }
                None if trace.columns.len() == TYPES_MAX => {
                    let reason = format!(
                        "more than {TYPES_MAX} different commands; name types of a mix instead"
                    );
                    return Err(lines.fault(&reason));
                }
                None => {
                    trace.columns.push(column.to_owned());
                    trace.counts.push(0);
                    trace.columns.len() - 1
                }
            };
            trace.counts[index] += 1;
        }
        any.then_some(trace).ok_or_else(|| TraceError::Empty {
            path: path.display().to_string(),
        })
    }

    /// What the second column says for each type: names, or commands in the order in which they
    /// occur.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many times as fast as recorded it is replayed.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Time from the first arrival to the last when replayed, in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Requests per second of each type, averaged over the whole file.
    #[must_use]
    pub fn rates_rps(&self) -> Vec<f64> {
        let length_s = self.length_ns.max(1) as f64 / 1e9;
        let unnamed = |index: usize| {
            let part = self.lot.as_ref().map_or(0.0, |lot| lot.part(index));
            part * self.unnamed as f64
        };
        let counts = self.counts.iter().enumerate();
        counts
            .map(|(index, &count)| (count as f64 + unnamed(index)) / length_s)
            .collect()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates"
    )]
    fn scaled_ns(&self, at_s: f64) -> u64 {
        (at_s * 1e9 / self.speed).round() as u64
    }

    /// Starts to read the arrivals of the types that `wanted` says yes to. The same `seed` gives
    /// lines without a type the same types in every replay.
    ///
    /// # Errors
    /// When the file cannot be opened or there can be no thread.
    pub(crate) fn replay(
        &self,
        seed: u64,
        wanted: impl Fn(usize) -> bool + Send + 'static,
    ) -> io::Result<Replay> {
        let lines = Lines::open(&self.path).map_err(io::Error::other)?;
        let (sender, chunks) = mpsc::sync_channel(CHUNKS_AHEAD);
        let trace = self.clone();
        thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || trace.read_ahead(lines, seed, &wanted, &sender))?;
        Ok(Replay {
            chunks,
            current: Vec::new().into_iter(),
        })
    }

    fn read_ahead(
        &self,
        mut lines: Lines,
        seed: u64,
        wanted: &dyn Fn(usize) -> bool,
        sender: &SyncSender<io::Result<Vec<TraceArrival>>>,
    ) {
        let mut rng = stream_rng(seed, TYPE_STREAM);
        let mut chunk = Vec::with_capacity(CHUNK_ARRIVALS);
        loop {
            let index = match lines.next_arrival() {
                Ok(None) => break,
                Ok(Some((at_s, column))) => {
                    let index = match (column, &self.lot) {
                        (Some(column), _) => self.columns.iter().position(|it| it == column),
                        (None, Some(lot)) => Some(lot.draw(rng.random()).0),
                        (None, None) => None,
                    };
                    // A file that was changed after it was checked.
                    index
                        .map(|index| (index, at_s))
                        .ok_or_else(|| lines.fault("the file has changed since the run began"))
                }
                Err(error) => Err(error),
            };
            match index {
                Ok((index, at_s)) => chunk.extend(wanted(index).then(|| TraceArrival {
                    index,
                    at_ns: self.scaled_ns(at_s),
                })),
                Err(error) => {
                    let _ = sender.send(Ok(std::mem::take(&mut chunk)));
                    let _ = sender.send(Err(io::Error::other(error)));
                    return;
                }
            }
            if chunk.len() == CHUNK_ARRIVALS {
                let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_ARRIVALS));
                if sender.send(Ok(full)).is_err() {
                    // The run has ended before the file.
                    return;
                }
            }
        }
        let _ = sender.send(Ok(chunk));
    }
}

/// The arrivals of a file, read ahead by a thread that ends with this.
#[derive(Debug)]
pub(crate) struct Replay {
    chunks: Receiver<io::Result<Vec<TraceArrival>>>,
    current: std::vec::IntoIter<TraceArrival>,
}

impl Replay {
    /// The next arrival; `None` after the last.
    ///
    /// # Errors
    /// When the file can no longer be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<TraceArrival>> {
        loop {
            if let Some(arrival) = self.current.next() {
                return Ok(Some(arrival));
            }
            match self.chunks.recv() {
                Ok(chunk) => self.current = chunk?.into_iter(),
                Err(_) => return Ok(None),
            }
        }
    }
}

/// The lines of a file that have an arrival.
struct Lines {
    input: BufReader<File>,
    path: String,
    line: Vec<u8>,
    number: u64,
    first_s: Option<f64>,
    last_s: f64,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Ok(Self {
                input: BufReader::new(file),
                path: name,
                line: Vec::new(),
                number: 0,
                first_s: None,
                last_s: 0.0,
            }),
            Err(source) => Err(TraceError::Read { path: name, source }),
        }
    }

    fn fault(&self, reason: &str) -> TraceError {
        TraceError::Line {
            path: self.path.clone(),
            line: self.number,
            reason: reason.to_owned(),
        }
    }

    /// The next arrival: seconds after the first, and the second column.
    fn next_arrival(&mut self) -> Result<Option<(f64, Option<&str>)>, TraceError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut bounded = self.input.by_ref().take(LINE_BYTES_MAX + 1);
            let count = bounded
                .read_until(b'\n', &mut self.line)
                .map_err(|source| TraceError::Read {
                    path: self.path.clone(),
                    source,
                })?;
            if count == 0 {
                return Ok(None);
            }
            if count as u64 > LINE_BYTES_MAX {
                return Err(self.fault(&format!("more than {LINE_BYTES_MAX} bytes")));
            }
            let text = self.line.trim_ascii();
            if !text.is_empty() && text[0] != b'#' {
                break;
            }
        }
        let (time, column) = match str::from_utf8(&self.line) {
            Ok(text) => {
                let text = text.trim();
                let time = text.split_whitespace().next().unwrap_or_default();
                let column = text[time.len()..].trim_start();
                (time, (!column.is_empty()).then_some(column))
            }
            Err(_) => return Err(self.fault("it is not UTF-8")),
        };
        let Some(time_s) = time.parse().ok().filter(|time: &f64| time.is_finite()) else {
            return Err(self.fault(&format!("`{time}` is not a time in seconds")));
        };
        let first_s = *self.first_s.get_or_insert(time_s);
        let at_s = time_s - first_s;
        if at_s < self.last_s {
            let reason = format!("time {time} lies before that of the line before");
            return Err(self.fault(&reason));
        }
        if at_s > TIME_S_MAX {
            let reason = format!("time {time} is more than {TIME_S_MAX} s after the first");
            return Err(self.fault(&reason));
        }
        self.last_s = at_s;
        Ok(Some((at_s, column)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        file
    }

    fn named() -> TraceTypes {
        TraceTypes::Named(vec![("GET".to_owned(), 3.0), ("SET".to_owned(), 1.0)])
    }

    fn all(mut replay: Replay) -> Vec<(usize, u64)> {
        let arrivals = std::iter::from_fn(|| replay.next().unwrap());
        arrivals.map(|each| (each.index, each.at_ns)).collect()
    }

    #[test]
    fn times_count_from_the_first_and_are_scaled() {
        let file = file(b"# seconds, type\n\n100.5 SET\n100.75\tGET\r\n101 SET");
        let trace = Trace::open(file.path(), 2.0, named()).unwrap();
        assert_eq!(trace.length_ns(), 250_000_000);
        assert_eq!(trace.rates_rps(), [4.0, 8.0]);
        let arrivals = all(trace.replay(1, |_| true).unwrap());
        assert_eq!(arrivals, [(1, 0), (0, 125_000_000), (1, 250_000_000)]);
        let of_get = all(trace.replay(1, |index| index == 0).unwrap());
        assert_eq!(of_get, [(0, 125_000_000)]);
    }

    #[test]
    fn lines_without_a_type_get_one_by_weight_and_seed() {
        let text: String = (0..20_000).map(|line| format!("{line}\n")).collect();
        let file = file(text.as_bytes());
        let trace = Trace::open(file.path(), 1.0, named()).unwrap();
        let arrivals = all(trace.replay(7, |_| true).unwrap());
        assert_eq!(arrivals.len(), 20_000);
        let gets = arrivals.iter().filter(|(index, _)| *index == 0).count();
        assert!((14_500..15_500).contains(&gets), "{gets}");
        // Threads that replay their own types agree on whose they are.
        assert_eq!(
            all(trace.replay(7, |index| index == 0).unwrap()).len(),
            gets
        );
        assert_ne!(all(trace.replay(8, |_| true).unwrap()), arrivals);
    }

    #[test]
    fn commands_become_types() {
        let file = file(b"0 GET a\n1 LRANGE big 0 -1\n2 GET a\n");
        let trace = Trace::open(file.path(), 1.0, TraceTypes::Commands).unwrap();
        assert_eq!(trace.columns(), ["GET a", "LRANGE big 0 -1"]);
        let types: Vec<usize> = all(trace.replay(1, |_| true).unwrap())
            .iter()
            .map(|(index, _)| *index)
            .collect();
        assert_eq!(types, [0, 1, 0]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let long = format!("0 GET\n1 {}\n", "x".repeat(5_000));
        let many: String = (0..300)
            .map(|line| format!("{line} GET {line}\n"))
            .collect();
        for (text, types, reason) in [
            (
                &b"0 GET\n\nsoon GET\n"[..],
                named(),
                ":3: `soon` is not a time",
            ),
            (b"0 GET\n2 GET\n1 GET\n", named(), ":3: time 1 lies before"),
            (
                b"0 GET\n1 DEL\n",
                named(),
                ":2: there is no type `DEL`, only GET, SET",
            ),
            (
                b"0 GET\n1\n",
                TraceTypes::Commands,
                ":2: there is no command",
            ),
            (b"0 GET\ninf GET\n", named(), ":2: `inf` is not a time"),
            (b"0 \xff\n", named(), ":1: it is not UTF-8"),
            (b"0 GET\n1e9 GET\n", named(), ":2: time 1e9 is more than"),
            (b"# none\n", named(), "has no arrivals"),
            (long.as_bytes(), named(), ":2: more than 4096 bytes"),
            (many.as_bytes(), TraceTypes::Commands, ":257: more than 256"),
        ] {
            let file = file(text);
            let error = Trace::open(file.path(), 1.0, types)
                .unwrap_err()
                .to_string();
            assert!(error.contains(reason), "{error}");
        }
        let error = Trace::open(Path::new("no/such"), 1.0, named()).unwrap_err();
        assert!(error.to_string().contains("cannot read no/such"), "{error}");
        assert!(Trace::open(file(b"0").path(), 0.0, named()).is_err());
    }

    #[test]
    fn a_file_that_changes_is_noticed() {
        let mut file = file(b"0 GET\n");
        let trace = Trace::open(file.path(), 1.0, named()).unwrap();
        file.write_all(b"1 DEL\n").unwrap();
        let mut replay = trace.replay(1, |_| true).unwrap();
        assert!(replay.next().unwrap().is_some());
        let error = replay.next().unwrap_err().to_string();
        assert!(error.contains(":2: the file has changed"), "{error}");
    }
}
