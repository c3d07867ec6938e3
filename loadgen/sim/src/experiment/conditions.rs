//! Conditions that all simulations of a command share, and the formats of results.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::settings::SimSettings;
use super::type_hint::TypeHint;
use crate::simulator::SimPolicy;

/// The conditions that all simulations of a report share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Arrivals that were measured.
    pub requests: u64,
    /// Arrivals before the measured ones.
    pub warmup: u64,
    /// Seed of arrivals, service times and the policy's random choices.
    pub seed: u64,
    /// The simulated server.
    pub settings: SimSettings,
    /// The policies with their settings.
    pub policies: Vec<SimPolicy>,
    /// What the command says about types, in place of what their workloads say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeHint>,
    /// Whether the command was interrupted. Unfinished simulations are left out.
    pub interrupted: bool,
}

/// The results of a command in all formats. [`fmt::Display`] formats them for a terminal,
/// [`Serialize`] for programs.
pub trait Found: fmt::Display + Serialize {
    /// Comma-separated values under a line of heads.
    fn csv(&self) -> String;

    /// Tables in Markdown.
    fn markdown(&self) -> String;
}

impl Conditions {
    /// How much was simulated, in words.
    #[must_use]
    pub fn title(&self) -> String {
        let Self { requests, warmup, seed, settings, types, .. } = self;
        let ending = if self.interrupted { "; interrupted" } else { "" };
        let cluster = match settings.cluster.servers {
            1 => String::new(),
            _ => format!(", {}", settings.cluster),
        };
        let hints: String = types.iter().map(|hint| format!(", {hint}")).collect();
        format!("{requests} requests after {warmup} of warm-up, seed {seed}{cluster}{hints}{ending}")
    }
}
