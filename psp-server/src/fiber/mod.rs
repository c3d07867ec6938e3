//! Contexts, and making what runs on one give way.
//!
//! ```text
//!   dispatcher ── PreemptFlag: "turn 7" ──►  checkpoint() ─┐
//!                                                          ▼
//!   worker thread:  pool ⇄ contexts      place: may it? ── give_way ── pause ──► pool ──► another
//! ```
//!
//! | file | job |
//! | --- | --- |
//! | `flag.rs` | which turn shall give way |
//! | `place.rs` | whether it may: `checkpoint`, `no_preempt` |
//! | `pool.rs` | contexts, and switching between them |

mod flag;
mod place;
mod pool;

pub(crate) use flag::PreemptFlag;
pub(crate) use place::{
    GiveWay, begin_turn, is_asked, occupy, preemptible, set_spare, set_turn, spare,
};
pub use place::{checkpoint, no_preempt};
pub(crate) use pool::{ContextPool, Pause, Wake, pause};
