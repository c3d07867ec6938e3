//! Tests of services on a pool of threads.

use std::future::poll_fn;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::time::Instant;

use psp_pool::{Pool, RequestType, Running};

use crate::DEADLINE;

/// A task that holds a worker until its gate is dropped, and has one when this returns. A pool that hands off tasks
/// hands it off if others wait.
///
/// # Panics
/// When no worker takes it within [`DEADLINE`].
pub fn hold(pool: &Pool, request_type: RequestType) -> (Sender<()>, Running<()>) {
    let (gate, opened): (Sender<()>, Receiver<()>) = channel();
    let (begins, begun) = channel();
    let running = pool.run(request_type, move || {
        begins.send(()).unwrap();
        let _ = opened.recv();
    });
    begun.recv_timeout(DEADLINE).unwrap();
    (gate, running)
}

/// Polls `condition` until it holds, between other tasks.
///
/// # Panics
/// When the condition does not hold within [`DEADLINE`]. `what` names it in the message.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    poll_fn(|context| match condition() {
        true => Poll::Ready(()),
        false => {
            assert!(Instant::now() < deadline, "waited in vain for: {what}");
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
