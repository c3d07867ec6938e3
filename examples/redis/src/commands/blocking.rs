//! Commands that pop from lists and sorted sets, and wait if there is nothing to pop: see [`crate::blocking`].

use psp_store::{List, ListEnd, SortedSet};

use super::lists::{self, MultiPop, move_element, parse_end, pop_one};
use super::sorted_sets::{self, From, parse_from, pop_many};
use super::walk;
use crate::blocking::{Blocking, deadline};
use crate::command::{Context, ReplyEncoder, Row};
use crate::keyspace_events::{Class, Rule};
use crate::parse::Result;

/// Rows of the command table, for lists.
pub(crate) const LIST_COMMANDS: &[Row] = &[
    Row::new("blmove", blmove).effect(Class::List, Rule::MoveElement),
    Row::new("blmpop", blmpop).effect(Class::List, Rule::CountedFirst(2)),
    Row::new("blpop", |context, args, out| list_pop(context, args, out, ListEnd::Left)).event(
        Class::List,
        "lpop",
        Rule::FirstOf,
    ),
    Row::new("brpop", |context, args, out| list_pop(context, args, out, ListEnd::Right)).event(
        Class::List,
        "rpop",
        Rule::FirstOf,
    ),
    Row::new("brpoplpush", brpoplpush).effect(Class::List, Rule::MoveElement),
];

/// Rows of the command table, for sorted sets.
pub(crate) const SORTED_SET_COMMANDS: &[Row] = &[
    Row::new("bzmpop", bzmpop).effect(Class::SortedSet, Rule::CountedFirst(2)),
    Row::new("bzpopmax", |context, args, out| sorted_set_pop(context, args, out, From::Highest)).event(
        Class::SortedSet,
        "zpopmax",
        Rule::FirstOf,
    ),
    Row::new("bzpopmin", |context, args, out| sorted_set_pop(context, args, out, From::Lowest)).event(
        Class::SortedSet,
        "zpopmin",
        Rule::FirstOf,
    ),
];

fn null_array(out: &mut ReplyEncoder<'_>) {
    out.null_array();
}

fn null(out: &mut ReplyEncoder<'_>) {
    out.null();
}

/// `<name> key ... timeout`: the keys and the timeout.
fn keys_and_timeout<'a>(args: &'a [&'a [u8]]) -> (&'a [&'a [u8]], &'a [u8]) {
    (&args[1..args.len() - 1], args[args.len() - 1])
}

fn list_pop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, end: ListEnd) -> Result<()> {
    let (keys, timeout) = keys_and_timeout(args);
    let pop = move |context: &Context<'_>, key: &[u8], out: &mut ReplyEncoder<'_>| {
        let popped = pop_one(context, key, end)?;
        if let Some(element) = &popped {
            out.array(2);
            out.bulk(key);
            walk::element(out, element);
        }
        Ok(popped.is_some())
    };
    Blocking::on::<List>(keys, deadline(timeout)?, null_array, pop).run(context, out)
}

fn blmpop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let MultiPop { keys, end, count } = MultiPop::parse(&args[1..])?;
    let (end, deadline) = (parse_end(end)?, deadline(args[1])?);
    let pop = move |context: &Context<'_>, key: &[u8], out: &mut ReplyEncoder<'_>| {
        lists::multi_pop(context, key, count, end, out)
    };
    Blocking::on::<List>(keys, deadline, null_array, pop).run(context, out)
}

fn blmove(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let ends = [parse_end(args[3])?, parse_end(args[4])?];
    blocking_move(context, [args[1], args[2]], ends, args[5], out)
}

fn brpoplpush(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let ends = [ListEnd::Right, ListEnd::Left];
    blocking_move(context, [args[1], args[2]], ends, args[3], out)
}

fn blocking_move(
    context: &mut Context<'_>,
    [source, destination]: [&[u8]; 2],
    ends: [ListEnd; 2],
    timeout: &[u8],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let destination = Box::<[u8]>::from(destination);
    let take = move |context: &Context<'_>, source: &[u8], out: &mut ReplyEncoder<'_>| {
        let moved = move_element(context, [source, &destination], ends)?;
        if let Some(element) = &moved {
            walk::element(out, element);
        }
        Ok(moved.is_some())
    };
    Blocking::on::<List>(&[source], deadline(timeout)?, null, take).run(context, out)
}

