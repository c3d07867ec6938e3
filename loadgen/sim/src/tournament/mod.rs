//! A tournament: one policy beside all others, on workloads that were not chosen by hand.
//!
//! ```text
//!   mixes, workers, SLOs, costs, homes ─► Grid ─► cells ─► searches ─► capacity ─► Journal
//!   policies and their settings ─► Entrants ───────┘                                  │
//!                                                    Standings ◄──────────────────────┘
//! ```
//!
//! A *cell* is a workload on a server, with an objective. In each cell every policy has the capacity that its best
//! setting of a stated [range](settings_of) has, on average over the seeds.

mod entrants;
mod grid;
mod journal;
mod mixes;
mod report;
mod standings;

pub use entrants::{SEARCHED, label, settings_of};
pub use grid::{Cell, Contest, Extent, Grid, Search};
pub use journal::{Entry, Journal, JournalError};
pub use mixes::{Half, MIXES, mix};
pub use report::TournamentReport;
pub use standings::{Load, Score, Standings, Tally};
