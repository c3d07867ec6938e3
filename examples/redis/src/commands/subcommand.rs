//! Commands with subcommands: `CLIENT LIST`, `CONFIG GET`.

use psp_protocols::resp::CommandId;

use crate::command::{CommandFn, CommandTable, Context, ReplyEncoder};
use crate::error::{CommandError, quotable};
use crate::parse::{self, Result};

/// One subcommand. Its arity includes the name of its command.
#[derive(Debug, Clone, Copy)]
pub struct Subcommand {
    name: &'static str,
    arity: i32,
    run: CommandFn,
}

impl Subcommand {
    pub(crate) const fn new(name: &'static str, arity: i32, run: CommandFn) -> Self {
        Self { name, arity, run }
    }

    /// Its name in lower case.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// Runs the subcommand that `args[1]` names, of the command that `args[0]` names.
pub(crate) fn run(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let command = CommandTable::get().find(CommandId::of(args[0]));
    let spec = command.ok_or_else(|| CommandError::unknown_command(args))?;
    run_one_of(spec.name, &spec.subcommands, context, args, out)
}

/// Runs the one of `subcommands` that `args[1]` names. `container` is their command's name in lower case, as in errors.
pub(super) fn run_one_of(
    container: &str,
    subcommands: &[Subcommand],
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    match find(container, subcommands, args)? {
        Some(subcommand) => (subcommand.run)(context, args, out),
        None => {
            let names = subcommands.iter().map(|it| it.name.to_uppercase());
            let names: Vec<_> = names.collect();
            let lines: Vec<_> = names.iter().map(String::as_str).collect();
            write_help(container, &lines, out);
            Ok(())
        }
    }
}

/// The subcommand that `args[1]` names; `None` for HELP.
///
/// # Errors
/// There is no such subcommand, or the number of arguments is wrong.
pub(crate) fn find<'s>(
    container: &str,
    subcommands: &'s [Subcommand],
    args: &[&[u8]],
) -> Result<Option<&'s Subcommand>> {
    let mut known = subcommands.iter();
    let Some(found) = known.find(|subcommand| parse::is(args[1], subcommand.name)) else {
        if parse::is(args[1], "HELP") {
            let arity = CommandError::Arity(format!("{container}|help").into());
            return if args.len() == 2 { Ok(None) } else { Err(arity) };
        }
        let container = container.to_uppercase();
        return Err(CommandError::unknown_subcommand(&container, args[1]));
    };
    if !parse::arity_accepts(found.arity, args.len()) {
        let name = format!("{container}|{}", found.name);
        return Err(CommandError::Arity(name.into()));
    }
    Ok(Some(found))
}

/// The error for a number of arguments that no form of a subcommand has.
pub(super) fn wrong_arguments(container: &str, subcommand: &[u8]) -> CommandError {
    let (container, subcommand) = (container.to_uppercase(), quotable(subcommand));
    let line = format!("ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try {container} HELP.");
    CommandError::Other(line.into())
}

/// Writes `lines` and what precedes and follows them in every HELP of Redis.
pub(super) fn write_help(container: &str, lines: &[&str], out: &mut ReplyEncoder<'_>) {
    let title = format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", container.to_uppercase());
    out.array(lines.len() + 3);
    out.simple(&title);
    for line in lines {
        out.simple(line);
    }
    out.simple("HELP");
    out.simple("    Prints this help.");
}
