//! The options of several servers behind a load balancer.

use clap::{Args, ValueEnum};
use psp_sim::simulator::{Cluster, Spread};

use crate::cli::args::values::{at_least_one, in_range};

#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Servers behind a load balancer, each with --workers and a scheduler of its own [default: 1]
    #[arg(
        long, value_name = "N", value_parser = at_least_one, help_heading = "Simulation"
    )]
    servers: Option<usize>,
    /// How the load balancer chooses among servers [default: two-choices]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Simulation")]
    spread: Option<SpreadArg>,
    /// The load balancer sees how many requests each server had so long ago, in microseconds [default: 0]
    #[arg(
        long, value_name = "US", value_parser = in_range(0.0, 1e6), help_heading = "Simulation"
    )]
    feedback_delay_us: Option<f64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SpreadArg {
    /// One at random
    Random,
    /// Of two at random, the one with fewer requests
    TwoChoices,
    /// The one with the fewest requests; of several, one at random
    Jsq,
}

impl ClusterArgs {
    /// Sets what the options say.
    pub(crate) fn apply(&self, cluster: &mut Cluster) {
        let spread = self.spread.map(|spread| match spread {
            SpreadArg::Random => Spread::Random,
            SpreadArg::TwoChoices => Spread::TwoChoices,
            SpreadArg::Jsq => Spread::Jsq,
        });
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the option is from 0 to a second"
        )]
        let delay_ns = self.feedback_delay_us.map(|us| (us * 1e3).round() as u64);
        cluster.servers = self.servers.unwrap_or(cluster.servers);
        cluster.spread = spread.unwrap_or(cluster.spread);
        cluster.feedback_delay_ns = delay_ns.unwrap_or(cluster.feedback_delay_ns);
    }
}
