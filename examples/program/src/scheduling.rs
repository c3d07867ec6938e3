//! Flags about scheduling.

use std::str::FromStr;

use psp_server::{Policy, Topology};

use crate::config_file::replace;

/// Flags about scheduling, to be flattened into those of a program.
#[derive(Debug, Default, clap::Args)]
pub struct SchedulingFlags {
    /// Scheduling policy.
    #[arg(long, value_name = "NAME", value_parser = Policy::from_str, help = policy_help())]
    pub policy: Option<Policy>,
    /// Which threads there are: auto, inline or dedicated [default: auto].
    #[arg(long, value_name = "NAME", value_parser = Topology::from_str)]
    pub topology: Option<Topology>,
}

/// Help for `--policy`.
fn policy_help() -> String {
    let names = Policy::names_to_completion().join(", ");
    format!(
        "Scheduling policy, with its default settings unless the file has some: {names} [default: darc]."
    )
}

impl SchedulingFlags {
    /// Puts what was given in place of the settings. A policy of the same name keeps its settings.
    pub fn apply_to(self, policy: &mut Policy, server: &mut psp_server::Config) {
        let other = self.policy.filter(|other| other.name() != policy.name());
        replace(policy, other);
        replace(&mut server.topology, self.topology);
    }
}
