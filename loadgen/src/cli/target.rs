//! The options that say what is measured.

use clap::Args;
use psp_loadgen::target::{Protocol, Target, TargetError};

#[derive(Debug, Clone, Default, Args)]
pub(super) struct ProtocolArgs {
    /// What targets of the form unix:PATH speak: redis
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Protocol>)]
    protocol: Option<Protocol>,
}

impl ProtocolArgs {
    /// The target that `url` means.
    pub(super) fn target(&self, url: &str) -> Result<Target, TargetError> {
        Target::parse(url, self.protocol)
    }
}
