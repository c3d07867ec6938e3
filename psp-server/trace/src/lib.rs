//! What a scheduler did with requests, as a file that [Perfetto](https://ui.perfetto.dev) and `chrome://tracing` open.
//!
//! ```text
//!   live server: rings of its threads ──┐
//!                                       ├──► Event ──► Trace::write ──► JSON ──► Perfetto
//!   simulator: its engine ──────────────┘                                └─────► check
//! ```
//!
//! The file is in Chrome's Trace Event Format, in its form as a JSON object:
//!
//! | of the server | in the file |
//! | --- | --- |
//! | a worker | a thread with a name: a track |
//! | a turn | a complete event (`X`) on its worker's track, named by the type |
//! | a request, from arrival to reply | a pair of nestable asynchronous events (`b`, `e`) of the category `request` |
//! | a request that waits without a worker | a pair within the request's, of the name `waits` |
//! | a preemption that was asked for, a steal, a hand-over | an instant event (`i`) on the worker's track |
//! | the requests of a type that wait for a worker | a counter (`C`) |
//! | what was lost, settings | `otherData` |
//!
//! Each begin has an end: what runs or waits when the trace begins or ends is cut there, and says so. Times are in
//! microseconds from the beginning of the trace, with three decimals.

mod check;
mod event;
mod json;
mod story;

pub use check::{Checked, Disorder, check};
pub use event::{Event, Kind};
pub use story::Trace;
