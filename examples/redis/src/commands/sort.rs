//! SORT and SORT_RO.
//!
//! They sort a snapshot of the key. Meanwhile they look up the keys that BY and GET name one after
//! the other, each with its value at that moment. STORE replaces the destination at one instant.

use std::borrow::Cow;

use psp_store::{Element, ElementRef, Hash, Keyspace, List, Value};
use smallvec::SmallVec;

use super::pace::{self, Pace};
use super::walk;
use crate::acl::Access;
use crate::command::{CommandTable, Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::growth::Growth;
use crate::keyspace_events::{Class, Read, Rule};
use crate::parse::{Result, float, integer, is};
use crate::typed::Typed;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("sort", |context, args, out| {
        let options = Options::parse(&args[2..], true, &|| reads_any(context, args))?;
        run(context, args[1], options, out)
    })
    .event(Class::List, "sortstore", Rule::StoredBehind(&["store"]))
    .reads(Read::Between(1, 1)),
    Row::new("sort_ro", |context, args, out| {
        let options = Options::parse(&args[2..], false, &|| reads_any(context, args))?;
        run(context, args[1], options, out)
    }),
];

/// A key or a hash field whose name contains the element: `weight_*` or `object_*->field`.
struct Pattern<'a> {
    prefix: &'a [u8],
    suffix: &'a [u8],
    field: Option<&'a [u8]>,
}

impl<'a> Pattern<'a> {
    /// `None` if the pattern has no `*`.
    fn parse(pattern: &'a [u8]) -> Option<Self> {
        let star = find(pattern, b"*")?;
        let (prefix, suffix) = (&pattern[..star], &pattern[star + 1..]);
        Some(match find(suffix, b"->") {
            Some(arrow) if arrow + 2 < suffix.len() => Self {
                prefix,
                suffix: &suffix[..arrow],
                field: Some(&suffix[arrow + 2..]),
            },
            _ => Self { prefix, suffix, field: None },
        })
    }

    fn look_up(&self, store: &Keyspace, element: &[u8]) -> Option<Element> {
        let mut key = SmallVec::<[u8; 64]>::new();
        for part in [self.prefix, element, self.suffix] {
            key.extend_from_slice(part);
        }
        store.with(&key, |value| match self.field {
            Some(field) => {
                let held = Hash::of(value?)?.find(field)?;
                (!held.is_due(&store.now())).then(|| held.value.to_element())
            }
            None => Element::of(value?).cloned(),
        })
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// The value to return for an element.
enum Get<'a> {
    /// `#`: the element.
    Itself,
    /// The value that the pattern names.
    Named(Pattern<'a>),
    /// A pattern without `*` names nothing.
    Nothing,
}

impl<'a> Get<'a> {
    fn parse(pattern: &'a [u8]) -> Self {
        match pattern {
            b"#" => Self::Itself,
            pattern => Pattern::parse(pattern).map_or(Self::Nothing, Self::Named),
        }
    }

    fn look_up<'e>(&self, store: &Keyspace, element: &'e Element) -> Option<Cow<'e, Element>> {
        match self {
            Self::Itself => Some(Cow::Borrowed(element)),
            Self::Named(pattern) => pattern.look_up(store, element).map(Cow::Owned),
            Self::Nothing => None,
        }
    }
}

/// The sort key of the elements.
enum By<'a> {
    Themselves,
    Named(Pattern<'a>),
    /// A pattern without `*`: the elements keep the order of the collection.
    Nothing,
}

struct Options<'a> {
    by: By<'a>,
    alphabetic: bool,
    descending: bool,
    offset: i64,
    /// Most elements; negative means no limit.
    count: i64,
    gets: Vec<Get<'a>>,
    store: Option<&'a [u8]>,
}

/// Whether the client may read the keys that BY and GET name, which are any.
fn reads_any(context: &Context<'_>, args: &[&[u8]]) -> bool {
    let account = &context.client.account;
    account.access() == Access::All || {
        let command = CommandTable::get().named(args[0]);
        command.is_some_and(|command| account.user().may_read_all_keys(command, args))
    }
}

