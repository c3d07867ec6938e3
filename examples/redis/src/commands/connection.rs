//! Commands about the connection itself.

use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::parse::Result;

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("ping", -1, ping).flags(&[Flag::Fast]),
    CommandSpec::new("echo", 2, echo).flags(&[Flag::Fast]),
];

fn ping(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    match args[1..] {
        [] => out.simple("PONG"),
        [message] => out.bulk(message),
        _ => return Err(crate::error::CommandError::Arity("ping".into())),
    }
    Ok(())
}

fn echo(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.bulk(args[1]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn pings_and_echoes() {
        Session::new().expect(&[
            ("PING", "+PONG"),
            ("ping hello", "$5 hello"),
            ("ECHO hello", "$5 hello"),
            ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
            ("ECHO", "-ERR wrong number of arguments for 'echo' command"),
            ("NOPE x", "-ERR unknown command 'NOPE', with args beginning with: 'x'"),
        ]);
    }
}
