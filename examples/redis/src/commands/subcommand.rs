//! Commands with subcommands: `CLIENT LIST`, `CONFIG GET`.

use crate::command::{CommandFn, Context, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{self, Result};

/// One subcommand. Its arity includes the name of its command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subcommand {
    pub(super) name: &'static str,
    pub(super) arity: i32,
    pub(super) run: CommandFn,
}

impl Subcommand {
    pub(super) const fn new(name: &'static str, arity: i32, run: CommandFn) -> Self {
        Self { name, arity, run }
    }
}

/// Runs the subcommand that `args[1]` names. `container` is its command's name in lower case, as
/// in errors.
pub(super) fn run(
    container: &str,
    subcommands: &[Subcommand],
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let found = subcommands
        .iter()
        .find(|subcommand| parse::is(args[1], subcommand.name));
    let Some(subcommand) = found else {
        if parse::is(args[1], "HELP") && args.len() == 2 {
            write_help(container, subcommands, out);
            return Ok(());
        }
        let container = container.to_uppercase();
        return Err(CommandError::unknown_subcommand(&container, args[1]));
    };
    if !parse::arity_accepts(subcommand.arity, args.len()) {
        let name = format!("{container}|{}", subcommand.name);
        return Err(CommandError::Arity(name.into()));
    }
    (subcommand.run)(context, args, out)
}

/// The names of all subcommands, in the form of Redis.
fn write_help(container: &str, subcommands: &[Subcommand], out: &mut ReplyEncoder<'_>) {
    let title = format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        container.to_uppercase()
    );
    out.array(subcommands.len() + 3);
    out.simple(&title);
    for subcommand in subcommands {
        out.simple(&subcommand.name.to_uppercase());
    }
    out.simple("HELP");
    out.simple("    Print this help.");
}
