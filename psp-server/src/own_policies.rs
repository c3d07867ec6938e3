//! Policies of a program's own, by the names that its files and its admin port call them.

use std::ops::Range;

use psp_policy::{Policy, PolicyError};
use toml::de::{DeTable, DeValue};

/// A policy that any text may name, which has no settings.
const STAND_IN: &str = "\"sjf\"";

/// Policies from outside this crate; see the [module](self).
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnPolicies(Vec<Policy>);

impl OwnPolicies {
    pub(crate) fn add(&mut self, policies: impl IntoIterator<Item = Policy>) {
        for policy in policies {
            if !self.0.contains(&policy) {
                self.0.push(policy);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.0.iter()
    }

    /// Refuses a policy of the crate, and one that has another's name.
    pub(crate) fn validate(&self) -> Result<(), PolicyError> {
        for (index, policy) in self.0.iter().enumerate() {
            let name = policy.name();
            if !matches!(policy, Policy::Custom(_)) {
                return Err(PolicyError::CustomName(name.to_owned()));
            }
            if self.0[..index].iter().any(|other| other.name() == name) {
                return Err(PolicyError::SameName(name.to_owned()));
            }
            policy.validate(1)?;
        }
        Ok(())
    }

    /// The policy that a line names: one of these, or one of the crate with its settings.
    pub(crate) fn parse(&self, line: &str) -> Result<Policy, PolicyError> {
        let own = self.0.iter().find(|policy| policy.name() == line.trim());
        own.map_or_else(|| line.parse(), |policy| Ok(policy.clone()))
    }

    /// The policy that a configuration file names, if it is one of these, and the text with another name in its place,
    /// which serde knows. What stands on other lines keeps its place.
    pub(crate) fn take(&self, text: &str) -> Option<(Policy, String)> {
        let (name, place) = policy_name(text)?;
        let policy = self.0.iter().find(|policy| policy.name() == name)?;
        let mut known = text.to_owned();
        let width = place.len();
        known.replace_range(place, &format!("{STAND_IN:width$}"));
        Some((policy.clone(), known))
    }
}

/// The name of the policy in a configuration file, and where it is.
fn policy_name(text: &str) -> Option<(String, Range<usize>)> {
    let document = DeTable::parse(text).ok()?.into_inner();
    let policy = document.get("policy")?;
    let name = match policy.get_ref() {
        DeValue::Table(settings) => settings.get("name")?,
        _ => policy,
    };
    Some((name.get_ref().as_str()?.to_owned(), name.span()))
}
