//! SUBSCRIBE and its relatives, PUBLISH, SPUBLISH and PUBSUB.

use super::subcommand::{self, write_help};
use crate::acl::Access;
use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::error::CommandError;
use crate::parse::Result;
use crate::pubsub::TopicKind;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("psubscribe", |context, args, out| subscribe(TopicKind::Pattern, context, args, out)),
    Row::new("publish", |context, args, out| publish(TopicKind::Channel, context, args, out))
        .flags(&[Flag::MayReplicate]),
    Row::container("pubsub", SUBCOMMANDS),
    Row::new("punsubscribe", |context, args, out| unsubscribe(TopicKind::Pattern, context, args, out)),
    Row::new("spublish", |context, args, out| publish(TopicKind::Shard, context, args, out))
        .flags(&[Flag::MayReplicate]),
    Row::new("ssubscribe", |context, args, out| subscribe(TopicKind::Shard, context, args, out)),
    Row::new("subscribe", |context, args, out| subscribe(TopicKind::Channel, context, args, out)),
    Row::new("sunsubscribe", |context, args, out| unsubscribe(TopicKind::Shard, context, args, out)),
    Row::new("unsubscribe", |context, args, out| unsubscribe(TopicKind::Channel, context, args, out)),
];

const SUBCOMMANDS: Subcommands = &[
    ("channels", |context, args, out| list(TopicKind::Channel, context, args, out)),
    ("help", help),
    ("numpat", numpat),
    ("numsub", |context, args, out| count_each(TopicKind::Channel, context, &args[2..], out)),
    ("shardchannels", |context, args, out| list(TopicKind::Shard, context, args, out)),
    ("shardnumsub", |context, args, out| count_each(TopicKind::Shard, context, &args[2..], out)),
];

/// Subscribes to each name, with a reply for each.
fn subscribe(kind: TopicKind, context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.server.check_memory()?;
    let word = format!("{}subscribe", kind.prefix());
    let clients = &context.server.clients;
    let Some(client) = clients.find(context.client.id) else {
        return Err(CommandError::line("ERR the connection is closing"));
    };
    for (index, name) in args[1..].iter().enumerate() {
        match clients.pubsub.subscribe(&client, kind, name) {
            Ok(count) => write_count(&word, Some(name), count, out),
            // The error is the reply for this name.
            Err(error) if index > 0 => out.error(&error.to_string()),
            Err(error) => return Err(error),
        }
    }
    // The user may have lost a channel since the command was checked, before anybody could know that it subscribes.
    if client.account.access() != Access::All {
        let user = client.account.user();
        let mut names = args[1..].iter();
        if names.any(|name| !user.may_subscribe(name, kind == TopicKind::Pattern)) {
            clients.kill(&client);
        }
    }
    Ok(())
}

