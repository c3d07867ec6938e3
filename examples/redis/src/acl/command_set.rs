//! The commands that a selector allows, and the rules that describe them.

use std::collections::BTreeMap;

use super::categories::Categories;
use super::commands::Commands;
use super::rule_error::RuleError;

/// Allowed commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandSet {
    /// A bit for each row of [`Commands`].
    bits: Vec<u64>,
    /// Commands that are to come are allowed, too: the rules began with `+@all`.
    has_future: bool,
    /// First arguments of commands that are not allowed otherwise.
    first_arguments: BTreeMap<usize, Vec<Box<[u8]>>>,
    /// The rules since `+@all` or `-@all`, in lower case.
    rules: Vec<Box<[u8]>>,
}

impl CommandSet {
    /// No commands.
    pub(super) fn none() -> Self {
        Self {
            bits: vec![0; Commands::get().len().div_ceil(64)],
            has_future: false,
            first_arguments: BTreeMap::new(),
            rules: Vec::new(),
        }
    }

    /// All commands.
    pub(super) fn all() -> Self {
        let mut all = Self::none();
        (0..Commands::get().len()).for_each(|row| all.set_bit(row, true));
        all.has_future = true;
        all
    }

    /// Whether all commands are allowed.
    pub(super) fn is_all(&self) -> bool {
        let allowed: u32 = self.bits.iter().map(|word| word.count_ones()).sum();
        usize::try_from(allowed) == Ok(Commands::get().len())
    }

    /// Whether the command is allowed whatever its arguments are.
    pub(super) fn contains(&self, row: usize) -> bool {
        self.bits[row / 64] & 1 << (row % 64) != 0
    }

    /// Whether the call `args` is allowed.
    pub(super) fn allows(&self, row: usize, args: &[&[u8]]) -> bool {
        let has_first = |allowed: &Vec<Box<[u8]>>| {
            let first = args.get(1).copied().unwrap_or_default();
            args.len() > 1 && allowed.iter().any(|it| it.eq_ignore_ascii_case(first))
        };
        self.contains(row) || self.first_arguments.get(&row).is_some_and(has_first)
    }

    fn set_bit(&mut self, row: usize, is_allowed: bool) {
        let bit = 1 << (row % 64);
        if is_allowed {
            self.bits[row / 64] |= bit;
        } else {
            self.bits[row / 64] &= !bit;
        }
    }

    /// Allows or forbids a command with its subcommands.
    fn set(&mut self, row: usize, is_allowed: bool) {
        self.set_bit(row, is_allowed);
        self.first_arguments.remove(&row);
        for &subcommand in &Commands::get().row(row).subcommands {
            self.set_bit(subcommand, is_allowed);
        }
    }

    fn set_category(&mut self, category: Categories, is_allowed: bool) {
        let commands = Commands::get();
        for row in commands.in_order() {
            if commands.row(row).categories.has(category) {
                self.set(row, is_allowed);
            }
        }
    }

