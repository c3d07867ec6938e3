//! Sections of handlers that other requests wait for.

use crate::fiber::no_preempt;
use crate::runtime::host::scheduling::at_own_priority;

/// Runs `body`, in which a handler holds what other requests wait for, such as locks of many keys.
///
/// It is not preempted meanwhile, as in [`no_preempt`](crate::no_preempt()). Workers without cores of their own may
/// have a [low priority](crate::Config::background_nice), and lose their core to any other thread for milliseconds,
/// while the requests that wait for the locks have cores. So `body` runs with the priority of the thread that started
/// the server, if the process may raise that of its threads (`CAP_SYS_NICE`, or an `RLIMIT_NICE` that allows it).
///
/// This takes some microseconds, and so is for sections that take longer. On threads that run no request, it does no
/// more than call `body`.
pub fn critical<T>(body: impl FnOnce() -> T) -> T {
    no_preempt(|| at_own_priority(body))
}
