//! A program for this crate's tests.

use psp_server::Policy;
use serde::{Deserialize, Serialize};

use crate::LogLevel;
use crate::config_file::replace;
use crate::configuration::{CommonSettings, ProgramConfig};

/// What the program is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Parser)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Config {
    #[arg(long)]
    pub(crate) port: u16,
    #[arg(long)]
    pub(crate) quiet: bool,
    #[arg(skip)]
    pub(crate) motto: String,
    #[serde(skip)]
    #[arg(long)]
    pub(crate) maxclients: Option<usize>,
    #[arg(skip)]
    pub(crate) log_level: LogLevel,
    #[arg(skip)]
    pub(crate) policy: Policy,
    #[arg(skip)]
    pub(crate) server: psp_server::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            port: 1,
            quiet: false,
            motto: "less".to_owned(),
            maxclients: None,
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

    fn settle(&mut self) -> anyhow::Result<()> {
        replace(&mut self.server.connections_max, self.maxclients.take());
        Ok(())
    }
}
