//! What handlers tell the scheduler about the request that they run.

use psp_policy::RequestType;

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

/// Says that the request in hand is of `request_type`: the classifier took it for another, such as a short one, and
/// cannot have known better.
///
/// The request goes on as it does. Its time is measured as one of this type, so that it spoils no other: a policy that
/// groups types by their mean would treat all requests of a type by one that only seemed to be of it. Where the request
/// knows so before it has begun, [`Reply::reclassify`](crate::Reply::reclassify) puts it back.
///
/// The last call holds. A type that is not registered, or a call on a thread that runs no request, has no effect.
pub fn of_type(request_type: RequestType) {
    fiber::say_type(request_type);
}
