//! Formats of files.

use std::sync::Arc;

use super::access_log::AccessLogParser;
use super::csv::{self, CsvParser};
use super::own::OwnParser;
use super::parse::Parse;
use super::vegeta::{VegetaParser, VegetaTargets};
use crate::wire::{CommandTemplate, Target};

/// The format of a file of recorded requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceFormat {
    /// A line for each request: its time, and its type or command.
    Own,
    /// The common or the combined log format of HTTP servers. Times have seconds only: the requests of a second are
    /// spread evenly over it.
    AccessLog,
    /// CSV with a line of heads: `time`, `request` and optionally `type`.
    Csv,
    /// Targets of vegeta, which have no times.
    Vegeta,
}

impl TraceFormat {
    /// Whether requests have times.
    pub(super) const fn has_times(self) -> bool {
        !matches!(self, Self::Vegeta)
    }

    /// Whether times have seconds only, and lines are in the order in which requests ended.
    pub(super) const fn is_log(self) -> bool {
        matches!(self, Self::AccessLog)
    }

    /// Whether requests are those of HTTP, and whole.
    pub(super) const fn is_http(self) -> bool {
        matches!(self, Self::AccessLog | Self::Vegeta)
    }

    /// The parser. `are_named` says whether requests only name types.
    pub(super) fn parser(self, are_named: bool) -> Box<dyn Parse> {
        match self {
            Self::Own => Box::new(OwnParser),
            Self::AccessLog => Box::new(AccessLogParser),
            Self::Csv => Box::new(CsvParser::new(are_named)),
            Self::Vegeta => Box::new(VegetaParser),
        }
    }
}

/// One of the different commands of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceCommand {
    /// The command in words, by which types are chosen.
    pub text: String,
    /// The name of its type, if the file has it.
    pub type_name: Option<String>,
    /// The command.
    pub template: CommandTemplate,
}

/// Makes commands of columns.
#[derive(Debug)]
pub(super) struct CommandMaker {
    format: TraceFormat,
    target: Target,
    vegeta: VegetaTargets,
    /// Commands for other hosts, and the first of these.
    elsewhere: (u64, String),
}

impl CommandMaker {
    pub(super) fn new(format: TraceFormat, target: Target) -> Self {
        Self {
            format,
            target,
            vegeta: VegetaTargets::default(),
            elsewhere: (0, String::new()),
        }
    }

    /// The command of a column.
    pub(super) fn make(&mut self, column: &str) -> Result<TraceCommand, String> {
        match self.format {
            TraceFormat::Own => self.written(None, column),
            TraceFormat::Csv => {
                let (type_name, command) = csv::split(column);
                self.written(type_name, command)
            }
            TraceFormat::AccessLog => {
                let words = column.split(' ').map(|word| word.as_bytes().into());
                self.literal(column.to_owned(), words)
            }
            TraceFormat::Vegeta => self.of_vegeta(column),
        }
    }

    /// A command as it is written in a mix.
    fn written(&self, type_name: Option<&str>, text: &str) -> Result<TraceCommand, String> {
        let template = CommandTemplate::for_protocol(text, self.target.protocol);
        Ok(TraceCommand {
            text: text.to_owned(),
            type_name: type_name.map(str::to_owned),
            template: template.map_err(|error| refusal(text, &error.to_string()))?,
        })
    }

    fn literal(&self, text: String, arguments: impl IntoIterator<Item = Arc<[u8]>>) -> Result<TraceCommand, String> {
        let template = CommandTemplate::literal_for_protocol(arguments, self.target.protocol);
        Ok(TraceCommand {
            template: template.map_err(|error| refusal(&text, &error.to_string()))?,
            text,
            type_name: None,
        })
    }

    fn of_vegeta(&mut self, column: &str) -> Result<TraceCommand, String> {
        let found = self.vegeta.read(column);
        let found = found.map_err(|reason| refusal(column, &reason))?;
        if let Some(origin) = found.origin.filter(|origin| !self.is_here(origin)) {
            self.elsewhere.0 += 1;
            if self.elsewhere.0 == 1 {
                self.elsewhere.1 = origin;
            }
        }
        let text = format!("{} {}", found.method, found.path);
        let words = [found.method, found.path].map(|word| word.into_bytes().into());
        let headers = found.headers.into_iter();
        let headers = headers.map(|line| line.into_bytes().into());
        let arguments = words.into_iter().chain([found.body]).chain(headers);
        self.literal(text, arguments)
    }

    /// Whether scheme, host and port are the target's.
    fn is_here(&self, origin: &str) -> bool {
        let without_port = |origin: &str| origin.strip_suffix(":80").unwrap_or(origin).to_owned();
        let here = format!("http://{}", self.target.authority());
        without_port(origin).eq_ignore_ascii_case(&without_port(&here))
    }

    /// What the user should know of the commands.
    pub(super) fn warning(&self) -> Option<String> {
        let (count, first) = &self.elsewhere;
        (*count > 0).then(|| {
            let target = &self.target;
            format!("{count} targets name other hosts, such as {first}; all requests go to {target}")
        })
    }
}

/// Why a command is refused. A command may be as long as a file.
fn refusal(command: &str, reason: &str) -> String {
    let start: String = command.lines().next().unwrap_or_default().chars().take(80).collect();
    format!("command `{start}`: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maker(format: TraceFormat) -> CommandMaker {
        CommandMaker::new(format, "http://127.0.0.1:80/".parse().unwrap())
    }

    fn words(command: &TraceCommand) -> Vec<&str> {
        let template = &command.template;
        let words = (0..template.arguments()).map(|word| template.literal(word).unwrap());
        words.map(|word| str::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn columns_become_commands() {
        for (format, column, text, expected) in [
            (TraceFormat::Own, "GET '/{a}'", "GET '/{a}'", &["GET", "/{a}"][..]),
            (TraceFormat::Csv, "\0GET /", "GET /", &["GET", "/"]),
            (TraceFormat::AccessLog, "GET /'{a}\\", "GET /'{a}\\", &["GET", "/'{a}\\"]),
            (TraceFormat::Vegeta, "PUT http://a/{b}\nC:d", "PUT /{b}", &["PUT", "/{b}", "", "C: d"]),
        ] {
            let command = maker(format).make(column).unwrap();
            assert_eq!(command.text, text);
            assert_eq!(command.type_name, None);
            assert_eq!(words(&command), expected);
        }
        let gold = maker(TraceFormat::Csv).make("gold\0GET /").unwrap();
        assert_eq!(gold.type_name.as_deref(), Some("gold"));
        let long = "x".repeat(1_000);
        let error = maker(TraceFormat::Own).make(&long).unwrap_err();
        assert!(error.starts_with("command `xxx") && error.len() < 400, "{error}");
    }

    #[test]
    fn other_hosts_are_counted() {
        let mut maker = maker(TraceFormat::Vegeta);
        for url in ["/", "http://127.0.0.1/", "http://127.0.0.1:80/a"] {
            maker.make(&format!("GET {url}")).unwrap();
        }
        assert_eq!(maker.warning(), None);
        for url in ["https://127.0.0.1/", "http://127.0.0.1:81", "http://b/"] {
            maker.make(&format!("GET {url}")).unwrap();
        }
        let warning = maker.warning().unwrap();
        assert!(warning.starts_with("3 targets name other hosts, such as https://127.0.0.1;"));
    }
}
