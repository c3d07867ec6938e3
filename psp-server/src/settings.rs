//! The settings of a server as one TOML text: its policy, its resources and its request types.
//!
//! ```toml
//! [policy]
//! name = "darc"
//! delta = 3.0
//!
//! [server]
//! workers = 4
//! connections-max = 1000
//!
//! [[types]]
//! name = "short"
//! service-time-us = 1.5
//! ```
//!
//! `docs/configuration.md` lists all keys.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use psp_policy::internal::EitherCase;
use psp_policy::{Policy, TypeSpec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::de::DeTable;
use toml::{Table, Value};

use crate::config::Config;
use crate::error::{Place, SettingsError};
use crate::own_policies::OwnPolicies;

/// What operators may set of a server: policy, resources, and hints of its request types. What they do not name is the
/// [builder's](crate::ServerBuilder::settings).
///
/// ```
/// use psp_server::{Policy, Settings};
///
/// let settings = Settings::from_toml("policy = 'sjf'\n[server]\nworkers = 2")?;
/// assert_eq!(settings.policy, Policy::sjf());
/// assert_eq!(settings.server.workers, Some(2.into()));
///
/// let error = Settings::from_toml("policy = 'sjf'\n[server]\nworker = 2").unwrap_err();
/// assert!(error.to_string().starts_with("line 3, column 1: unknown field `worker`"));
/// # Ok::<(), psp_server::SettingsError>(())
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The policy.
    pub policy: Policy,
    /// Workers, topology, connections and buffers.
    pub server: Config,
    /// Hints for request types. A type of the classifier takes those that it is given, by its name. If the classifier
    /// has no types, these are the types, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeSpec>,
    /// Policies that a text may name beside those of the crate.
    #[serde(skip)]
    pub(crate) own_policies: OwnPolicies,
    /// What was named, such as `policy` and `server.spin_us`, if only as the default.
    #[serde(skip)]
    named: BTreeSet<String>,
    /// What these were before a text changed them.
    #[serde(skip)]
    before_text: Option<Box<Self>>,
}

/// Settings are equal that make the same server.
impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        (&self.policy, &self.server, &self.types) == (&other.policy, &other.server, &other.types)
    }
}

impl Settings {
    psp_policy::setters! {
        server: Config,
        types: Vec<TypeSpec>,
    }

    /// Sets [`policy`](field@Self::policy).
    #[must_use]
    pub fn policy(mut self, policy: impl Into<Policy>) -> Self {
        self.policy = policy.into();
        self.named.insert(POLICY.to_owned());
        self
    }

    /// Lets texts and files that are read from now on name these [policies](Policy::custom), too.
    ///
    /// [`build`](crate::ServerBuilder::build) refuses a policy of the crate here, and two of one name.
    #[must_use]
    pub fn policies(mut self, policies: impl IntoIterator<Item = Policy>) -> Self {
        self.own_policies.add(policies);
        self
    }

    /// The settings that a TOML text names. The others have their defaults.
    ///
    /// # Errors
    /// [`SettingsError::Text`] names line, column and reason. Settings out of range are those of
    /// [`Config::validate`] and of the policy.
    pub fn from_toml(text: &str) -> Result<Self, SettingsError> {
        Self::default().with_toml(text)
    }

