//! Contexts, and making the request that runs on one yield, or wait.
//!
//! ```text
//!   dispatcher ── PreemptFlag: "turn 7" ──►  checkpoint() ─┐
//!                                                          ▼
//!   worker thread:  pool ⇄ contexts      may it yield? ── yield_now ── pause ──► pool ──► another
//! ```
//!
//! | file | job |
//! | --- | --- |
//! | `flag.rs` | the turn that shall yield |
//! | `thread_state.rs` | whether it may: `checkpoint`, `no_preempt` |
//! | `pace.rs` | checkpoints in loops: `Pace` |
//! | `long_turn.rs` | turns that become long while they last |
//! | `cpu_clock.rs` | the CPU time of the thread that is the request's own |
//! | `cpu_timer.rs` | for how long the request has computed: `CpuTimer` |
//! | `load.rs` | the load of the server: `load_level` |
//! | `peer.rs` | whether the peer of the request is still there: `is_abandoned` |
//! | `pool.rs` | contexts, and switching between them |
//! | `thread_sanitizer.rs` | tells the thread sanitizer of it |
//! | `wait.rs` | polls a future, and gives the worker away while it is pending |
//! | `waiter.rs` | wakes a request that waits, from any thread |
//! | `timers.rs` | times at which requests are woken |
//! | `helpers.rs` | threads that run what blocks in the kernel |
//! | `overflow.rs` | names the request that used up its stack |
//! | `signal/` | yielding without a checkpoint |
//! | `alternate_stack.rs` | where a worker's signals are handled |
//! | `alloc.rs` | an allocator that is not preempted |
//! | `platform.rs` | what the machine offers |

mod alloc;
mod alternate_stack;
mod cpu_clock;
mod cpu_timer;
mod flag;
mod helpers;
mod load;
mod long_turn;
mod overflow;
mod pace;
mod peer;
mod platform;
mod pool;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod signal;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[path = "no_signal.rs"]
mod signal;
#[cfg(psp_tsan)]
mod thread_sanitizer;
mod thread_state;
mod timers;
mod wait;
mod waiter;

pub use alloc::PreemptSafeAlloc;
pub(crate) use alternate_stack::AlternateStack;
pub use cpu_timer::CpuTimer;
pub(crate) use flag::PreemptFlag;
pub(crate) use helpers::Helpers;
pub use load::load_level;
pub(crate) use load::note_load_level;
pub(crate) use long_turn::{Looked, TurnWatch, said_type, say_type, watched};
pub(crate) use overflow::report_overflows;
pub use pace::Pace;
pub(crate) use peer::for_peer;
pub use peer::is_abandoned;
pub use platform::Platform;
pub(crate) use pool::{ContextPool, Pause, Wake, ensure_spare, pause};
pub(crate) use signal::{Target, prepare_process, prepare_thread};
pub(crate) use thread_state::{
    NO_SLOT, Yielder, begin_turn, in_handler, is_asked, occupy, say_long, set_spare, set_turn, spare, turn, watch_turn,
};
pub use thread_state::{checkpoint, no_preempt};
pub(crate) use timers::{TimerKey, Timers};
pub(crate) use wait::{Aside, Surroundings, Waiting, aside, is_worker, let_wait, timers, wait_until, without_worker};
pub(crate) use waiter::{Bell, Waiters, WakeList, WakeLists};
