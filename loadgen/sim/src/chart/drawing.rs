//! A figure with its numbers: panels of lines, and the same numbers as CSV.

use std::fmt::Write;

/// A figure with its numbers. A series has the same index, colour and marker in every panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// Its name on the command line.
    pub name: String,
    /// The title of the figure.
    pub title: String,
    /// Names of the series.
    pub series: Vec<String>,
    /// The panels, in reading order.
    pub panels: Vec<Panel>,
    /// Panels side by side, at least 1.
    pub columns: usize,
    /// Conditions and seed, one line each.
    pub footer: Vec<String>,
}

/// One chart of a [`Drawing`].
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The title of the panel.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Points of each series by ascending x; empty where nothing was computed.
    pub lines: Vec<Vec<(f64, f64)>>,
    /// A horizontal mark, such as a service-level objective, and its name.
    pub target: Option<(f64, String)>,
    /// Named stretches of the x axis: where each begins, and its name.
    pub stretches: Vec<(f64, String)>,
    /// Whether a value holds until the next point. Otherwise lines connect points.
    pub steps: bool,
}

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Where it begins; above 0 on a logarithmic axis.
    pub from: f64,
    /// Where it ends. Values beyond it are cut off.
    pub to: f64,
    /// Whether it is logarithmic.
    pub log: bool,
    /// Values with labels of their own. Unless empty, the axis labels these values and no others.
    pub labels: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn linear(label: impl Into<String>, from: f64, to: f64) -> Self {
        Self {
            label: label.into(),
            from,
            to,
            log: false,
            labels: Vec::new(),
        }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn log(label: impl Into<String>, from: f64, to: f64) -> Self {
        Self { log: true, ..Self::linear(label, from, to) }
    }

    /// The same axis with these labels and no others.
    #[must_use]
    pub fn labelled(mut self, labels: Vec<(f64, String)>) -> Self {
        self.labels = labels;
        self
    }
}

impl Drawing {
    /// The index of the series of that name.
    #[must_use]
    pub fn series_index(&self, name: &str) -> Option<usize> {
        self.series.iter().position(|series| series == name)
    }

    /// Whether any panel has a point.
    #[must_use]
    pub fn has_points(&self) -> bool {
        let mut lines = self.panels.iter().flat_map(|panel| &panel.lines);
        lines.any(|line| !line.is_empty())
    }

    /// The numbers behind the figure: `figure,panel,series,x_label,x,y_label,y`, without a header.
    #[must_use]
    pub fn csv_rows(&self) -> String {
        let mut rows = String::new();
        for panel in &self.panels {
            for (series, line) in self.series.iter().zip(&panel.lines) {
                for (x, y) in line {
                    let cells = [
                        field(&self.name),
                        field(&panel.title),
                        field(series),
                        field(&panel.x.label),
                        x.to_string(),
                        field(&panel.y.label),
                        y.to_string(),
                    ];
                    let _ = writeln!(rows, "{}", cells.join(","));
                }
            }
        }
        rows
    }
}

/// The header of [`Drawing::csv_rows`].
pub const CSV_HEADER: &str = "figure,panel,series,x_label,x,y_label,y\n";

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

impl Panel {
    /// A panel without points.
    #[must_use]
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            lines: Vec::new(),
            target: None,
            stretches: Vec::new(),
            steps: false,
        }
    }

    /// The value of a series at `x`, interpolated between two points (by logarithms on logarithmic
    /// axes). `None` outside of its points.
    #[must_use]
    pub fn value_at(&self, series: usize, x: f64) -> Option<f64> {
        let line = self.lines.get(series)?;
        let exact = line.iter().find(|(at, _)| *at == x);
        exact.map(|(_, y)| *y).or_else(|| {
            let pair = line.windows(2).find(|pair| pair[0].0 < x && x < pair[1].0)?;
            Some(self.y.between(pair[0], pair[1], x))
        })
    }

    /// The largest x up to which a series stays at or below `limit`. `None` when its first point is
    /// above.
    #[must_use]
    pub fn reach(&self, series: usize, limit: f64) -> Option<f64> {
        let line = self.lines.get(series)?;
        let above = line.iter().position(|(_, y)| *y > limit);
        match above {
            None => line.last().map(|(x, _)| *x),
            Some(0) => None,
            Some(position) => {
                let ((x0, y0), (x1, y1)) = (line[position - 1], line[position]);
                let scale = |y: f64| self.y.scaled(y);
                let part = (scale(limit) - scale(y0)) / (scale(y1) - scale(y0));
                Some(x0 + part * (x1 - x0))
            }
        }
    }
}

impl Axis {
    /// The position of a value on the axis: its logarithm on a logarithmic axis.
    pub(super) fn scaled(&self, value: f64) -> f64 {
        if self.log {
            value.max(f64::MIN_POSITIVE).log10()
        } else {
            value
        }
    }

    fn unscaled(&self, position: f64) -> f64 {
        if self.log { 10f64.powf(position) } else { position }
    }

    fn between(&self, (x0, y0): (f64, f64), (x1, y1): (f64, f64), x: f64) -> f64 {
        let (y0, y1) = (self.scaled(y0), self.scaled(y1));
        self.unscaled(y0 + (x - x0) / (x1 - x0) * (y1 - y0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(line: &[(f64, f64)]) -> Panel {
        Panel {
            title: "overall, all types".to_owned(),
            x: Axis::linear("load", 0.0, 1.0),
            y: Axis::log("slowdown", 1.0, 1000.0),
            lines: vec![line.to_vec()],
            target: None,
            stretches: Vec::new(),
            steps: false,
        }
    }

    #[test]
    fn values_between_points_follow_the_axis() {
        let panel = panel(&[(0.2, 1.0), (0.4, 100.0)]);
        assert_eq!(panel.value_at(0, 0.2), Some(1.0));
        assert!((panel.value_at(0, 0.3).unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(panel.value_at(0, 0.5), None);
        assert_eq!(panel.value_at(1, 0.3), None);
    }

    #[test]
    fn reach_ends_at_the_first_crossing() {
        let panel = panel(&[(0.2, 1.0), (0.4, 100.0), (0.6, 2.0)]);
        assert!((panel.reach(0, 10.0).unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(panel.reach(0, 100.0), Some(0.6));
        assert_eq!(panel.reach(0, 0.5), None);
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let drawing = Drawing {
            name: "figure-1".to_owned(),
            title: "A figure".to_owned(),
            series: vec!["one \"quoted\"".to_owned()],
            panels: vec![panel(&[(0.25, 1.5)])],
            columns: 1,
            footer: Vec::new(),
        };
        assert_eq!(
            drawing.csv_rows(),
            "figure-1,\"overall, all types\",\"one \"\"quoted\"\"\",load,0.25,slowdown,1.5\n"
        );
    }
}
