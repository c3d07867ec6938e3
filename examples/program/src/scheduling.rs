//! Flags about scheduling.

use std::str::FromStr;

use psp_server::{AdmissionMode, Policy, PreemptPolicy, Topology};

use crate::config_file::replace;

/// Flags about scheduling.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SchedulingFlags {
    /// Scheduling policy.
    #[arg(long, value_name = "NAME", value_parser = Policy::from_str, help = policy_help())]
    policy: Option<Policy>,
    /// Preemption of long requests: none, cooperative or kernel-thread [default: cooperative].
    #[arg(long, value_name = "NAME", value_parser = PreemptPolicy::from_str)]
    preempt: Option<PreemptPolicy>,
    /// Threads: auto, inline, dedicated or distributed [default: auto].
    #[arg(long, value_name = "NAME", value_parser = Topology::from_str)]
    topology: Option<Topology>,
    /// Whether requests are refused that would not be answered in time: auto (where a type has an SLO), off or on.
    #[arg(long, value_name = "MODE", value_parser = AdmissionMode::from_str)]
    admission: Option<AdmissionMode>,
    /// Nice value of workers that share cores, 0 to 19: above 0 they starve beside busy programs [default: 0].
    #[arg(long, value_name = "NICE")]
    background_nice: Option<i32>,
    /// Slice of workers that share cores, 100 to 100000; 0 is the system's [default: 700].
    #[arg(long, value_name = "US")]
    background_slice_us: Option<u64>,
}

/// Help for `--policy`.
fn policy_help() -> String {
    let names = Policy::NAMES.join(", ");
    format!(
        "Scheduling policy: {names} [default: darc; darc-distributed in the topology distributed]. Settings may follow, as in 'mq quantum-us=20'. Otherwise \
         the file's settings for this policy hold, or its defaults."
    )
}

impl SchedulingFlags {
    /// Replaces settings by the flags that were given.
    pub(crate) fn apply_to(self, policy: &mut Policy, server: &mut psp_server::Config) {
        let is_left_open = self.policy.is_none() && *policy == Policy::darc();
        let other = self.policy.filter(|other| {
            // A name without settings keeps the file's settings for the same policy.
            let has_settings = other.name().parse().as_ref() != Ok(other);
            has_settings || other.name() != policy.name()
        });
        replace(policy, other);
        replace(&mut server.preempt, self.preempt);
        replace(&mut server.topology, self.topology);
        replace(&mut server.admission, self.admission);
        replace(&mut server.background_nice, self.background_nice);
        replace(&mut server.background_slice_us, self.background_slice_us);
        if is_left_open && server.topology == Topology::Distributed {
            // DARC as it is without a dispatcher.
            *policy = Policy::darc_distributed();
        }
    }
}
