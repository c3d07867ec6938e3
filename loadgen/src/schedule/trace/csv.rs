//! CSV of RFC 4180 with a line of heads: `time`, `request` and `type` in any order, among others.

use csv_core::{ReadRecordResult, Reader};

use super::lines::{LINE_BYTES_MAX, Lines, TraceError};
use super::parse::{Entry, Found, Parse};
use super::times::parse_time;

/// Most columns.
const COLUMNS_MAX: usize = 256;

/// Separates a type from the request behind it.
const SEPARATOR: char = '\0';

pub(super) struct CsvParser {
    reader: Reader,
    /// Bytes of the present line that are read.
    used: usize,
    /// A record: its fields and their ends.
    fields: Vec<u8>,
    ends: [usize; COLUMNS_MAX],
    len: usize,
    heads: Option<Heads>,
    /// Whether requests only name types.
    are_named: bool,
}

/// Numbers of the columns.
#[derive(Debug, Clone, Copy)]
struct Heads {
    time: usize,
    /// Only names of types may lack it.
    request: Option<usize>,
    type_name: Option<usize>,
}

impl CsvParser {
    pub(super) fn new(are_named: bool) -> Self {
        Self {
            reader: Reader::new(),
            used: 0,
            fields: vec![0; LINE_BYTES_MAX],
            ends: [0; COLUMNS_MAX],
            len: 0,
            heads: None,
            are_named,
        }
    }

    /// Reads the next record. Returns whether there is one.
    fn read(&mut self, lines: &mut Lines) -> Result<bool, TraceError> {
        let (mut written, mut ended) = (0, 0);
        loop {
            if self.used == lines.line().len() {
                self.used = 0;
                // The reader learns the end of the file from an empty line.
                lines.advance()?;
            }
            let (result, used, bytes, ends) = self.reader.read_record(
                &lines.line()[self.used..],
                &mut self.fields[written..],
                &mut self.ends[ended..],
            );
            self.used += used;
            written += bytes;
            ended += ends;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => {
                    let reason = format!("a record of more than {LINE_BYTES_MAX} bytes");
                    return Err(lines.fault(reason));
                }
                ReadRecordResult::OutputEndsFull => {
                    return Err(lines.fault(format!("more than {COLUMNS_MAX} columns")));
                }
                ReadRecordResult::Record => {
                    self.len = ended;
                    return Ok(true);
                }
                ReadRecordResult::End => return Ok(false),
            }
        }
    }

    /// The field of that number without blanks at its ends; empty if the record is shorter.
    fn field(&self, number: usize, lines: &Lines) -> Result<&str, TraceError> {
        let ends = &self.ends[..self.len];
        let start = number.checked_sub(1).map_or(Some(0), |it| ends.get(it).copied());
        let (Some(start), Some(&end)) = (start, ends.get(number)) else {
            return Ok("");
        };
        lines.utf8(self.fields[start..end].trim_ascii())
    }

    /// The columns that the line of heads names.
    fn read_heads(&self, lines: &Lines) -> Result<Heads, TraceError> {
        let find = |name: &str| -> Result<Option<usize>, TraceError> {
            for number in 0..self.len {
                if self.field(number, lines)?.eq_ignore_ascii_case(name) {
                    return Ok(Some(number));
                }
            }
            Ok(None)
        };
        let heads = (find("time")?, find("request")?, find("type")?);
        let (Some(time), request, type_name) = heads else {
            return Err(lines.fault("the first line names no column `time`"));
        };
        if request.is_none() && !(self.are_named && type_name.is_some()) {
            return Err(lines.fault("the first line names no column `request`"));
        }
        Ok(Heads { time, request, type_name })
    }
}

