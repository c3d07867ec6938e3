//! Several servers behind a load balancer.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Servers behind one load balancer. Each has the plan's workers, and a scheduler of its own.
///
/// ```text
///                                ┌─► server: Scheduler ─► workers ─┐
///   arrivals ─► load balancer ───┼─► server: Scheduler ─► workers ─┤
///                     ▲          └─► server: Scheduler ─► workers ─┤
///                     └────── requests at each server, later ──────┘
/// ```
///
/// A request stays at the server that it was sent to. The way there takes no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cluster {
    /// How many servers there are; 1 unless set.
    pub servers: usize,
    /// How the load balancer chooses among them.
    pub spread: Spread,
    /// How old the balancer's knowledge is: it sees how many requests each server had so long ago, those that it sent
    /// itself included.
    pub feedback_delay_ns: u64,
}

/// How a load balancer chooses a server for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// One at random.
    Random,
    /// Of two at random, the one with fewer requests.
    #[default]
    TwoChoices,
    /// The one with the fewest requests; of several, one at random.
    Jsq,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { servers: 1, spread: Spread::default(), feedback_delay_ns: 0 }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random => "random",
            Self::TwoChoices => "two-choices",
            Self::Jsq => "jsq",
        })
    }
}

/// The servers and how they are chosen, in words.
impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { servers, spread, feedback_delay_ns } = self;
        write!(f, "{servers} servers by {spread}")?;
        if *feedback_delay_ns > 0 {
            let delay_us = *feedback_delay_ns as f64 / 1e3;
            write!(f, ", seen {delay_us} us late")?;
        }
        Ok(())
    }
}
