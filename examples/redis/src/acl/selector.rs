//! Selectors: which commands are allowed on which keys and channels. A user has one, and may have further ones.

use std::cell::OnceCell;

use super::command_set::CommandSet;
use super::commands::{Commands, Row};
use super::rule_error::RuleError;
use crate::call_keys::{CallKey, Keys, keys_of};
use crate::glob::{NamedPattern, Steps};

/// Which channels a new selector has: `acl-pubsub-default`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PubSubDefault {
    /// None.
    #[default]
    #[value(name = "resetchannels")]
    ResetChannels,
    /// All.
    #[value(name = "allchannels")]
    AllChannels,
}

/// Why a call is not allowed. The greater one says more: that of the selector which came nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denial {
    /// The command or the subcommand.
    Command,
    /// The key in this argument.
    Key(usize),
    /// The channel in this argument.
    Channel(usize),
}

/// A call of a command.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// The command's number in [`Commands`].
    row: usize,
    args: &'a [&'a [u8]],
    keys: OnceCell<Keys<'a>>,
}

impl<'a> Call<'a> {
    pub(super) fn new(row: usize, args: &'a [&'a [u8]]) -> Self {
        Self { row, args, keys: OnceCell::new() }
    }

    fn spec(&self) -> &'static Row {
        Commands::get().row(self.row)
    }

    /// The keys. Arguments that do not say which these are name none: the command refuses them.
    fn keys(&self) -> &[CallKey<'a>] {
        let spec = self.spec();
        self.keys.get_or_init(|| keys_of(spec.facts, self.args).unwrap_or_default())
    }

    /// The channels that need a permission, with their places.
    fn channels(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let places = self.spec().channels.iter();
        let places = places.flat_map(|it| it.places.start..it.places.end.min(self.args.len()));
        places.map(|place| (place, self.args[place]))
    }
}

/// What may be done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Access {
    reads: bool,
    writes: bool,
}

impl Access {
    const READ: Self = Self { reads: true, writes: false };
    const WRITE: Self = Self { reads: false, writes: true };
    const BOTH: Self = Self { reads: true, writes: true };

    /// What a command does to a key, in the words of key specifications.
    fn of(flags: &[&str]) -> Self {
        Self {
            reads: flags.contains(&"access"),
            writes: ["insert", "delete", "update"].iter().any(|it| flags.contains(it)),
        }
    }

    const fn includes(self, other: Self) -> bool {
        (self.reads || !other.reads) && (self.writes || !other.writes)
    }
}

/// A pattern of keys, and what may be done to these.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyPattern {
    pattern: NamedPattern,
    access: Access,
}

impl KeyPattern {
    /// The pattern of a rule: `~app:*`, `%R~app:*`.
    fn parse(rule: &[u8]) -> Result<Self, RuleError> {
        let (access, pattern) = match rule {
            [b'~', pattern @ ..] => (Access::BOTH, pattern),
            _ => {
                let tilde = memchr::memchr(b'~', rule).ok_or(RuleError::Syntax)?;
                let access = match rule[1..tilde].to_ascii_uppercase().as_slice() {
                    b"R" => Access::READ,
                    b"W" => Access::WRITE,
                    b"RW" | b"WR" => Access::BOTH,
                    _ => return Err(RuleError::Syntax),
                };
                (access, &rule[tilde + 1..])
            }
        };
        Ok(Self { pattern: NamedPattern::new(word(pattern)?), access })
    }

    /// As a rule.
    fn describe(&self) -> Vec<u8> {
        let prefix: &[u8] = match self.access {
            Access::READ => b"%R~",
            Access::WRITE => b"%W~",
            _ => b"~",
        };
        [prefix, self.pattern.name()].concat()
    }
}

/// Text without spaces and zeros.
pub(super) fn word(text: &[u8]) -> Result<&[u8], RuleError> {
    match has_spaces(text) {
        true => Err(RuleError::Syntax),
        false => Ok(text),
    }
}

/// Whether the text has spaces or zeros.
pub(super) fn has_spaces(text: &[u8]) -> bool {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b);
    text.iter().any(is_space)
}

/// A selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector {
    commands: CommandSet,
    has_all_keys: bool,
    keys: Vec<KeyPattern>,
    has_all_channels: bool,
    channels: Vec<NamedPattern>,
}

impl Selector {
    /// A selector that allows nothing yet, but for the channels.
    pub(super) fn new(default: PubSubDefault) -> Self {
        Self {
            commands: CommandSet::none(),
            has_all_keys: false,
            keys: Vec::new(),
            has_all_channels: default == PubSubDefault::AllChannels,
            channels: Vec::new(),
        }
    }

