//! The seconds of a run as lines of JSON, each written when its second has ended.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::interval_log::IntervalLog;
use super::intervals::{Interval, TimelinePoint};

/// Writes lines during a run.
pub struct JsonLines<W: Write> {
    out: W,
    names: Vec<String>,
    /// When the current run's measurement began, in seconds of Unix time.
    began_s: f64,
}

/// One second of one type.
#[derive(Debug, Serialize)]
struct Line<'a> {
    /// When the second began, in seconds of Unix time.
    time: f64,
    #[serde(rename = "type")]
    name: &'a str,
    #[serde(flatten)]
    point: TimelinePoint,
}

impl<W: Write> JsonLines<W> {
    /// Lines of types with these names, in the plan's order.
    pub const fn new(out: W, names: Vec<String>) -> Self {
        Self { out, names, began_s: 0.0 }
    }
}

impl<W: Write> IntervalLog for JsonLines<W> {
    fn started(&mut self, measured_from: SystemTime) -> io::Result<()> {
        self.began_s = measured_from.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Ok(())
    }

    fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        let name = self.names.get(interval.type_index).map_or("", String::as_str);
        let line = Line {
            time: self.began_s + interval.second as f64,
            name,
            point: TimelinePoint::of(interval),
        };
        serde_json::to_writer(&mut self.out, &line)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use psp_sim::measure::new_histogram;

    use super::*;

    #[test]
    fn a_second_of_a_type_is_a_line() {
        let mut file = Vec::new();
        let mut lines = JsonLines::new(&mut file, vec!["GET".to_owned(), "SET".to_owned()]);
        lines.started(UNIX_EPOCH + Duration::from_millis(7_500)).unwrap();
        let mut latency_ns = new_histogram();
        for type_index in [1, 0] {
            let interval = Interval {
                type_index,
                second: 2,
                failed: 3,
                latency_ns: latency_ns.clone(),
            };
            lines.interval(&interval).unwrap();
            latency_ns.record(5_000).unwrap();
        }
        let nothing = r#""p50_us":null,"p99_us":null,"p999_us":null,"max_us":null"#;
        let text = String::from_utf8(file).unwrap();
        let (first, second) = text.split_once('\n').unwrap();
        assert_eq!(
            first,
            format!(r#"{{"time":9.5,"type":"SET","second":2,"completed":0,"failed":3,{nothing}}}"#)
        );
        assert!(second.starts_with(r#"{"time":9.5,"type":"GET","second":2,"completed":1,"failed":3,"p50_us":5."#));
    }
}
