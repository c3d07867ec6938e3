//! Reads recorded arrivals ahead of a run, on a thread of its own.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::{io, thread};

use psp_sim::random::stream_rng;
use psp_sim::workload::{ArrivalProcess, Schedule};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::columns::Place;
use super::file::{Trace, TracePace, scaled_ns};
use super::lines::TraceError;
use super::reader::Reader;
use super::seconds::Cursor;

/// Arrivals in a chunk, requests that are read for one, and chunks that are read ahead.
const CHUNK_ARRIVALS: usize = 4096;
const CHUNK_REQUESTS: usize = 1 << 16;
const CHUNKS_AHEAD: usize = 8;

/// Random stream for the types of requests without a type.
const TYPE_STREAM: u64 = 2 << 32;

/// Random stream for arrivals at a rate, that of the first type of other runs.
const ARRIVAL_STREAM: u64 = 0;

/// One arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceArrival {
    pub(crate) place: Place,
    /// Nanoseconds after the first; from the start of the run if requests are sent at a rate.
    pub(crate) at_ns: u64,
}

impl Trace {
    /// Starts to read the arrivals of the types that `wanted` accepts. The same `seed` gives requests without a type
    /// the same types in every replay. `arrivals` spaces requests that are sent at a rate.
    ///
    /// # Errors
    /// When the file cannot be opened or the thread cannot start.
    pub(crate) fn replay(
        &self,
        arrivals: ArrivalProcess,
        seed: u64,
        wanted: impl Fn(usize) -> bool + Send + 'static,
    ) -> io::Result<Replay> {
        let (sender, chunks) = mpsc::sync_channel(CHUNKS_AHEAD);
        let schedule = match self.pace {
            TracePace::Recorded { .. } => None,
            TracePace::Rate { rate_rps } => Some(Schedule::new(arrivals, rate_rps, seed, ARRIVAL_STREAM)),
        };
        let mut ahead = Ahead {
            reader: self.reader().map_err(io::Error::other)?,
            trace: self.clone(),
            schedule,
            rng: stream_rng(seed, TYPE_STREAM),
            cursor: Cursor::default(),
            turn: 0,
        };
        thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || ahead.send_all(&wanted, &sender))?;
        Ok(Replay { chunks, current: Vec::new().into_iter() })
    }
}

/// What reads ahead.
struct Ahead {
    trace: Trace,
    reader: Reader,
    /// The times of requests that are sent at a rate.
    schedule: Option<Schedule>,
    rng: Xoshiro256PlusPlus,
    cursor: Cursor,
    /// Requests of a short file that were sent in this turn.
    turn: usize,
}

impl Ahead {
    fn send_all(&mut self, wanted: &dyn Fn(usize) -> bool, sender: &SyncSender<io::Result<Vec<TraceArrival>>>) {
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_ARRIVALS);
            let mut found = Ok(None);
            for _ in 0..CHUNK_REQUESTS {
                found = self.next_arrival();
                let Ok(Some(arrival)) = found else {
                    break;
                };
                chunk.extend(wanted(arrival.place.index).then_some(arrival));
                if chunk.len() == CHUNK_ARRIVALS {
                    break;
                }
            }
            // The run may end before the file.
            let is_sent = sender.send(Ok(chunk)).is_ok();
            match found {
                Ok(Some(_)) if is_sent => {}
                Ok(_) => return,
                Err(error) => {
                    let _ = sender.send(Err(io::Error::other(error)));
                    return;
                }
            }
        }
    }

    fn next_arrival(&mut self) -> Result<Option<TraceArrival>, TraceError> {
        let found = match self.schedule {
            Some(_) => Some(self.next_in_turn()?),
            None => self.next_request()?,
        };
        let Some((place, at_s)) = found else {
            return Ok(None);
        };
        let at_ns = match (&mut self.schedule, self.trace.pace) {
            (Some(schedule), _) => schedule.next(),
            (None, TracePace::Recorded { speed }) => Some(scaled_ns(at_s, speed)),
            (None, TracePace::Rate { .. }) => None,
        };
        Ok(at_ns.map(|at_ns| TraceArrival { place, at_ns }))
    }

    /// The next request, or behind the last one the first again.
    fn next_in_turn(&mut self) -> Result<(Place, f64), TraceError> {
        let Self { trace, rng, .. } = self;
        if let Some(column) = trace.short.get(self.turn) {
            self.turn = (self.turn + 1) % trace.short.len();
            let place = match column {
                Some(number) => Some(trace.columns.places()[*number]),
                None => drawn(trace, rng),
            };
            return place.map(|place| (place, 0.0)).ok_or_else(|| self.changed());
        }
        if let Some(request) = self.next_request()? {
            return Ok(request);
        }
        self.reader = self.trace.reader()?;
        // An empty file would be read for ever.
        self.next_request()?.ok_or_else(|| self.changed())
    }

    /// The place of the next request in the file, and its recorded time.
    fn next_request(&mut self) -> Result<Option<(Place, f64)>, TraceError> {
        let Some((at_s, column)) = self.reader.next_arrival()? else {
            return Ok(None);
        };
        let place = match column {
            Some(column) => self.trace.columns.place(column),
            None => drawn(&self.trace, &mut self.rng),
        };
        let at_s = match &self.trace.seconds {
            Some(seconds) if self.schedule.is_none() => seconds.place(&mut self.cursor, at_s),
            _ => Some(at_s),
        };
        match place.zip(at_s) {
            Some(request) => Ok(Some(request)),
            None => Err(self.changed()),
        }
    }

    /// The file differs from what was checked.
    fn changed(&self) -> TraceError {
        self.reader.fault("the file has changed since the run began")
    }
}

