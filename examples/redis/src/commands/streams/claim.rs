//! XCLAIM and XAUTOCLAIM.

use psp_store::{Element, Entries, Group, Now, Pending, Stream, StreamId};

use super::super::pace::Pace;
use super::{change, ids, no_group, reply, size};
use crate::command::{Context, ReplyEncoder, Row};
use crate::effects::Told;
use crate::error::{CommandError, quotable};
use crate::keyspace_events::{Class, Rule};
use crate::parse::{Result, integer, is};
use crate::typed::read;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("xautoclaim", xautoclaim).effect(Class::Stream, Rule::Consumer),
    Row::new("xclaim", xclaim).effect(Class::Stream, Rule::Consumer),
];

/// XAUTOCLAIM looks at so many pending entries for each one that it may claim.
pub(super) const ATTEMPTS_PER_CLAIM: usize = 10;
/// COUNT of an XAUTOCLAIM without it.
pub(super) const CLAIMS_DEFAULT: usize = 100;

/// How entries come to a new owner.
#[derive(Clone, Copy)]
struct Claim<'a> {
    consumer: &'a [u8],
    idle_ms_min: i64,
    now_ms: i64,
    /// When they count as delivered.
    delivered_ms: i64,
    /// How often they count as delivered.
    deliveries: Option<u64>,
    /// Entries that no consumer has are claimed, too.
    force: bool,
    only_ids: bool,
}

/// What became of an entry that somebody wants to claim.
enum Outcome {
    Claimed,
    /// No consumer has it, or its owner had it not long enough.
    Kept,
    /// The stream has it no longer.
    Gone,
}

impl Claim<'_> {
    fn claim(&self, group: &mut Group, entries: &Entries, id: StreamId) -> Outcome {
        let before = group.pending(id).cloned();
        if entries.get(id).is_none() {
            group.acknowledge(id);
            return if before.is_some() { Outcome::Gone } else { Outcome::Kept };
        }
        let deliveries = match &before {
            None if !self.force => return Outcome::Kept,
            None => 1,
            Some(pending) => {
                let idle_ms = self.now_ms.saturating_sub(pending.delivered_ms);
                if self.idle_ms_min > 0 && idle_ms < self.idle_ms_min {
                    return Outcome::Kept;
                }
                pending.deliveries
            }
        };
        let deliveries = match self.deliveries {
            Some(deliveries) => deliveries,
            None => deliveries + u64::from(!self.only_ids),
        };
        group.see_consumer(self.consumer, self.now_ms as u64);
        group.set_active(self.consumer, Some(self.now_ms as u64));
        group.assign(Pending {
            id,
            consumer: Element::from(self.consumer),
            delivered_ms: self.delivered_ms,
            deliveries,
        });
        Outcome::Claimed
    }

    fn write(&self, out: &mut ReplyEncoder<'_>, entries: &Entries, claimed: &[StreamId]) {
        if self.only_ids {
            reply::ids(out, claimed);
        } else {
            reply::listed(out, entries, claimed);
        }
    }
}

fn idle_min(arg: &[u8], command: &str) -> Result<i64> {
    let idle_ms = integer(arg)
        .map_err(|_text| CommandError::Other(format!("ERR Invalid min-idle-time argument for {command}").into()))?;
    Ok(idle_ms.max(0))
}

/// Checks that there are a stream and the group.
fn check(context: &Context<'_>, key: &[u8], group: &[u8]) -> Result<()> {
    let has_group = |stream: Option<&Stream>| Some(stream?.group(group).is_some());
    match read(context.store, key, has_group)? {
        Some(true) => Ok(()),
        _ => Err(no_group(key, group, "")),
    }
}

/// The arguments of XCLAIM from the IDs on.
struct Claims<'a> {
    claim: Claim<'a>,
    ids: Vec<StreamId>,
    last_id: StreamId,
}

