//! Records what happens to requests, for a time that the [admin port](crate::admin) asks for.
//!
//! ```text
//!   net thread, or worker that receives ──► ring ──┐
//!   worker k ─────────────────────────────► ring ──┼──► Recording::end ──► psp_trace::Trace ──► /trace
//!   timer core ───────────────────────────► ring ──┘     (when it is over)
//! ```
//!
//! Each thread that schedules has a ring of its own, with room for so many events. While no trace is made, an event is
//! a load of a word that no thread writes. The first trace makes the rings. No thread waits for another: an event that
//! finds no room is counted, and the trace ends before it.
//!
//! | file | job |
//! | --- | --- |
//! | `ring.rs` | events of one thread |
//! | `recorder.rs` | the rings of all threads, and what they record |
//! | `recording.rs` | one trace, from its beginning to the file |

#[cfg(all(test, loom))]
mod loom_tests;
mod recorder;
mod recording;
mod ring;

pub(crate) use recorder::{Trace, Turn};
pub(crate) use recording::{Recorded, Recording};
