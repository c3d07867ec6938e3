//! XPENDING.

use std::ops::RangeInclusive;

use psp_store::{Group, Now, Pending, Stream, StreamId};

use super::super::pace::Pace;
use super::super::walk;
use super::{ids, no_group};
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::parse::{Result, integer, is};
use crate::typed::read;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::new("xpending", xpending)];

/// Which pending entries XPENDING lists.
struct Listing<'a> {
    idle_ms_min: i64,
    ids: RangeInclusive<StreamId>,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Listing<'a> {
    /// `None` without arguments: only a summary is wanted.
    fn parse(args: &[&'a [u8]]) -> Result<Option<Self>> {
        let (idle_ms_min, rest) = match *args {
            [] => return Ok(None),
            [option, idle, ref rest @ ..] if args.len() >= 3 && is(option, "idle") => {
                let idle = integer(idle)?;
                if rest.len() < 3 {
                    return Err(CommandError::Syntax);
                }
                (idle, rest)
            }
            _ => (0, args),
        };
        let (&[start, end, count], consumer) = rest.split_first_chunk().ok_or(CommandError::Syntax)?;
        if args.len() > 6 {
            return Err(CommandError::Syntax);
        }
        let count = usize::try_from(integer(count)?).unwrap_or(0);
        Ok(Some(Self {
            idle_ms_min,
            ids: ids::start(start)?..=ids::end(end)?,
            count,
            consumer: consumer.first().copied(),
        }))
    }

    /// The entries of the group, or of a consumer alone.
    fn find<'g>(&self, group: &'g Group, now_ms: i64) -> Vec<&'g Pending> {
        let pace = Pace::new();
        let is_wanted = |pending: &&Pending| {
            let idle_ms = now_ms.saturating_sub(pending.delivered_ms);
            self.idle_ms_min == 0 || idle_ms >= self.idle_ms_min
        };
        let start = *self.ids.start();
        let up_to_end = |id: &StreamId| {
            pace.step();
            id <= self.ids.end()
        };
        match self.consumer {
            None => {
                let pending = group.pending_from(start);
                let pending = pending.take_while(|pending| up_to_end(&pending.id));
                pending.filter(is_wanted).take(self.count).collect()
            }
            Some(name) => {
                let consumer = group.consumer(name).into_iter();
                let ids = consumer.flat_map(|consumer| consumer.pending_from(start));
                let pending = ids.take_while(|id| up_to_end(id));
                let pending = pending.filter_map(|id| group.pending(*id));
                pending.filter(is_wanted).take(self.count).collect()
            }
        }
    }
}

fn xpending(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let listing = Listing::parse(&args[3..])?;
    read(context.store, args[1], |stream: Option<&Stream>| {
        let group = stream.and_then(|stream| stream.group(args[2]));
        let group = group.ok_or_else(|| no_group(args[1], args[2], ""))?;
        match listing {
            None => write_summary(group, out),
            Some(listing) => write_list(group, &listing, &context.now, out),
        }
        Ok(())
    })?
}

fn write_summary(group: &Group, out: &mut ReplyEncoder<'_>) {
    out.array(4);
    out.integer(group.pending_len() as i64);
    let mut pending = group.pending_from(StreamId::MIN);
    let first = pending.next().map(|first| first.id);
    let last = pending.next_back().map(|last| last.id).or(first);
    let (Some(first), Some(last)) = (first, last) else {
        out.null();
        out.null();
        out.null_array();
        return;
    };
    ids::write(out, first);
    ids::write(out, last);
    let pace = Pace::new();
    let busy = group.consumers().filter(|consumer| {
        pace.step();
        consumer.pending_len() > 0
    });
    let busy: Vec<_> = busy.collect();
    out.array(busy.len());
    walk::batched(out, |out| {
        for consumer in busy {
            out.array(2);
            walk::element(out, consumer.name());
            out.bulk(consumer.pending_len().to_string().as_bytes());
        }
    });
}

fn write_list(group: &Group, listing: &Listing<'_>, now: &Now, out: &mut ReplyEncoder<'_>) {
    let now_ms = now.ms() as i64;
    let found = listing.find(group, now_ms);
    out.array(found.len());
    walk::batched(out, |out| {
        for pending in found {
            out.array(4);
            ids::write(out, pending.id);
            walk::element(out, &pending.consumer);
            out.integer(now_ms.saturating_sub(pending.delivered_ms).max(0));
            out.integer(pending.deliveries as i64);
        }
    });
}
