//! Comma-separated values (RFC 4180, with line feeds).

/// Lines of cells under a line of heads.
pub struct Csv {
    text: String,
}

impl Csv {
    /// A table with a line of heads alone.
    pub fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Self {
        let mut csv = Self { text: String::new() };
        csv.push(heads.into_iter().map(str::to_owned));
        csv
    }

    /// Appends a line. A cell with a comma, a quote or a line feed is quoted.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let quoted = |cell: String| {
            if cell.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell
            }
        };
        let cells: Vec<_> = cells.into_iter().map(quoted).collect();
        self.text.push_str(&cells.join(","));
        self.text.push('\n');
    }

    /// All lines.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_would_end_a_cell() {
        let mut csv = Csv::new(["name", "p50"]);
        csv.push(["GET, \"hot\"".to_owned(), "1".to_owned()]);
        assert_eq!(csv.text, "name,p50\n\"GET, \"\"hot\"\"\",1\n");
    }
}
