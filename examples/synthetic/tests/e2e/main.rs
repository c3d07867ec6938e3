//! Tests of live psp-synthetic servers.

mod arbiter;
mod control_groups;
mod elastic;
mod lag;
mod policies;
mod program;
mod queueing;
mod ramp;
mod service_manager;
mod shutdown;
mod simulated;
mod starting;
mod steering;
mod studies;
mod waiting;
