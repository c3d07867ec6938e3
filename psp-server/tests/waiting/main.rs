//! Requests that wait in a running server, without their workers.

mod blocking;
#[path = "../common/mod.rs"]
mod common;
mod costs;
mod deferred;
mod detached;
mod locks;
mod many;
mod order;
mod random;
mod rig;
mod sharing;

use std::alloc::System;

use psp_server::preempt::PreemptSafeAlloc;

#[global_allocator]
static ALLOCATOR: PreemptSafeAlloc<System> = PreemptSafeAlloc(System);
