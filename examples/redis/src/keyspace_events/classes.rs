//! The classes of events, and how `notify-keyspace-events` spells them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A class of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Commands for keys of all types.
    Generic,
    /// Commands for strings.
    String,
    /// Commands for lists.
    List,
    /// Commands for sets.
    Set,
    /// Commands for hashes.
    Hash,
    /// Commands for sorted sets.
    SortedSet,
    /// Keys that expired.
    Expired,
    /// Keys that were evicted.
    Evicted,
    /// Commands for streams.
    Stream,
    /// What modules do. There are none.
    Module,
    /// Keys that were looked for in vain.
    Miss,
    /// Keys that are new.
    New,
}

/// Letters of all classes, in the order in which Redis writes them, and whether `A` includes them.
const LETTERS: [(char, Class, bool); 12] = [
    ('g', Class::Generic, true),
    ('$', Class::String, true),
    ('l', Class::List, true),
    ('s', Class::Set, true),
    ('h', Class::Hash, true),
    ('z', Class::SortedSet, true),
    ('x', Class::Expired, true),
    ('e', Class::Evicted, true),
    ('t', Class::Stream, true),
    ('d', Class::Module, true),
    ('n', Class::New, false),
    ('m', Class::Miss, false),
];

/// Events on the channel of their key.
const BY_KEY: u32 = 1 << 30;
/// Events on the channel of their name.
const BY_EVENT: u32 = 1 << 31;

/// Classes of events, and on which channels they are published. Off by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Classes(u32);

impl Classes {
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Whether nothing is published. A class without a kind of channel has no channel, as in Redis.
    #[inline]
    pub(crate) const fn are_off(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn has(self, class: Class) -> bool {
        self.0 & (1 << class as u32) != 0
    }

    /// Publishes an event of a key of this database, if it is wanted, through `publish`, which gets a channel and a
    /// message.
    pub(super) fn announce(
        self,
        class: Class,
        event: &str,
        (database, key): (usize, &[u8]),
        mut publish: impl FnMut(&[u8], &[u8]),
    ) {
        if !self.has(class) {
            return;
        }
        if self.0 & BY_KEY != 0 {
            let prefix = format!("__keyspace@{database}__:");
            publish(&[prefix.as_bytes(), key].concat(), event.as_bytes());
        }
        if self.0 & BY_EVENT != 0 {
            publish(format!("__keyevent@{database}__:{event}").as_bytes(), key);
        }
    }
}

impl FromStr for Classes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bits_of = |letter| {
            Some(match letter {
                'K' => BY_KEY,
                'E' => BY_EVENT,
                'A' => {
                    let all = LETTERS.iter().filter(|(_, _, is_in_all)| *is_in_all);
                    all.fold(0, |bits, (_, class, _)| bits | 1 << *class as u32)
                }
                _ => {
                    let known = LETTERS.iter().find(|(known, _, _)| *known == letter);
                    1 << known?.1 as u32
                }
            })
        };
        let bits = text.chars().try_fold(0, |bits, letter| Some(bits | bits_of(letter)?));
        bits.map(Self).ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
    }
}

/// As CONFIG GET of Redis has it: `A` stands for its classes, and then `n` is left out.
impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        let mut in_all = LETTERS.iter().filter(|(_, _, is_in_all)| *is_in_all);
        let has_all = in_all.all(|(_, class, _)| self.has(*class));
        if has_all {
            f.write_char('A')?;
        }
        for (letter, class, _) in LETTERS {
            if !has_all && class != Class::Miss && self.has(class) {
                f.write_char(letter)?;
            }
        }
        for (letter, is_set) in
            [('K', self.0 & BY_KEY != 0), ('E', self.0 & BY_EVENT != 0), ('m', self.has(Class::Miss))]
        {
            if is_set {
                f.write_char(letter)?;
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Classes {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Classes> for String {
    fn from(classes: Classes) -> Self {
        classes.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_written_as_redis_writes_them() {
        for (given, written) in [
            ("", ""),
            ("AKEmn", "AKEm"),
            ("KEA", "AKE"),
            ("Elg", "glE"),
            ("Ex", "xE"),
            ("g$lshzxetd", "A"),
            ("Kmng", "gnKm"),
        ] {
            let classes: Classes = given.parse().unwrap();
            assert_eq!(classes.to_string(), written);
        }
        assert!("q".parse::<Classes>().is_err());
        assert!(Classes::default().are_off());
    }

    #[test]
    fn an_event_has_a_channel_of_its_key_and_one_of_its_name() {
        let published = |classes: &str| {
            let mut all = Vec::new();
            let classes: Classes = classes.parse().unwrap();
            classes.announce(Class::Generic, "del", (3, b"k"), |channel, text| {
                let [channel, text] = [channel, text].map(String::from_utf8_lossy);
                all.push(format!("{channel} {text}"));
            });
            all
        };
        let all = ["__keyspace@3__:k del", "__keyevent@3__:del k"];
        assert_eq!(published("KEA"), all);
        assert_eq!(published("Kg"), all[..1]);
        assert_eq!(published("Eg"), all[1..]);
        assert_eq!((published("KEx"), published("A")), (vec![], vec![]));
    }
}
