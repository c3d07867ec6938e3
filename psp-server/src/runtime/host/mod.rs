//! What the system offers to the threads of a server.

pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod cores;
pub(crate) mod event;
pub(crate) mod event_queue;
pub(crate) mod scheduling;
pub(crate) mod shared_alarm;
pub(crate) mod spin;
#[cfg_attr(not(target_os = "linux"), path = "no_timer_fd.rs")]
pub(crate) mod timer_fd;
