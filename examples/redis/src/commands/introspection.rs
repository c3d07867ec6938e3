//! The COMMAND command, which shows clients the command table.

use psp_protocols::resp::CommandId;

use crate::command::{CommandSpec, CommandTable, Context, ReplyEncoder};
use crate::glob::{self, Steps};
use crate::parse::{self, Result};

use super::FAMILIES;
use super::subcommand::{self, Subcommand};

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] =
    &[CommandSpec::new("command", -1, command).subcommands(SUBCOMMANDS)];

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand::new("count", 2, count),
    Subcommand::new("docs", -2, docs),
    Subcommand::new("info", -2, info),
    Subcommand::new("list", -2, list),
];

fn command(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if args.len() == 1 {
        write_all(out);
        return Ok(());
    }
    subcommand::run("command", SUBCOMMANDS, context, args, out)
}

fn count(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.integer(i64::try_from(CommandTable::get().specs().len()).unwrap_or(i64::MAX));
    Ok(())
}

fn list(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let pattern = match args[2..] {
        [] => &b"*"[..],
        [filter, kind, pattern] if parse::is(filter, "FILTERBY") && parse::is(kind, "PATTERN") => {
            pattern
        }
        _ => return Err(crate::error::CommandError::Syntax),
    };
    let steps = Steps::new();
    let specs = CommandTable::get().specs().iter();
    let found: Vec<_> = specs
        .filter(|spec| glob::matches(pattern, spec.name.as_bytes(), &steps))
        .collect();
    out.array(found.len());
    for spec in found {
        out.bulk(spec.name.as_bytes());
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
        match CommandTable::get().find(CommandId::of(name)) {
            Some(spec) => write_info(spec, out),
            None => out.null(),
        }
    }
    Ok(())
}

fn write_all(out: &mut ReplyEncoder<'_>) {
    let specs = CommandTable::get().specs();
    out.array(specs.len());
    for spec in specs {
        write_info(spec, out);
    }
}

/// Name, arity, flags and positions of keys. Then empty lists for features that this server lacks:
/// access control categories, tips, key specifications, subcommands.
fn write_info(spec: &CommandSpec, out: &mut ReplyEncoder<'_>) {
    out.array(10);
    out.bulk(spec.name.as_bytes());
    out.integer(i64::from(spec.arity));
    out.set(spec.flags.len());
    for flag in spec.flags {
        out.simple(flag.name());
    }
    for position in [spec.keys.first, spec.keys.last, spec.keys.step] {
        out.integer(i64::from(position));
    }
    out.set(0);
    for _ in 0..3 {
        out.array(0);
    }
}

fn docs(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let names = &args[2..];
    let is_wanted = |spec: &CommandSpec| {
        names.is_empty() || names.iter().any(|name| parse::is(name, spec.name))
    };
    let rows = FAMILIES
        .iter()
        .flat_map(|(group, specs)| specs.iter().map(move |spec| (group, spec)));
    let found: Vec<_> = rows.filter(|(_, spec)| is_wanted(spec)).collect();
    out.map(found.len());
    for (group, spec) in found {
        out.bulk(spec.name.as_bytes());
        out.map(2);
        out.bulk(b"summary");
        out.bulk(b"As in Redis.");
        out.bulk(b"group");
        out.bulk(group.as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::command::CommandTable;
    use crate::testing::Session;

    #[test]
    fn command_returns_the_whole_table() {
        let mut session = Session::new();
        let count = CommandTable::get().specs().len();
        assert_eq!(session.run("COMMAND COUNT"), format!(":{count}\r\n"));
        assert!(
            session
                .run("COMMAND")
                .starts_with(&format!("*{count}\r\n*10\r\n"))
        );
        assert!(
            session
                .run("COMMAND LIST")
                .starts_with(&format!("*{count}\r\n$"))
        );
        assert!(
            session
                .run("COMMAND DOCS")
                .starts_with(&format!("*{}\r\n$", count * 2))
        );
        session.expect(&[
            (
                "COMMAND INFO get nope",
                "*2 *10 $3 get :2 *2 +readonly +fast :1 :1 :1 *0 *0 *0 *0 $-1",
            ),
            (
                "COMMAND DOCS GET",
                "*2 $3 get *4 $7 summary $12 As in Redis. $5 group $6 string",
            ),
            ("COMMAND LIST FILTERBY PATTERN getd*", "*1 $6 getdel"),
            ("COMMAND LIST FILTERBY", "-ERR syntax error"),
        ]);
        let mut session = session.resp3();
        assert!(
            session
                .run("COMMAND DOCS")
                .starts_with(&format!("%{count}\r\n"))
        );
    }
}