/// Ends the subscriptions to each name, or to all, with a reply for each. One reply at least.
fn unsubscribe(kind: TopicKind, context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let word = &format!("{}unsubscribe", kind.prefix());
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

fn publish(kind: TopicKind, context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let receivers = context.publish(kind, args[1], args[2])?;
    write_number(receivers, out);
    Ok(())
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

fn list(kind: TopicKind, context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let pattern = match &args[2..] {
        [] => None,
        [pattern] => Some(*pattern),
        _ => return Err(subcommand::wrong_arguments("pubsub", args[1])),
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

fn count_each(kind: TopicKind, context: &Context<'_>, names: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.array(2 * names.len());
    for name in names {
        out.bulk(name);
        write_number(context.server.clients.pubsub.subscribers(kind, name), out);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use parking_lot::Mutex;
    use psp_protocols::Sink;
    use psp_protocols::resp::{CommandId, Encoder, Version};
    use psp_server::{PushBatch, PushError};

    use crate::command::{CommandTable, Context};
    use crate::pubsub::{Outlet, OutputLimit};
    use crate::testing::Session;

    /// What a session got without asking.
    #[derive(Clone, Default)]
    struct Inbox(Arc<Mutex<State>>);

    #[derive(Default)]
    struct State {
        bytes: Vec<u8>,
        queued_bytes: usize,
        is_closed: bool,
    }

    impl Outlet for Inbox {
        fn send(&self, _: &mut PushBatch, message: Bytes) -> Result<(), PushError> {
            let mut state = self.0.lock();
            if state.is_closed {
                return Err(PushError::Gone);
            }
            state.bytes.extend_from_slice(&message);
            Ok(())
        }

        fn queued_bytes(&self) -> usize {
            self.0.lock().queued_bytes
        }

        fn close(&self) {
            self.0.lock().is_closed = true;
        }
    }

    impl Inbox {
        fn of(session: &Session) -> Self {
            let inbox = Self::default();
            let outlet = inbox.clone();
            let attached = || Some(Box::new(outlet) as Box<dyn Outlet>);
            session.client.subscriber.attach(attached);
            inbox
        }

        fn take(&self) -> String {
            let bytes = std::mem::take(&mut self.0.lock().bytes);
            let text = String::from_utf8_lossy(&bytes).replace("\r\n", " ");
            text.trim_end().to_owned()
        }
    }

    #[test]
    fn messages_reach_channels_patterns_and_shards() {
        let mut publisher = Session::new();
        let (mut old, mut new) = (publisher.beside(), publisher.beside().resp3());
        let (at_old, at_new) = (Inbox::of(&old), Inbox::of(&new));
        old.expect(&[("SUBSCRIBE a b", "*3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2")]);
        new.expect(&[
            ("PSUBSCRIBE a*", ">3 $10 psubscribe $2 a* :1"),
            ("SSUBSCRIBE a", ">3 $10 ssubscribe $1 a :1"),
        ]);
        publisher.expect(&[("PUBLISH a x", ":2"), ("SPUBLISH a y", ":1"), ("PUBLISH c x", ":0")]);
        assert_eq!(at_old.take(), "*3 $7 message $1 a $1 x");
        assert_eq!(at_new.take(), ">4 $8 pmessage $2 a* $1 a $1 x >3 $8 smessage $1 a $1 y");
        let info = publisher.run("INFO stats");
        for line in ["pubsub_channels:2", "pubsub_patterns:1", "pubsubshard_channels:1"] {
            assert!(info.contains(&format!("{line}\r\n")), "{info}");
        }
        let list = publisher.run("CLIENT LIST TYPE pubsub");
        assert!(list.contains("flags=P ") && list.contains(" sub=2 psub=0 ssub=0 "), "{list}");
        assert!(list.contains(" sub=0 psub=1 ssub=1 "), "{list}");
        let normal = publisher.run("CLIENT LIST TYPE normal");
        assert_eq!(normal.matches("flags=").count(), 1, "{normal}");
        drop((old, new));
        publisher.expect(&[("PUBLISH a x", ":0"), ("PUBSUB CHANNELS", "*0"), ("PUBSUB NUMPAT", ":0")]);
    }

    #[test]
    fn a_client_for_which_too_much_waits_is_closed_and_counted() {
        let mut publisher = Session::new();
        let mut slow = publisher.beside();
        let at_slow = Inbox::of(&slow);
        slow.run("SUBSCRIBE c");
        let limit = OutputLimit { hard_bytes: 1000, ..OutputLimit::default() };
        publisher.server.clients.pubsub.set_limit(limit);
        at_slow.0.lock().queued_bytes = 1000;
        publisher.expect(&[("PUBLISH c x", ":1")]);
        assert!(!at_slow.0.lock().is_closed);
        at_slow.0.lock().queued_bytes = 1001;
        publisher.expect(&[("PUBLISH c x", ":1"), ("PUBLISH c x", ":0")]);
        assert!(at_slow.0.lock().is_closed);
        assert_eq!(publisher.server.clients.pubsub.closed(), 1);
    }

    #[test]
    fn what_a_transaction_publishes_comes_at_its_end_and_once() {
        let mut publisher = Session::new();
        let mut subscriber = publisher.beside();
        let inbox = Inbox::of(&subscriber);
        subscriber.run("SUBSCRIBE c");
        publisher.expect(&[("MULTI", "+OK"), ("PUBLISH c x", "+QUEUED"), ("INCR k", "+QUEUED")]);
        assert_eq!(inbox.take(), "");
        publisher.expect(&[("EXEC", "*2 :1 :1")]);
        assert_eq!(inbox.take(), "*3 $7 message $1 c $1 x");
        publisher.expect(&[
            ("EVAL return(redis.call('publish','c','y')) 0", ":1"),
            ("WATCH k", "+OK"),
            ("SET k 1", "+OK"),
            ("MULTI", "+OK"),
            ("PUBLISH c z", "+QUEUED"),
            ("EXEC", "*-1"),
        ]);
        assert_eq!(inbox.take(), "*3 $7 message $1 c $1 y");
    }

    #[test]
    fn nothing_comes_after_the_end_of_a_subscription() {
        let publisher = Session::new();
        let mut subscriber = publisher.beside();
        let inbox = Inbox::of(&subscriber);
        for _ in 0..100 {
            subscriber.run("SUBSCRIBE c");
            let mut publisher = publisher.beside();
            std::thread::scope(|scope| {
                scope.spawn(move || (0..50).for_each(|_| drop(publisher.run("PUBLISH c x"))));
                std::thread::yield_now();
                subscriber.expect(&[("UNSUBSCRIBE c", "*3 $11 unsubscribe $1 c :0")]);
                inbox.take();
                std::thread::yield_now();
                assert_eq!(inbox.take(), "");
            });
        }
    }

    /// The user loses the channel between the check of the command and its run.
    #[test]
    fn who_subscribes_to_what_was_just_lost_is_closed() {
        for (line, is_closed) in [
            ("SUBSCRIBE c", false),
            ("SUBSCRIBE c d", true),
            ("SSUBSCRIBE d", true),
            ("PSUBSCRIBE c*", true),
        ] {
            let mut admin = Session::new();
            let mut session = admin.beside();
            admin.expect(&[("ACL SETUSER alice on nopass +@all &c", "+OK")]);
            session.expect(&[("AUTH alice x", "+OK")]);
            let stats = session.server.add_worker();
            let mut context = Context::new(&session.server, &session.client, &stats);
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let spec = CommandTable::get().find(CommandId::of(args[0]));
            let mut reply = Vec::new();
            let out: &mut dyn Sink = &mut reply;
            let mut out = Encoder::new(out, Version::Resp2);
            (spec.expect(line).run)(&mut context, &args, &mut out).expect(line);
            let is_open = session.server.clients.find(session.client.id).is_some();
            assert_eq!(!is_open, is_closed, "{line}");
        }
    }
}
