//! MEMORY.

use std::fmt::Write as _;

use psp_server::ServerHandle;
use psp_store::Keyspace;
use tikv_jemalloc_ctl::stats;

use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::error::CommandError;
use crate::keyspace_events::Read;
use crate::memory::{Allocator, resident_bytes};
use crate::parse::{self, Result};
use crate::state::ServerState;

use super::keys::inspect;
use super::subcommand::write_help;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] =
    &[Row::container("memory", SUBCOMMANDS).flags(&[Flag::Readonly]).reads(Read::Nothing)];

const SUBCOMMANDS: Subcommands = &[
    ("doctor", doctor),
    ("help", help),
    ("malloc-stats", malloc_stats),
    ("purge", purge),
    ("stats", write_stats),
    ("usage", usage),
];

/// The text of MEMORY HELP, as in Redis.
const HELP: &[&str] = &[
    "DOCTOR",
    "    Return memory problems reports.",
    "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator.",
    "PURGE",
    "    Attempt to purge dirty pages for reclamation by the allocator.",
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
];

/// A server with less has no problem with memory.
const DOCTOR_BYTES_MIN: u64 = 5 * 1024 * 1024;
/// Less than that is not worth a report.
const EXCESS_BYTES_MIN: i64 = 10 * 1024 * 1024;
/// Buffers of a client, on average, that are large.
const CLIENT_BYTES_MAX: u64 = 200 * 1024;
/// So many scripts are few.
const SCRIPTS_MAX: usize = 1000;

/// Where the memory of the process is, in bytes.
pub(super) struct Overview {
    pub(super) used: u64,
    pub(super) peak: u64,
    pub(super) startup: u64,
    pub(super) resident: u64,
    pub(super) allocator: Allocator,
    /// Buffers of clients.
    pub(super) clients: u64,
    /// What the append-only file has to take yet.
    pub(super) log: u64,
    pub(super) scripts: u64,
    pub(super) functions: u64,
    keys: u64,
}

impl Overview {
    pub(super) fn of(server: &ServerState) -> Self {
        let counters = server.runtime.get().map(ServerHandle::counters);
        let figures = server.persistence.figures(server);
        let libraries = server.scripts.functions.libraries();
        let functions: usize = libraries.iter().map(|library| library.bytes()).sum();
        let keys: usize = server.databases.used().map(Keyspace::len).sum();
        Self {
            used: server.memory.used_bytes(),
            peak: server.memory.peak_bytes(),
            startup: server.memory.startup_bytes(),
            resident: resident_bytes().unwrap_or(0),
            allocator: Allocator::read(),
            clients: counters.map_or(0, |counters| counters.net.buffered_bytes),
            log: figures.log.unwritten_bytes,
            scripts: server.scripts.library.size().1 as u64,
            functions: functions as u64,
            keys: keys as u64,
        }
    }

    /// What is no data.
    pub(super) fn overhead(&self) -> u64 {
        self.startup + self.clients + self.log + self.scripts + self.functions
    }

    pub(super) fn dataset(&self) -> u64 {
        self.used.saturating_sub(self.overhead())
    }

    /// The data's part of what came since the start.
    pub(super) fn dataset_percent(&self) -> f64 {
        100.0 * self.dataset() as f64 / self.used.saturating_sub(self.startup).max(1) as f64
    }

    pub(super) fn peak_percent(&self) -> f64 {
        100.0 * self.used as f64 / self.peak.max(1) as f64
    }

    pub(super) fn fragmentation(&self) -> Excess {
        Excess::of(self.resident, self.used)
    }

    pub(super) fn allocator_fragmentation(&self) -> Excess {
        Excess::of(self.allocator.active, self.allocator.allocated)
    }

    pub(super) fn allocator_resident(&self) -> Excess {
        Excess::of(self.allocator.resident, self.allocator.active)
    }

    pub(super) fn resident_beside_allocator(&self) -> Excess {
        Excess::of(self.resident, self.allocator.resident)
    }
}