impl<'a> Claims<'a> {
    fn parse(args: &[&'a [u8]], now: &Now) -> Result<Self> {
        let idle_ms_min = idle_min(args[4], "XCLAIM")?;
        let now_ms = now.ms() as i64;
        let ids: Vec<_> = args[5..].iter().map_while(|id| ids::strict(id, 0).ok()).collect();
        let mut options = args[5 + ids.len()..].iter();
        let (mut delivered_ms, mut deliveries) = (None, None);
        let (mut force, mut only_ids) = (false, false);
        let mut last_id = StreamId::MIN;
        while let Some(option) = options.next() {
            let has_value = options.len() > 0;
            let number = |value: Option<&&[u8]>, name: &str| {
                integer(value.copied().unwrap_or_default()).map_err(|_text| {
                    let line = format!("ERR Invalid {name} option argument for XCLAIM");
                    CommandError::Other(line.into())
                })
            };
            match option {
                name if is(name, "force") => force = true,
                name if is(name, "justid") => only_ids = true,
                name if has_value && is(name, "idle") => {
                    delivered_ms = Some(now_ms.wrapping_sub(number(options.next(), "IDLE")?));
                }
                name if has_value && is(name, "time") => {
                    delivered_ms = Some(number(options.next(), "TIME")?);
                }
                name if has_value && is(name, "retrycount") => {
                    deliveries = u64::try_from(number(options.next(), "RETRYCOUNT")?).ok();
                }
                name if has_value && is(name, "lastid") => {
                    last_id = ids::strict(options.next().copied().unwrap_or_default(), 0)?;
                }
                name => {
                    let line = format!("ERR Unrecognized XCLAIM option '{}'", quotable(name));
                    return Err(CommandError::Other(line.into()));
                }
            }
        }
        // A time that cannot be is that of the claim.
        let delivered_ms = delivered_ms.filter(|at_ms| (0..=now_ms).contains(at_ms));
        let claim = Claim {
            consumer: args[3],
            idle_ms_min,
            now_ms,
            delivered_ms: delivered_ms.unwrap_or(now_ms),
            deliveries,
            force,
            only_ids,
        };
        Ok(Self { claim, ids, last_id })
    }
}

fn xclaim(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    check(context, args[1], args[2])?;
    let Claims { claim, ids, last_id } = Claims::parse(args, &context.now)?;
    let told = context.told();
    let claimed = change(context.store.telling(&told), args[1], ids.len(), |stream, pace| {
        let entries = stream.entries().clone();
        let group = stream.group_mut(args[2])?;
        group.last_id = group.last_id.max(last_id);
        let claimed = ids.iter().copied().filter(|id| {
            pace.step();
            matches!(claim.claim(group, &entries, *id), Outcome::Claimed)
        });
        let claimed: Vec<_> = claimed.collect();
        tell_pending(&told, [args[1], args[2], args[3]], group, &ids);
        Some((entries, claimed))
    })?;
    let claimed = claimed.flatten();
    let (entries, claimed) = claimed.ok_or_else(|| no_group(args[1], args[2], ""))?;
    claim.write(out, &entries, &claimed);
    Ok(())
}

/// These entries of the group are pending as they are now, or no longer.
pub(super) fn tell_pending(told: &Told, [key, group_name, consumer]: [&[u8]; 3], group: &Group, touched: &[StreamId]) {
    if !told.is_recorded() {
        return;
    }
    told.says_nothing();
    if group.consumer(consumer).is_some() {
        told.adds(&[b"XGROUP", b"CREATECONSUMER", key, group_name, consumer]);
    }
    let last_id = ids::text(group.last_id);
    for id in touched {
        let text = ids::text(*id);
        let Some(pending) = group.pending(*id) else {
            told.adds(&[b"XACK", key, group_name, text.as_bytes()]);
            continue;
        };
        let (delivered_ms, deliveries) = (pending.delivered_ms.to_string(), pending.deliveries.to_string());
        told.adds(&[
            b"XCLAIM",
            key,
            group_name,
            &pending.consumer,
            b"0",
            text.as_bytes(),
            b"TIME",
            delivered_ms.as_bytes(),
            b"RETRYCOUNT",
            deliveries.as_bytes(),
            b"FORCE",
            b"JUSTID",
            b"LASTID",
            last_id.as_bytes(),
        ]);
    }
}

/// What XAUTOCLAIM found.
#[derive(Default)]
struct Sweep {
    entries: Entries,
    claimed: Vec<StreamId>,
    gone: Vec<StreamId>,
    /// Where the next one begins.
    next: StreamId,
}

impl Sweep {
    fn run(stream: &mut Stream, args: &Sweeping<'_>, pace: &Pace) -> Option<Self> {
        let entries = stream.entries().clone();
        let group = stream.group_mut(args.group)?;
        let (attempts, count) = (args.count.saturating_mul(ATTEMPTS_PER_CLAIM), args.count);
        let pending = group.pending_from(args.start);
        let ids: Vec<_> = pending.take(attempts).map(|pending| pending.id).collect();
        let mut sweep = Self { entries, ..Self::default() };
        let mut looked_at = None;
        for id in ids {
            if sweep.claimed.len() + sweep.gone.len() >= count {
                break;
            }
            pace.step();
            looked_at = Some(id);
            match args.claim.claim(group, &sweep.entries, id) {
                Outcome::Claimed => sweep.claimed.push(id),
                Outcome::Gone => sweep.gone.push(id),
                Outcome::Kept => {}
            }
        }
        let next = looked_at.map_or(Some(args.start), StreamId::next);
        let next = next.and_then(|next| group.pending_from(next).next());
        sweep.next = next.map_or(StreamId::MIN, |pending| pending.id);
        Some(sweep)
    }
}

/// The arguments of XAUTOCLAIM.
struct Sweeping<'a> {
    group: &'a [u8],
    claim: Claim<'a>,
    start: StreamId,
    count: usize,
}

