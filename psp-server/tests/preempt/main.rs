//! Preemption in a running server, one mechanism after the other.

#[path = "../common/mod.rs"]
mod common;
mod contexts;
mod cooperative;
mod distributed;
mod every_mechanism;
mod kernel_thread;
mod moving;
mod overflow;
mod rig;
mod signal;
mod stress;
mod work;

use std::alloc::System;

use psp_server::preempt::PreemptSafeAlloc;

#[global_allocator]
static ALLOCATOR: PreemptSafeAlloc<System> = PreemptSafeAlloc(System);
