//! SUBSCRIBE and its relatives, PUBLISH, SPUBLISH and PUBSUB.

use super::subcommand::{self, Subcommand, write_help};
use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::Result;
use crate::pubsub::TopicKind;

const PUBLISH: &[Flag] = &[Flag::PubSub, Flag::Fast];
const SUBSCRIBE: &[Flag] = &[Flag::PubSub, Flag::NoScript];

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("psubscribe", -2, psubscribe).flags(SUBSCRIBE),
    CommandSpec::new("publish", 3, publish).flags(PUBLISH),
    CommandSpec::new("pubsub", -2, pubsub).subcommands(SUBCOMMANDS),
    CommandSpec::new("punsubscribe", -1, punsubscribe).flags(SUBSCRIBE),
    CommandSpec::new("spublish", 3, spublish).flags(PUBLISH),
    CommandSpec::new("ssubscribe", -2, ssubscribe).flags(SUBSCRIBE),
    CommandSpec::new("subscribe", -2, subscribe).flags(SUBSCRIBE),
    CommandSpec::new("sunsubscribe", -1, sunsubscribe).flags(SUBSCRIBE),
    CommandSpec::new("unsubscribe", -1, unsubscribe).flags(SUBSCRIBE),
];

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand::new("channels", -2, channels),
    Subcommand::new("help", 2, help),
    Subcommand::new("numpat", 2, numpat),
    Subcommand::new("numsub", -2, numsub),
    Subcommand::new("shardchannels", -2, shardchannels),
    Subcommand::new("shardnumsub", -2, shardnumsub),
];

fn subscribe(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    subscribe_to(TopicKind::Channel, "subscribe", context, args, out)
}

fn psubscribe(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    subscribe_to(TopicKind::Pattern, "psubscribe", context, args, out)
}

fn ssubscribe(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    subscribe_to(TopicKind::Shard, "ssubscribe", context, args, out)
}

/// Subscribes to each name, with a reply for each.
fn subscribe_to(
    kind: TopicKind,
    word: &str,
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let clients = &context.server.clients;
    let Some(client) = clients.find(context.client.id) else {
        return Err(CommandError::line("ERR the connection is closing"));
    };
    for (index, name) in args[1..].iter().enumerate() {
        match clients.pubsub.subscribe(&client, kind, name) {
            Ok(count) => write_count(word, Some(name), count, out),
            // The error is the reply for this name.
            Err(error) if index > 0 => out.error(&error.to_string()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn unsubscribe(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    unsubscribe_from(TopicKind::Channel, "unsubscribe", context, args, out)
}

fn punsubscribe(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    unsubscribe_from(TopicKind::Pattern, "punsubscribe", context, args, out)
}

fn sunsubscribe(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    unsubscribe_from(TopicKind::Shard, "sunsubscribe", context, args, out)
}

/// Ends the subscriptions to each name, or to all, with a reply for each. One reply at least.
fn unsubscribe_from(
    kind: TopicKind,
    word: &str,
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let (client, pubsub) = (context.client, &context.server.clients.pubsub);
    let mut end = |name: &[u8]| {
        let count = pubsub.unsubscribe(client, kind, name);
        write_count(word, Some(name), count, out);
    };
    match &args[1..] {
        [] if client.subscriber.count(kind) == 0 => {
            write_count(word, None, client.subscriber.announced(kind), out);
        }
        [] => {
            for name in client.subscriber.names(kind) {
                end(&name);
            }
        }
        names => names.iter().for_each(|name| end(name)),
    }
    Ok(())
}

fn write_count(word: &str, name: Option<&[u8]>, count: usize, out: &mut ReplyEncoder<'_>) {
    out.push(3);
    out.bulk(word.as_bytes());
    match name {
        Some(name) => out.bulk(name),
        None => out.null(),
    }
    write_number(count, out);
}

fn write_number(number: usize, out: &mut ReplyEncoder<'_>) {
    out.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

fn publish(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    publish_to(TopicKind::Channel, context, args, out)
}

fn spublish(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    publish_to(TopicKind::Shard, context, args, out)
}

fn publish_to(
    kind: TopicKind,
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let receivers = context.publish(kind, args[1], args[2])?;
    write_number(receivers, out);
    Ok(())
}

fn pubsub(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    subcommand::run("pubsub", SUBCOMMANDS, context, args, out)
}

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    const LINES: &[&str] = &[
        "CHANNELS [<pattern>]",
        "    Return the currently active channels matching a <pattern> (default: '*').",
        "NUMPAT",
        "    Return number of subscriptions to patterns.",
        "NUMSUB [<channel> ...]",
        "    Return the number of subscribers for the specified channels, excluding",
        "    pattern subscriptions(default: no channels).",
        "SHARDCHANNELS [<pattern>]",
        "    Return the currently active shard level channels matching a <pattern> (default: '*').",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    Return the number of subscribers for the specified shard level channel(s)",
    ];
    write_help("pubsub", LINES, out);
    Ok(())
}

fn channels(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    list(TopicKind::Channel, "channels", context, args, out)
}

fn shardchannels(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    list(TopicKind::Shard, "shardchannels", context, args, out)
}

fn list(
    kind: TopicKind,
    word: &str,
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let pattern = match &args[2..] {
        [] => None,
        [pattern] => Some(*pattern),
        _ => return Err(subcommand::wrong_arguments("pubsub", word)),
    };
    let names = context.server.clients.pubsub.names(kind, pattern);
    out.array(names.len());
    names.iter().for_each(|name| out.bulk(name));
    Ok(())
}

fn numpat(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_number(context.server.clients.pubsub.len(TopicKind::Pattern), out);
    Ok(())
}

fn numsub(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    count_each(TopicKind::Channel, context, &args[2..], out)
}

fn shardnumsub(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    count_each(TopicKind::Shard, context, &args[2..], out)
}

fn count_each(
    kind: TopicKind,
    context: &Context<'_>,
    names: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    out.array(2 * names.len());
    for name in names {
        out.bulk(name);
        write_number(context.server.clients.pubsub.subscribers(kind, name), out);
    }
    Ok(())
}