/// The place of a request without a column.
fn drawn(trace: &Trace, rng: &mut Xoshiro256PlusPlus) -> Option<Place> {
    trace
        .choice
        .as_ref()
        .map(|choice| Place { index: choice.draw(rng.random()).0, command: 0 })
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
    use crate::schedule::trace::format::TraceFormat;
    use std::io::Write;
    use std::path::Path;

    const RECORDED: TracePace = TracePace::Recorded { speed: 1.0 };

    fn file(text: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        file
    }

    fn named() -> TraceTypes {
        TraceTypes::Named(vec![("GET".to_owned(), 3.0), ("SET".to_owned(), 1.0)])
    }

    fn commands(url: &str) -> TraceTypes {
        TraceTypes::Commands(url.parse().unwrap())
    }

    fn redis() -> TraceTypes {
        commands("redis://127.0.0.1")
    }

    fn open(path: &Path, types: TraceTypes) -> Result<Trace, TraceError> {
        Trace::open(path, TraceFormat::Own, RECORDED, types)
    }

    fn replay(
        trace: &Trace,
        seed: u64,
        wanted: impl Fn(usize) -> bool + Send + 'static,
    ) -> impl Iterator<Item = TraceArrival> {
        let mut replay = trace.replay(ArrivalProcess::Uniform, seed, wanted).unwrap();
        std::iter::from_fn(move || replay.next().unwrap())
    }

    fn all(arrivals: impl Iterator<Item = TraceArrival>) -> Vec<(usize, u64)> {
        arrivals.map(|each| (each.place.index, each.at_ns)).collect()
    }

    #[test]
    fn times_count_from_the_first_and_are_scaled() {
        let file = file(b"# seconds, type\n\n100.5 SET\n100.75\tGET\r\n101 SET");
        let pace = TracePace::Recorded { speed: 2.0 };
        let trace = Trace::open(file.path(), TraceFormat::Own, pace, named()).unwrap();
        assert_eq!(trace.length_ns(), Some(250_000_000));
        assert_eq!(trace.rates_rps(), [4.0, 8.0]);
        let arrivals = all(replay(&trace, 1, |_| true));
        assert_eq!(arrivals, [(1, 0), (0, 125_000_000), (1, 250_000_000)]);
        let of_get = all(replay(&trace, 1, |index| index == 0));
        assert_eq!(of_get, [(0, 125_000_000)]);
    }

    #[test]
    fn lines_without_a_type_get_one_by_weight_and_seed() {
        let text: String = (0..20_000).map(|line| format!("{line}\n")).collect();
        let file = file(text.as_bytes());
        let trace = open(file.path(), named()).unwrap();
        let arrivals = all(replay(&trace, 7, |_| true));
        assert_eq!(arrivals.len(), 20_000);
        let gets = arrivals.iter().filter(|(index, _)| *index == 0).count();
        assert!((14_500..15_500).contains(&gets), "{gets}");
        // Threads that replay different types agree on the type of each line.
        assert_eq!(replay(&trace, 7, |index| index == 0).count(), gets);
        assert_ne!(all(replay(&trace, 8, |_| true)), arrivals);
    }

    #[test]
    fn commands_become_types() {
        let file = file(b"0 GET a\n1 LRANGE big 0 -1\n2 GET a\n");
        let mut trace = open(file.path(), redis()).unwrap();
        let commands = trace.take_commands().into_iter();
        let texts: Vec<_> = commands.map(|command| command.text).collect();
        assert_eq!(texts, ["GET a", "LRANGE big 0 -1"]);
        let types: Vec<usize> = replay(&trace, 1, |_| true).map(|each| each.place.index).collect();
        assert_eq!(types, [0, 1, 0]);
    }

    #[test]
    fn several_commands_become_one_type() {
        let file = file(b"0 GET a\n1 SET b 1\n2 GET c\n3 GET a\n4 GET c\n");
        let mut trace = open(file.path(), redis()).unwrap();
        assert_eq!(trace.rates_rps(), [0.5, 0.25, 0.5]);
        trace.group(&[0, 1, 0]);
        assert_eq!(trace.rates_rps(), [1.0, 0.25]);
        let arrivals = replay(&trace, 1, |index| index == 0);
        let commands: Vec<_> = arrivals.map(|each| each.place.command).collect();
        assert_eq!(commands, [0, 1, 0, 1]);
    }

    #[test]
    fn requests_at_a_rate_come_in_order_all_over_again() {
        let text = b"GET /a\n\nPOST /b\nA: b\n\nGET http://a/a\nGET /a\n";
        let file = file(text);
        let pace = TracePace::Rate { rate_rps: 200.0 };
        let types = commands("http://127.0.0.1");
        let trace = Trace::open(file.path(), TraceFormat::Vegeta, pace, types).unwrap();
        assert_eq!((trace.length_ns(), trace.speed()), (None, None));
        assert_eq!(trace.rates_rps(), [100.0, 50.0, 50.0]);
        let arrivals = all(replay(&trace, 1, |_| true).take(20_000));
        let types: Vec<usize> = arrivals[19_992..].iter().map(|(index, _)| *index).collect();
        assert_eq!(types, [0, 1, 2, 0, 0, 1, 2, 0]);
        let gaps = arrivals.windows(2).map(|pair| pair[1].1 - pair[0].1);
        assert!(gaps.into_iter().all(|gap| gap.abs_diff(5_000_000) <= 1));
        // Another thread sends its types at the same times.
        let of_b = all(replay(&trace, 1, |index| index == 1).take(5_000));
        let expected: Vec<_> = arrivals.into_iter().filter(|(index, _)| *index == 1).collect();
        assert_eq!(of_b, expected);
    }

    #[test]
    fn a_type_that_is_rare_at_a_rate_does_not_wait_for_others() {
        let text = "GET /a\n".repeat(1 << 17) + "GET /b\n";
        let file = file(text.as_bytes());
        let pace = TracePace::Rate { rate_rps: 1e6 };
        let types = commands("http://127.0.0.1");
        let trace = Trace::open(file.path(), TraceFormat::Vegeta, pace, types).unwrap();
        assert_eq!(replay(&trace, 1, |index| index == 1).take(2).count(), 2);
    }

    #[test]
    fn requests_of_a_log_are_spread_over_their_second() {
        let line =
            |second: u32, request: &str| format!("a - - [10/Oct/2000:13:55:{second} -0700] \"{request}\" 200 5\n");
        let text = [
            line(10, "GET /a HTTP/1.1"),
            line(10, "-"),
            line(10, "GET /b HTTP/1.1"),
            line(12, "GET /a HTTP/1.1"),
            line(11, "GET /b HTTP/1.1"),
            line(12, "HEAD / HTTP/1.1"),
        ]
        .concat();
        let file = file(text.as_bytes());
        let pace = TracePace::Recorded { speed: 2.0 };
        let types = commands("http://127.0.0.1");
        let trace = Trace::open(file.path(), TraceFormat::AccessLog, pace, types).unwrap();
        assert_eq!(trace.length_ns(), Some(1_500_000_000));
        let ms = |at_ms: u64| at_ms * 1_000_000;
        let expected = [(0, 0), (1, ms(250)), (0, ms(1_000)), (1, ms(1_250))];
        assert_eq!(all(replay(&trace, 1, |_| true)), expected);
        let [warning] = trace.warnings() else {
            panic!("{:?}", trace.warnings());
        };
        let reason = ": 2 of 6 lines are left out, the first is line 2: the request is not METHOD";
        assert!(warning.contains(reason), "{warning}");
    }

    #[test]
    fn a_log_with_few_requests_is_refused() {
        let line =
            |request: &str, time: &str| format!("a - - [10/Oct/2000:{time} -0700] \"{request} HTTP/1.1\" 200 5\n");
        let (get, head) = (line("GET /", "13:55:36"), line("HEAD /", "13:55:36"));
        let back = line("GET /", "13:45:35");
        for (text, reason) in [
            (get.clone() + &head, None),
            (get.clone() + &back, None),
            (get.clone() + &head + &head, Some("2 of 3 lines are left out, the first is line 2: psp")),
            (get + &back + &head, Some("line 2: its time lies more than ten minutes before")),
            ("\x16\x03".to_owned(), Some("1 of 1 lines are left out, the first is line 1: it has no")),
            (String::new(), Some("has no arrivals")),
        ] {
            let file = file(text.as_bytes());
            let types = commands("http://127.0.0.1");
            let opened = Trace::open(file.path(), TraceFormat::AccessLog, RECORDED, types);
            let error = opened.err().map(|error| error.to_string());
            match (reason, &error) {
                (None, None) => {}
                (Some(reason), Some(error)) => assert!(error.contains(reason), "{error}"),
                _ => panic!("{error:?}, {reason:?}"),
            }
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        let long = format!("0 GET\n1 {}\n", "x".repeat(1 << 20));
        let many: String = (0..=1 << 18).map(|line| format!("0 GET {line}\n")).collect();
        let wide: String = (0..21).map(|line| format!("{line} MGET {{keys:{}}}\n", 100_000 - line)).collect();
        for (text, types, reason) in [
            (&b"0 GET\n\nsoon GET\n"[..], named(), ":3: `soon` is not a time"),
            (b"0 GET\n2 GET\n1 GET\n", named(), ":3: its time lies before"),
            (b"0 GET\n1 DEL\n", named(), ":2: there is no type `DEL`, only GET, SET"),
            (b"0 GET\n1\n", redis(), ":2: there is no command"),
            (b"0 GET\n1 GET {a}\n", redis(), ":2: command `GET {a}`: unknown"),
            (b"0 GET\ninf GET\n", named(), ":2: `inf` is not a time"),
            (b"0 \xff\n", named(), ":1: it is not UTF-8"),
            (b"0 GET\n1e9 GET\n", named(), ":2: its time is more than"),
            (b"# none\n", named(), "has no arrivals"),
            (long.as_bytes(), named(), ":2: more than 1048576 bytes"),
            (many.as_bytes(), redis(), ":262145: more than 262144"),
            (wide.as_bytes(), redis(), ":21: more than 262144"),
        ] {
            let file = file(text);
            let error = open(file.path(), types).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let error = open(Path::new("no/such"), named()).unwrap_err();
        assert!(error.to_string().contains("cannot read no/such"), "{error}");
    }

    #[test]
    fn what_a_format_does_not_have_is_refused() {
        let file = file(b"");
        let (http, at_a_rate) = (commands("http://127.0.0.1"), TracePace::Rate { rate_rps: 1.0 });
        for (format, pace, types, reason) in [
            (TraceFormat::Own, TracePace::Recorded { speed: 0.0 }, named(), "a trace's speed"),
            (TraceFormat::Vegeta, RECORDED, http, "give --rate"),
            (TraceFormat::Vegeta, at_a_rate, redis(), "go with http://"),
            (TraceFormat::AccessLog, RECORDED, redis(), "go with http://"),
            (TraceFormat::AccessLog, RECORDED, named(), "no types of a mix"),
        ] {
            let error = Trace::open(file.path(), format, pace, types).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    #[test]
    fn a_file_that_changes_is_noticed() {
        let mut file = file(b"0 GET\n");
        let trace = open(file.path(), named()).unwrap();
        file.write_all(b"1 DEL\n").unwrap();
        let mut replay = trace.replay(ArrivalProcess::Poisson, 1, |_| true).unwrap();
        assert!(replay.next().unwrap().is_some());
        let error = replay.next().unwrap_err().to_string();
        assert!(error.contains(":2: the file has changed"), "{error}");
        let pace = TracePace::Rate { rate_rps: 1.0 };
        file.write_all("2 GET\n".repeat(1 << 16).as_bytes()).unwrap();
        let trace = Trace::open(file.path(), TraceFormat::Own, pace, redis()).unwrap();
        file.as_file().set_len(0).unwrap();
        let mut replay = trace.replay(ArrivalProcess::Poisson, 1, |_| true).unwrap();
        let error = replay.next().unwrap_err().to_string();
        assert!(error.contains("the file has changed"), "{error}");
    }

    #[test]
    fn a_line_of_a_gigabyte_is_an_error_in_every_format() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 30).unwrap();
        for format in [TraceFormat::Own, TraceFormat::AccessLog, TraceFormat::Csv, TraceFormat::Vegeta] {
            let (types, pace) = (commands("http://127.0.0.1"), TracePace::Rate { rate_rps: 1.0 });
            let error = Trace::open(file.path(), format, pace, types).unwrap_err();
            assert!(error.to_string().contains(":1: more than 1048576 bytes"), "{error}");
        }
    }
}
