//! What decides how long a command of Redis takes: the words of the column `cost` of the [table of commands](Facts).

use std::sync::LazyLock;

use psp_protocols::resp::{CommandId, Facts};

/// What a request for a command costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// The name of the type of a request by its arguments alone.
    pub(super) request_type: &'static str,
    /// What else decides.
    pub(super) work: Work,
}

/// Declares [`Work`], with the words of the table.
macro_rules! works {
    ($($(#[$doc:meta])* $work:ident $(($place:ty))? $word:literal,)*) => {
        /// What decides how much work a request for a command is.
        ///
        /// The number that some have is the place of an argument.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Work {
            $($(#[$doc])* $work $(($place))?,)*
        }

        impl Work {
            /// `None` for other words.
            fn parse(word: &str, place: Option<&str>) -> Option<Self> {
                match word {
                    $($word => Some(Self::$work $((place?.parse::<$place>().ok()?))?),)*
                    _ => None,
                }
            }
        }
    };
}

works! {
    /// Nothing: O(1) or O(log n), and a reply without copies of long strings. EXEC is of the type of what it runs,
    /// which the connection knows.
    Constant "constant",
    /// The number of connections and settings. It counts as small all the same: operators need these commands when
    /// nothing else answers.
    Administration "administration",
    /// The number of arguments.
    Arguments "arguments",
    /// The count in argument 2, if there is one. A negative count repeats elements. A positive one cannot exceed the
    /// elements of the key.
    Count "count",
    /// The elements of all keys, and their bytes.
    Elements "elements",
    /// The elements of as many keys as this argument says, which follow it.
    CountedKeys(usize) "counted-keys",
    /// The elements between the indices in arguments 2 and 3, which the key may not have.
    Span "span",
    /// The same, unless these are scores or names.
    SpanOrLimit "span-or-limit",
    /// The elements up to LIMIT.
    Limit "limit",
    /// The elements of the keys that this argument counts, unless COUNT is small.
    Pop(usize) "pop",
    /// The elements of the key, their bytes, and what BY and GET look up.
    Sort "sort",
    /// The bytes of the key's old value and of the offset in argument 2.
    Copy "copy",
    /// The bytes of the key's value, if its bit does not change in place.
    Bit "bit",
    /// The number of arguments, and the bytes of the key's value if its bits do not change in place.
    Fields "fields",
    /// The bytes of the key between the ends from this argument on.
    Bits(usize) "bits",
    /// The number of arguments, each of which walks a HyperLogLog that is not dense.
    Sketch "sketch",
    /// The registers of the HyperLogLogs of all keys, unless one key remembers its count.
    Sketches "sketches",
    /// The product of the bytes of both keys.
    Pairs "pairs",
    /// The most elements that the payload in argument 3 may have, and its bytes.
    Payload "payload",
    /// What the arguments and the stream say of the entries that it reads or removes.
    Stream "stream",
    /// The same, and the number of arguments.
    Entries "entries",
    /// The entries of streams up to COUNT.
    EntryRange "entry-range",
    /// The members of the key in this argument whose places are looked at.
    Places(usize) "places",
    /// The key's elements up to COUNT, and the pattern of MATCH.
    Cursor "cursor",
    /// All keys up to COUNT, and the pattern of MATCH.
    KeyspaceCursor "keyspace-cursor",
    /// All keys, and the pattern in argument 1.
    Keyspace "keyspace",
    /// The longest key.
    AnyKey "any-key",
    /// The subscribers of the channel in argument 1, and of all patterns, which are matched with it.
    Subscribers "subscribers",
    /// The measured time of a script or a function.
    Script "script",
    /// More than a small request may take, unless the table knows the subcommand.
    Unbounded "unbounded",
}

impl Cost {
    /// That of a command or a subcommand, if the table has one.
    pub(super) fn of(facts: &Facts) -> Option<Self> {
        let mut words = facts.cost.split(' ');
        let (request_type, work) = (words.next()?, words.next()?);
        Some(Self { request_type, work: Work::parse(work, words.next())? })
    }
}

impl Work {
    /// What decides the work of this command. That of an unknown one is unbounded.
    #[inline]
    #[must_use]
    pub fn of(command: CommandId) -> Self {
        static BY_ID: LazyLock<[Work; CommandId::COUNT]> = LazyLock::new(|| {
            let mut by_id = [Work::Unbounded; CommandId::COUNT];
            // Subcommands have no ids.
            for facts in Facts::all().iter().filter(|facts| facts.id() != CommandId::UNKNOWN) {
                if let Some(cost) = Cost::of(facts) {
                    by_id[facts.id().index()] = cost.work;
                }
            }
            by_id
        });
        BY_ID[command.index()]
    }
}
