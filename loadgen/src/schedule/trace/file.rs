//! A file of recorded requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use psp_sim::random::WeightedChoice;

use super::columns::Columns;
use super::format::{CommandMaker, TraceCommand, TraceFormat};
use super::lines::TraceError;
use super::reader::Reader;
use super::seconds::Seconds;
use crate::wire::Target;

/// Most different commands of a file, and about the most memory that they take.
const COMMANDS_MAX: usize = 1 << 18;
const COMMAND_BYTES_MAX: usize = 1 << 28;

/// About the memory of an argument beside its text.
const ARGUMENT_BYTES: usize = 128;

/// Most requests of a file that is kept in memory if it is sent all over again.
const SHORT_MAX: usize = 1 << 16;

/// What the requests of a file are.
#[derive(Debug, Clone, PartialEq)]
pub enum TraceTypes {
    /// Each names one of these types. A request without a name gets a type at random by the weights.
    Named(Vec<(String, f64)>),
    /// Each is a command for this target. Each different command is a type, unless [`Trace::group`] makes types of
    /// several.
    Commands(Target),
}

/// When the requests of a file are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TracePace {
    /// At the times in the file, which count from the first and pass this many times as fast.
    Recorded {
        /// The factor.
        speed: f64,
    },
    /// One after the other at a rate, all over again. Times in the file do not count.
    Rate {
        /// Requests per second.
        rate_rps: f64,
    },
}

/// A checked file.
#[derive(Debug, Clone)]
pub struct Trace {
    path: PathBuf,
    format: TraceFormat,
    pub(super) pace: TracePace,
    pub(super) columns: Arc<Columns>,
    /// One for each column, until they are taken.
    commands: Vec<TraceCommand>,
    /// For requests without a column.
    pub(super) choice: Option<WeightedChoice>,
    /// Requests with each column.
    counts: Vec<u64>,
    unnamed: u64,
    /// The column of each request of a short file, which is not read again for each turn at a rate.
    pub(super) short: Arc<[Option<usize>]>,
    /// From the first arrival to the last; to the end of its second if times have seconds only.
    length_s: f64,
    pub(super) seconds: Option<Arc<Seconds>>,
    warnings: Vec<String>,
}

impl Trace {
    /// Reads and checks the whole file.
    ///
    /// # Errors
    /// [`TraceError`] says which line is wrong and why.
    pub fn open(path: &Path, format: TraceFormat, pace: TracePace, types: TraceTypes) -> Result<Self, TraceError> {
        let (choice, names, maker) = match types {
            TraceTypes::Named(types) => {
                let choice = WeightedChoice::new(types.iter().map(|(_, weight)| *weight));
                (choice, types, None)
            }
            TraceTypes::Commands(target) => (None, Vec::new(), Some(target)),
        };
        check(path, format, pace, maker.as_ref())?;
        let mut maker = maker.map(|target| CommandMaker::new(format, target));
        let mut columns = Columns::default();
        for (name, _) in &names {
            columns.push(name);
        }
        let mut trace = Self::unread(path, format, pace, choice, names.len());
        let mut reader = Reader::open(path, format, maker.is_none())?;
        let mut seconds = Seconds::default();
        let mut command_bytes = 0;
        let mut order = Vec::new();
        while let Some((at_s, column)) = reader.next_arrival()? {
            trace.length_s = at_s;
            if format.is_log() {
                seconds.push(at_s);
            }
            let Some(column) = column else {
                if trace.choice.is_none() {
                    return Err(reader.fault("there is no command"));
                }
                trace.unnamed += 1;
                push_up_to(SHORT_MAX + 1, &mut order, None);
                continue;
            };
            let number = match (columns.number(column), &mut maker) {
                (Some(number), _) => number,
                (None, None) => {
                    let names = columns.texts().join(", ");
                    let reason = format!("there is no type `{column}`, only {names}");
                    return Err(reader.fault(reason));
                }
                (None, Some(maker)) => {
                    let number = columns.push(column);
                    let command = command(maker, column, number, &mut command_bytes);
                    trace.commands.push(command.map_err(|reason| reader.fault(reason))?);
                    trace.counts.push(0);
                    number
                }
            };
            trace.counts[number] += 1;
            push_up_to(SHORT_MAX + 1, &mut order, Some(number));
        }
        trace.close(&reader, maker.as_ref(), seconds, order)?;
        trace.columns = Arc::new(columns);
        Ok(trace)
    }

    /// Of a file of which nothing has been read.
    fn unread(
        path: &Path,
        format: TraceFormat,
        pace: TracePace,
        choice: Option<WeightedChoice>,
        columns: usize,
    ) -> Self {
        Self {
            path: path.to_owned(),
            format,
            pace,
            counts: vec![0; columns],
            columns: Arc::default(),
            commands: Vec::new(),
            choice,
            unnamed: 0,
            short: Arc::default(),
            length_s: 0.0,
            seconds: None,
            warnings: Vec::new(),
        }
    }