impl<'a> Options<'a> {
    /// `reads_any` says whether the client may read all keys.
    fn parse(mut args: &[&'a [u8]], store_allowed: bool, reads_any: &dyn Fn() -> bool) -> Result<Self> {
        let mut options = Self {
            by: By::Themselves,
            alphabetic: false,
            descending: false,
            offset: 0,
            count: -1,
            gets: Vec::new(),
            store: None,
        };
        while let Some((name, rest)) = args.split_first() {
            args = rest;
            match (*name, rest) {
                (name, _) if is(name, "asc") => options.descending = false,
                (name, _) if is(name, "desc") => options.descending = true,
                (name, _) if is(name, "alpha") => options.alphabetic = true,
                (name, [offset, count, rest @ ..]) if is(name, "limit") => {
                    (options.offset, options.count) = (integer(offset)?, integer(count)?);
                    args = rest;
                }
                (name, [key, rest @ ..]) if store_allowed && is(name, "store") => {
                    options.store = Some(key);
                    args = rest;
                }
                (name, [pattern, rest @ ..]) if is(name, "by") => {
                    options.by = Pattern::parse(pattern).map_or(By::Nothing, By::Named);
                    if matches!(options.by, By::Named(_)) && !reads_any() {
                        return Err(CommandError::line(
                            "ERR BY option of SORT denied due to insufficient ACL permissions.",
                        ));
                    }
                    args = rest;
                }
                (name, [pattern, rest @ ..]) if is(name, "get") => {
                    if !reads_any() {
                        return Err(CommandError::line(
                            "ERR GET option of SORT denied due to insufficient ACL permissions.",
                        ));
                    }
                    options.gets.push(Get::parse(pattern));
                    args = rest;
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(options)
    }

    /// The requested range of `len` sorted elements.
    fn range(&self, len: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(self.offset).unwrap_or(0).min(len);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }

    /// The requested elements, in order.
    fn sorted<'v>(&self, store: &Keyspace, elements: Vec<&'v Element>) -> Result<Vec<&'v Element>> {
        let pace = Pace::new();
        match (&self.by, self.alphabetic) {
            (By::Nothing, _) => Ok(elements[self.range(elements.len())].to_vec()),
            (By::Themselves, true) => {
                let elements = elements.into_iter().inspect(|_| pace.step());
                let keyed = elements.map(|element| (first_bytes(element), element));
                Ok(self.take_sorted_by_digest(keyed.collect()))
            }
            (By::Named(pattern), true) => {
                let weigh = |element: &'v Element| {
                    pace.step();
                    (pattern.look_up(store, element), element)
                };
                Ok(self.take_sorted(elements.into_iter().map(weigh).collect()))
            }
            (by, false) => {
                let weigh = |element: &'v Element| {
                    pace.step();
                    match by {
                        By::Named(pattern) => match pattern.look_up(store, element) {
                            Some(weight) => Ok((number_digest(&weight)?, element)),
                            None => Ok((digest_of(0.0), element)),
                        },
                        _ => Ok((number_digest(element)?, element)),
                    }
                };
                let keyed = elements.into_iter().map(weigh).collect::<Result<_>>()?;
                Ok(self.take_sorted_by_digest(keyed))
            }
        }
    }

    /// Sorts by key and then by element, only as far as the requested range needs.
    fn take_sorted<'v, K: Ord>(&self, mut keyed: Vec<(K, &'v Element)>) -> Vec<&'v Element> {
        let range = self.range(keyed.len());
        let pace = Pace::new();
        let order = |left: &(K, &Element), right: &(K, &Element)| {
            pace.step();
            let ascending = left.cmp(right);
            if self.descending {
                ascending.reverse()
            } else {
                ascending
            }
        };
        if range.end < keyed.len() {
            keyed.select_nth_unstable_by(range.end, order);
            keyed.truncate(range.end);
        }
        keyed.sort_unstable_by(order);
        let taken = keyed[range].iter().inspect(|_| pace.step());
        taken.map(|(_, element)| *element).collect()
    }

    /// [`take_sorted`](Self::take_sorted) for all elements, several times as fast: it sorts each
    /// digest and index as one integer, and compares elements only if their digests are equal.
    fn take_sorted_by_digest<'v>(&self, keyed: Vec<(u64, &'v Element)>) -> Vec<&'v Element> {
        if self.range(keyed.len()).len() < keyed.len() {
            return self.take_sorted(keyed);
        }
        let pace = Pace::new();
        let places = keyed.iter().inspect(|_| pace.step()).enumerate();
        let packed = places.map(|(index, (digest, _))| u128::from(*digest) << u64::BITS | index as u128);
        let mut packed: Vec<u128> = packed.collect();
        packed.sort_unstable_by(|left, right| {
            pace.step();
            left.cmp(right)
        });
        let places = packed.iter().inspect(|_| pace.step());
        let mut sorted: Vec<&Element> = places.map(|packed| keyed[*packed as u64 as usize].1).collect();
        let mut start = 0;
        let is_equal = |left: &u128, right: &u128| {
            pace.step();
            left >> u64::BITS == right >> u64::BITS
        };
        for equal in packed.chunk_by(is_equal) {
            let end = start + equal.len();
            if equal.len() > 1 {
                sorted[start..end].sort_unstable_by(|left, right| {
                    pace.step();
                    left.cmp(right)
                });
            }
            start = end;
        }
        if self.descending {
            sorted.reverse();
        }
        sorted
    }
}

