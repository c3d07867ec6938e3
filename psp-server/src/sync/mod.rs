//! Locks, semaphores, condition variables and channels for handlers. A request that waits for one leaves its worker to
//! others.
//!
//! | | |
//! | --- | --- |
//! | [`Mutex`] | a value that one request at a time has |
//! | [`Semaphore`] | permits, such as those to use an upstream server |
//! | [`Condvar`] | waiting for a change of what a [`Mutex`] has |
//! | [`oneshot`] | one value, which any thread sends and one request receives |
//!
//! Their methods return futures, for [`wait`](crate::wait()), [`timeout`](crate::task::timeout) and
//! [`Tasks`](crate::task::Tasks). Waiting requests are served in the order in which they came: a lock that is released
//! passes to the request that has waited longest. A future that is dropped leaves the queue. If it was its turn
//! already, the next one has the turn.
//!
//! They work between requests on all workers, and with other threads: there [`wait`](crate::wait()) parks the thread.
//! No memory is allocated for a wait once the queue was as long.
//!
//! ```no_run
//! # use psp_server::protocols::Sink;
//! # use psp_server::sync::Mutex;
//! # use psp_server::{Reply, Request, wait};
//! # async fn ask_another_server(_: &[u8]) -> Vec<u8> { Vec::new() }
//! /// Asks once, and answers others with what it heard.
//! fn handle(cached: &Mutex<Option<Vec<u8>>>, request: Request<'_, ()>, reply: &mut Reply<'_>) {
//!     let mut cached = wait(cached.lock());
//!     let answer = cached.get_or_insert_with(|| wait(ask_another_server(request.payload)));
//!     reply.put(answer);
//! }
//! ```
//!
//! Within [`no_preempt`](crate::no_preempt) a wait parks the thread: if another request of the worker holds the lock,
//! for ever. A request that waits for a lock that it holds itself waits for ever, too.

mod condvar;
mod mutex;
pub mod oneshot;
mod semaphore;
mod wait_list;

pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use semaphore::{Permit, Semaphore};
