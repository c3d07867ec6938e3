//! The figures of the papers, drawn from the policies that run in production.
//!
//! ```text
//!   persephone ─┐                                        ┌─► chart   SVG
//!   shinjuku  ──┼─► Figure ─► jobs ─► points ─► Drawing ─┼─► csv_rows
//!   synergy  ───┘   (table)   all cores                  └─► claim   the paper's numbers and ours
//! ```
//!
//! A figure is a row in the table of its paper: the compared systems with the options of
//! `psp-loadgen sim`, the loads, and the quantities to draw. `docs/figures.md` shows all figures.

mod arachne;
mod catalogue;
mod claim;
mod compared;
mod connections;
mod costs;
mod definition;
mod distributed;
mod error;
mod job;
mod lending;
mod persephone;
mod phases;
mod plot;
mod rack;
mod ramp;
mod saturation;
mod shinjuku;
mod sweep;
mod synergy;
mod tradeoff;
mod waits;

pub use catalogue::{ELSEWHERE, all, named};
pub use claim::{Claim, HEADER as CLAIMS_HEADER, Reading, rows as claim_rows};
pub use connections::connections_needed;
pub use definition::Figure;
pub use error::FigureError;
pub use job::Scale;
pub use plot::Plot;