/// The first bytes as an integer. Elements with different integers are ordered as the integers.
fn first_bytes(element: &Element) -> u64 {
    let mut bytes = [0; 8];
    let len = element.len().min(bytes.len());
    bytes[..len].copy_from_slice(&element[..len]);
    u64::from_be_bytes(bytes)
}

/// An integer with the same order as the number.
fn digest_of(number: f64) -> u64 {
    // Both zeros are equal.
    let bits = (number + 0.0).to_bits();
    if number < 0.0 { !bits } else { bits | 1 << 63 }
}

/// The digest of a weight, which ends at a zero byte.
fn number_digest(text: &[u8]) -> Result<u64> {
    let end = memchr::memchr(0, text).unwrap_or(text.len());
    let text = &text[..end];
    if text.is_empty() {
        return Ok(digest_of(0.0));
    }
    let number =
        float(text).map_err(|_| CommandError::line("ERR One or more scores can't be converted into double"))?;
    Ok(digest_of(number))
}

fn run(context: &Context<'_>, key: &[u8], mut options: Options<'_>, out: &mut ReplyEncoder<'_>) -> Result<()> {
    let value = context.store.get(key);
    pace::begins(value.as_ref().map_or(0, Value::cardinality));
    let pace = Pace::new();
    let own = |element: ElementRef<'_>| {
        pace.step();
        element.to_element()
    };
    let mut members: Vec<Element> = match &value {
        None => Vec::new(),
        Some(Value::List(list)) => {
            let mut wanted = 0..list.len();
            if matches!(options.by, By::Nothing) {
                // They stay in their order, and the others need not be looked at.
                wanted = options.range(list.len());
                if options.descending {
                    wanted = list.len() - wanted.end..list.len() - wanted.start;
                }
                (options.offset, options.count) = (0, -1);
            }
            list.range(wanted).map(own).collect()
        }
        Some(Value::Set(set)) => {
            let is_kept = options.store.is_some() || context.store.is_fork();
            if is_kept && matches!(options.by, By::Nothing) {
                // A set has no order of its own that is worth storing, or for scripts to depend on.
                (options.by, options.alphabetic) = (By::Themselves, true);
            }
            set.iter().map(own).collect()
        }
        Some(Value::SortedSet(set)) => set.iter().map(|scored| own(scored.member)).collect(),
        Some(_) => return Err(CommandError::WrongType),
    };
    if options.descending && matches!(value, Some(Value::List(_) | Value::SortedSet(_))) {
        members.reverse();
    }
    let elements = members.iter().inspect(|_| pace.step());
    let sorted = options.sorted(context.store, elements.collect())?;
    match options.store {
        Some(destination) => {
            let stored = store_sorted(context, destination, &sorted, &options.gets)?;
            out.integer(stored as i64);
        }
        None => reply_sorted(context.store, &sorted, &options.gets, out),
    }
    drop(sorted);
    pace.drop_all(members);
    Ok(())
}

fn reply_sorted(store: &Keyspace, sorted: &[&Element], gets: &[Get<'_>], out: &mut ReplyEncoder<'_>) {
    if gets.is_empty() {
        return walk::array(out, sorted.iter().copied());
    }
    out.array(sorted.len() * gets.len());
    walk::batched(out, |out| {
        let pace = Pace::new();
        for element in sorted {
            for get in gets {
                pace.step();
                match get.look_up(store, element) {
                    Some(value) => walk::element(out, &*value),
                    None => out.null(),
                }
            }
        }
    });
}

/// Stores the result as a list, with an empty string for each null. Returns its length.
fn store_sorted(context: &Context<'_>, destination: &[u8], sorted: &[&Element], gets: &[Get<'_>]) -> Result<usize> {
    let store = context.store;
    let pace = Pace::new();
    let growth = Growth::new(context.server);
    let has_room = |element: &Element| growth.has_room(element.len());
    let list: List = if gets.is_empty() {
        let sorted = sorted.iter().inspect(|_| pace.step());
        let elements = sorted.map(|element| (*element).clone());
        elements.take_while(has_room).collect()
    } else {
        let looked_up = sorted.iter().flat_map(|element| {
            let gets = gets.iter().inspect(|_| pace.step());
            gets.map(|get| get.look_up(store, element).map(Cow::into_owned))
        });
        looked_up
            .map(|value| value.unwrap_or_else(|| Element::from(b"")))
            .take_while(has_room)
            .collect()
    };
    let len = list.len();
    let list = list.into_value();
    if let Err(error) = growth.check() {
        store.discard(list);
        return Err(error);
    }
    store.insert(destination, list);
    Ok(len)
}

