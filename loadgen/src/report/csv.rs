//! The report of a run as comma-separated values.

use psp_sim::measure::PERCENTILE_HEADS;
use psp_sim::text::Csv;

use super::run_report::Report;

impl Report {
    /// One line for each type and one for all together, after a line of heads.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut csv = Csv::new(csv_heads().iter().map(String::as_str));
        self.push_csv(&mut csv);
        csv.into_text()
    }

    pub(crate) fn push_csv(&self, csv: &mut Csv) {
        for (name, summary) in self.summaries() {
            let start = [
                self.target.clone(),
                self.seed.to_string(),
                self.duration_s.to_string(),
                name.to_owned(),
                summary.offered_rps.to_string(),
                summary.achieved_rps.to_string(),
            ];
            let counts = [
                summary.scheduled,
                summary.sent,
                summary.completed,
                summary.errors.values().sum(),
                summary.dropped,
                summary.timeouts,
                summary.unfinished,
                summary.queued,
                summary.reconnects,
                summary.hits.unwrap_or(0),
                summary.misses.unwrap_or(0),
            ];
            let points = [summary.latency_us, summary.calm_latency_us, summary.slowdown, summary.lag_us];
            let points = points.into_iter().flat_map(|points| {
                let columns = points.map(|points| points.columns().map(|value| value.to_string()));
                columns.unwrap_or_default()
            });
            let counts = counts.iter().map(ToString::to_string);
            csv.push(start.into_iter().chain(counts).chain(points));
        }
    }
}

pub(crate) fn csv_heads() -> Vec<String> {
    let fixed = [
        "target",
        "seed",
        "duration_s",
        "type",
        "offered_rps",
        "achieved_rps",
        "scheduled",
        "sent",
        "completed",
        "errors",
        "dropped",
        "timeouts",
        "unfinished",
        "queued",
        "reconnects",
        "hits",
        "misses",
    ];
    let points = ["latency_us", "calm_latency_us", "slowdown", "lag_us"].into_iter();
    let points = points.flat_map(|figure| PERCENTILE_HEADS.map(|head| format!("{figure}_{}", head.replace('.', ""))));
    fixed.map(str::to_owned).into_iter().chain(points).collect()
}

#[cfg(test)]
mod tests {
    use crate::report::fixture::report;
    #[test]
    fn csv_has_a_line_for_each_type_and_empty_cells_for_no_figure() {
        let csv = report().csv();
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        let cell = |line: usize, head: &str| {
            let column = lines[0].iter().position(|cell| *cell == head).unwrap();
            lines[line][column]
        };
        assert_eq!((cell(1, "type"), cell(1, "errors")), ("GET", "6"));
        assert_eq!(cell(2, "latency_us_p9999"), "");
        assert!(cell(3, "lag_us_p50").parse::<f64>().unwrap() > 0.8);
    }
}
