//! What decides how long a command of Redis takes: the words of the column `cost` of the [table of commands](Facts).

use std::sync::LazyLock;

use psp_protocols::resp::{CommandId, Facts};

/// What a request for a command costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// The name of the type of a request that costs little.
    pub(super) request_type: &'static str,
    /// What decides whether it does.
    pub(super) work: Work,
}

/// What decides how much work a request for a command is.
///
/// The number that some have is the place of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Nothing: O(1) or O(log n), and a reply without copies of long strings. EXEC is of the type of what it runs,
    /// which the connection knows.
    Constant,
    /// The number of connections and settings. It counts as small all the same: operators need these commands when
    /// nothing else answers.
    Administration,
    /// The number of arguments.
    Arguments,
    /// The count in argument 2, if there is one. A negative count repeats elements. A positive one cannot exceed the
    /// elements of the key.
    Count,
    /// The elements of all keys, and their bytes.
    Elements,
    /// The elements of as many keys as this argument says, which follow it.
    CountedKeys(usize),
    /// The elements between the indices in arguments 2 and 3, which the key may not have.
    Span,
    /// The same, unless these are scores or names.
    SpanOrLimit,
    /// The elements up to LIMIT.
    Limit,
    /// The elements of the keys that this argument counts, unless COUNT is small.
    Pop(usize),
    /// The elements of the key, their bytes, and what BY and GET look up.
    Sort,
    /// The bytes of the key's old value and of the offset in argument 2.
    Copy,
    /// The bytes of the key's value, if its bit does not change in place.
    Bit,
    /// The number of arguments, and the bytes of the key's value if its bits do not change in place.
    Fields,
    /// The bytes of the key between the ends from this argument on.
    Bits(usize),
    /// The number of arguments, each of which walks a HyperLogLog that is not dense.
    Sketch,
    /// The registers of the HyperLogLogs of all keys, unless one key remembers its count.
    Sketches,
    /// The product of the bytes of both keys.
    Pairs,
    /// The most elements that the payload in argument 3 may have, and its bytes.
    Payload,
    /// What the arguments and the stream say of the entries that it reads or removes.
    Stream,
    /// The same, and the number of arguments.
    Entries,
    /// The entries of streams up to COUNT.
    EntryRange,
    /// The members of the key in this argument whose places are looked at.
    Places(usize),
    /// The key's elements up to COUNT, and the pattern of MATCH.
    Cursor,
    /// All keys up to COUNT, and the pattern of MATCH.
    KeyspaceCursor,
    /// All keys, and the pattern in argument 1.
    Keyspace,
    /// The longest key.
    AnyKey,
    /// The subscribers of the channel in argument 1, and of all patterns, which are matched with it.
    Subscribers,
    /// The measured time of a script or a function.
    Script,
    /// More than a small request may take, unless the table knows the subcommand.
    Unbounded,
}

impl Cost {
    /// That of a command or a subcommand, if the table has one.
    pub(super) fn of(facts: &Facts) -> Option<Self> {
        let mut words = facts.cost.split(' ');
        let request_type = words.next()?;
        let work = words.next()?;
        let place = words.next().and_then(|place| place.parse().ok()).unwrap_or_default();
        let work = match work {
            "constant" => Work::Constant,
            "administration" => Work::Administration,
            "arguments" => Work::Arguments,
            "count" => Work::Count,
            "elements" => Work::Elements,
            "counted-keys" => Work::CountedKeys(place),
            "span" => Work::Span,
            "span-or-limit" => Work::SpanOrLimit,
            "limit" => Work::Limit,
            "pop" => Work::Pop(place),
            "sort" => Work::Sort,
            "copy" => Work::Copy,
            "bit" => Work::Bit,
            "fields" => Work::Fields,
            "bits" => Work::Bits(place),
            "sketch" => Work::Sketch,
            "sketches" => Work::Sketches,
            "pairs" => Work::Pairs,
            "payload" => Work::Payload,
            "stream" => Work::Stream,
            "entries" => Work::Entries,
            "entry-range" => Work::EntryRange,
            "places" => Work::Places(place),
            "cursor" => Work::Cursor,
            "keyspace-cursor" => Work::KeyspaceCursor,
            "keyspace" => Work::Keyspace,
            "any-key" => Work::AnyKey,
            "subscribers" => Work::Subscribers,
            "script" => Work::Script,
            "unbounded" => Work::Unbounded,
            _ => return None,
        };
        Some(Self { request_type, work })
    }
}

impl Work {
    /// What decides the work of this command. That of an unknown one is unbounded.
    #[inline]
    #[must_use]
    pub fn of(command: CommandId) -> Self {
        static BY_ID: LazyLock<[Work; CommandId::COUNT]> = LazyLock::new(|| {
            let mut by_id = [Work::Unbounded; CommandId::COUNT];
            for facts in Facts::all() {
                if let (id, Some(cost)) = (facts.id(), Cost::of(facts))
                    && id != CommandId::UNKNOWN
                {
                    by_id[id.index()] = cost.work;
                }
            }
            by_id
        });
        BY_ID[command.index()]
    }
}
