//! Commands that read and set the expiry of keys.

use psp_store::Entry;

use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::expire_time::TimeForm;
use crate::keyspace_events::{Class, Rule};
use crate::parse::{self, Result};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("expire", expire).event(Class::Generic, "expire", Rule::Expire),
    Row::new("expireat", expireat).event(Class::Generic, "expire", Rule::Expire),
    Row::new("expiretime", expiretime),
    Row::new("persist", persist).event(Class::Generic, "persist", Rule::Replied),
    Row::new("pexpire", pexpire).event(Class::Generic, "expire", Rule::Expire),
    Row::new("pexpireat", pexpireat).event(Class::Generic, "expire", Rule::Expire),
    Row::new("pexpiretime", pexpiretime),
    Row::new("pttl", pttl),
    Row::new("ttl", ttl),
];

/// Conditions on the old expiry under which a new one is accepted.
#[derive(Debug, Clone, Copy, Default)]
struct Condition {
    without_expiry: bool,
    with_expiry: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    fn parse(options: &[&[u8]]) -> Result<Self> {
        let mut condition = Self::default();
        for option in options {
            let flag = match option {
                _ if parse::is(option, "NX") => &mut condition.without_expiry,
                _ if parse::is(option, "XX") => &mut condition.with_expiry,
                _ if parse::is(option, "GT") => &mut condition.later,
                _ if parse::is(option, "LT") => &mut condition.earlier,
                _ => {
                    let option = String::from_utf8_lossy(option);
                    let line = format!("ERR Unsupported option {option}");
                    return Err(CommandError::Other(line.into()));
                }
            };
            *flag = true;
        }
        let Self { without_expiry, with_expiry, later, earlier } = condition;
        if without_expiry && (with_expiry || later || earlier) {
            return Err(CommandError::line("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if later && earlier {
            return Err(CommandError::line("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    /// A key that never expires counts as expiring after all others.
    fn accepts(self, old_ms: Option<u64>, new_ms: i64) -> bool {
        let old_ms = old_ms.map(|old_ms| i64::try_from(old_ms).unwrap_or(i64::MAX));
        !(self.without_expiry && old_ms.is_some()
            || self.with_expiry && old_ms.is_none()
            || self.later && old_ms.is_none_or(|old_ms| new_ms <= old_ms)
            || self.earlier && old_ms.is_some_and(|old_ms| new_ms >= old_ms))
    }
}

fn expire(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_expiry(context, args, out, "expire", TimeForm { unit_ms: 1000, relative: true })
}

fn pexpire(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_expiry(context, args, out, "pexpire", TimeForm { unit_ms: 1, relative: true })
}

fn expireat(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_expiry(context, args, out, "expireat", TimeForm { unit_ms: 1000, relative: false })
}

fn pexpireat(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_expiry(context, args, out, "pexpireat", TimeForm { unit_ms: 1, relative: false })
}

fn set_expiry(
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    name: &'static str,
    form: TimeForm,
) -> Result<()> {
    let condition = Condition::parse(&args[3..])?;
    let deadline_ms = form.any_deadline_ms(args[2], &context.now, name)?;
    let told = context.told();
    let done = context.store.telling(&told).update(args[1], |slot| {
        if slot.value().is_none() || !condition.accepts(slot.expire_at_ms(), deadline_ms) {
            return false;
        }
        match u64::try_from(deadline_ms) {
            Ok(deadline_ms) if !context.store.has_passed(deadline_ms, &context.now) => {
                slot.set_expire_at_ms(Some(deadline_ms));
                told.says_expiry(args[1], Some(deadline_ms));
            }
            _ => {
                slot.remove();
            }
        }
        true
    });
    out.integer(i64::from(done));
    Ok(())
}

fn persist(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let told = context.told();
    let done = context.store.telling(&told).update(args[1], |slot| {
        let expires = slot.expire_at_ms().is_some();
        if expires {
            slot.set_expire_at_ms(None);
            told.says_expiry(args[1], None);
        }
        expires
    });
    out.integer(i64::from(done));
    Ok(())
}

fn ttl(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_expiry(context, args[1], out, |at_ms| (at_ms.saturating_sub(context.now.ms()) + 500) / 1000)
}

fn pttl(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_expiry(context, args[1], out, |at_ms| at_ms.saturating_sub(context.now.ms()))
}

fn expiretime(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_expiry(context, args[1], out, |at_ms| (at_ms + 500) / 1000)
}

fn pexpiretime(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_expiry(context, args[1], out, |at_ms| at_ms)
}

/// -2 if the key is missing, -1 if it never expires, otherwise `convert` of its expiry.
fn write_expiry(
    context: &Context<'_>,
    key: &[u8],
    out: &mut ReplyEncoder<'_>,
    convert: impl Fn(u64) -> u64,
) -> Result<()> {
    let expiry = context.store.glance(key, |entry| entry.map(Entry::expire_at_ms));
    out.integer(match expiry {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => i64::try_from(convert(at_ms)).unwrap_or(i64::MAX),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn keys_expire_at_the_time_that_was_set() {
        Session::new().expect(&[
            ("SET a 1", "+OK"),
            ("TTL a", ":-1"),
            ("TTL none", ":-2"),
            ("EXPIRE a 100", ":1"),
            ("TTL a", ":100"),
            ("PEXPIRE a 200000", ":1"),
            ("TTL a", ":200"),
            ("EXPIREAT a 33000000000", ":1"),
            ("EXPIRETIME a", ":33000000000"),
            ("PEXPIREAT a 33000000000123", ":1"),
            ("PEXPIRETIME a", ":33000000000123"),
            ("PERSIST a", ":1"),
            ("PERSIST a", ":0"),
            ("EXPIRE none 1", ":0"),
            ("EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
            ("EXPIRE a x", "-ERR value is not an integer or out of range"),
            ("EXPIRE a -1", ":1"),
            ("EXISTS a", ":0"),
            ("DBSIZE", ":0"),
        ]);
    }

    #[test]
    fn expiry_depends_on_conditions() {
        Session::new().expect(&[
            ("SET a 1", "+OK"),
            ("EXPIRE a 100 XX", ":0"),
            ("EXPIRE a 100 GT", ":0"),
            ("EXPIRE a 100 LT", ":1"),
            ("EXPIRE a 50 NX", ":0"),
            ("EXPIRE a 50 GT", ":0"),
            ("EXPIRE a 200 GT", ":1"),
            ("EXPIRE a 300 LT", ":0"),
            ("EXPIRE a 50 XX LT", ":1"),
            ("TTL a", ":50"),
            ("EXPIRE a 1 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
            ("EXPIRE a 1 GT LT", "-ERR GT and LT options at the same time are not compatible"),
            ("EXPIRE a 1 ZZ", "-ERR Unsupported option ZZ"),
        ]);
    }
}
