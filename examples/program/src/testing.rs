//! A program for this crate's tests.

use psp_server::Policy;
use serde::{Deserialize, Serialize};

use crate::LogLevel;
use crate::configuration::{CommonSettings, ProgramConfig, ProgramFlags};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
#[derive(Debug, Clone, clap::Parser)]
pub(crate) struct Flags {}

impl ProgramFlags for Flags {
    type Config = Config;

    fn apply_to(self, _config: &mut Config) -> anyhow::Result<()> {
        Ok(())
    }
}
