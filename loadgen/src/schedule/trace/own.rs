//! The generator's own format: a time, and the name of a type or a command.

use super::lines::{Lines, TraceError};
use super::parse::{Entry, Found, Parse};
use super::times::parse_time;

pub(super) struct OwnParser;

impl Parse for OwnParser {
    fn next(&mut self, lines: &mut Lines, entry: &mut Entry) -> Result<Found, TraceError> {
        while lines.advance()? {
            let text = lines.text()?;
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let (time, column) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            entry.time_s =
                parse_time(time).map_err(|reason| lines.fault(reason + " (--trace-format names other formats)"))?;
            entry.column.clear();
            entry.column.push_str(column.trim_start());
            return Ok(Found::Request);
        }
        Ok(Found::End)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::all;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_a_time_and_what_is_behind_it() {
        let text = "\u{feff}# time\n\n 5 GET a  b \r\n2024-05-01T12:00:00Z\tGET\n1e3";
        let found = all(&mut OwnParser, text.as_bytes()).unwrap();
        let columns = [(5.0, "GET a  b"), (1_714_564_800.0, "GET"), (1e3, "")];
        assert_eq!(found, columns.map(|(time_s, text)| (time_s, text.to_owned())));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = all(&mut OwnParser, &bytes);
        }
    }
}