/// What one figure has beyond another.
pub(super) struct Excess {
    pub(super) ratio: f64,
    pub(super) bytes: i64,
}

impl Excess {
    pub(super) fn of(bytes: u64, base: u64) -> Self {
        Self {
            ratio: bytes as f64 / base.max(1) as f64,
            bytes: bytes as i64 - base as i64,
        }
    }

    fn is_above(&self, ratio: f64) -> bool {
        self.ratio > ratio && self.bytes > EXCESS_BYTES_MIN
    }
}

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_help("memory", HELP, out);
    Ok(())
}

fn usage(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    match args[3..] {
        [] => {}
        [option, samples] if parse::is(option, "SAMPLES") => {
            if parse::integer(samples)? < 0 {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    }
    inspect(context, args[2], out, |entry, out| {
        out.integer(i64::try_from(entry.memory_bytes()).unwrap_or(i64::MAX));
    })
}

/// The names of Redis 7.4. What has no meaning here is 0.
fn write_stats(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let all = Overview::of(context.server);
    let used: Vec<usize> = { &context.server.databases }
        .used()
        .filter(|store| !store.is_empty())
        .map(Keyspace::number)
        .collect();
    let bytes_per_key = all.used.saturating_sub(all.startup) / all.keys.max(1);
    let head = [
        ("peak.allocated", all.peak),
        ("total.allocated", all.used),
        ("startup.allocated", all.startup),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", all.clients),
        ("cluster.links", 0),
        ("aof.buffer", all.log),
        ("lua.caches", all.scripts),
        ("functions.caches", all.functions),
    ];
    let sums = [
        ("overhead.db.hashtable.lut", 0),
        ("overhead.db.hashtable.rehashing", 0),
        ("overhead.total", all.overhead()),
        ("db.dict.rehashing.count", 0),
        ("keys.count", all.keys),
        ("keys.bytes-per-key", if all.keys == 0 { 0 } else { bytes_per_key }),
        ("dataset.bytes", all.dataset()),
    ];
    let percents = [("dataset.percentage", all.dataset_percent()), ("peak.percentage", all.peak_percent())];
    let allocator = [
        ("allocator.allocated", all.allocator.allocated),
        ("allocator.active", all.allocator.active),
        ("allocator.resident", all.allocator.resident),
        ("allocator.muzzy", 0),
    ];
    let excesses = [
        ("allocator-fragmentation", all.allocator_fragmentation()),
        ("allocator-rss", all.allocator_resident()),
        ("rss-overhead", all.resident_beside_allocator()),
    ];
    let fragmentation = all.fragmentation();
    let fields = head.len() + sums.len() + percents.len() + allocator.len() + 2 * excesses.len() + 2;
    out.map(fields + used.len());
    let integers = |fields: &[(&str, u64)], out: &mut ReplyEncoder<'_>| {
        for (name, number) in fields {
            out.bulk(name.as_bytes());
            out.integer(i64::try_from(*number).unwrap_or(i64::MAX));
        }
    };
    integers(&head, out);
    for number in used {
        out.bulk(format!("db.{number}").as_bytes());
        out.map(2);
        integers(&[("overhead.hashtable.main", 0), ("overhead.hashtable.expires", 0)], out);
    }
    integers(&sums, out);
    for (name, percent) in percents {
        out.bulk(name.as_bytes());
        out.double(percent);
    }
    integers(&allocator, out);
    for (name, excess) in excesses {
        out.bulk(format!("{name}.ratio").as_bytes());
        out.double(excess.ratio);
        out.bulk(format!("{name}.bytes").as_bytes());
        out.integer(excess.bytes);
    }
    out.bulk(b"fragmentation");
    out.double(fragmentation.ratio);
    out.bulk(b"fragmentation.bytes");
    out.integer(fragmentation.bytes);
    Ok(())
}

/// What of the memory is unusual, by the bounds of Redis.
fn doctor(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let all = Overview::of(context.server);
    let clients = context.server.clients.len().max(1) as u64;
    let (scripts, _) = context.server.scripts.library.size();
    if all.used < DOCTOR_BYTES_MIN {
        out.verbatim("txt", b"The server is empty or uses very little memory: there is nothing to find.\n");
        return Ok(());
    }
    let findings = [
        (
            all.peak as f64 / all.used as f64 > 1.5,
            "Peak: it once used more than 150% of what it uses now.",
        ),
        (
            all.fragmentation().is_above(1.4),
            "Resident memory: it is more than 1.4 times what is in use.",
        ),
        (
            all.allocator_fragmentation().is_above(1.1),
            "Fragmentation: the allocator's pages hold more than 1.1 times what is in use.",
        ),
        (
            all.allocator_resident().is_above(1.1),
            "Allocator: it keeps more than 1.1 times its pages in use. MEMORY PURGE gives the others back.",
        ),
        (
            all.resident_beside_allocator().is_above(1.1),
            "Process: its resident memory is more than 1.1 times the allocator's.",
        ),
        (
            all.clients / clients > CLIENT_BYTES_MAX,
            "Clients: their buffers have more than 200 KB each, on average.",
        ),
        (
            scripts > SCRIPTS_MAX,
            "Scripts: there are more than 1000. Give them arguments, and they will be few.",
        ),
    ];
    let mut text = String::new();
    for (_, finding) in findings.iter().filter(|(is_so, _)| *is_so) {
        // Writing to a String does not fail.
        let _ok = writeln!(text, " * {finding}");
    }
    if text.is_empty() {
        text.push_str("There is no problem with memory that could be found.\n");
    }
    out.verbatim("txt", text.as_bytes());
    Ok(())
}

/// The sums alone.
fn malloc_stats(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if Allocator::read().allocated == 0 {
        out.bulk(b"Stats not supported for the current allocator");
        return Ok(());
    }
    let figures = [
        ("Allocated", stats::allocated::read()),
        ("active", stats::active::read()),
        ("metadata", stats::metadata::read()),
        ("resident", stats::resident::read()),
        ("mapped", stats::mapped::read()),
        ("retained", stats::retained::read()),
    ];
    let figures = figures.map(|(name, bytes)| format!("{name}: {}", bytes.unwrap_or_default())).join(", ");
    let text = format!("___ Begin jemalloc statistics ___\n{figures}\n--- End jemalloc statistics ---\n");
    out.verbatim("txt", text.as_bytes());
    Ok(())
}

fn purge(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.server.memory.purge();
    out.simple("OK");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn memory_is_told_by_the_names_of_redis() {
        let mut session = Session::new().resp3();
        session.expect(&[("MEMORY PURGE", "+OK"), ("SET a b", "+OK")]);
        let stats = session.run("MEMORY STATS").replace("\r\n", " ");
        assert!(stats.starts_with("%32 $14 peak.allocated :"), "{stats}");
        for part in [
            " $4 db.0 %2 $23 overhead.hashtable.main :0 ",
            " $10 keys.count :1 ",
            " $18 dataset.percentage ,",
            " $13 fragmentation ,",
        ] {
            assert!(stats.contains(part), "{part} in {stats}");
        }
        let number = |name: &str| {
            let (_, rest) = stats.split_once(&format!(" {name} :")).expect(name);
            rest.split(' ').next().and_then(|digits| digits.parse::<u64>().ok()).expect(name)
        };
        assert!(number("total.allocated") >= number("dataset.bytes") && number("startup.allocated") > 0);
        assert!(number("peak.allocated") >= number("total.allocated"));
        assert!(number("allocator.resident") >= number("allocator.active"));
        assert!(session.run("MEMORY DOCTOR").starts_with('='));
        assert!(session.run("MEMORY MALLOC-STATS").contains("jemalloc statistics"));
        assert!(session.run("MEMORY HELP").contains("MALLOC-STATS"));
    }
}
