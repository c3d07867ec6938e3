//! Reads recorded arrivals ahead of a run, on a thread of its own.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::{io, thread};

use psp_sim::random::stream_rng;
use rand::RngExt;

use super::columns::Place;
use super::file::Trace;
use super::lines::Lines;

/// Arrivals in a chunk, and chunks that are read ahead.
const CHUNK_ARRIVALS: usize = 4096;
const CHUNKS_AHEAD: usize = 8;

/// Random stream for the types of lines without a type.
const TYPE_STREAM: u64 = 2 << 32;

/// One arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceArrival {
    pub(crate) place: Place,
    /// Nanoseconds after the first.
    pub(crate) at_ns: u64,
}

impl Trace {
    /// Starts to read the arrivals of the types that `wanted` accepts. The same `seed` gives lines
    /// without a type the same types in every replay.
    ///
    /// # Errors
    /// When the file cannot be opened or the thread cannot start.
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
            let found = match lines.next_arrival() {
                Ok(None) => break,
                Ok(Some((at_s, column))) => {
                    let place = match (column, &self.choice) {
                        (Some(column), _) => self.columns.place(column),
                        (None, Some(choice)) => Some(Place {
                            index: choice.draw(rng.random()).0,
                            command: 0,
                        }),
                        (None, None) => None,
                    };
                    // The file has changed since it was checked.
                    place
                        .map(|place| (place, at_s))
                        .ok_or_else(|| lines.fault("the file has changed since the run began"))
                }
                Err(error) => Err(error),
            };
            match found {
                Ok((place, at_s)) => chunk.extend(wanted(place.index).then(|| TraceArrival {
                    place,
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
                    // The run ended before the file.
                    return;
                }
            }
        }
        let _ = sender.send(Ok(chunk));
    }
}

/// The arrivals of a file. A thread reads them ahead and ends when this is dropped.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::trace::file::TraceTypes;
    use std::io::Write;
    use std::path::Path;

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
        arrivals
            .map(|each| (each.place.index, each.at_ns))
            .collect()
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
        // Threads that replay different types agree on the type of each line.
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
    fn several_commands_become_one_type() {
        let file = file(b"0 GET a\n1 SET b 1\n2 GET c\n3 GET a\n4 GET c\n");
        let mut trace = Trace::open(file.path(), 1.0, TraceTypes::Commands).unwrap();
        assert_eq!(trace.rates_rps(), [0.5, 0.25, 0.5]);
        trace.group(&[0, 1, 0]);
        assert_eq!(trace.rates_rps(), [1.0, 0.25]);
        let mut replay = trace.replay(1, |index| index == 0).unwrap();
        let arrivals = std::iter::from_fn(|| replay.next().unwrap());
        let commands: Vec<_> = arrivals.map(|each| each.place.command).collect();
        assert_eq!(commands, [0, 1, 0, 1]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let long = format!("0 GET\n1 {}\n", "x".repeat(5_000));
        let many: String = (0..=1 << 18)
            .map(|line| format!("0 GET {line}\n"))
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
            (
                many.as_bytes(),
                TraceTypes::Commands,
                ":262145: more than 262144",
            ),
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
