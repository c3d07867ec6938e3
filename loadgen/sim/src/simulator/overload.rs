//! What a plan says about overload.

use psp_policy::admission::AdmissionSettings;
use serde::{Deserialize, Serialize};

use crate::workload::Workload;

/// What is let in, which answers are in time, and when the server stands still.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overload {
    /// Admission; without it queues are bounded by the number of requests alone.
    pub admission: Option<AdmissionSettings>,
    /// An answer is in time whose slowdown is at most this, unless its type has an SLO of its own. At least 1; 10
    /// unless set.
    pub slo_slowdown: f64,
    /// A time in which no request begins.
    pub stall: Option<Stall>,
}

/// What a simulated server lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionModel {
    /// Everything that finds room in its queue.
    #[default]
    None,
    /// What can end within its SLO.
    Slo,
}

/// A time in which workers begin nothing, as if the process were stopped; clients go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// When it begins, in nanoseconds after the first measured arrival.
    pub from_ns: u64,
    /// How long it is, in nanoseconds.
    pub length_ns: u64,
}

impl Default for Overload {
    fn default() -> Self {
        Self { admission: None, slo_slowdown: 10.0, stall: None }
    }
}

impl Overload {
    /// With admission by these SLOs.
    #[must_use]
    pub fn admitting(self) -> Self {
        let admission = AdmissionSettings::default().slo_slowdown(self.slo_slowdown.max(2.0));
        Self { admission: Some(admission), ..self }
    }

    /// Whether only policies of live servers know it.
    pub(super) fn is_live(&self, workload: &Workload) -> bool {
        let clients = &workload.clients;
        self.admission.is_some() || self.stall.is_some() || clients.retries > 0 || clients.deadline
    }
}