impl<'a> Sweeping<'a> {
    fn parse(args: &[&'a [u8]], now: &Now) -> Result<Self> {
        let idle_ms_min = idle_min(args[4], "XAUTOCLAIM")?;
        let start = ids::start(args[5])?;
        let (mut count, mut only_ids) = (CLAIMS_DEFAULT, false);
        let mut options = args[6..].iter();
        while let Some(option) = options.next() {
            match option {
                name if options.len() > 0 && is(name, "count") => {
                    count = claim_count(options.next().copied().unwrap_or_default())?;
                }
                name if is(name, "justid") => only_ids = true,
                _ => return Err(CommandError::Syntax),
            }
        }
        let now_ms = now.ms() as i64;
        let claim = Claim {
            consumer: args[3],
            idle_ms_min,
            now_ms,
            delivered_ms: now_ms,
            deliveries: None,
            force: false,
            only_ids,
        };
        Ok(Self { group: args[2], claim, start, count })
    }
}

fn claim_count(arg: &[u8]) -> Result<usize> {
    /// Redis allocates 16 bytes for each.
    const MOST: i64 = i64::MAX / 16;
    let count = integer(arg).ok().filter(|count| (1..=MOST).contains(count));
    let count = count.ok_or(CommandError::line("ERR COUNT must be > 0"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn xautoclaim(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let sweeping = Sweeping::parse(args, &context.now)?;
    check(context, args[1], args[2])?;
    let pending = size::of_stream(context.store, args[1], |stream| stream.group(args[2]).map_or(0, Group::pending_len));
    let work = pending.min(sweeping.count.saturating_mul(ATTEMPTS_PER_CLAIM));
    let told = context.told();
    let sweep = change(context.store.telling(&told), args[1], work, |stream, pace| {
        let sweep = Sweep::run(stream, &sweeping, pace);
        if let (Some(sweep), Some(group)) = (&sweep, stream.group(args[2])) {
            let touched: Vec<StreamId> = sweep.claimed.iter().chain(&sweep.gone).copied().collect();
            tell_pending(&told, [args[1], args[2], args[3]], group, &touched);
        }
        sweep
    })?;
    let sweep = sweep.flatten();
    let sweep = sweep.ok_or_else(|| no_group(args[1], args[2], ""))?;
    out.array(3);
    ids::write(out, sweep.next);
    sweeping.claim.write(out, &sweep.entries, &sweep.claimed);
    reply::ids(out, &sweep.gone);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    /// A stream with entries 1 to 5, which consumer `a` of group `g` has read.
    fn delivered() -> Session {
        let mut session = Session::new();
        for id in 1..=5 {
            session.run(&format!("XADD s {id} f {id}"));
        }
        session.run("XGROUP CREATE s g 0");
        session.run("XREADGROUP GROUP g a STREAMS s >");
        session
    }

    #[test]
    fn entries_get_new_owners() {
        delivered().expect(&[
            ("XCLAIM s g b 0 1", "*1 *2 $3 1-0 *2 $1 f $1 1"),
            ("XCLAIM s g b 900000 2", "*0"),
            ("XCLAIM s g b 0 2 9 JUSTID", "*1 $3 2-0"),
            ("XPENDING s g", "*4 :5 $3 1-0 $3 5-0 *2 *2 $1 a $1 3 *2 $1 b $1 2"),
            ("XDEL s 3", ":1"),
            ("XCLAIM s g b 0 3", "*0"),
            ("XPENDING s g", "*4 :4 $3 1-0 $3 5-0 *2 *2 $1 a $1 2 *2 $1 b $1 2"),
            ("XACK s g 4", ":1"),
            ("XCLAIM s g c 0 4", "*0"),
            ("XCLAIM s g c 0 4 FORCE RETRYCOUNT 7 LASTID 9", "*1 *2 $3 4-0 *2 $1 f $1 4"),
            ("XCLAIM s g c 0 4 NOPE", "-ERR Unrecognized XCLAIM option 'NOPE'"),
            ("XCLAIM s g c x 4", "-ERR Invalid min-idle-time argument for XCLAIM"),
            ("XCLAIM s none c 0 4", "-NOGROUP No such key 's' or consumer group 'none'"),
        ]);
    }

    #[test]
    fn idle_times_and_deliveries_are_those_of_the_claim() {
        let mut session = delivered();
        session.run("XCLAIM s g b 0 1 IDLE 100000 RETRYCOUNT 7");
        let pending = session.run("XPENDING s g IDLE 90000 - + 10");
        let lines: Vec<_> = pending.lines().collect();
        assert_eq!((lines[0], lines[3], lines[5], lines.len()), ("*1", "1-0", "b", 8));
        let idle_ms: u64 = lines[6][1..].parse().unwrap();
        assert!(idle_ms >= 100_000 && lines[7] == ":7", "{pending}");
        session.expect(&[("XAUTOCLAIM s g c 90000 0 JUSTID", "*3 $3 0-0 *1 $3 1-0 *0")]);
    }

    #[test]
    fn sweeps_go_on_where_the_last_one_ended_and_drop_what_is_gone() {
        delivered().expect(&[
            ("XDEL s 2", ":1"),
            ("XAUTOCLAIM s g b 0 - COUNT 2 JUSTID", "*3 $3 3-0 *1 $3 1-0 *1 $3 2-0"),
            ("XAUTOCLAIM s g b 0 3 COUNT 9 JUSTID", "*3 $3 0-0 *3 $3 3-0 $3 4-0 $3 5-0 *0"),
            ("XAUTOCLAIM s g c 900000 - COUNT 1", "*3 $3 0-0 *0 *0"),
            ("XAUTOCLAIM s g b 0 - COUNT 0", "-ERR COUNT must be > 0"),
            ("XAUTOCLAIM s g b 0 - NOPE", "-ERR syntax error"),
            ("XPENDING s g", "*4 :4 $3 1-0 $3 5-0 *1 *2 $1 b $1 4"),
        ]);
    }
}
