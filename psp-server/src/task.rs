//! Futures for handlers that [`wait`](crate::wait), on the server's own timers and contexts.
//!
//! | | |
//! | --- | --- |
//! | [`sleep`] | is ready after a time; [`psp_server::sleep`](crate::sleep) waits for it |
//! | [`timeout`] | another future, or an error when it is not ready in time |
//! | [`join_all`] | several futures at once: fan out, and gather |
//! | [`Tasks`] | the same, joined as they end: a bound, a panic is an error of its task, the rest is cancelled |
//! | [`yield_now`] | lets other requests have the worker once |
//!
//! They need no runtime. Those of tokio and others work, too, as long as their runtime runs on threads of its own.

pub use crate::wait::join::{JoinAll, join_all};
pub use crate::wait::sleep::{Elapsed, Sleep, sleep, timeout};
pub use crate::wait::tasks::{Joined, TaskPanicked, Tasks, TooManyTasks};
pub use crate::wait::yielding::{YieldNow, yield_now};