    /// The settings that a TOML file names. The others have their defaults.
    ///
    /// # Errors
    /// As [`from_toml`](Self::from_toml), and when the file cannot be read. The error names the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, SettingsError> {
        Self::default().with_file(path)
    }

    /// These settings, changed by those that a TOML text names: a program's own defaults and its file. Hints in the
    /// text replace all of [`types`](field@Self::types).
    ///
    /// # Errors
    /// As [`from_toml`](Self::from_toml).
    pub fn with_toml(self, text: &str) -> Result<Self, SettingsError> {
        self.with_text(text, None)
    }

    /// These settings, changed by those that a TOML file names.
    ///
    /// # Errors
    /// As [`from_file`](Self::from_file).
    pub fn with_file(self, path: impl AsRef<Path>) -> Result<Self, SettingsError> {
        let path = path.as_ref();
        self.with_text(&read(path)?, Some(path))
    }

    pub(crate) fn with_text(self, text: &str, path: Option<&Path>) -> Result<Self, SettingsError> {
        let (own, known) = self.own_policies.take(text).unzip();
        let text = known.as_deref().unwrap_or(text);
        let mut read: Self = parse(text, path)?;
        read.named = names(&parse(text, path)?);
        read.policy = own.unwrap_or(read.policy);
        let before = Box::new(self.clone());
        let mut merged = read.over(self);
        merged.server.validate()?;
        // The builder, or the machine, says how many workers there are where these do not.
        merged.policy.validate(merged.server.workers.map_or(usize::MAX, |workers| workers.max))?;
        merged.before_text = Some(before);
        Ok(merged)
    }

    /// What the program's code set before a text changed it.
    pub(crate) fn without_text(&self) -> Self {
        self.before_text.as_deref().unwrap_or(self).clone()
    }

    /// `own`, changed by what these settings name, and by what they have that is not the default.
    pub(crate) fn over(self, own: Self) -> Self {
        let default = Self::default();
        let has = |key, differs| differs || self.named.contains(key);
        let mut merged = own;
        if has(POLICY, self.policy != default.policy) {
            merged.policy = self.policy;
        }
        if has(TYPES, self.types != default.types) {
            merged.types = self.types;
        }
        let is_named = |setting: &str| self.named.contains(&of_server(setting));
        merged.server = merged.server.with_named(&self.server, is_named);
        merged.own_policies.add(self.own_policies.iter().cloned());
        merged.named.extend(self.named);
        merged
    }
}

const POLICY: &str = "policy";
const TYPES: &str = "types";

fn of_server(setting: &str) -> String {
    format!("server.{setting}")
}

/// The settings that a file names, with underscores.
fn names(file: &Table) -> BTreeSet<String> {
    let server = file.get("server").and_then(Value::as_table);
    let of_server = server.into_iter().flat_map(Table::keys).map(|key| of_server(&key.replace('-', "_")));
    file.keys().cloned().chain(of_server).collect()
}

/// Reads a configuration file.
///
/// # Errors
/// [`SettingsError::Read`].
pub fn read(path: &Path) -> Result<String, SettingsError> {
    std::fs::read_to_string(path).map_err(|source| SettingsError::Read { path: path.to_owned(), source })
}

/// Parses a configuration of any kind, whose keys may have dashes or underscores. `path` is for the error.
///
/// # Errors
/// [`SettingsError::Text`], which is one line.
pub fn parse<C: DeserializeOwned>(text: &str, path: Option<&Path>) -> Result<C, SettingsError> {
    let parsed = toml::Deserializer::parse(text).and_then(|deserializer| C::deserialize(EitherCase(deserializer)));
    parsed.map_err(|error| {
        let (span, reason) = refused_of_policy(text, &error)
            .unwrap_or_else(|| (error.span().unwrap_or_default(), error.message().to_owned()));
        let before = &text[..span.start];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let lines = reason.lines().map(str::trim);
        SettingsError::Text {
            path: path.map(Path::to_owned),
            place: Place {
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
            },
            reason: lines.collect::<Vec<_>>().join(", "),
        }
    })
}

/// serde reads the settings of a policy after its name, by when it has forgotten where they are: its error has the
/// place of the whole table. This has the place of the first setting that is refused, and why it is.
fn refused_of_policy(text: &str, error: &toml::de::Error) -> Option<(Range<usize>, String)> {
    let document = DeTable::parse(text).ok()?.into_inner();
    let policy = document.get("policy")?;
    let places = policy.get_ref().as_table()?;
    if error.span()? != policy.span() {
        return None;
    }
    let values: Table = toml::from_str(text).ok()?;
    let values = values.get("policy")?.as_table()?;
    let name = values.get("name")?;
    let refusal = |setting: &str, value: Value| {
        let table = Table::from_iter([("name".to_owned(), name.clone()), (setting.to_owned(), value)]);
        let refused = Policy::deserialize(table).err()?;
        Some(refused.message().to_owned())
    };
    first_refused(places, values, &refusal)
}