impl Parse for CsvParser {
    fn next(&mut self, lines: &mut Lines, entry: &mut Entry) -> Result<Found, TraceError> {
        loop {
            if !self.read(lines)? {
                return Ok(Found::End);
            }
            let Some(heads) = self.heads else {
                self.heads = Some(self.read_heads(lines)?);
                continue;
            };
            let time = parse_time(self.field(heads.time, lines)?);
            entry.time_s = time.map_err(|reason| lines.fault(reason))?;
            let optional = |number: Option<usize>| number.map_or(Ok(""), |it| self.field(it, lines));
            let type_name = optional(heads.type_name)?;
            let request = optional(heads.request)?;
            entry.column.clear();
            if self.are_named {
                let name = heads.type_name.map_or(request, |_| type_name);
                entry.column.push_str(name);
            } else if !request.is_empty() {
                entry.column.push_str(type_name);
                entry.column.push(SEPARATOR);
                entry.column.push_str(request);
            }
            return Ok(Found::Request);
        }
    }
}

/// The type and the request of a column.
pub(super) fn split(column: &str) -> (Option<&str>, &str) {
    let (type_name, request) = column.split_once(SEPARATOR).unwrap_or(("", column));
    ((!type_name.is_empty()).then_some(type_name), request)
}

#[cfg(test)]
mod tests {
    use super::super::parse::all;
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str, are_named: bool) -> Result<Vec<(f64, String)>, String> {
        all(&mut CsvParser::new(are_named), text.as_bytes())
    }

    #[test]
    fn columns_stand_in_any_order_and_have_quotes() {
        let text = "\u{feff}host,Request, TIME \r\n\
                    a,GET /,5\r\n\
                    \n\
                    \"b\nc\",\"POST /a '{\"\"id\"\": 1,\n2}'\",2024-05-01 12:00:00Z\n\
                    d,\"\",7";
        let found = read(text, false).unwrap();
        let columns = [(5.0, "\0GET /"), (1_714_564_800.0, "\0POST /a '{\"id\": 1,\n2}'"), (7.0, "")];
        assert_eq!(found, columns.map(|(time_s, text)| (time_s, text.to_owned())));
        assert_eq!(split("\0GET /"), (None, "GET /"));
    }

    #[test]
    fn types_stand_before_requests_or_alone() {
        let text = "time,type,request\n1,gold,GET a\n2,,GET a\n3,gold\n";
        let column = |text: &str| read(text, false).unwrap().pop().unwrap().1;
        assert_eq!(column(&text[..30]), "gold\0GET a");
        assert_eq!(split("gold\0GET a"), (Some("gold"), "GET a"));
        let names = |text: &str| -> Vec<String> {
            let found = read(text, true).unwrap().into_iter();
            found.map(|(_, name)| name).collect()
        };
        assert_eq!(names(text), ["gold", "", "gold"]);
        assert_eq!(names("time,type\n1,gold\n"), ["gold"]);
        assert_eq!(names("time,request\n1,GET\n"), ["GET"]);
    }

    #[test]
    fn wrong_files_are_refused_with_the_line() {
        let long = format!("time,request\n1,\"{}", "x\n".repeat(LINE_BYTES_MAX / 2));
        let wide = ",".repeat(COLUMNS_MAX);
        for (text, are_named, reason) in [
            ("1,GET\n", false, ":1: the first line names no column `time`"),
            ("time\n", false, ":1: the first line names no column `request`"),
            ("time,type\n", false, "no column `request`"),
            ("time\n", true, "no column `request`"),
            ("time,request\n1,a\nsoon,b", false, ":3: `soon` is not a time"),
            (&long, false, "a record of more than 1048576 bytes"),
            (&wide, false, ":1: more than 256 columns"),
        ] {
            let error = read(text, are_named).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, near in "[\",\r\na1é]{0,60}", are_named: bool) {
            let _ = all(&mut CsvParser::new(are_named), &bytes);
            let _ = read(&near, are_named);
            let _ = read(&format!("time,request,type\n1,a,b\n{near}"), are_named);
        }
    }
}
