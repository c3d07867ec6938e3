//! What a run sends and when: plans, mixes, workloads, presets and recorded arrivals.

mod mix;
mod plan;
mod preset;
mod trace;
mod workload;

pub use mix::{ItemRate, Mix, MixError, MixItem};
pub use plan::{
    ClosedLoop, Pacing, RequestPlan, RunPlan, ServicePlan, ThreadClass, TypePhase, TypePlan, Waiting, assign_threads,
};
pub use preset::{Preset, PresetError};
pub use trace::file::{Trace, TracePace, TraceTypes};
pub use trace::format::{TraceCommand, TraceFormat};
pub use trace::lines::TraceError;
pub use workload::{LiveWorkload, OfferedLoad};

pub(crate) use trace::columns::Place;
pub(crate) use trace::replay::Replay;