fn sorted_set_pop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, from: From) -> Result<()> {
    let (keys, timeout) = keys_and_timeout(args);
    let pop = move |context: &Context<'_>, key: &[u8], out: &mut ReplyEncoder<'_>| {
        let popped = pop_many(context, key, 1, from)?.unwrap_or_default();
        if let Some(scored) = popped.first() {
            out.array(3);
            out.bulk(key);
            walk::element(out, &scored.member);
            out.double(scored.score);
        }
        Ok(!popped.is_empty())
    };
    Blocking::on::<SortedSet>(keys, deadline(timeout)?, null_array, pop).run(context, out)
}

fn bzmpop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let MultiPop { keys, end, count } = MultiPop::parse(&args[1..])?;
    let (from, deadline) = (parse_from(end)?, deadline(args[1])?);
    let pop = move |context: &Context<'_>, key: &[u8], out: &mut ReplyEncoder<'_>| {
        sorted_sets::multi_pop(context, key, count, from, out)
    };
    Blocking::on::<SortedSet>(keys, deadline, null_array, pop).run(context, out)
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    /// A server and `N` more clients that have sent these commands, which wait.
    fn waiting<const N: usize>(commands: [&str; N]) -> (Session, [Session; N]) {
        let session = Session::new();
        let clients = commands.map(|command| {
            let mut client = session.beside();
            assert_eq!(client.run(command), "", "{command}");
            assert_eq!(client.late(), None, "{command}");
            client
        });
        (session, clients)
    }

    #[test]
    fn commands_that_find_something_do_not_wait() {
        Session::new().expect(&[
            ("RPUSH l a b c d e", ":5"),
            ("BLPOP none l 0", "*2 $1 l $1 a"),
            ("BRPOP l 0", "*2 $1 l $1 e"),
            ("BLMOVE l m LEFT RIGHT 0", "$1 b"),
            ("BRPOPLPUSH l m 0", "$1 d"),
            ("LRANGE m 0 -1", "*2 $1 d $1 b"),
            ("BLMPOP 0 2 none m LEFT COUNT 5", "*2 $1 m *2 $1 d $1 b"),
            ("ZADD z 1 a 2 b 3 c 4 d", ":4"),
            ("BZPOPMIN none z 0", "*3 $1 z $1 a $1 1"),
            ("BZPOPMAX z 0", "*3 $1 z $1 d $1 4"),
            ("BZMPOP 0 1 z MAX COUNT 5", "*2 $1 z *2 *2 $1 c $1 3 *2 $1 b $1 2"),
            ("EXISTS l m z", ":1"),
        ]);
    }

    #[test]
    fn errors_come_at_once() {
        let mut session = Session::new();
        session.run("SET s v");
        for (line, error) in [
            ("BLPOP s 0", "-WRONGTYPE"),
            ("BZPOPMIN none s 0", "-WRONGTYPE"),
            ("BLPOP l x", "-ERR timeout is not a float"),
            ("BLPOP l -1", "-ERR timeout is negative"),
            ("BLPOP l inf", "-ERR timeout is out of range"),
            ("BLMOVE l m LEFT UP 0", "-ERR syntax"),
            ("BLMPOP 0 0 l LEFT", "-ERR numkeys"),
            ("BLMPOP x 1 l LEFT", "-ERR timeout"),
            ("BZMPOP 0 1 z UP", "-ERR syntax"),
            ("BLPOP 0", "-ERR wrong number of arguments"),
        ] {
            let reply = session.run(line);
            assert!(reply.starts_with(error), "{line}: {reply}");
        }
    }

    #[test]
    fn clients_are_served_in_the_order_in_which_they_came() {
        let commands = ["BLPOP a l 0", "BRPOP l 0", "BLMPOP 0 1 l LEFT COUNT 2", "BLPOP l 0"];
        let (mut session, clients) = waiting(commands);
        assert_eq!(session.run("CLIENT LIST").matches("flags=b ").count(), 4);
        assert_eq!(session.run("RPUSH l 1 2 3 4"), ":4\r\n");
        let replies = clients.each_ref().map(Session::late);
        let served = ["*2 $1 l $1 1", "*2 $1 l $1 4", "*2 $1 l *2 $1 2 $1 3"];
        assert_eq!(replies[..3], served.map(|reply| Some(reply.to_owned())));
        assert_eq!(replies[3], None);
        session.expect(&[("LLEN l", ":0"), ("RPUSH l 5", ":1")]);
        assert_eq!(clients[3].late().unwrap(), "*2 $1 l $1 5");
        assert!(session.server.clients.blocked.is_empty());
        assert_eq!(session.run("CLIENT LIST").matches("flags=b ").count(), 0);
    }

    #[test]
    fn a_key_for_which_others_wait_in_vain_is_not_passed_over() {
        let (mut session, _others) = waiting(["XREAD BLOCK 0 STREAMS k $", "BZPOPMIN k 0"]);
        session.expect(&[("RPUSH k a", ":1"), ("RPUSH j b", ":1"), ("BLPOP k j 0", "*2 $1 k $1 a")]);
    }

    #[test]
    fn what_those_leave_who_came_first_is_popped_before_other_keys() {
        let (mut session, clients) = waiting(["BLPOP k 0"]);
        session.expect(&[("RPUSH j b", ":1"), ("RPUSH made 1 2", ":2")]);
        let made = session.store().get(b"made").expect("a list");
        // A command has stored the key, and has not looked yet for those who wait.
        session.store().update(b"k", |slot| {
            slot.insert(made);
            slot.wake_nobody();
        });
        session.expect(&[("BLPOP k j 0", "*2 $1 k $1 2"), ("BLPOP k j 0", "*2 $1 j $1 b")]);
        assert_eq!(clients[0].late().unwrap(), "*2 $1 k $1 1");
    }

    #[test]
    fn every_command_that_stores_a_list_or_a_sorted_set_serves_those_who_wait() {
        for (blocked, prepare, store) in [
            ("BLPOP k 0", "", "LPUSH k 1"),
            ("BLPOP k 0", "RPUSH a 1", "RENAME a k"),
            ("BLPOP k 0", "RPUSH a 1", "COPY a k"),
            ("BLPOP k 0", "RPUSH a 1", "LMOVE a k LEFT LEFT"),
            ("BLPOP k 0", "RPUSH a 1", "SORT a STORE k"),
            ("BLPOP k 0", "", "EVAL redis.call('rpush','k','1') 0"),
            ("BZPOPMIN k 0", "", "ZADD k 1 a"),
            ("BZPOPMAX k 0", "ZADD a 1 a", "ZRANGESTORE k a 0 -1"),
            ("BZMPOP 0 1 k MIN", "ZADD a 1 a", "ZUNIONSTORE k 1 a"),
            ("BZPOPMAX k 0", "ZADD k 1 a", "ZINCRBY k 1 a"),
        ] {
            let mut session = Session::new();
            session.run(prepare);
            let mut client = session.beside();
            let at_once = client.run(blocked);
            session.run(store);
            assert!(!at_once.is_empty() || client.late().is_some(), "{blocked} {store}");
        }
    }

    #[test]
    fn a_client_that_moves_an_element_serves_the_next_one() {
        let (mut session, clients) = waiting(["BLMOVE a b LEFT RIGHT 0", "BLMOVE b c LEFT LEFT 0"]);
        session.expect(&[("RPUSH a x", ":1"), ("LRANGE c 0 -1", "*1 $1 x")]);
        assert_eq!(clients.map(|client| client.late()), [(); 2].map(|()| Some("$1 x".into())));
    }

    #[test]
    fn a_value_of_another_type_ends_no_wait_but_a_destination_of_another_type_does() {
        let (mut session, clients) = waiting(["BZPOPMIN k 0", "BLPOP k 0", "BLMOVE l s LEFT LEFT 0"]);
        session.expect(&[("SET s v", "+OK"), ("SET k v", "+OK"), ("DEL k", ":1")]);
        session.expect(&[("RPUSH l x", ":1"), ("RPUSH k x", ":1"), ("LLEN l", ":1")]);
        let [sorted, list, moved] = clients.map(|client| client.late());
        assert_eq!((sorted, list.unwrap()), (None, "*2 $1 k $1 x".into()));
        assert!(moved.unwrap().starts_with("-WRONGTYPE"));
    }

    #[test]
    fn transactions_serve_others_at_their_end_and_do_not_wait() {
        let (mut session, clients) = waiting(["BLPOP l 0"]);
        session.expect(&[
            ("MULTI", "+OK"),
            ("RPUSH l a", "+QUEUED"),
            ("DEL l", "+QUEUED"),
            ("BLPOP l 0", "+QUEUED"),
            ("BLMOVE l m LEFT LEFT 0", "+QUEUED"),
            ("EXEC", "*4 :1 :1 *-1 $-1"),
        ]);
        assert_eq!(clients[0].late(), None);
        session.expect(&[
            ("MULTI", "+OK"),
            ("RPUSH l a", "+QUEUED"),
            ("LPUSH l b", "+QUEUED"),
            ("EXEC", "*2 :1 :2"),
            ("LLEN l", ":1"),
        ]);
        assert_eq!(clients[0].late().unwrap(), "*2 $1 l $1 b");
        session.expect(&[("EVAL return(redis.call('blmpop',0,1,'none','left')) 0", "$-1")]);
    }

    #[test]
    fn waits_end_by_timeout_and_by_client_unblock() {
        let (mut session, clients) = waiting(["BLPOP a 0", "BZPOPMIN z 0"]);
        for (command, nothing) in [("BLPOP a 0.01", "*-1"), ("BLMOVE a b LEFT LEFT 0.01", "*-1")] {
            let mut client = session.beside();
            assert_eq!(client.run(command), "", "{command}");
            assert_eq!(client.late_soon(), nothing, "{command}");
        }
        let ids = clients.each_ref().map(|client| client.client.id);
        session.expect(&[
            (&format!("CLIENT UNBLOCK {}", ids[0]), ":1"),
            (&format!("CLIENT UNBLOCK {}", ids[0]), ":0"),
            (&format!("CLIENT UNBLOCK {} ERROR", ids[1]), ":1"),
            ("CLIENT UNBLOCK 1 WRONG", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
            ("CLIENT UNBLOCK x", "-ERR value is not an integer or out of range"),
        ]);
        assert_eq!(clients[0].late().unwrap(), "*-1");
        assert_eq!(clients[1].late().unwrap(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
        assert!(!session.store().is_awaited(b"a"));
    }

    #[test]
    fn nothing_is_popped_for_a_client_that_left() {
        let (mut session, [gone, dropped, stays]) = waiting(["BLPOP l 0", "BLPOP l 0", "BLPOP l 0"]);
        gone.leave();
        drop(dropped);
        assert_eq!(session.server.clients.blocked.len(), 2);
        session.run("RPUSH l a b");
        assert_eq!(stays.late().unwrap(), "*2 $1 l $1 a");
        assert_eq!((gone.late(), session.run("LLEN l").as_str()), (None, ":1\r\n"));
    }

    #[test]
    fn resp3_has_one_null_and_doubles() {
        let session = Session::new();
        let mut client = session.beside().resp3();
        client.run("BLPOP l 0.001");
        assert_eq!(client.late_soon(), "_");
        client.run("ZADD z 1.5 a");
        client.expect(&[("BZPOPMIN z 0", "*3 $1 z $1 a ,1.5")]);
    }

    /// Each pushed element is popped by exactly one client, however pushes and pops overlap.
    #[test]
    fn elements_are_popped_once_while_many_push_and_wait() {
        const POPS: usize = 500;
        let session = Session::new();
        let popped = std::thread::scope(|scope| {
            for pusher in 0..2 {
                let mut client = session.beside();
                scope.spawn(move || {
                    for index in 0..POPS {
                        client.run(&format!("RPUSH l {pusher}:{index}"));
                    }
                });
            }
            let poppers = [(); 2].map(|()| {
                let mut client = session.beside();
                scope.spawn(move || {
                    let pop = || {
                        let reply = client.run("BLPOP none l 0");
                        let reply = if reply.is_empty() {
                            client.late_soon()
                        } else {
                            reply.replace("\r\n", " ").trim_end().to_owned()
                        };
                        reply.rsplit(' ').next().map(str::to_owned)
                    };
                    std::iter::repeat_with(pop).take(POPS).flatten().collect::<Vec<_>>()
                })
            });
            let popped = poppers.into_iter().flat_map(|popper| popper.join().unwrap());
            popped.collect::<Vec<_>>()
        });
        let mut sorted = popped;
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 2 * POPS);
        assert!(session.store().is_empty() && session.server.clients.blocked.is_empty());
    }
}
