//! A user: passwords, and what may be done with them.

use super::password::PasswordHash;
use super::rule_error::RuleError;
use super::selector::{Call, Denial, PubSubDefault, Selector};

/// The name of the user of connections that have not authenticated as another one.
pub const DEFAULT: &[u8] = b"default";

/// A user. It never changes: a changed user takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    name: Box<[u8]>,
    is_on: bool,
    has_nopass: bool,
    /// `skip-sanitize-payload`, which changes nothing: all payloads are checked.
    skips_sanitizing: bool,
    passwords: Vec<PasswordHash>,
    root: Selector,
    selectors: Vec<Selector>,
}

impl User {
    /// A new user, who is off and may do nothing.
    pub(super) fn new(name: &[u8], default: PubSubDefault) -> Self {
        Self {
            name: name.into(),
            is_on: false,
            has_nopass: false,
            skips_sanitizing: false,
            passwords: Vec::new(),
            root: Selector::new(default),
            selectors: Vec::new(),
        }
    }

    /// The default user as it is without rules: it needs no password, and may do everything.
    pub(super) fn new_default() -> Self {
        let mut user = Self::new(DEFAULT, PubSubDefault::AllChannels);
        user.is_on = true;
        user.has_nopass = true;
        for rule in [&b"allkeys"[..], b"allcommands"] {
            let applied = user.root.apply(rule);
            debug_assert_eq!(applied, Ok(()));
        }
        user
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether clients may authenticate as this user.
    pub(super) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether every password is right.
    #[must_use]
    pub const fn has_nopass(&self) -> bool {
        self.has_nopass
    }

    /// Whether clients are this user without authentication, if it is the default one.
    pub(super) const fn is_open(&self) -> bool {
        self.is_on && self.has_nopass
    }

    /// Whether the user may run all commands on all keys and channels.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.all_selectors().any(Selector::is_unrestricted)
    }

    /// Whether clients may authenticate with this password.
    pub(super) fn accepts(&self, password: &PasswordHash) -> bool {
        // All of them are compared.
        let is_known = self.passwords.iter().fold(false, |found, it| found | (it == password));
        self.is_on && (self.has_nopass | is_known)
    }

    /// Requires this password and no other; an empty one means none.
    pub(super) fn set_only_password(&mut self, password: &[u8]) {
        self.has_nopass = password.is_empty();
        self.passwords.clear();
        if !password.is_empty() {
            self.passwords.push(PasswordHash::of(password));
        }
    }

