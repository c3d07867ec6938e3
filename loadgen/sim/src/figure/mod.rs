//! The figures of the papers, drawn from the policies that run in production.
//!
//! ```text
//!   figures/*.toml ─► Figure ─► jobs ─► points ─► Drawing ─┬─► chart   SVG
//!   or a user's file            all cores                  ├─► csv_rows
//!                                                          └─► claim   the paper's numbers and ours
//! ```
//!
//! A file defines the figures of a paper: the compared systems with the options of `psp-loadgen sim`, the loads, the
//! quantities to draw, and the paper's numbers. The table in a definition that says what is drawn names the program
//! that draws it, a `Kind`: most are a `sweep`. `docs/figures.md` shows all figures, and how one is defined.

mod catalogue;
mod claim;
mod connections;
mod costs;
mod definition;
mod error;
mod job;
mod kind;
mod over_time;
mod phases;
mod plot;
mod ramp;
mod saturation;
mod sweep;
mod system;
mod tradeoff;
mod waits;

pub use catalogue::{Elsewhere, all, elsewhere, named, read};
pub use claim::{Claim, HEADER as CLAIMS_HEADER, rows as claim_rows};
pub use connections::connections_needed;
pub use definition::Figure;
pub use error::FigureError;
pub use job::Scale;
pub use plot::Plot;
