//! The COMMAND command, which shows clients the command table and the facts about commands.

use psp_protocols::resp::{Begin, Find, KeySpec};

use crate::call_keys::{Keys, keys_of};
use crate::command::{CommandTable, Context, Entry, Flag, KeyPositions, ReplyEncoder, Row, Subcommands};
use crate::error::CommandError;
use crate::glob::{Pattern, Steps};
use crate::parse::{self, Result};

use super::subcommand::{self, write_help};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::new("command", command).subcommands(SUBCOMMANDS)];

const SUBCOMMANDS: Subcommands = &[
    ("count", count),
    ("docs", docs),
    ("getkeys", getkeys),
    ("getkeysandflags", getkeys_and_flags),
    ("help", help),
    ("info", info),
    ("list", list),
];

/// The text of COMMAND HELP, as in Redis.
const HELP: &[&str] = &[
    "(no subcommand)",
    "    Return details about all Redis commands.",
    "COUNT",
    "    Return the total number of commands in this Redis server.",
    "LIST",
    "    Return a list of all commands in this Redis server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full Redis command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full Redis command.",
];

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_help("command", HELP, out);
    Ok(())
}

fn command(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if args.len() == 1 {
        write_all(out);
        return Ok(());
    }
    subcommand::run(context, args, out)
}

fn count(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.integer(i64::try_from(CommandTable::get().specs().len()).unwrap_or(i64::MAX));
    Ok(())
}