    /// Applies a rule on commands: `+get`, `-@read`, `+client|list`, `nocommands`.
    ///
    /// # Errors
    /// The rule is wrong.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        if is("allcommands") || is("+@all") {
            *self = Self::all();
            return Ok(());
        }
        if is("nocommands") || is("-@all") {
            *self = Self::none();
            return Ok(());
        }
        match rule {
            [sign @ (b'+' | b'-'), b'@', category @ ..] => {
                let category = Categories::one(category).ok_or(RuleError::Unknown)?;
                self.set_category(category, *sign == b'+');
            }
            [b'+', name @ ..] => self.allow(name)?,
            [b'-', name @ ..] => {
                let row = Commands::get().named(name).ok_or(RuleError::Unknown)?;
                self.set(row, false);
            }
            _ => return Err(RuleError::Syntax),
        }
        self.note(rule);
        Ok(())
    }

    fn allow(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let commands = Commands::get();
        let find = |name: &[u8]| commands.named(name).ok_or(RuleError::Unknown);
        let Some(bar) = memchr::memrchr(b'|', name) else {
            self.set(find(name)?, true);
            return Ok(());
        };
        let (command, argument) = (find(&name[..bar])?, &name[bar + 1..]);
        let row = commands.row(command);
        if row.is_subcommand {
            return Err(RuleError::FirstArgumentOfSubcommand);
        }
        if argument.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !row.subcommands.is_empty() {
            self.set(find(name)?, true);
            return Ok(());
        }
        let allowed = self.first_arguments.entry(command).or_default();
        if !allowed.iter().any(|it| it.eq_ignore_ascii_case(argument)) {
            allowed.push(argument.into());
        }
        Ok(())
    }

    /// Notes a rule that has been applied. What it says again, or of a subcommand or a first argument, goes.
    fn note(&mut self, rule: &[u8]) {
        let rule = rule.to_ascii_lowercase();
        let name = &rule[1..];
        self.rules.retain(|known| {
            let rest = known[1..].strip_prefix(name);
            !rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'|')
        });
        self.rules.push(rule.into());
    }

    /// Rules that make the same set: those that were applied, as far as they count.
    pub(super) fn describe(&self) -> Vec<u8> {
        let first: &[u8] = if self.has_future { b"+@all" } else { b"-@all" };
        let rules = self.rules.iter().map(|rule| &**rule);
        std::iter::once(first).chain(rules).collect::<Vec<_>>().join(&b' ')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rules: &str) -> CommandSet {
        let mut set = CommandSet::none();
        for rule in rules.split_ascii_whitespace() {
            set.apply(rule.as_bytes()).expect(rule);
        }
        set
    }

    fn described(rules: &str) -> String {
        String::from_utf8(after(rules).describe()).expect("text")
    }

    #[test]
    fn sets_are_described_as_redis_does() {
        for (rules, expected) in [
            ("", "-@all"),
            ("+@all", "+@all"),
            ("+@all -@all", "-@all"),
            ("+get", "-@all +get"),
            ("+@all -client|kill", "+@all -client|kill"),
            ("+@all -client +client|id +client|setname", "+@all -client +client|id +client|setname"),
            ("+memory|doctor", "-@all +memory|doctor"),
            ("+@all -memory|doctor -memory", "+@all -memory"),
            ("+select|0 +SELECT|1 +select|0", "-@all +select|1 +select|0"),
            ("+select|0 +select", "-@all +select"),
            ("+debug|a -debug", "-@all -debug"),
            ("+@all -@string +incr", "+@all -@string +incr"),
            ("+@string -incr +acl", "-@all +@string -incr +acl"),
            ("+@READ +get -@read +GET -@hash", "-@all -@read +get -@hash"),
            ("+client|list +client +client|id -@connection", "-@all +client +client|id -@connection"),
            ("+getex +get -get", "-@all +getex -get"),
            ("+get allcommands -set", "+@all -set"),
        ] {
            assert_eq!(described(rules), expected, "{rules}");
            assert_eq!(described(expected), expected, "{rules}");
        }
    }

    #[test]
    fn every_category_describes_itself() {
        for (name, _) in Categories::each() {
            for rules in [format!("+@all -@{name}"), format!("-@all +@{name}")] {
                assert_eq!(described(&rules), rules);
            }
        }
    }

    #[test]
    fn a_description_makes_the_same_set() {
        for rules in [
            "+@read +@write -@dangerous +config|get -set",
            "+@all -@admin -@slow +keys -select +select|3",
            "+@fast +@hash +@list -lpush -rpush +object|freq +client",
        ] {
            let set = after(rules);
            let described = String::from_utf8(set.describe()).expect("text");
            assert_eq!(after(&described), set, "{rules}: {described}");
        }
    }

    #[test]
    fn wrong_rules_say_what_is_wrong() {
        for (rule, expected) in [
            ("+nope", RuleError::Unknown),
            ("-nope", RuleError::Unknown),
            ("+@nope", RuleError::Unknown),
            ("-config|nope", RuleError::Unknown),
            ("+config|nope", RuleError::Unknown),
            ("+get|a|b", RuleError::Unknown),
            ("-get|a", RuleError::Unknown),
            ("+config|get|save", RuleError::FirstArgumentOfSubcommand),
            ("+debug|", RuleError::Syntax),
            ("get", RuleError::Syntax),
        ] {
            let applied = CommandSet::none().apply(rule.as_bytes());
            assert_eq!(applied, Err(expected), "{rule}");
        }
    }

    #[test]
    fn first_arguments_allow_calls() {
        let commands = Commands::get();
        let row = |name: &str| commands.named(name.as_bytes()).expect(name);
        let set = after("+select|0 +client|id");
        assert!(set.allows(row("select"), &[b"SELECT", b"0"]));
        assert!(!set.allows(row("select"), &[b"SELECT", b"1"]));
        assert!(!set.allows(row("select"), &[b"SELECT"]));
        assert!(set.allows(row("client|id"), &[b"CLIENT", b"ID"]));
        assert!(!set.allows(row("client|list"), &[b"CLIENT", b"LIST"]));
        assert!(after("+@all").is_all() && !after("+@all -get").is_all());
        assert!(after("+@all -get +get").is_all());
    }
}
