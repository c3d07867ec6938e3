//! Commands on several databases.

use psp_store::{Keyspace, Slot};

use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::keyspace_events::{Class, Read, Rule};
use crate::parse::{self, Result};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("copy", copy)
        .event(Class::Generic, "copy_to", Rule::Copied)
        .reads(Read::Between(1, 1)),
    Row::new("move", move_key).effect(Class::Generic, Rule::Moved),
    Row::new("swapdb", swapdb),
];

const SAME_OBJECTS: CommandError = CommandError::line("ERR source and destination objects are the same");

/// The number of the database that the argument names.
///
/// # Errors
/// It is no number, or there is no such database.
pub(super) fn database_of(arg: &[u8], context: &Context<'_>) -> Result<usize> {
    let index = index_of(arg)?;
    let number = usize::try_from(index).ok();
    let number = number.filter(|number| *number < context.databases.count());
    number.ok_or(CommandError::line("ERR DB index is out of range"))
}

fn index_of(arg: &[u8]) -> Result<i32> {
    i32::try_from(parse::integer(arg)?).map_err(|_too_large| {
        CommandError::line("ERR value is out of range, value must between -2147483648 and 2147483647")
    })
}

fn copy(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (source, target) = (args[1], args[2]);
    let (mut replaces, mut database) = (false, context.database);
    let mut options = args[3..].iter();
    while let Some(option) = options.next() {
        if parse::is(option, "REPLACE") {
            replaces = true;
        } else if parse::is(option, "DB") {
            let number = options.next().ok_or(CommandError::Syntax)?;
            database = database_of(number, context)?;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    if source == target && database == context.database {
        return Err(SAME_OBJECTS);
    }
    let there = context.databases.get(database);
    let places = [(context.store, source), (there, target)];
    let copied = Keyspace::update_both(places, |source, target| {
        let Some(value) = source.value() else {
            return false;
        };
        let is_free = target.value().is_none() || replaces;
        if is_free {
            target.insert(value.clone());
            target.set_expire_at_ms(source.expire_at_ms());
        }
        is_free
    });
    out.integer(i64::from(copied));
    Ok(())
}

/// MOVE.
fn move_key(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let key = args[1];
    let database = database_of(args[2], context)?;
    if database == context.database {
        return Err(SAME_OBJECTS);
    }
    let there = context.databases.get(database);
    let moved = Keyspace::update_both([(context.store, key), (there, key)], move_value);
    out.integer(i64::from(moved));
    Ok(())
}

fn move_value(source: &mut Slot<'_>, target: &mut Slot<'_>) -> bool {
    let expire_at_ms = source.expire_at_ms();
    if target.value().is_some() {
        return false;
    }
    let Some(value) = source.remove() else {
        return false;
    };
    target.insert(value);
    target.set_expire_at_ms(expire_at_ms);
    true
}

fn swapdb(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    for (arg, error) in [(args[1], "ERR invalid first DB index"), (args[2], "ERR invalid second DB index")] {
        index_of(arg).map_err(|_no_number| CommandError::line(error))?;
    }
    let (one, other) = (database_of(args[1], context)?, database_of(args[2], context)?);
    // No other request of this worker shall need the locks.
    psp_server::no_preempt(|| context.databases.swap(one, other));
    // In a transaction another fork may stand there now.
    context.select(context.database);
    out.simple("OK");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::testing::Session;

    const OUT_OF_RANGE: &str = "-ERR DB index is out of range";

    fn session(databases: usize) -> Session {
        Session::with(Config { databases, ..Config::default() })
    }

    #[test]
    fn each_database_has_its_own_keys() {
        let mut session = Session::new();
        let mut other = session.beside();
        session.expect(&[
            ("SET a 0", "+OK"),
            ("SELECT 15", "+OK"),
            ("GET a", "$-1"),
            ("MSET a 15 b 15", "+OK"),
            ("DBSIZE", ":2"),
            ("SELECT 16", OUT_OF_RANGE),
            ("SELECT -1", OUT_OF_RANGE),
            ("SELECT abc", "-ERR value is not an integer or out of range"),
            ("KEYS a", "*1 $1 a"),
        ]);
        other.expect(&[("GET a", "$1 0"), ("DBSIZE", ":1"), ("RANDOMKEY", "$1 a")]);
        assert!(other.run("CLIENT LIST").contains(" db=15 "));
        assert!(session.run("CLIENT INFO").contains(" db=15 "));
        let info = session.run("INFO keyspace");
        assert!(info.contains("\r\ndb0:keys=1,expires=0,"), "{info}");
        assert!(info.contains("\r\ndb15:keys=2,expires=0,"), "{info}");
        session.expect(&[
            ("FLUSHDB", "+OK"),
            ("DBSIZE", ":0"),
            ("SET a 15", "+OK"),
            ("RESET", "+RESET"),
            ("GET a", "$1 0"),
            ("FLUSHALL", "+OK"),
            ("DBSIZE", ":0"),
            ("SELECT 15", "+OK"),
            ("DBSIZE", ":0"),
        ]);
        assert!(!session.run("INFO keyspace").contains("db15"));
    }

    #[test]
    fn the_number_of_databases_is_a_setting() {
        let mut session = session(2);
        session.expect(&[
            ("SELECT 1", "+OK"),
            ("SELECT 2", OUT_OF_RANGE),
            ("CONFIG GET databases", "*2 $9 databases $1 2"),
            ("SWAPDB 0 2", OUT_OF_RANGE),
        ]);
        assert!(session.run("CONFIG SET databases 3").starts_with("-ERR"));
    }

    #[test]
    fn move_takes_a_key_along_with_its_expiry() {
        let mut session = Session::new();
        session.expect(&[
            ("SET a x PX 100000", "+OK"),
            ("MOVE a 0", "-ERR source and destination objects are the same"),
            ("MOVE a 16", OUT_OF_RANGE),
            ("MOVE a nope", "-ERR value is not an integer or out of range"),
            ("MOVE none 1", ":0"),
            ("MOVE a 1", ":1"),
            ("EXISTS a", ":0"),
            ("SET a y", "+OK"),
            ("MOVE a 1", ":0"),
            ("SELECT 1", "+OK"),
            ("GET a", "$1 x"),
            ("MOVE a 2", ":1"),
            ("SELECT 2", "+OK"),
        ]);
        let left_ms = session.run("PTTL a");
        assert!(!left_ms.starts_with(":-"), "{left_ms}");
    }

    #[test]
    fn copy_reaches_other_databases() {
        Session::new().expect(&[
            ("RPUSH a 1 2", ":2"),
            ("COPY a a", "-ERR source and destination objects are the same"),
            ("COPY a a DB 0", "-ERR source and destination objects are the same"),
            ("COPY a a DB 16", OUT_OF_RANGE),
            ("COPY a a DB", "-ERR syntax error"),
            ("COPY a a DB 1", ":1"),
            ("COPY a a DB 1", ":0"),
            ("RPUSH a 3", ":3"),
            ("COPY a a DB 1 REPLACE", ":1"),
            ("SELECT 1", "+OK"),
            ("LRANGE a 0 -1", "*3 $1 1 $1 2 $1 3"),
        ]);
    }

    #[test]
    fn swapdb_exchanges_all_keys() {
        let mut session = Session::new();
        session.expect(&[
            ("MSET a 0 b 0", "+OK"),
            ("SWAPDB 0 0", "+OK"),
            ("SWAPDB 0 1", "+OK"),
            ("DBSIZE", ":0"),
            ("SET a 1", "+OK"),
            ("SWAPDB 1 0", "+OK"),
            ("MGET a b", "*2 $1 0 $1 0"),
            ("SWAPDB x 1", "-ERR invalid first DB index"),
            ("SWAPDB 1 x", "-ERR invalid second DB index"),
            ("SWAPDB 0 16", OUT_OF_RANGE),
            ("SELECT 1", "+OK"),
            ("KEYS *", "*1 $1 a"),
        ]);
    }

    #[test]
    fn transactions_select_for_what_follows() {
        let mut session = Session::new();
        let mut other = session.beside();
        session.expect(&[
            ("MULTI", "+OK"),
            ("SET a 0", "+QUEUED"),
            ("SELECT 1", "+QUEUED"),
            ("SET a 1", "+QUEUED"),
            ("SWAPDB 1 2", "+QUEUED"),
            ("GET a", "+QUEUED"),
            ("SELECT 2", "+QUEUED"),
            ("GET a", "+QUEUED"),
            ("MOVE a 3", "+QUEUED"),
            ("FLUSHDB", "+QUEUED"),
            ("SELECT 99", "+QUEUED"),
        ]);
        other.expect(&[("EXISTS a", ":0")]);
        session.expect(&[("EXEC", "*10 +OK +OK +OK +OK $-1 +OK $1 1 :1 +OK -ERR DB index is out of range")]);
        assert_eq!(session.client.database(), 2);
        session.expect(&[("DBSIZE", ":0"), ("SELECT 3", "+OK"), ("GET a", "$1 1")]);
        other.expect(&[("GET a", "$1 0")]);
        session.expect(&[("MULTI", "+OK"), ("SELECT 5", "+QUEUED"), ("DISCARD", "+OK"), ("DBSIZE", ":1")]);
    }

    #[test]
    fn watched_keys_are_those_of_their_database() {
        let mut session = Session::new();
        let mut other = session.beside();
        session.expect(&[("SET a 0", "+OK"), ("WATCH a", "+OK"), ("SELECT 1", "+OK")]);
        other.expect(&[("SELECT 1", "+OK"), ("SET a 1", "+OK")]);
        session.expect(&[
            ("MULTI", "+OK"),
            ("GET a", "+QUEUED"),
            ("EXEC", "*1 $1 1"),
            ("WATCH a", "+OK"),
            ("SELECT 0", "+OK"),
        ]);
        other.expect(&[("SET a 2", "+OK")]);
        session.expect(&[("MULTI", "+OK"), ("EXEC", "*-1"), ("WATCH none", "+OK")]);
        other.expect(&[("SWAPDB 0 1", "+OK")]);
        session.expect(&[("MULTI", "+OK"), ("EXEC", "*0"), ("WATCH a", "+OK")]);
        other.expect(&[("SWAPDB 0 1", "+OK")]);
        session.expect(&[("MULTI", "+OK"), ("EXEC", "*-1")]);
    }

    #[test]
    fn a_script_selects_for_itself() {
        let mut session = Session::new();
        let script: [&[u8]; 3] = [
            b"EVAL",
            b"redis.call('set', 'a', 0); redis.call('select', 1); redis.call('set', 'a', 1); \
              redis.call('swapdb', 1, 2); return redis.call('dbsize')",
            b"0",
        ];
        assert_eq!(session.run_args(&script), ":0\r\n");
        session.expect(&[("GET a", "$1 0"), ("SELECT 2", "+OK"), ("GET a", "$1 1")]);
    }

    #[test]
    fn clients_wait_in_their_database() {
        let mut session = Session::new();
        let mut waiting = session.beside();
        waiting.expect(&[("SELECT 1", "+OK"), ("BLPOP l 0", "")]);
        session.expect(&[("RPUSH l zero", ":1")]);
        assert_eq!(waiting.late(), None);
        session.expect(&[("MOVE l 1", ":1"), ("EXISTS l", ":0")]);
        assert_eq!(waiting.late().as_deref(), Some("*2 $1 l $4 zero"));
        waiting.expect(&[("DBSIZE", ":0"), ("BLPOP l 0", "")]);
        session.expect(&[("RPUSH l swapped", ":1"), ("SWAPDB 0 1", "+OK")]);
        assert_eq!(waiting.late().as_deref(), Some("*2 $1 l $7 swapped"));
        waiting.expect(&[("BLPOP l 0", "")]);
        session.expect(&[
            ("RPUSH x moved", ":1"),
            ("MULTI", "+OK"),
            ("RENAME x l", "+QUEUED"),
            ("SWAPDB 0 1", "+QUEUED"),
            ("EXEC", "*2 +OK +OK"),
        ]);
        assert_eq!(waiting.late().as_deref(), Some("*2 $1 l $5 moved"));
        waiting.expect(&[("BLPOP l 0", "")]);
        session.expect(&[("RPUSH y copied", ":1"), ("COPY y l DB 1", ":1")]);
        assert_eq!(waiting.late().as_deref(), Some("*2 $1 l $6 copied"));
    }

    #[test]
    fn a_group_that_swapdb_takes_away_ends_the_wait() {
        let mut session = Session::new();
        let mut waiting = session.beside();
        session.expect(&[("XGROUP CREATE x g $ MKSTREAM", "+OK")]);
        waiting.expect(&[("XREADGROUP GROUP g c BLOCK 0 STREAMS x >", "")]);
        session.expect(&[("SWAPDB 0 1", "+OK")]);
        let late = waiting.late().expect("its wait is over");
        assert!(late.starts_with("-NOGROUP"), "{late}");
    }
}