/// The first setting of a table that `refusal` has a reason to refuse.
fn first_refused(
    places: &DeTable<'_>,
    values: &Table,
    refusal: &dyn Fn(&str, Value) -> Option<String>,
) -> Option<(Range<usize>, String)> {
    let settings = places.iter().filter(|(key, _)| *key.get_ref() != "name");
    let mut settings = settings.filter_map(|(key, place)| {
        let name = key.get_ref().as_ref();
        let value = values.get(name)?;
        match (place.get_ref().as_table(), value) {
            // An empty table is refused if its name is.
            (Some(places), Value::Table(values)) => match refusal(name, Table::new().into()) {
                Some(reason) => Some((key.span(), reason)),
                None => first_refused(places, values, &|inner, value| {
                    let table = Table::from_iter([(inner.to_owned(), value)]);
                    refusal(name, table.into())
                }),
            },
            _ => refusal(name, value.clone()).map(|reason| (key.span(), reason)),
        }
    });
    settings.next()
}

/// `read`, which serde has made of the table `server` in `named`, with the values of `own` where that table has none.
/// For programs whose defaults are not those of [`Config`].
#[doc(hidden)]
#[must_use]
pub fn server_over(own: &Config, named: &Table, read: &Config) -> Config {
    let named = names(named);
    own.clone().with_named(read, |setting| named.contains(&of_server(setting)))
}

