//! What passes between the net thread and one worker: two SPSC rings, a way to wake either end, and a way to
//! make a running request yield.
//!
//! ```text
//!   net thread ── Run, Resume, Stop ──► ring ──► worker    wakes the worker with unpark, if it sleeps
//!              ◄─ ring ◄─ Completed, Yielded, Blocked ─          likewise through the net thread's event queue
//! ```
//!
//! `Run` and `Resume` begin a *turn*. Both ends count the turns of a channel alike, from 1. So a request to
//! yield that comes too late names a turn that is over, and is ignored.
//!
//! | file | job |
//! | --- | --- |
//! | `message.rs` | what is sent each way |
//! | `task_port.rs` | the worker's end |
//! | `../worker_link.rs` | the net thread's end, which may reach a team of threads |
//! | `doorbell.rs`, `sleep_flag.rs` | waking a thread that sleeps, and only then |
//! | `preempter.rs` | asks a running request to yield |
//! | `turn_start.rs` | when a turn began |

pub(crate) mod doorbell;
pub(crate) mod message;
pub(crate) mod preempter;
pub(crate) mod sleep_flag;
pub(crate) mod task_port;
pub(crate) mod turn_start;
