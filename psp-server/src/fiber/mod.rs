//! Contexts, and making what runs on one give way.
//!
//! ```text
//!   dispatcher ── PreemptFlag: "turn 7" ──►  checkpoint() ─┐
//!                                                          ▼
//!   worker thread:  pool ⇄ contexts      place: may it? ── give_way ── pause ──► pool ──► another
//! ```
//!
//! | file | job |
//! | --- | --- |
//! | `flag.rs` | which turn shall give way |
//! | `place.rs` | whether it may: `checkpoint`, `no_preempt` |
//! | `pool.rs` | contexts, and switching between them |
//! | `overflow.rs` | says which request used up its stack |
//! | `signal/` | giving way without a checkpoint |
//! | `alternate_stack.rs` | where a worker's signals are handled |
//! | `contract.rs` | what that asks of a handler |
//! | `alloc.rs` | an allocator that is not preempted |
//! | `platform.rs` | what the machine offers |

mod alloc;
mod alternate_stack;
mod contract;
mod flag;
mod overflow;
mod place;
mod platform;
mod pool;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod signal;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[path = "no_signal.rs"]
mod signal;

pub use alloc::PreemptSafeAlloc;
pub(crate) use alternate_stack::AlternateStack;
pub use contract::SignalPreemptible;
pub(crate) use flag::PreemptFlag;
pub(crate) use overflow::report_overflows;
pub(crate) use place::{
    GiveWay, begin_turn, is_asked, occupy, preemptible, set_spare, set_turn, shall_give_way, spare,
    turn,
};
pub use place::{checkpoint, no_preempt};
pub use platform::Platform;
pub(crate) use pool::{ContextPool, Pause, Wake, pause};
pub(crate) use signal::{Target, prepare_process, prepare_thread};
