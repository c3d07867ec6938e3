//! The arbiter's configuration: built-in defaults, then a TOML file, then flags.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::{ArgMatches, Args, FromArgMatches as _};
use psp_arbiter::CoreSet;
use psp_arbiter::arbitration::{Limits, Settings, UserLimits};
use psp_arbiter::mechanism::{Choice, Scope};
use psp_program::{FileFlags, LogLevel, UnixMode, replace_by_flags};
use serde::{Deserialize, Serialize};

/// Where the arbiter listens.
pub(crate) const DEFAULT_SOCKET: &str = "/run/psp-arbiter/socket";

/// The whole configuration. A file and flags may set any part of it. Other settings keep their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Config {
    /// Unix socket to listen on [default: /run/psp-arbiter/socket]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// Permissions of the socket's file, in octal [default: 660]
    #[arg(long, value_name = "MODE")]
    pub(crate) socket_mode: UnixMode,
    /// How threads get cores: auto, cpuset-v1, cpuset-v2, affinity [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) mechanism: Choice,
    /// Cores to manage, as in 0-3,6 [default: all]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<CoreSet>,
    /// Cores that are never granted, at least 1 [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) reserve: usize,
    /// The cgroup whose tasks are confined to the cores that are not granted [default: the root]
    #[arg(long, value_name = "PATH")]
    pub(crate) parent: PathBuf,
    /// Milliseconds in which a server releases a core that is asked back [default: 10]
    #[arg(long, value_name = "MS")]
    pub(crate) release_within_ms: u64,
    /// How long the cores of an earlier arbiter's servers wait for these servers.
    #[arg(skip)]
    pub(crate) adopt_within_ms: u64,
    /// The least severe messages that are logged [default: info]
    #[arg(long, value_enum)]
    pub(crate) log_level: LogLevel,
    /// What the servers of a user may have.
    #[arg(skip)]
    pub(crate) limits: UserLimits,
    /// The same for single users, by their numbers.
    #[arg(skip)]
    pub(crate) users: BTreeMap<String, UserLimits>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            socket: DEFAULT_SOCKET.into(),
            socket_mode: UnixMode(0o660),
            mechanism: Choice::Auto,
            cores: None,
            reserve: 1,
            parent: PathBuf::new(),
            release_within_ms: 10,
            adopt_within_ms: 1000,
            log_level: LogLevel::default(),
            limits: UserLimits::default(),
            users: BTreeMap::new(),
        }
    }
}

impl Config {
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        ensure!(self.reserve > 0, "one core stays for everything else: reserve must be at least 1");
        ensure!(
            self.parent.is_relative(),
            "the parent group is below the hierarchy's root: its path begins with no slash"
        );
        let users = self.users.iter().map(|(user, limits)| {
            let number = user.parse();
            let number = number.with_context(|| format!("[users.{user}] is no user's number"))?;
            Ok((number, *limits))
        });
        Ok(Settings {
            reserve: self.reserve,
            release_within_ns: self.release_within_ms.saturating_mul(1_000_000),
            adopt_within_ns: self.adopt_within_ms.saturating_mul(1_000_000),
            limits: Limits {
                default: self.limits,
                users: users.collect::<anyhow::Result<_>>()?,
            },
        })
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope { cores: self.cores, parent: self.parent.clone() }
    }
}

/// A configuration, and whether it is only to be printed.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) config: Config,
    pub(crate) print_only: bool,
}

impl Resolved {
    /// The file, if there is one, and the flags that were given.
    pub(crate) fn new(given: ArgMatches) -> anyhow::Result<Self> {
        let file = FileFlags::from_arg_matches(&given)?;
        let mut config = match &file.config {
            Some(file) => {
                let text = psp_server::settings::read(file)?;
                psp_server::settings::parse(&text, Some(file))?
            }
            None => Config::default(),
        };
        replace_by_flags(&mut config, given)?;
        config.settings()?;
        Ok(Self { config, print_only: file.print_config })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    fn resolve(flags: &[&str]) -> anyhow::Result<Config> {
        let words = std::iter::once("psp-arbiter").chain(flags.iter().copied());
        let given = Cli::command_for_update().try_get_matches_from(words)?;
        Ok(Resolved::new(given)?.config)
    }

    #[test]
    fn a_printed_configuration_is_read_back() {
        let config = resolve(&["--cores", "1-3", "--mechanism", "affinity", "--reserve", "2"]);
        let mut config = config.unwrap();
        assert_eq!(config.settings().unwrap().reserve, 2);
        let limits = UserLimits { cores_max: Some(2), priority_highest: None };
        config.users.insert("1000".to_owned(), limits);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("arbiter.toml");
        std::fs::write(&file, toml::to_string(&config).unwrap()).unwrap();
        let read = resolve(&["--config", file.to_str().unwrap()]).unwrap();
        assert_eq!(read, config);
        assert_eq!(read.settings().unwrap().limits.users[&1000], limits);
    }

    #[test]
    fn wrong_settings_are_refused() {
        for (flags, words) in [
            (["--reserve", "0"], "reserve must be at least 1"),
            (["--cores", "a"], "no set of cores"),
            (["--mechanism", "magic"], "not one of auto"),
            (["--parent", "/sys"], "begins with no slash"),
            (["--socket-mode", "9"], "octal"),
        ] {
            let refusal = resolve(&flags).unwrap_err().to_string();
            assert!(refusal.contains(words), "{refusal}");
        }
        let mut config = Config::default();
        config.users.insert("alice".to_owned(), UserLimits::default());
        assert!(config.settings().unwrap_err().to_string().contains("alice"));
    }
}