#[cfg(test)]
mod tests {
    use psp_store::Element;

    use super::{digest_of, first_bytes};
    use crate::testing::Session;

    #[test]
    fn sorts_numbers_and_text() {
        Session::new().expect(&[
            ("RPUSH l 3 -1 2.5 10", ":4"),
            ("SORT l", "*4 $2 -1 $3 2.5 $1 3 $2 10"),
            ("SORT l DESC", "*4 $2 10 $1 3 $3 2.5 $2 -1"),
            ("SORT l ALPHA", "*4 $2 -1 $2 10 $3 2.5 $1 3"),
            ("SORT l ALPHA DESC ASC", "*4 $2 -1 $2 10 $3 2.5 $1 3"),
            ("SORT l LIMIT 1 2", "*2 $3 2.5 $1 3"),
            ("SORT l LIMIT -5 2", "*2 $2 -1 $3 2.5"),
            ("SORT l LIMIT 1 -1", "*3 $3 2.5 $1 3 $2 10"),
            ("SORT l LIMIT 10 2", "*0"),
            ("SORT l DESC LIMIT 0 1", "*1 $2 10"),
            ("SORT_RO l", "*4 $2 -1 $3 2.5 $1 3 $2 10"),
            ("SADD s 3 1 2", ":3"),
            ("SORT s", "*3 $1 1 $1 2 $1 3"),
            ("ZADD z 5 b 6 a", ":2"),
            ("SORT z ALPHA", "*2 $1 a $1 b"),
            ("SORT z BY nosort", "*2 $1 b $1 a"),
            ("SORT z BY nosort DESC", "*2 $1 a $1 b"),
            ("SORT z BY nosort LIMIT 1 1", "*1 $1 a"),
            ("SORT l BY nosort", "*4 $1 3 $2 -1 $3 2.5 $2 10"),
            ("SORT l BY nosort LIMIT 1 2", "*2 $2 -1 $3 2.5"),
            ("SORT l BY nosort DESC", "*4 $2 10 $3 2.5 $2 -1 $1 3"),
            ("SORT l BY nosort DESC LIMIT 1 2", "*2 $3 2.5 $2 -1"),
            ("SORT l BY nosort DESC LIMIT -1 1", "*1 $2 10"),
            ("SORT l BY nosort DESC LIMIT 3 9", "*1 $1 3"),
            ("SORT l BY nosort DESC LIMIT 9 1", "*0"),
            ("SORT l BY nosort DESC STORE d", ":4"),
            ("LRANGE d 0 -1", "*4 $2 10 $3 2.5 $2 -1 $1 3"),
            ("SORT l BY nosort LIMIT 4 1", "*0"),
            ("SORT missing", "*0"),
            ("SORT_RO missing", "*0"),
            ("RPUSH text a b", ":2"),
            ("SORT text", "-ERR One or more scores can't be converted into double"),
            ("SORT l LIMIT 0", "-ERR syntax error"),
            ("SORT l LIMIT 0 x", "-ERR value is not an integer or out of range"),
            ("SORT l FOO", "-ERR syntax error"),
            ("SORT l BY", "-ERR syntax error"),
            ("SORT l GET", "-ERR syntax error"),
            ("SORT l STORE", "-ERR syntax error"),
            ("SORT_RO l STORE d", "-ERR syntax error"),
            ("SET string v", "+OK"),
            ("SORT string", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HSET h a 1", ":1"),
            ("SORT_RO h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn sorts_by_and_gets_other_keys() {
        Session::new().expect(&[
            ("RPUSH l 1 2 3", ":3"),
            ("MSET w_1 3 w_2 2 w_3 1 o_1 one o_2 two", "+OK"),
            ("SORT l BY w_*", "*3 $1 3 $1 2 $1 1"),
            ("SORT l BY w_* DESC", "*3 $1 1 $1 2 $1 3"),
            ("SORT l BY w_* GET o_* GET #", "*6 $-1 $1 3 $3 two $1 2 $3 one $1 1"),
            ("SORT l BY missing_*", "*3 $1 1 $1 2 $1 3"),
            ("SORT l BY o_*", "-ERR One or more scores can't be converted into double"),
            ("SORT l BY o_* ALPHA", "*3 $1 3 $1 1 $1 2"),
            ("SORT l BY o_* ALPHA DESC", "*3 $1 2 $1 1 $1 3"),
            ("HSET h_1 f 5", ":1"),
            ("HSET h_2 f 4", ":1"),
            ("SORT l BY h_*->f", "*3 $1 3 $1 2 $1 1"),
            ("SORT l BY h_*->f GET h_*->f", "*3 $-1 $1 4 $1 5"),
            ("SORT l BY w_*->f", "*3 $1 1 $1 2 $1 3"),
            ("SORT l GET h_*", "*3 $-1 $-1 $-1"),
            ("SORT l GET w_*->", "*3 $-1 $-1 $-1"),
            ("SORT l BY nosort GET constant", "*3 $-1 $-1 $-1"),
            ("RPUSH even 2 2 1 1", ":4"),
            ("SORT even BY missing_*", "*4 $1 1 $1 1 $1 2 $1 2"),
        ]);
    }

    #[test]
    fn stores_lists() {
        Session::new().expect(&[
            ("RPUSH l 3 1 2", ":3"),
            ("SORT l STORE d", ":3"),
            ("LRANGE d 0 -1", "*3 $1 1 $1 2 $1 3"),
            ("SET o_1 one", "+OK"),
            ("SORT l GET o_* GET # STORE d", ":6"),
            ("LRANGE d 0 -1", "*6 $3 one $1 1 $0  $1 2 $0  $1 3"),
            ("TYPE d", "+list"),
            ("SADD s c b a", ":3"),
            ("SORT s BY nosort STORE d", ":3"),
            ("LRANGE d 0 -1", "*3 $1 a $1 b $1 c"),
            ("SORT missing STORE d", ":0"),
            ("EXISTS d", ":0"),
            ("SORT l STORE l", ":3"),
            ("LRANGE l 0 -1", "*3 $1 1 $1 2 $1 3"),
            ("SORT l STORE o_1", ":3"),
            ("TYPE o_1", "+list"),
        ]);
    }

    #[test]
    fn resp3_has_arrays_and_its_own_null() {
        Session::new()
            .resp3()
            .expect(&[("SADD s 1", ":1"), ("SORT s", "*1 $1 1"), ("SORT s GET x_*", "*1 _")]);
    }

    #[test]
    fn a_limited_sort_is_a_part_of_the_whole() {
        let mut session = Session::new();
        let numbers: Vec<String> = (0..500).map(|step| (step * 7919 % 503).to_string()).collect();
        session.run(&format!("RPUSH l {}", numbers.join(" ")));
        let lines = |reply: String| -> Vec<String> { reply.lines().skip(2).step_by(2).map(str::to_owned).collect() };
        for order in ["ASC", "DESC", "ALPHA", "ALPHA DESC", "BY missing_*"] {
            let whole = lines(session.run(&format!("SORT l {order}")));
            assert_eq!(whole.len(), 500);
            for (offset, count) in [(0, 10), (100, 50), (490, 100)] {
                let part = lines(session.run(&format!("SORT l {order} LIMIT {offset} {count}")));
                assert_eq!(part, whole[offset..(offset + count).min(500)]);
            }
        }
    }

    #[test]
    fn digests_are_ordered_as_numbers_and_bytes_are() {
        let numbers = [f64::NEG_INFINITY, -2.5, -1e-300, 0.0, 1e-300, 1.0, 2.5, f64::INFINITY];
        assert!(numbers.is_sorted_by(|left, right| digest_of(*left) < digest_of(*right)));
        assert_eq!(digest_of(-0.0), digest_of(0.0));
        let words = ["", "a", "ab", "b", "long-word", "long-words", "\u{ff}"].map(str::as_bytes);
        let digests = words.map(|word| first_bytes(&Element::from(word)));
        assert!(digests.is_sorted());
    }
}