    /// Applies a rule. The channels of new selectors are those of `default`.
    ///
    /// # Errors
    /// The rule is wrong.
    pub(super) fn apply(&mut self, rule: &[u8], default: PubSubDefault) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            [] => {}
            _ if is("on") => self.is_on = true,
            _ if is("off") => self.is_on = false,
            _ if is("skip-sanitize-payload") => self.skips_sanitizing = true,
            _ if is("sanitize-payload") => self.skips_sanitizing = false,
            _ if is("nopass") => {
                self.has_nopass = true;
                self.passwords.clear();
            }
            _ if is("resetpass") => {
                self.has_nopass = false;
                self.passwords.clear();
            }
            [b'>', password @ ..] => self.add_password(PasswordHash::of(password)),
            [b'#', digits @ ..] => self.add_password(PasswordHash::parse(digits)?),
            [b'<', password @ ..] => return self.remove_password(&PasswordHash::of(password)),
            [b'!', digits @ ..] => return self.remove_password(&PasswordHash::parse(digits)?),
            [b'(', rules @ .., b')'] => self.selectors.push(Selector::parse(rules, default)?),
            _ if is("clearselectors") => self.selectors.clear(),
            _ if is("reset") => *self = Self::new(&self.name, default),
            _ => return self.root.apply(rule),
        }
        Ok(())
    }

    fn add_password(&mut self, password: PasswordHash) {
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
        self.has_nopass = false;
    }

    fn remove_password(&mut self, password: &PasswordHash) -> Result<(), RuleError> {
        let place = self.passwords.iter().position(|known| known == password);
        self.passwords.remove(place.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Whether the user may call the entry of the command table with this number.
    ///
    /// # Errors
    /// What the user may not do.
    pub(crate) fn check(&self, entry: usize, args: &[&[u8]]) -> Result<(), Denial> {
        let call = Call::new(entry, args);
        let mut denied = Denial::Command;
        for selector in self.all_selectors() {
            match selector.check(&call) {
                Ok(()) => return Ok(()),
                Err(denial) => denied = denied.max(denial),
            }
        }
        Err(denied)
    }

    /// Whether the user may call it and read all keys at the same time.
    pub(crate) fn may_read_all_keys(&self, entry: usize, args: &[&[u8]]) -> bool {
        let call = Call::new(entry, args);
        self.all_selectors()
            .any(|selector| selector.reads_all_keys() && selector.check(&call).is_ok())
    }

    /// Whether the user may subscribe to a channel, or to a pattern of channels.
    pub(crate) fn may_subscribe(&self, name: &[u8], is_pattern: bool) -> bool {
        self.all_selectors().any(|selector| selector.allows_channel(name, is_pattern))
    }

    /// The words that describe the user but for passwords and selectors.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let flags = [
            (self.is_on, "on"),
            (!self.is_on, "off"),
            (self.has_nopass, "nopass"),
            (self.skips_sanitizing, "skip-sanitize-payload"),
            (!self.skips_sanitizing, "sanitize-payload"),
        ];
        let set = flags.into_iter().filter(|(is_set, _)| *is_set);
        set.map(|(_, word)| word).collect()
    }

    /// The hashes of the passwords, in hexadecimal digits.
    pub(crate) fn passwords(&self) -> impl ExactSizeIterator<Item = String> {
        self.passwords.iter().map(PasswordHash::to_string)
    }

    /// The selector that all users have.
    pub(crate) const fn root(&self) -> &Selector {
        &self.root
    }

    /// The further selectors.
    pub(crate) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Rules that make the same user, behind the name: a line of an ACL file.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = [b"user ", &*self.name].concat();
        let mut add = |parts: &[&[u8]]| {
            line.push(b' ');
            parts.iter().for_each(|part| line.extend_from_slice(part));
        };
        self.flags().iter().for_each(|flag| add(&[flag.as_bytes()]));
        self.passwords().for_each(|digits| add(&[b"#", digits.as_bytes()]));
        add(&[&self.root.describe()]);
        let selectors = self.selectors.iter();
        selectors.for_each(|selector| add(&[b"(", &selector.describe(), b")"]));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: PubSubDefault = PubSubDefault::ResetChannels;

    fn user(rules: &str) -> User {
        let mut user = User::new(b"alice", NONE);
        for rule in rules.split('_') {
            user.apply(rule.as_bytes(), NONE).expect(rules);
        }
        user
    }

    fn line(rules: &str) -> String {
        String::from_utf8(user(rules).line()).expect("text")
    }

    #[test]
    fn users_are_described_as_redis_does() {
        let digits = PasswordHash::of(b"x").to_string();
        for (rules, expected) in [
            ("", "off sanitize-payload resetchannels -@all".to_owned()),
            ("on_nopass_resetchannels_&foo_+@all", "on nopass sanitize-payload resetchannels &foo +@all".into()),
            ("ON_nopass_>x", format!("on sanitize-payload #{digits} resetchannels -@all")),
            (">x_>y_<y_>x", format!("off sanitize-payload #{digits} resetchannels -@all")),
            (">x_nopass", "off nopass sanitize-payload resetchannels -@all".into()),
            ("on_>x_~*_(+get ~a)_reset", "off sanitize-payload resetchannels -@all".into()),
            (
                "-@all_+get_( -@all  +set &c %R~f)_()",
                "off sanitize-payload resetchannels -@all +get (%R~f resetchannels &c -@all +set) (resetchannels -@all)"
                    .into(),
            ),
            ("(+get)_clearselectors", "off sanitize-payload resetchannels -@all".into()),
            ("skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all".into()),
        ] {
            assert_eq!(line(rules), format!("user alice {expected}"), "{rules}");
        }
        let default = String::from_utf8(User::new_default().line()).expect("text");
        assert_eq!(default, "user default on nopass sanitize-payload ~* &* +@all");
    }

    #[test]
    fn wrong_rules_say_what_is_wrong() {
        for (rule, expected) in [
            ("(this-is-invalid)", RuleError::Syntax),
            ("(&* &fail)", RuleError::AfterAllChannels),
            ("(on)", RuleError::Syntax),
            (" () ", RuleError::Syntax),
            (")", RuleError::Syntax),
            ("<x", RuleError::NoSuchPassword),
            ("#x", RuleError::WrongHash),
            ("!x", RuleError::WrongHash),
        ] {
            let applied = user("").apply(rule.as_bytes(), NONE);
            assert_eq!(applied, Err(expected), "{rule}");
        }
    }

    #[test]
    fn passwords_count_while_the_user_is_on() {
        let accepts = |rules: &str, given: &str| {
            let given = PasswordHash::of(given.as_bytes());
            user(rules).accepts(&given)
        };
        assert!(accepts("on_>x_>y", "x") && accepts("on_>x_>y", "y"));
        assert!(!accepts("on_>x_>y", "z") && !accepts("on_>x_resetpass", "x"));
        assert!(accepts("on_nopass", "whatever"));
        assert!(!accepts("nopass", "") && !accepts(">x", "x") && !accepts("on", ""));
    }

    #[test]
    fn selectors_do_not_add_up() {
        let get = crate::acl::commands::Commands::get().named(b"mget").expect("a command");
        let of = |rules: &str, line: &str| {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            user(rules).check(get, &args)
        };
        let rules = "+mget_~key_(+mget ~key ~other)";
        assert_eq!(of(rules, "mget key other"), Ok(()));
        assert_eq!(of(rules, "mget other third"), Err(Denial::Key(2)));
        assert_eq!(of(rules, "mget key other third"), Err(Denial::Key(3)));
        assert_eq!(of("+mget_~a_(~b)", "mget b"), Err(Denial::Key(1)));
        assert_eq!(of("~a_(~b)", "mget b"), Err(Denial::Command));
        assert!(user("(allkeys allchannels +@all)").is_unrestricted());
        assert!(!user("+@all_(allkeys allchannels)").is_unrestricted());
    }

    #[test]
    fn new_selectors_have_the_channels_of_the_setting() {
        let mut user = User::new(b"bob", PubSubDefault::AllChannels);
        for rule in [&b"(+get)"[..], b"reset", b"(+set)"] {
            user.apply(rule, PubSubDefault::AllChannels).expect("a rule");
        }
        let line = String::from_utf8(user.line()).expect("text");
        assert_eq!(line, "user bob off sanitize-payload &* -@all (&* -@all +set)");
    }
}