/// The page's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/configuration.md")]
pub struct Page;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use psp_policy::{Darc, PreemptPolicy};

    use super::*;
    use crate::config::Topology;

    #[test]
    fn a_text_sets_what_it_names() {
        let text = "[policy]\nname = 'darc'\ndelta = 3.0\n[server]\nworkers = 4\nconnections_max = 7\n\
                    topology = 'dedicated'\n[[types]]\nname = 'short'\nservice-time-us = 1.5\nslo_us = 20\n\
                    share = 0.9\nweight = 3\nqueue-capacity = 8\npreempt = 'none'\n[[types]]\nname = 'long'";
        let short = TypeSpec::new("short")
            .service_time(Duration::from_nanos(1500))
            .slo(Duration::from_micros(20))
            .share(0.9)
            .weight(3)
            .queue_capacity(8)
            .preempt(PreemptPolicy::None);
        let server = Config::default().workers(4).connections_max(7).topology(Topology::Dedicated);
        let expected = Settings::default()
            .policy(Darc::default().delta(3.0))
            .server(server)
            .types(vec![short, TypeSpec::new("long")]);
        assert_eq!(Settings::from_toml(text).unwrap(), expected);
        let written = toml::to_string(&expected).unwrap();
        assert_eq!(Settings::from_toml(&written).unwrap(), expected);
        assert_eq!(Settings::from_toml("").unwrap(), Settings::default());
    }

    #[test]
    fn what_a_text_does_not_name_keeps_the_programs_defaults() {
        let own = Settings::default()
            .policy(Policy::darc())
            .server(Config::default().spin_us(7).workers(3))
            .types(vec![TypeSpec::new("a")]);
        assert_eq!(own.clone().with_toml("").unwrap(), own);
        let changed = own.with_toml("[server]\nspin-us = 50\nnet_slice_us = 200").unwrap();
        let expected = Config::default().workers(3).spin_us(50).net_slice_us(200);
        assert_eq!(changed.server, expected, "50 is the default, and named");
        assert_eq!(changed.policy, Policy::darc());
        assert_eq!(changed.types.len(), 1);
    }

    /// Each key with an underscore in the place of each dash, in all tables.
    fn with_underscores(table: Table) -> Table {
        let renamed = table.into_iter().map(|(key, value)| match value {
            Value::Table(inner) => (key.replace('-', "_"), with_underscores(inner).into()),
            value => (key.replace('-', "_"), value),
        });
        renamed.collect()
    }

    #[test]
    fn every_key_may_have_underscores() {
        for name in Policy::NAMES {
            let settings = Settings::default()
                .policy(name.parse::<Policy>().unwrap())
                .server(Config::default().workers(2));
            let dashes = Table::try_from(&settings).unwrap();
            let underscores = with_underscores(dashes.clone());
            let server = dashes["server"].as_table().unwrap();
            assert!(server.len() > 15 && server.keys().all(|key| !key.contains('_')));
            let text = toml::to_string(&underscores).unwrap();
            assert!(!text.lines().any(|line| line.split('=').next().unwrap().contains('-')));
            assert_eq!(Settings::from_toml(&text).unwrap(), settings, "{name}");
            let alone = toml::to_string(&underscores["server"]).unwrap();
            let alone: Config = toml::from_str(&alone).unwrap();
            assert_eq!(alone, settings.server, "in a configuration of the user's own");
        }
    }

    #[test]
    fn errors_are_one_line_with_the_place() {
        let path = Path::new("psp.toml");
        for (text, expected) in [
            ("policy = 'darc'\n= 3", "psp.toml: line 2, column 1: "),
            ("[server]\nworkers = ", "psp.toml: line 2, column 11: "),
            ("[server]\n\u{e4} = 1", "psp.toml: line 2, column 1: "),
            (
                "[server]\nworkers = 1\nwrokers = 2",
                "psp.toml: line 3, column 1: unknown field `wrokers`, expected one of",
            ),
            (
                "[server]\nworkers = 'many'",
                "psp.toml: line 2, column 11: `many` is not a number such as 4, or a range such as 2..8",
            ),
            ("policy = 'dark'", "psp.toml: line 1, column 10: no policy is called `dark`"),
            ("[[types]]\nshare = 0.1", "psp.toml: line 1, column 1: missing field `name`"),
            (
                "[[types]]\nname = 'a'\nslo-us = -1",
                "psp.toml: line 3, column 10: -1 is no time in microseconds",
            ),
            (
                "[policy]\nname = 'mq'\nfoo = 1",
                "psp.toml: line 3, column 1: unknown field `foo`, expected one of `quantum-us`",
            ),
            (
                "a = 1\n[policy]\nquantum_us = 'x'\nname = 'mq'",
                "psp.toml: line 1, column 1: unknown field `a`",
            ),
            (
                "[server]\nworkers = 2\n[policy]\nquantum_us = 'x'\nname = 'mq'",
                "psp.toml: line 4, column 1: invalid value: string \"x\"",
            ),
            (
                "policy = { name = 'mq', requeue = 'tail', foo = 1 }",
                "psp.toml: line 1, column 43: unknown field `foo`",
            ),
            (
                "[policy]\nname = 'darc-lending'\n[policy.darc]\ndelta = 1.0\ndleta = 1.0",
                "psp.toml: line 5, column 1: unknown field `dleta`",
            ),
            (
                "[policy]\nname = 'darc-lending'\n\n[policy.drac]\ndelta = 1.0",
                "psp.toml: line 4, column 9: unknown field `drac`",
            ),
            ("[policy]\nfoo = 1", "psp.toml: line 1, column 1: missing field `name`"),
            ("server.spin-us = 1\nserver.spin_us = 2", "psp.toml: line 1, column 1: duplicate field"),
        ] {
            let error = Settings::default().with_text(text, Some(path)).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with(expected), "{text:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let missing = Settings::from_file("/nowhere/psp.toml").unwrap_err().to_string();
        assert!(missing.starts_with("cannot read /nowhere/psp.toml: "), "{missing}");
        for (text, expected) in [
            ("[server]\nqueue-capacity = 0", "queue_capacity is 0"),
            (
                "[server]\nbuffered-bytes-max = 1",
                "buffered_bytes_max is 1, it must be between 131072 and",
            ),
            ("policy = { name = 'mq', quantum-us = 0 }", "policy mq: quantum-us is 0"),
            (
                "server.workers = 2\npolicy = { name = 'darc', spillway = 3 }",
                "policy darc: spillway is 3",
            ),
        ] {
            let error = Settings::from_toml(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
