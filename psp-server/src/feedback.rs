//! What handlers tell the scheduler about the request that they run.

use crate::fiber;

/// Says that the request in hand is long from here on: Synergy's `synergy_feedback_start` (section II-A).
///
/// A handler calls this where it learns by the request, and not by its type, that the request takes 100 us or more. It
/// may call it more than once. It calls it where it holds no lock that another request might want.
///
/// | topology | what happens |
/// | --- | --- |
/// | `distributed` | others may drive the worker's connections, and it steps back on a shared core |
/// | `inline`, `dedicated` | nothing: the net thread has the connections, and policies go by types |
///
/// It holds until the handler returns, also if the request [waits](crate::wait()) in between. Within
/// [`no_preempt`](crate::no_preempt) it takes effect at the next [`checkpoint`](crate::checkpoint) outside. On threads
/// that run no request, it does nothing. The types' mean service times are measured as ever.
///
/// Without it, a request of a short type that runs for 100 us is taken for long at its next
/// [`checkpoint`](crate::checkpoint).
pub fn long() {
    fiber::say_long();
}
