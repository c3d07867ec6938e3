//! The parts of the runtime that preempt by kernel threads, compiled into a benchmark.

#[path = "../../src/runtime/channel.rs"]
pub(crate) mod channel;
#[path = "../../src/runtime/clock.rs"]
pub(crate) mod clock;
#[path = "../../src/runtime/cores.rs"]
pub(crate) mod cores;
#[path = "../../src/runtime/scheduling.rs"]
pub(crate) mod scheduling;
#[path = "../../src/runtime/sleep_flag.rs"]
mod sleep_flag;
#[path = "../../src/runtime/team/mod.rs"]
pub(crate) mod team;
#[path = "../../src/runtime/turn_start.rs"]
pub(crate) mod turn_start;