    /// The selector of the rules within parentheses.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(super) fn parse(rules: &[u8], default: PubSubDefault) -> Result<Self, RuleError> {
        let mut selector = Self::new(default);
        let rules = rules.split(u8::is_ascii_whitespace);
        for rule in rules.filter(|rule| !rule.is_empty()) {
            selector.apply(rule)?;
        }
        Ok(selector)
    }

    /// Applies a rule.
    ///
    /// # Errors
    /// The rule is wrong.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            _ if is("allkeys") || is("~*") => self.set_all_keys(true),
            _ if is("resetkeys") => self.set_all_keys(false),
            _ if is("allchannels") || is("&*") => self.set_all_channels(true),
            _ if is("resetchannels") => self.set_all_channels(false),
            [b'~' | b'%', ..] => return self.add_keys(rule),
            [b'&', pattern @ ..] => return self.add_channels(pattern),
            _ => return self.commands.apply(rule),
        }
        Ok(())
    }

    fn set_all_keys(&mut self, has_all: bool) {
        self.has_all_keys = has_all;
        self.keys.clear();
    }

    fn set_all_channels(&mut self, has_all: bool) {
        self.has_all_channels = has_all;
        self.channels.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.has_all_keys {
            return Err(RuleError::AfterAllKeys);
        }
        let added = KeyPattern::parse(rule)?;
        let mut known = self.keys.iter_mut();
        match known.find(|it| it.pattern == added.pattern) {
            Some(known) => {
                known.access.reads |= added.access.reads;
                known.access.writes |= added.access.writes;
            }
            None => self.keys.push(added),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.has_all_channels {
            return Err(RuleError::AfterAllChannels);
        }
        let pattern = word(pattern)?;
        if !self.channels.iter().any(|known| known.name() == pattern) {
            self.channels.push(NamedPattern::new(pattern));
        }
        Ok(())
    }

    /// Whether it allows all commands on all keys and channels.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.has_all_keys && self.has_all_channels && self.commands.is_all()
    }

    /// Whether it allows the call.
    ///
    /// # Errors
    /// What it does not allow.
    pub(super) fn check(&self, call: &Call<'_>) -> Result<(), Denial> {
        let spec = call.spec();
        if !spec.is_for_all && !self.commands.allows(call.row, call.args) {
            return Err(Denial::Command);
        }
        if !self.has_all_keys && spec.has_keys {
            let mut keys = call.keys().iter();
            if let Some(denied) = keys.find(|key| !self.allows_key(key.name, Access::of(key.flags))) {
                return Err(Denial::Key(denied.index));
            }
        }
        if let Some(channels) = &spec.channels {
            let is_denied = |(_, name): &(usize, &[u8])| !self.allows_channel(name, channels.are_patterns);
            if let Some((place, _)) = call.channels().find(is_denied) {
                return Err(Denial::Channel(place));
            }
        }
        Ok(())
    }

    fn allows_key(&self, key: &[u8], access: Access) -> bool {
        let mut patterns = self.keys.iter();
        let steps = Steps::new();
        patterns.any(|it| it.access.includes(access) && it.pattern.matches(key, &steps))
    }

    /// Whether all keys may be read.
    pub(super) fn reads_all_keys(&self) -> bool {
        let is_all = |it: &KeyPattern| it.access.reads && it.pattern.name() == b"*";
        self.has_all_keys || self.keys.iter().any(is_all)
    }

    /// Whether it allows a channel, or a pattern of channels, which has to be one of those that the rules name.
    pub(super) fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let steps = Steps::new();
        let allows = |allowed: &NamedPattern| match is_pattern {
            true => allowed.name() == name,
            false => allowed.matches(name, &steps),
        };
        self.has_all_channels || self.channels.iter().any(allows)
    }

    /// The rules on commands.
    pub(crate) fn describe_commands(&self) -> Vec<u8> {
        self.commands.describe()
    }

    /// The patterns of keys, as rules.
    pub(crate) fn describe_keys(&self) -> Vec<u8> {
        if self.has_all_keys {
            return b"~*".to_vec();
        }
        let patterns: Vec<_> = self.keys.iter().map(KeyPattern::describe).collect();
        patterns.join(&b' ')
    }

    /// The patterns of channels, as rules.
    pub(crate) fn describe_channels(&self) -> Vec<u8> {
        if self.has_all_channels {
            return b"&*".to_vec();
        }
        let patterns: Vec<_> = self.channels.iter().map(|it| [b"&", it.name()].concat()).collect();
        patterns.join(&b' ')
    }

    /// Rules that make the same selector.
    pub(super) fn describe(&self) -> Vec<u8> {
        let reset: &[u8] = match self.has_all_channels {
            true => b"",
            false => b"resetchannels",
        };
        let parts = [&*self.describe_keys(), reset, &self.describe_channels(), &self.describe_commands()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(&b' ')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandTable;
    use psp_protocols::resp::CommandId;

    fn selector(rules: &str) -> Selector {
        Selector::parse(rules.as_bytes(), PubSubDefault::ResetChannels).expect(rules)
    }

    fn check(rules: &str, line: &str) -> Result<(), Denial> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let table = CommandTable::get();
        let command = table.index_of(CommandId::of(args[0])).expect(line);
        let call = Call::new(table.entry_of(command, &args), &args);
        selector(rules).check(&call)
    }

    #[test]
    fn calls_need_their_command_and_all_their_keys() {
        for (rules, line, expected) in [
            ("", "get a", Err(Denial::Command)),
            ("", "auth x", Ok(())),
            ("+get", "get a", Err(Denial::Key(1))),
            ("+get ~a*", "get ab", Ok(())),
            ("+mget ~a*", "mget a ab b", Err(Denial::Key(3))),
            ("+@all %R~r* %W~w*", "get r", Ok(())),
            ("+@all %R~r* %W~w*", "get w", Err(Denial::Key(1))),
            ("+@all %R~r* %W~w*", "set w x", Ok(())),
            ("+@all %R~r* %W~w*", "set w x get", Err(Denial::Key(1))),
            ("+@all %R~r* %W~w*", "copy r w", Ok(())),
            ("+@all %R~r* %W~w*", "copy w r", Err(Denial::Key(1))),
            ("+@all %R~r* %W~w*", "strlen w", Ok(())),
            ("+@all %R~r* %W~w*", "strlen x", Err(Denial::Key(1))),
            ("+@all %R~rw %W~rw", "getset rw x", Ok(())),
            ("+@all ~k", "sort k store k2", Err(Denial::Key(3))),
            ("+@all ~k", "eval x 1 k", Ok(())),
            ("+@all ~k", "eval x 2 k l", Err(Denial::Key(4))),
            ("+@all ~k", "eval x 9 l", Ok(())),
            ("+client|id", "client id", Ok(())),
            ("+client|id", "client list", Err(Denial::Command)),
            ("+ping", "ping", Ok(())),
        ] {
            assert_eq!(check(rules, line), expected, "{line} by {rules}");
        }
    }

    #[test]
    fn channels_match_and_patterns_are_named() {
        for (rules, line, expected) in [
            ("+@all", "publish c x", Err(Denial::Channel(1))),
            ("+@all &c*", "publish cd x", Ok(())),
            ("+@all &c*", "spublish d x", Err(Denial::Channel(1))),
            ("+@all &c* &d", "subscribe c d e", Err(Denial::Channel(3))),
            ("+@all &c*", "psubscribe c*", Ok(())),
            ("+@all &c*", "psubscribe cd", Err(Denial::Channel(1))),
            ("+@all &*", "psubscribe cd", Ok(())),
            ("+@all", "unsubscribe c", Ok(())),
            ("+@all", "punsubscribe", Ok(())),
        ] {
            assert_eq!(check(rules, line), expected, "{line} by {rules}");
        }
    }

    #[test]
    fn rules_on_keys_and_channels_are_checked() {
        for (rules, expected) in [
            ("~* ~a", RuleError::AfterAllKeys),
            ("allkeys %R~a", RuleError::AfterAllKeys),
            ("&* &a", RuleError::AfterAllChannels),
            ("%~a", RuleError::Syntax),
            ("%X~a", RuleError::Syntax),
            ("%RR~a", RuleError::Syntax),
            ("%RW", RuleError::Syntax),
            ("on", RuleError::Syntax),
            ("~a\0", RuleError::Syntax),
        ] {
            let parsed = Selector::parse(rules.as_bytes(), PubSubDefault::ResetChannels);
            assert_eq!(parsed, Err(expected), "{rules}");
        }
    }

    #[test]
    fn selectors_are_described_as_redis_does() {
        for (rules, expected) in [
            ("", "resetchannels -@all"),
            ("~* &* +@all", "~* &* +@all"),
            ("%R~foo %w~foo %RW~bar %R~x &c &c", "~foo ~bar %R~x resetchannels &c -@all"),
            ("~a resetkeys &b resetchannels", "resetchannels -@all"),
        ] {
            let described = selector(rules).describe();
            assert_eq!(String::from_utf8_lossy(&described), expected, "{rules}");
            assert_eq!(selector(expected), selector(rules));
        }
        assert!(selector("allkeys allchannels allcommands").is_unrestricted());
        assert!(!selector("allkeys allcommands").is_unrestricted());
        assert!(selector("%R~*").reads_all_keys() && !selector("%W~* ~a").reads_all_keys());
    }
}
