//! A file of recorded arrivals.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use psp_sim::random::WeightedChoice;

use super::columns::Columns;
use super::lines::{Lines, TraceError};

/// Most different commands of a file. All are kept in memory.
const COMMANDS_MAX: usize = 1 << 18;

/// The meaning of the second column of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum TraceTypes {
    /// The column names one of these types. A line without a name gets a type at random by the
    /// weights.
    Named(Vec<(String, f64)>),
    /// The column is a command, and every line has one. Each different command is a type, unless
    /// [`Trace::group`] makes types of several.
    Commands,
}

/// A checked file.
#[derive(Debug, Clone)]
pub struct Trace {
    pub(super) path: PathBuf,
    speed: f64,
    pub(super) columns: Arc<Columns>,
    /// For lines without a second column.
    pub(super) choice: Option<WeightedChoice>,
    /// Lines with each column.
    counts: Vec<u64>,
    unnamed: u64,
    length_ns: u64,
}

impl Trace {
    /// Reads and checks the whole file. Times count from the first line and pass `speed` times as
    /// fast.
    ///
    /// # Errors
    /// [`TraceError`] says which line is wrong and why.
    pub fn open(path: &Path, speed: f64, types: TraceTypes) -> Result<Self, TraceError> {
        if !(speed.is_finite() && speed > 0.0) {
            return Err(TraceError::Speed { speed });
        }
        let mut columns = Columns::default();
        let (choice, may_grow) = match types {
            TraceTypes::Named(types) => {
                let choice = WeightedChoice::new(types.iter().map(|(_, weight)| *weight));
                for (name, _) in &types {
                    columns.push(name);
                }
                (choice, false)
            }
            TraceTypes::Commands => (None, true),
        };
        let mut trace = Self {
            path: path.to_owned(),
            speed,
            counts: vec![0; columns.texts().len()],
            columns: Arc::default(),
            choice,
            unnamed: 0,
            length_ns: 0,
        };
        let mut lines = Lines::open(path)?;
        let mut any = false;
        while let Some((at_s, column)) = lines.next_arrival()? {
            any = true;
            trace.length_ns = trace.scaled_ns(at_s);
            let Some(column) = column else {
                if trace.choice.is_none() {
                    return Err(lines.fault("there is no command after the time"));
                }
                trace.unnamed += 1;
                continue;
            };
            let number = match columns.number(column) {
                Some(number) => number,
                None if !may_grow => {
                    let reason = format!(
                        "there is no type `{column}`, only {}",
                        columns.texts().join(", ")
                    );
                    return Err(lines.fault(&reason));
                }
                None if columns.texts().len() == COMMANDS_MAX => {
                    let reason = format!(
                        "more than {COMMANDS_MAX} different commands; name types of a mix instead"
                    );
                    return Err(lines.fault(&reason));
                }
                None => {
                    trace.counts.push(0);
                    columns.push(column)
                }
            };
            trace.counts[number] += 1;
        }
        trace.columns = Arc::new(columns);
        any.then_some(trace).ok_or_else(|| TraceError::Empty {
            path: path.display().to_string(),
        })
    }

    /// The second columns: names of types, or different commands in the order of their first occurrence.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        self.columns.texts()
    }

    /// Makes types of several [columns](Self::columns): `types` has the number of each one's type. The
    /// commands of a type are numbered in the order of the columns, as in
    /// [`RequestPlan::Commands`](crate::schedule::RequestPlan::Commands).
    pub fn group(&mut self, types: &[usize]) {
        Arc::make_mut(&mut self.columns).group(types);
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The replay speed as a multiple of the recorded one.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Time from the first arrival to the last in the replay, in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Requests per second of each type, averaged over the whole file.
    #[must_use]
    pub fn rates_rps(&self) -> Vec<f64> {
        let length_s = self.length_ns.max(1) as f64 / 1e9;
        let unnamed = |index: usize| {
            let part = self
                .choice
                .as_ref()
                .map_or(0.0, |choice| choice.part(index));
            part * self.unnamed as f64
        };
        let mut counts = Vec::new();
        for (place, &count) in self.columns.places().iter().zip(&self.counts) {
            counts.resize(counts.len().max(place.index + 1), 0);
            counts[place.index] += count;
        }
        let counts = counts.into_iter().enumerate();
        counts
            .map(|(index, count)| (count as f64 + unnamed(index)) / length_s)
            .collect()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates"
    )]
    pub(super) fn scaled_ns(&self, at_s: f64) -> u64 {
        (at_s * 1e9 / self.speed).round() as u64
    }
}
