//! The load of the server whose request runs on this thread, for code that has no handle of it.
//!
//! Like the [state](super::thread_state) of the thread, this is a thread-local variable with a constant initial value
//! and no destructor.

use std::cell::Cell;

thread_local! {
    static LEVEL: Cell<f64> = const { Cell::new(0.0) };
}

/// A request begins on this thread, at this load of its server.
#[inline]
pub(crate) fn note_load_level(level: f64) {
    LEVEL.with(|known| known.set(level));
}

/// The work that clients ask for, requests that are refused included, as a part of what all workers can do: above 1 the
/// server is overloaded. A handler that has a cheaper answer gives it then.
///
/// It is that of the moment at which a request last began on this thread, averaged over some milliseconds. 0 without
/// [admission](crate::Config::admission), and on threads that run no request.
#[inline]
#[must_use]
pub fn load_level() -> f64 {
    LEVEL.with(Cell::get)
}
