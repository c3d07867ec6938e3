//! Commands about the connection itself.

use psp_protocols::resp::{Encoder, Version};

use crate::acl::{self, Access};
use crate::client::{Labels, Replies, version_number};
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::parse::{self, Result};
use crate::redis_version::REDIS_VERSION;

use super::client::check_label;
use super::databases::database_of;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("auth", auth),
    Row::new("echo", echo),
    Row::new("hello", hello),
    Row::new("ping", ping),
    Row::new("quit", quit),
    Row::new("reset", reset),
    Row::new("select", select),
];

fn ping(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    match args[1..] {
        [_, _, ..] => return Err(CommandError::Arity("ping".into())),
        ref message if context.client.is_in_subscribed_mode() => {
            out.array(2);
            out.bulk(b"pong");
            out.bulk(message.first().copied().unwrap_or_default());
        }
        [] => out.simple("PONG"),
        [message] => out.bulk(message),
    }
    Ok(())
}

fn echo(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.bulk(args[1]);
    Ok(())
}

fn quit(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.close = true;
    out.simple("OK");
    Ok(())
}

fn reset(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.client.set_version(Version::Resp2);
    context.client.transaction.reset();
    context.select(0);
    context.server.clients.pubsub.forget(context.client);
    context.server.clients.monitors.remove(context.client);
    context.client.set_replies(Replies::All);
    context.server.clients.tracking.disable(context.client);
    context.client.set_no_evict(false);
    context.client.set_no_touch(false);
    context.server.acl.reset(context.client);
    context.client.relabel(|labels| *labels = Labels::default());
    out.simple("RESET");
    Ok(())
}

fn select(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.select(database_of(args[1], context)?);
    out.simple("OK");
    Ok(())
}

fn auth(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (user, password): (&[u8], _) = match args[1..] {
        [password] => {
            if context.server.acl.has_nopass() {
                return Err(CommandError::line(
                    "ERR AUTH <password> called without any password configured for the default \
                     user. Are you sure your configuration is correct?",
                ));
            }
            (acl::DEFAULT, password)
        }
        [user, password] => (user, password),
        _ => return Err(CommandError::Syntax),
    };
    authenticate(context, (user, password), args)?;
    out.simple("OK");
    Ok(())
}

fn authenticate(context: &Context<'_>, credentials: (&[u8], &[u8]), args: &[&[u8]]) -> Result<()> {
    let is_queued = context.store.is_fork();
    acl::authenticate(context.server, context.client, credentials, (args, is_queued))
}

fn hello(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let mut version = context.client.version();
    if let Some(arg) = args.get(1) {
        let number = parse::integer(arg)
            .map_err(|_text| CommandError::line("ERR Protocol version is not an integer or out of range"))?;
        version = match number {
            2 => Version::Resp2,
            3 => Version::Resp3,
            _ => return Err(CommandError::NoProto),
        };
    }
    let mut credentials = None;
    let mut name = None;
    let mut options = args.get(2..).unwrap_or_default();
    while let Some((option, rest)) = options.split_first() {
        options = match rest {
            [user, password, rest @ ..] if parse::is(option, "AUTH") => {
                credentials = Some((*user, *password));
                rest
            }
            [label, rest @ ..] if parse::is(option, "SETNAME") => {
                name = Some(check_label("Client names", label)?);
                rest
            }
            _ => {
                let option = String::from_utf8_lossy(option);
                let line = format!("ERR Syntax error in HELLO option '{option}'");
                return Err(CommandError::Other(line.into()));
            }
        };
    }
    if let Some(credentials) = credentials {
        authenticate(context, credentials, args)?;
    }
    if context.client.account.access() == Access::None {
        return Err(CommandError::line(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        context.client.relabel(|labels| labels.name = name);
    }
    context.client.set_version(version);
    // The reply already uses the version that it announces.
    let mut reply = Vec::new();
    write_greeting(&mut Encoder::new(&mut reply, version), context.client.id);
    out.raw(&reply);
    Ok(())
}

fn write_greeting(out: &mut Encoder<'_, Vec<u8>>, id: u64) {
    out.map(7);
    for (field, text) in [("server", "redis"), ("version", REDIS_VERSION)] {
        out.bulk(field.as_bytes());
        out.bulk(text.as_bytes());
    }
    out.bulk(b"proto");
    out.integer(i64::from(version_number(out.version())));
    out.bulk(b"id");
    out.integer(i64::try_from(id).unwrap_or(i64::MAX));
    for (field, text) in [("mode", "standalone"), ("role", "master")] {
        out.bulk(field.as_bytes());
        out.bulk(text.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
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
            ("SELECT 0", "+OK"),
            ("SELECT 16", "-ERR DB index is out of range"),
            ("SELECT x", "-ERR value is not an integer or out of range"),
        ]);
    }

    #[test]
    fn no_arguments_get_no_reply() {
        assert!(Session::new().run_raw(&[]).is_empty());
    }

    #[test]
    fn quit_closes_after_its_reply() {
        let mut session = Session::new();
        session.expect(&[("PING", "+PONG")]);
        assert!(!session.closed);
        session.expect(&[("QUIT", "+OK")]);
        assert!(session.closed);
    }

    #[test]
    fn hello_negotiates_the_version() {
        let mut session = Session::new();
        let greeting = session.run("HELLO 3 SETNAME me");
        assert!(greeting.starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"), "{greeting}");
        assert!(greeting.contains("$5\r\nproto\r\n:3\r\n"), "{greeting}");
        session.expect(&[
            ("GET none", "_"),
            ("CLIENT GETNAME", "$2 me"),
            ("HELLO 4", "-NOPROTO unsupported protocol version"),
            ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
            ("HELLO 3 FOO", "-ERR Syntax error in HELLO option 'FOO'"),
            ("HELLO 3 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'"),
        ]);
        assert!(session.run("HELLO").starts_with("%7"));
        assert!(session.run("HELLO 2").starts_with("*14"));
        session.expect(&[("GET none", "$-1")]);
    }

    #[test]
    fn nothing_but_authentication_works_without_a_password() {
        let mut trusted = Session::new();
        trusted.expect(&[
            ("AUTH default anything", "+OK"),
            (
                "AUTH x",
                "-ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?",
            ),
            ("CONFIG SET requirepass secret", "+OK"),
            ("PING", "+PONG"),
        ]);
        let mut session = trusted.beside();
        let noauth = "-NOAUTH Authentication required.";
        let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
        session.expect(&[
            ("PING", noauth),
            ("GET a", noauth),
            ("CLIENT LIST", noauth),
            ("CONFIG GET *", noauth),
            ("AUTH wrong", wrong),
            ("AUTH nobody secret", wrong),
            ("HELLO 3 AUTH default wrong", wrong),
            ("AUTH a b c", "-ERR syntax error"),
        ]);
        assert!(session.run("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
        session.expect(&[("PING", noauth), ("AUTH secret", "+OK"), ("PING", "+PONG")]);
        session.expect(&[("RESET", "+RESET"), ("PING", noauth)]);
        assert!(session.run("HELLO 3 AUTH default secret").starts_with("%7"));
        session.expect(&[("PING", "+PONG")]);
        trusted.beside().expect(&[("QUIT", "+OK")]);
    }
}
