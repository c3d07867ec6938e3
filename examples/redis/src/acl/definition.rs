//! Definitions of users: a name and rules, as in a line of an ACL file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::rule_error::RuleError;
use super::selector::{PubSubDefault, has_spaces};
use super::user::User;

/// Why rules do not make a user, in the words of ACL SETUSER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinitionError {
    /// The name has spaces.
    Name,
    /// A selector does not end.
    Unmatched {
        /// The rule with which it begins.
        rule: Vec<u8>,
    },
    /// A rule is wrong.
    Rule {
        /// The rule.
        rule: Vec<u8>,
        /// What is wrong with it.
        error: RuleError,
    },
}

impl std::error::Error for DefinitionError {}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("Usernames can't contain spaces or null characters"),
            Self::Unmatched { rule } => {
                let rule = String::from_utf8_lossy(rule);
                write!(f, "Unmatched parenthesis in acl selector starting at '{rule}'.")
            }
            Self::Rule { rule, error } => {
                let rule = String::from_utf8_lossy(rule);
                write!(f, "Error in ACL SETUSER modifier '{rule}': {error}")
            }
        }
    }
}

/// The rules, with those of each selector in one, which clients may divide at spaces.
///
/// # Errors
/// The rule with which a selector begins that does not end.
fn merged(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, DefinitionError> {
    let mut merged = Vec::with_capacity(rules.len());
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for &rule in rules {
        if let [b'(', .., last] | [last @ b'('] = rule
            && *last != b')'
        {
            open = Some((rule, rule.to_vec()));
            continue;
        }
        let Some((first, mut selector)) = open.take() else {
            merged.push(rule.to_vec());
            continue;
        };
        selector.push(b' ');
        selector.extend_from_slice(rule);
        if rule.ends_with(b")") {
            merged.push(selector);
        } else {
            open = Some((first, selector));
        }
    }
    match open {
        None => Ok(merged),
        Some((rule, _)) => Err(DefinitionError::Unmatched { rule: rule.to_vec() }),
    }
}

/// Applies all rules to the user.
///
/// # Errors
/// A rule is wrong. Those before it have been applied.
pub(super) fn apply_all(user: &mut User, rules: &[&[u8]], default: PubSubDefault) -> Result<(), DefinitionError> {
    if has_spaces(user.name()) {
        return Err(DefinitionError::Name);
    }
    for rule in merged(rules)? {
        if let Err(error) = user.apply(&rule, default) {
            return Err(DefinitionError::Rule { rule, error });
        }
    }
    Ok(())
}

/// The setting `user`: a name and rules, such as `alice on >secret ~app:* +@read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserDefinition(String);

impl UserDefinition {
    /// The name of the user.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_ascii_whitespace().next().unwrap_or_default()
    }

    /// The user.
    ///
    /// # Errors
    /// A rule is wrong.
    pub(super) fn user(&self, default: PubSubDefault) -> Result<User, DefinitionError> {
        let mut words = self.0.split_ascii_whitespace().map(str::as_bytes);
        let mut user = User::new(words.next().unwrap_or_default(), default);
        let rules: Vec<_> = words.collect();
        apply_all(&mut user, &rules, default)?;
        Ok(user)
    }
}

/// Refuses two definitions of one user.
///
/// # Errors
/// A message with the name.
pub fn check_names(definitions: &[UserDefinition]) -> Result<(), String> {
    for (index, definition) in definitions.iter().enumerate() {
        let name = definition.name();
        if definitions[..index].iter().any(|other| other.name() == name) {
            return Err(format!("Duplicate user '{name}' found. A user can only be defined once"));
        }
    }
    Ok(())
}

impl FromStr for UserDefinition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let definition = Self(text.to_owned());
        if definition.name().is_empty() {
            return Err("a user needs a name".to_owned());
        }
        // Which channels a new user has is another setting, and one of both takes all rules that are right.
        let is_right = |default| definition.user(default).map(drop);
        let result = is_right(PubSubDefault::ResetChannels);
        result.map_err(|error| format!("user '{}': {error}", definition.name()))?;
        Ok(definition)
    }
}

impl TryFrom<String> for UserDefinition {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<UserDefinition> for String {
    fn from(definition: UserDefinition) -> Self {
        definition.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: PubSubDefault = PubSubDefault::ResetChannels;

    fn line(text: &str) -> Result<String, String> {
        let definition: UserDefinition = text.parse()?;
        let user = definition.user(NONE).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&user.line()).into_owned())
    }

    #[test]
    fn selectors_may_be_divided_at_spaces() {
        for text in ["a (~k +get)", "a ( ~k +get )", "a (~k +get )", "a ( ~k +get)"] {
            let expected = "user a off sanitize-payload resetchannels -@all (~k resetchannels -@all +get)";
            assert_eq!(line(text).as_deref(), Ok(expected), "{text}");
        }
        let expected = "user a on sanitize-payload resetchannels -@all (resetchannels -@all)";
        assert_eq!(line("a () on").as_deref(), Ok(expected));
    }

    #[test]
    fn errors_name_the_user_and_the_rule() {
        for (text, expected) in [
            ("", "a user needs a name"),
            (
                "a on +nope",
                "user 'a': Error in ACL SETUSER modifier '+nope': Unknown command or category name in ACL",
            ),
            ("a (~x", "user 'a': Unmatched parenthesis in acl selector starting at '(~x'."),
            ("a (", "user 'a': Unmatched parenthesis in acl selector starting at '('."),
            ("a )", "user 'a': Error in ACL SETUSER modifier ')': Syntax error"),
        ] {
            assert_eq!(line(text), Err(expected.to_owned()), "{text}");
        }
        let both = ["a on", "b on", "a off"].map(|text| text.parse().expect(text));
        assert!(check_names(&both[..2]).is_ok());
        assert!(check_names(&both).is_err_and(|error| error.contains("Duplicate user 'a'")));
    }
}
