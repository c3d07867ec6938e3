//! The options that say what is measured.

use clap::Args;
use psp_loadgen::sim_target::SimTarget;
use psp_loadgen::target::{Protocol, Target, TargetError};

#[derive(Debug, Clone, Default, Args)]
pub(super) struct ProtocolArgs {
    /// What targets of the form unix:PATH speak: redis, memcached, memcached-meta or protobuf
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Protocol>)]
    protocol: Option<Protocol>,
}

/// What is measured.
#[derive(Debug, Clone)]
pub(super) enum Subject {
    Live(Target),
    Simulated(SimTarget),
}

impl ProtocolArgs {
    /// The live server that `url` means.
    pub(super) fn target(&self, url: &str) -> Result<Target, TargetError> {
        Target::parse(url, self.protocol)
    }

    /// The server that `url` means, live or simulated.
    pub(super) fn subject(&self, url: &str) -> anyhow::Result<Subject> {
        if SimTarget::is_meant(url) {
            return Ok(Subject::Simulated(url.parse()?));
        }
        Ok(Subject::Live(self.target(url)?))
    }
}
