//! A program for this crate's tests.

use psp_server::Policy;
use serde::{Deserialize, Serialize};

use crate::LogLevel;
use crate::config_file::replace;
use crate::configuration::{CommonSettings, ProgramConfig, ProgramFlags};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Config {
    pub(crate) port: u16,
    pub(crate) motto: String,
    pub(crate) log_level: LogLevel,
    pub(crate) policy: Policy,
    pub(crate) server: psp_server::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            port: 1,
            motto: "less".to_owned(),
            log_level: LogLevel::default(),
            policy: Policy::c_fcfs(),
            server: psp_server::Config::default().connections_max(11),
        }
    }
}

impl ProgramConfig for Config {
    fn common(&mut self) -> CommonSettings<'_> {
        CommonSettings::new(&mut self.log_level, &mut self.policy, &mut self.server)
    }
}

/// What the program is for.
#[derive(Debug, Clone, Default, clap::Parser)]
pub(crate) struct Flags {
    #[arg(long)]
    pub(crate) workers: Option<usize>,
    #[arg(long)]
    pub(crate) maxclients: Option<usize>,
}

impl ProgramFlags for Flags {
    type Config = Config;

    fn apply_to(self, config: &mut Config) -> anyhow::Result<()> {
        config.server.workers = self.workers.map(Into::into).or(config.server.workers);
        replace(&mut config.server.connections_max, self.maxclients);
        Ok(())
    }
}