    /// Once all has been read: `order` has the column of each request.
    fn close(
        &mut self,
        reader: &Reader,
        maker: Option<&CommandMaker>,
        seconds: Seconds,
        order: Vec<Option<usize>>,
    ) -> Result<(), TraceError> {
        let path = || self.path.display().to_string();
        self.warnings = [reader.left_out(), maker.and_then(CommandMaker::warning)]
            .into_iter()
            .flatten()
            .map(|warning| format!("{}: {warning}", path()))
            .collect();
        if let Some(left_out) = reader.left_out().filter(|_| reader.lacks_requests()) {
            return Err(TraceError::LeftOut { path: path(), left_out });
        }
        if order.is_empty() {
            return Err(TraceError::Empty { path: path() });
        }
        if self.format.is_log() {
            self.length_s += 1.0;
            self.seconds = Some(Arc::new(seconds));
        }
        if order.len() <= SHORT_MAX {
            self.short = order.into();
        }
        Ok(())
    }

    /// Opens the file again.
    pub(super) fn reader(&self) -> Result<Reader, TraceError> {
        Reader::open(&self.path, self.format, self.choice.is_some())
    }

    /// The different commands in the order of their first occurrence. They are there once.
    #[must_use]
    pub fn take_commands(&mut self) -> Vec<TraceCommand> {
        std::mem::take(&mut self.commands)
    }

    /// Makes types of several [commands](Self::take_commands): `types` has the number of each one's type. The
    /// commands of a type are numbered in their order, as in
    /// [`RequestPlan::Commands`](crate::schedule::RequestPlan::Commands).
    pub fn group(&mut self, types: &[usize]) {
        Arc::make_mut(&mut self.columns).group(types);
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The replay speed as a multiple of the recorded one; `None` if requests are sent at a rate.
    #[must_use]
    pub const fn speed(&self) -> Option<f64> {
        match self.pace {
            TracePace::Recorded { speed } => Some(speed),
            TracePace::Rate { .. } => None,
        }
    }

    /// Time from the first arrival to the last in the replay, in nanoseconds; `None` if that has no end.
    #[must_use]
    pub fn length_ns(&self) -> Option<u64> {
        let speed = self.speed()?;
        Some(scaled_ns(self.length_s, speed))
    }

    /// What the user should know of the file.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Requests per second of each type, averaged over the whole file.
    #[must_use]
    pub fn rates_rps(&self) -> Vec<f64> {
        let unnamed = |index: usize| {
            let part = self.choice.as_ref().map_or(0.0, |choice| choice.part(index));
            part * self.unnamed as f64
        };
        let mut counts = Vec::new();
        for (place, &count) in self.columns.places().iter().zip(&self.counts) {
            counts.resize(counts.len().max(place.index + 1), 0);
            counts[place.index] += count;
        }
        let requests = self.counts.iter().sum::<u64>() + self.unnamed;
        let length_s = match self.pace {
            TracePace::Recorded { speed } => scaled_ns(self.length_s, speed).max(1) as f64 / 1e9,
            TracePace::Rate { rate_rps } => requests as f64 / rate_rps,
        };
        let counts = counts.into_iter().enumerate();
        counts.map(|(index, count)| (count as f64 + unnamed(index)) / length_s).collect()
    }
}

fn push_up_to<T>(len_max: usize, items: &mut Vec<T>, item: T) {
    if items.len() < len_max {
        items.push(item);
    }
}

/// The command of the column of that number. Counts the bytes of all commands.
fn command(maker: &mut CommandMaker, column: &str, number: usize, bytes: &mut usize) -> Result<TraceCommand, String> {
    let command = maker.make(column)?;
    *bytes += column.len() + ARGUMENT_BYTES * command.template.arguments();
    if number == COMMANDS_MAX || *bytes > COMMAND_BYTES_MAX {
        return Err(format!(
            "more than {COMMANDS_MAX} different commands, or {COMMAND_BYTES_MAX} bytes of them"
        ));
    }
    Ok(command)
}

/// Checks that a file of this format can be sent so, and to this target if its requests are commands.
fn check(path: &Path, format: TraceFormat, pace: TracePace, target: Option<&Target>) -> Result<(), TraceError> {
    let path = path.display().to_string();
    match (pace, target) {
        (TracePace::Recorded { speed }, _) if !(speed.is_finite() && speed > 0.0) => Err(TraceError::Speed { speed }),
        (TracePace::Recorded { .. }, _) if !format.has_times() => Err(TraceError::NoTimes { path }),
        (_, None) if format.is_http() => Err(TraceError::NoTypes { path }),
        (_, Some(target)) if format.is_http() && !target.protocol.is_http() => Err(TraceError::NotHttp { path }),
        _ => Ok(()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates"
)]
pub(super) fn scaled_ns(at_s: f64, speed: f64) -> u64 {
    (at_s * 1e9 / speed).round() as u64
}
