//! Waiting in a handler, while other requests have the worker.
//!
//! | file | job |
//! | --- | --- |
//! | `sleep.rs` | a future that is ready after a time; giving up another one after a time |
//! | `join.rs` | several futures at once |
//! | `tasks.rs` | futures that go on beside each other, joined as they end |
//! | `blocking.rs` | calls that block in the kernel |
//! | `yielding.rs` | letting others have the worker once |

pub(crate) mod blocking;
pub(crate) mod join;
pub(crate) mod sleep;
pub(crate) mod tasks;
pub(crate) mod yielding;

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::fiber;

/// Polls `future` until it is ready, and returns its output. While the future is pending, other requests have the
/// worker: the request keeps its stack, not its worker.
///
/// To be called in a [`Handler`](crate::Handler), at any depth. The handler goes on where it was, on the same thread,
/// when the future's waker was called and the policy gives the request its next turn: before requests of its type that
/// arrived later. The future needs neither `Send` nor `'static`, so it may borrow from the handler.
///
/// A worker holds as many waiting requests as it has [contexts](crate::Config::contexts_per_worker). A request that
/// waits counts as received: a stopping server waits for it. Time for which it waits is not service time.
///
/// ```no_run
/// # use psp_server::protocols::Sink;
/// # use psp_server::{Reply, Request};
/// # async fn ask_another_server(_: &[u8]) -> Vec<u8> { Vec::new() }
/// fn handle(request: Request<'_, ()>, reply: &mut Reply<'_>) {
///     let answer = psp_server::wait(ask_another_server(request.payload));
///     reply.put(&answer);
/// }
/// ```
///
/// # What holds while a request waits
///
/// - Other requests run on the same thread, as at a [`checkpoint`](crate::checkpoint), whose documentation says what
///   that means for thread-local variables. Hold no lock that another request might want.
/// - The peer may leave. The request goes on unless it asks [`is_abandoned`](crate::is_abandoned).
/// - Where the worker cannot be given away, the thread parks until the future is ready: within
///   [`no_preempt`](crate::no_preempt), while the thread panics, on threads that run no request, and if there is no
///   memory for another stack.
///
/// The polls are code of the handler: they may be preempted at checkpoints, and wait themselves.
pub fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut output = None;
    fiber::wait_until(&mut |context| match future.as_mut().poll(context) {
        Poll::Ready(ready) => {
            output = Some(ready);
            true
        }
        Poll::Pending => false,
    });
    output.expect("the wait ends when the future is ready")
}

/// Sleeps for `duration`. Other requests have the worker meanwhile: this [`wait`]s for [`task::sleep`](sleep::sleep).
///
/// Where the worker cannot be given away, the thread sleeps. On threads that run no requests, this is
/// [`std::thread::sleep`].
pub fn sleep(duration: Duration) {
    if fiber::is_worker() {
        wait(sleep::sleep(duration));
    } else {
        std::thread::sleep(duration);
    }
}
