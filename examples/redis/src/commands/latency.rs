//! LATENCY.

use std::fmt::Write as _;

use psp_store::unix_time_ms;

use crate::command::{CommandTable, Context, ReplyEncoder, Row, Subcommands};
use crate::error::{CommandError, quotable};
use crate::parse::{self, Result};
use crate::record::{Sample, Series};

use super::subcommand::write_help;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::container("latency", SUBCOMMANDS)];

const SUBCOMMANDS: Subcommands = &[
    ("doctor", doctor),
    ("graph", graph),
    ("help", help),
    ("histogram", histogram),
    ("history", history),
    ("latest", latest),
    ("reset", reset),
];

/// The text of LATENCY HELP, as in Redis.
const HELP: &[&str] = &[
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
    "    If no commands are specified then all histograms are replied.",
];

/// Rows and columns of a graph.
const GRAPH_ROWS: u64 = 4;
const GRAPH_COLUMNS: usize = 80;
/// What a column has in a row that it fills by a third, two thirds, or all.
const GRAPH_MARKS: [char; 3] = ['_', 'o', '#'];

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_help("latency", HELP, out);
    Ok(())
}

fn integer(number: u64, out: &mut ReplyEncoder<'_>) {
    out.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

fn series_of(context: &Context<'_>, event: &[u8]) -> Option<Series> {
    let events = context.server.records.latency.events();
    let mut events = events.into_iter();
    let found = events.find(|(name, _)| parse::is(event, name));
    found.map(|(_, series)| series)
}

fn history(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let samples = series_of(context, args[2]).unwrap_or_default().samples;
    out.array(samples.len());
    for Sample { at_s, ms } in samples {
        out.array(2);
        integer(at_s, out);
        integer(ms, out);
    }
    Ok(())
}

fn latest(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let events = context.server.records.latency.events();
    out.array(events.len());
    for (event, series) in events {
        let last = series.samples.back();
        out.array(4);
        out.bulk(event.as_bytes());
        integer(last.map_or(0, |last| last.at_s), out);
        integer(last.map_or(0, |last| last.ms), out);
        integer(series.max_ms, out);
    }
    Ok(())
}

fn reset(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let names = &args[2..];
    let is_meant = |event: &str| names.is_empty() || names.iter().any(|name| parse::is(name, event));
    let removed = context.server.records.latency.reset(is_meant);
    out.integer(i64::try_from(removed).unwrap_or(i64::MAX));
    Ok(())
}

/// `LATENCY HISTOGRAM [command ..]`: how many calls took up to 1, 2, 4, .. microseconds.
fn histogram(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let table = CommandTable::get();
    let commands = context.server.totals().commands;
    let wanted: Vec<usize> = match &args[2..] {
        [] => (0..commands.len()).collect(),
        // A command with subcommands stands for all of them.
        names => names
            .iter()
            .filter_map(|name| table.named(name))
            .flat_map(|index| {
                let is_command = table.entries()[index].subcommand.is_none();
                let subcommands = is_command.then(|| table.subcommands_of(index));
                std::iter::once(index).chain(subcommands.into_iter().flatten())
            })
            .collect(),
    };
    let found = wanted.into_iter().filter(|index| !commands[*index].times.is_empty());
    let found: Vec<_> = found.collect();
    out.map(found.len());
    for index in found {
        let times = &commands[index].times;
        out.bulk(table.entries()[index].name().as_bytes());
        out.map(2);
        out.bulk(b"calls");
        integer(times.len(), out);
        out.bulk(b"histogram_usec");
        let counts = times.cumulative_us();
        out.map(counts.len());
        for (us, count) in counts {
            integer(us, out);
            integer(count, out);
        }
    }
    Ok(())
}

/// The last samples as columns, each with its age below.
fn graph(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let series = series_of(context, args[2]).ok_or_else(|| {
        let event = quotable(args[2]);
        CommandError::Other(format!("ERR No samples available for event '{event}'").into())
    })?;
    let event = String::from_utf8_lossy(args[2]).to_lowercase();
    let text = draw(&event, &series, unix_time_ms() / 1000);
    out.verbatim("txt", text.as_bytes());
    Ok(())
}

fn draw(event: &str, series: &Series, now_s: u64) -> String {
    let skipped = series.samples.len().saturating_sub(GRAPH_COLUMNS);
    let samples: Vec<_> = series.samples.iter().skip(skipped).collect();
    let times = || samples.iter().map(|sample| sample.ms);
    let (low, high) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let mut text = format!(
        "{event} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        series.max_ms,
        "-".repeat(GRAPH_COLUMNS)
    );
    let marks = GRAPH_MARKS.len() as u64;
    let range = (high - low).max(1);
    for row in (0..GRAPH_ROWS).rev() {
        for sample in &samples {
            // How many marks high the column is; the lowest sample has one.
            let height = 1 + (sample.ms - low) * (GRAPH_ROWS * marks - 1) / range;
            let mark = match height.saturating_sub(row * marks) {
                0 => ' ',
                height if height > marks => '|',
                height => GRAPH_MARKS[height as usize - 1],
            };
            text.push(mark);
        }
        text.push('\n');
    }
    text.push('\n');
    let ages: Vec<_> = samples.iter().map(|sample| age(now_s.saturating_sub(sample.at_s))).collect();
    let longest = ages.iter().map(String::len).max().unwrap_or(0);
    for row in 0..longest {
        let column = |age: &String| age.chars().nth(row).unwrap_or(' ');
        text.extend(ages.iter().map(column));
        text.push('\n');
    }
    text
}

/// An age with its unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn doctor(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let latency = &context.server.records.latency;
    let events = latency.events();
    let mut text = String::new();
    if latency.threshold_ms() == 0 && events.is_empty() {
        text.push_str(
            "Latency monitoring is disabled. Use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" to enable it.\n",
        );
    } else if events.is_empty() {
        text.push_str("No latency spike was observed since the server has started or the last LATENCY RESET.\n");
    }
    for (event, series) in events {
        let spikes = series.samples.len() as u64;
        let sum: u64 = series.samples.iter().map(|sample| sample.ms).sum();
        // Writing to a String does not fail.
        let _ok = writeln!(
            text,
            "{event}: {spikes} latency spikes (average {} ms, worst {} ms). SLOWLOG and INFO psp show which commands \
             take that long, and which types of requests wait behind them.",
            sum / spikes.max(1),
            series.max_ms,
        );
    }
    out.verbatim("txt", text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, DebugAccess};
    use crate::testing::Session;

    fn session() -> Session {
        Session::with(Config { enable_debug_command: DebugAccess::Yes, ..Config::default() })
    }

    #[test]
    fn slow_commands_are_events() {
        let mut session = session();
        session.expect(&[
            ("DEBUG SLEEP 0.005", "+OK"),
            ("LATENCY LATEST", "*0"),
            ("CONFIG SET latency-monitor-threshold 1", "+OK"),
            ("DEBUG SLEEP 0.005", "+OK"),
        ]);
        let latest = session.run("LATENCY LATEST");
        assert!(latest.contains("command"), "{latest}");
        let history = session.run("LATENCY HISTORY command");
        assert!(history.starts_with("*1\r\n*2\r\n:"), "{history}");
        assert!(session.run("LATENCY GRAPH command").contains("all time high"));
        assert!(session.run("LATENCY DOCTOR").contains("latency spikes"));
        session.expect(&[
            ("LATENCY HISTORY none", "*0"),
            ("LATENCY RESET none", ":0"),
            ("LATENCY GRAPH none", "-ERR No samples available for event 'none'"),
            ("LATENCY HELP x", "-ERR wrong number of arguments for 'latency|help' command"),
        ]);
        assert_ne!(session.run("LATENCY RESET"), ":0\r\n");
        session.run("CONFIG SET latency-monitor-threshold 0");
        session.run("LATENCY RESET");
        assert!(session.run("LATENCY DOCTOR").contains("disabled"));
    }

    #[test]
    fn histograms_count_calls() {
        let mut session = session();
        session.expect(&[
            ("LATENCY HISTOGRAM blabla get", "*0"),
            ("SET a b", "+OK"),
            ("GET a", "$1 b"),
            ("CONFIG RESETSTAT", "+OK"),
            ("LATENCY HISTOGRAM get set", "*0"),
            ("CONFIG SET latency-tracking no", "+OK"),
            ("GET a", "$1 b"),
            ("LATENCY HISTOGRAM get", "*0"),
            ("CONFIG SET latency-tracking yes", "+OK"),
            ("GET a", "$1 b"),
            ("DEBUG SLEEP 0.002", "+OK"),
        ]);
        let reply = session.run("LATENCY HISTOGRAM get blabla config");
        assert!(reply.starts_with("*6\r\n$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:1\r\n"), "{reply}");
        assert!(reply.contains("config|set"), "{reply}");
    }

    #[test]
    fn graphs_have_a_column_for_each_sample() {
        let mut series = Series { max_ms: 100, ..Series::default() };
        for (at_s, ms) in [(0, 10), (1, 50), (99, 100)] {
            series.samples.push_back(Sample { at_s, ms });
        }
        let text = draw("command", &series, 100);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command - high 100 ms, low 10 ms (all time high 100 ms)");
        assert_eq!(lines[2..6], ["  #", "  |", " o|", "_||"]);
        assert_eq!(lines[7..], ["111", "mms"]);
    }
}