/// `COMMAND LIST [FILTERBY MODULE name|ACLCAT category|PATTERN pattern]`.
fn list(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let entries = CommandTable::get().entries().iter();
    let steps = Steps::new();
    let found: Vec<_> = match args[2..] {
        [] => entries.collect(),
        [filter, kind, value] if parse::is(filter, "FILTERBY") => {
            if parse::is(kind, "MODULE") {
                // There are no modules.
                Vec::new()
            } else if parse::is(kind, "ACLCAT") {
                let has = |entry: &&Entry| {
                    let mut categories = entry.facts.categories.iter();
                    categories.any(|category| parse::is(value, category))
                };
                entries.filter(has).collect()
            } else if parse::is(kind, "PATTERN") {
                let pattern = value.to_ascii_lowercase();
                let pattern = Pattern::new(&pattern);
                let matches = |entry: &&Entry| pattern.matches(entry.name().as_bytes(), &steps);
                entries.filter(matches).collect()
            } else {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    out.array(found.len());
    for entry in found {
        out.bulk(entry.name().as_bytes());
    }
    Ok(())
}

fn info(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if args.len() == 2 {
        write_all(out);
        return Ok(());
    }
    out.array(args.len() - 2);
    for name in &args[2..] {
        match CommandTable::get().named(name) {
            Some(index) => write_info(index, out),
            None => out.null(),
        }
    }
    Ok(())
}

fn write_all(out: &mut ReplyEncoder<'_>) {
    let specs = CommandTable::get().specs();
    out.array(specs.len());
    for index in 0..specs.len() {
        write_info(index, out);
    }
}

/// Name, arity, flags, positions of keys, categories of access control, tips, key specifications, subcommands.
fn write_info(index: usize, out: &mut ReplyEncoder<'_>) {
    let table = CommandTable::get();
    let entry = &table.entries()[index];
    let facts = entry.facts;
    out.array(10);
    out.bulk(entry.name().as_bytes());
    out.integer(i64::from(entry.arity()));
    let flags: Vec<_> = facts.flags.iter().map(Flag::name).collect();
    write_words(&flags, out);
    let KeyPositions { first, last, step } = facts.positions(|_| true);
    for position in [first, last, step] {
        out.integer(position);
    }
    out.set(facts.categories.len());
    for category in &facts.categories {
        out.simple(&format!("@{category}"));
    }
    out.array(facts.tips.len());
    for tip in &facts.tips {
        out.bulk(tip.as_bytes());
    }
    out.array(facts.key_specs.len());
    for spec in &facts.key_specs {
        write_key_spec(spec, out);
    }
    let subcommands = match entry.subcommand {
        None => table.subcommands_of(index),
        Some(_) => 0..0,
    };
    out.array(subcommands.len());
    for subcommand in subcommands {
        write_info(subcommand, out);
    }
}

fn write_words(words: &[&str], out: &mut ReplyEncoder<'_>) {
    out.set(words.len());
    for word in words {
        out.simple(word);
    }
}

fn write_key_spec(spec: &KeySpec, out: &mut ReplyEncoder<'_>) {
    let number = |name: &'static str, value| (name, Value::Number(value));
    let (begin, begin_spec) = match spec.begin {
        Begin::Index(index) => ("index", vec![number("index", index)]),
        Begin::Keyword(word, from) => {
            let word = ("keyword", Value::Word(word));
            ("keyword", vec![word, number("startfrom", from)])
        }
        Begin::Unknown => ("unknown", Vec::new()),
    };
    let (find, find_spec) = match spec.find {
        Find::Range { last, step, limit } => {
            let [last, step] = [number("lastkey", last), number("keystep", step)];
            ("range", vec![last, step, number("limit", limit)])
        }
        Find::Keynum { index, first, step } => {
            let [index, first] = [number("keynumidx", index), number("firstkey", first)];
            ("keynum", vec![index, first, number("keystep", step)])
        }
        Find::Unknown => ("unknown", Vec::new()),
    };
    out.map(3);
    out.bulk(b"flags");
    write_words(&spec.flags, out);
    for (part, kind, values) in [("begin_search", begin, begin_spec), ("find_keys", find, find_spec)] {
        out.bulk(part.as_bytes());
        out.map(2);
        out.bulk(b"type");
        out.bulk(kind.as_bytes());
        out.bulk(b"spec");
        out.map(values.len());
        for (name, value) in values {
            out.bulk(name.as_bytes());
            match value {
                Value::Number(number) => out.integer(number),
                Value::Word(word) => out.bulk(word.as_bytes()),
            }
        }
    }
}

/// A value in a key specification.
enum Value {
    Number(i64),
    Word(&'static str),
}

fn docs(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let table = CommandTable::get();
    let found: Vec<usize> = match &args[2..] {
        [] => (0..table.specs().len()).collect(),
        names => names.iter().filter_map(|name| table.named(name)).collect(),
    };
    out.map(found.len());
    for index in found {
        write_docs(index, out);
    }
    Ok(())
}

fn write_docs(index: usize, out: &mut ReplyEncoder<'_>) {
    let table = CommandTable::get();
    let entry = &table.entries()[index];
    let facts = entry.facts;
    let subcommands = match entry.subcommand {
        None => table.subcommands_of(index),
        Some(_) => 0..0,
    };
    out.bulk(entry.name().as_bytes());
    out.map(3 + usize::from(!subcommands.is_empty()));
    for (field, text) in [("summary", facts.summary), ("since", facts.since), ("group", facts.group)] {
        out.bulk(field.as_bytes());
        out.bulk(text.as_bytes());
    }
    if !subcommands.is_empty() {
        out.bulk(b"subcommands");
        out.map(subcommands.len());
        for subcommand in subcommands {
            write_docs(subcommand, out);
        }
    }
}

fn getkeys(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let keys = keys_of_call(&args[2..])?;
    out.array(keys.len());
    for key in keys {
        out.bulk(key.name);
    }
    Ok(())
}

fn getkeys_and_flags(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let keys = keys_of_call(&args[2..])?;
    out.array(keys.len());
    for key in keys {
        out.array(2);
        out.bulk(key.name);
        write_words(key.flags, out);
    }
    Ok(())
}

fn keys_of_call<'a>(call: &'a [&'a [u8]]) -> Result<Keys<'a>> {
    let table = CommandTable::get();
    let command = call.first().and_then(|name| table.named(name));
    let index = command
        .filter(|index| table.entries()[*index].subcommand.is_none())
        .map(|index| table.entry_of(index, call))
        .ok_or(CommandError::line("ERR Invalid command specified"))?;
    let entry = &table.entries()[index];
    let facts = entry.facts;
    if !facts.key_specs.iter().any(KeySpec::has_keys) {
        return Err(CommandError::line("ERR The command has no key arguments"));
    }
    if !parse::arity_accepts(entry.arity(), call.len()) {
        return Err(CommandError::line("ERR Invalid number of arguments specified for command"));
    }
    match keys_of(facts, call).filter(|keys| !keys.is_empty()) {
        Some(keys) => Ok(keys),
        None if facts.flags.contains(Flag::NoMandatoryKeys) => Ok(Keys::new()),
        None => Err(CommandError::line("ERR Invalid arguments specified for command")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::command::CommandTable;
    use crate::redis_version::REDIS_VERSION;
    use crate::testing::Session;

    #[test]
    fn command_returns_the_whole_table() {
        let mut session = Session::new();
        let count = CommandTable::get().specs().len();
        assert_eq!(session.run("COMMAND COUNT"), format!(":{count}\r\n"));
        assert!(session.run("COMMAND").starts_with(&format!("*{count}\r\n*10\r\n")));
        let entries = CommandTable::get().entries().len();
        assert!(session.run("COMMAND LIST").starts_with(&format!("*{entries}\r\n$")));
        assert!(session.run("COMMAND DOCS").starts_with(&format!("*{}\r\n$", count * 2)));
        session.expect(&[
            (
                "COMMAND INFO get nope",
                "*2 *10 $3 get :2 *2 +readonly +fast :1 :1 :1 *3 +@read +@string +@fast *0 *1 *6 $5 flags *2 +RO \
                 +access $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 $9 find_keys *4 $4 type $5 range \
                 $4 spec *6 $7 lastkey :0 $7 keystep :1 $5 limit :0 *0 $-1",
            ),
            (
                "COMMAND DOCS GET",
                "*2 $3 get *6 $7 summary $22 Get the value of a key $5 since $5 1.0.0 $5 group $6 string",
            ),
            ("COMMAND INFO get|x config|get|x", "*2 $-1 $-1"),
            ("COMMAND LIST FILTERBY PATTERN getd*", "*1 $6 getdel"),
            ("COMMAND LIST FILTERBY PATTERN config|*re*", "*2 $16 config|resetstat $14 config|rewrite"),
            ("COMMAND LIST FILTERBY ACLCAT none", "*0"),
            ("COMMAND LIST FILTERBY MODULE none", "*0"),
            ("COMMAND LIST FILTERBY", "-ERR syntax error"),
            ("COMMAND LIST FILTERBY NOPE x", "-ERR syntax error"),
        ]);
        let scripting = session.run("COMMAND LIST FILTERBY ACLCAT scripting");
        assert!(scripting.contains("script|kill") && scripting.contains("eval"));
        assert!(!scripting.contains("$3\r\nset\r\n"));
        let mut session = session.resp3();
        assert!(session.run("COMMAND DOCS").starts_with(&format!("%{count}\r\n")));
    }

    /// What COMMAND LIST of redis-server has: a version, and behind it the commands that are new there.
    const NAMES: &str = include_str!("command_names.txt");
    /// What a server without replicas, cluster and Redis's own debugging does not have.
    const ABSENT: &[&str] = &["migrate", "pfdebug", "pfselftest", "psync", "replconf", "restore-asking", "sync"];

    #[test]
    fn the_commands_are_those_of_the_version() {
        let list = Session::new().run("COMMAND LIST");
        let listed: HashSet<&str> = list.lines().collect();
        let (mut version, mut missing) = ("", Vec::new());
        assert!(!ABSENT.iter().any(|name| listed.contains(name)));
        for word in NAMES.split_ascii_whitespace() {
            if word.starts_with(|first: char| first.is_ascii_digit()) {
                version = word;
                continue;
            }
            let is_there = listed.contains(word);
            if is_there && version != "7.0" {
                let index = CommandTable::get().named(word.as_bytes()).expect(word);
                assert!(CommandTable::get().entries()[index].facts.since.starts_with(version), "{word}");
            }
            if version <= &REDIS_VERSION[..version.len()] && !is_there && !ABSENT.contains(&word) {
                missing.push(word);
            }
        }
        assert_eq!(missing, [""; 0], "of Redis {REDIS_VERSION}");
    }

    #[test]
    fn keys_of_calls_are_named() {
        Session::new().expect(&[
            ("COMMAND GETKEYS MEMORY USAGE k", "*1 $1 k"),
            ("COMMAND GETKEYS SET k", "-ERR Invalid number of arguments specified for command"),
            ("COMMAND GETKEYS SET k v", "*1 $1 k"),
            ("COMMAND GETKEYSANDFLAGS SET k v", "*1 *2 $1 k *2 +OW +update"),
            ("COMMAND GETKEYS EVAL x 0", "*0"),
            ("COMMAND GETKEYS PING x", "-ERR The command has no key arguments"),
            ("COMMAND GETKEYS SPUBLISH a b", "-ERR The command has no key arguments"),
            ("COMMAND GETKEYS NOPE a", "-ERR Invalid command specified"),
            ("COMMAND GETKEYS ZUNIONSTORE d 9 a", "-ERR Invalid arguments specified for command"),
        ]);
    }
}
