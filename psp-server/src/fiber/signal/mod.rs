//! Preemption of code that does not ask for it, by a signal to the worker's thread.
//!
//! ```text
//!   dispatcher            worker thread
//!   flag.ask(turn)
//!   tgkill ─────────────► handler, on the alternate stack: is it this turn, within Handler::handle, not in
//!                         no_preempt, not panicking, on the context's own stack?
//!                           no:  returns; no_preempt looks at the flag again when it ends
//!                           in another signal's handler: the signal comes again when that returns
//!                           yes: sets rip to the trampoline, rsp below the red zone, returns
//!                         trampoline, on the context's stack: saves all registers and the extended
//!                         state, yields …
//!                         … next turn: restores them, returns to where it was interrupted
//! ```
//!
//! | file | job |
//! | --- | --- |
//! | `handler.rs` | the signal and its handler |
//! | `trampoline.rs` | saves and restores the registers of the interrupted code |
//! | `xstate.rs` | the extended state of the processor, and its size |
//!
//! The handler does not yield itself: the kernel's signal frame would have to stay until the context goes
//! on, with the signal's mask and the alternate stack in use. After the handler has returned, the thread is in
//! no special state, and any other context may run.
//!
//! *User interrupts* (UINTR) would replace `tgkill` and the signal handler: `senduipi` to a vector of the
//! worker, whose handler makes the same checks and goes to the same trampoline. No released Linux kernel
//! supports them; [`Platform`](crate::preempt::Platform) says whether the processor does.

mod handler;
mod trampoline;
mod xstate;

pub(crate) use handler::{Target, prepare_process, prepare_thread};
