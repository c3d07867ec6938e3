//! Tables for people: aligned text and Markdown.

use std::fmt::{self, Write as _};

/// Rows of cells under heads. The first columns hold names and are left-aligned. The others hold
/// figures and are right-aligned.
#[derive(Debug, Clone)]
pub struct Table {
    name_columns: usize,
    /// Titles over several columns: the first of them, and the title.
    groups: Vec<(usize, &'static str)>,
    /// The heads, then the rows.
    lines: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows. Its first `name_columns` columns hold names.
    pub fn new<'a>(name_columns: usize, heads: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name_columns,
            groups: Vec::new(),
            lines: vec![heads.into_iter().map(str::to_owned).collect()],
        }
    }

    /// Puts `title` over the heads from column `first` on.
    #[must_use]
    pub fn group(mut self, first: usize, title: &'static str) -> Self {
        self.groups.push((first, title));
        self
    }

    /// Adds a row with as many cells as there are heads.
    pub fn push(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.lines[0].len());
        self.lines.push(cells);
    }

    /// Whether there are heads and nothing under them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.len() == 1
    }

    /// The same table in Markdown. Titles of groups stand before each of their heads.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (index, line) in self.lines.iter().enumerate() {
            let cells = line.iter().map(|cell| cell.replace('|', "\\|"));
            if index > 0 {
                markdown_line(&mut text, cells);
            } else {
                let titled = |(column, head): (usize, String)| match self.title(column) {
                    Some(title) => format!("{title} {head}"),
                    None => head,
                };
                markdown_line(&mut text, cells.enumerate().map(titled));
                let rule = |column| {
                    if column < self.name_columns { "---" } else { "---:" }
                };
                markdown_line(&mut text, (0..line.len()).map(rule));
            }
        }
        text
    }

    /// The same table in HTML. Titles of groups stand before each of their heads.
    #[must_use]
    pub fn html(&self) -> String {
        let mut text = String::from("<table>\n");
        for (index, line) in self.lines.iter().enumerate() {
            let tag = if index == 0 { "th" } else { "td" };
            text.push_str("<tr>");
            for (column, cell) in line.iter().enumerate() {
                let class = if column < self.name_columns {
                    ""
                } else {
                    " class=\"figure\""
                };
                let title = self.title(column).filter(|_| index == 0);
                let title = title.map_or_else(String::new, |title| format!("{title} "));
                let cell = escaped(&(title + cell));
                // Writing to a string does not fail.
                let _ = write!(text, "<{tag}{class}>{cell}</{tag}>");
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</table>\n");
        text
    }

    /// The title of the group of a column: the last group that begins at or before it.
    fn title(&self, column: usize) -> Option<&'static str> {
        let mut groups = self.groups.iter().rev();
        groups.find(|(first, _)| *first <= column).map(|(_, title)| *title)
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.lines.iter().map(|line| line[column].chars().count());
            cells.max().unwrap_or(0)
        };
        (0..self.lines[0].len()).map(width).collect()
    }
}

fn markdown_line(text: &mut String, cells: impl Iterator<Item: AsRef<str>>) {
    text.push('|');
    for cell in cells {
        text.push(' ');
        text.push_str(cell.as_ref());
        text.push_str(" |");
    }
    text.push('\n');
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let mut titles = String::new();
        for &(first, title) in &self.groups {
            let start: usize = widths[..first].iter().map(|width| width + GAP.len()).sum();
            let gap = start.saturating_sub(titles.chars().count());
            write!(titles, "{:gap$}{title}", "")?;
        }
        if !titles.is_empty() {
            writeln!(f, "{titles}")?;
        }
        for line in &self.lines {
            let mut text = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                if column > 0 {
                    text.push_str(GAP);
                }
                if column < self.name_columns {
                    write!(text, "{cell:<width$}")?;
                } else {
                    write!(text, "{cell:>width$}")?;
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

/// Text as it stands in HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Between columns.
const GAP: &str = "  ";

/// A number with three significant digits or all digits before the point.
#[must_use]
pub fn number(value: f64) -> String {
    let decimals = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(2, ["policy", "type", "p50", "p99"]).group(2, "latency, us");
        for cells in [["darc", "a|b", "1.00", "12.5"], ["c-fcfs", "long", "100", "7"]] {
            table.push(cells.map(str::to_owned).to_vec());
        }
        table
    }

    #[test]
    fn names_are_on_the_left_and_figures_on_the_right() {
        let expected = "              latency, us
policy  type   p50   p99
darc    a|b   1.00  12.5
c-fcfs  long   100     7
";
        assert_eq!(table().to_string(), expected);
    }

    #[test]
    fn html_escapes_what_people_named() {
        let mut table = Table::new(1, ["type", "p50"]);
        table.push(["<b>&\"", "1"].map(str::to_owned).to_vec());
        assert_eq!(
            table.html(),
            "<table>\n<tr><th>type</th><th class=\"figure\">p50</th></tr>\n\
             <tr><td>&lt;b&gt;&amp;&quot;</td><td class=\"figure\">1</td></tr>\n</table>\n"
        );
    }

    #[test]
    fn markdown_has_a_rule_and_escapes_bars() {
        let expected = "\
| policy | type | latency, us p50 | latency, us p99 |
| --- | --- | ---: | ---: |
| darc | a\\|b | 1.00 | 12.5 |
| c-fcfs | long | 100 | 7 |
";
        assert_eq!(table().markdown(), expected);
    }
}
