//! Workers that schedule themselves: the live driver of [`psp_policy::distributed`].
//!
//! ```text
//!   worker 0                                           worker 1
//!   Member ── place ── next ──┐                        Member
//!     │ put             take  │ steal                    ▲ take
//!     ▼                       ▼                          │
//!   ┌ own queue of 0 ┐     ┌ own queue of 1 ┐ ◄── handed over, one wake at most
//!   └────────────────┘     └────────────────┘
//!     │ shown on                │
//!     ▼                         ▼
//!   board: a line of atomics per worker ◄── read by all members, without a lock
//!   knowledge: what each type may use   ◄── published by feedback, every few milliseconds
//!   timer core: reads the board, and asks long requests to yield
//! ```
//!
//! A worker reads requests from the ports that it drives, and its [`Member`] decides by the policy's objects where
//! they wait and what runs next. What waits is lent already: its connection lies among the [`Offers`], where whoever
//! runs the request finds it. The connection goes back to its port with the reply, wherever that is by then: ports
//! [move](super::net) as they do under `d-fcfs`.
//!
//! | file | job |
//! | --- | --- |
//! | `own_queue.rs` | the queue of one worker |
//! | `sleepers.rs` | which workers sleep, and who wakes them |
//! | `roster.rs` | who is there, whatever the policy |
//! | `worker_group.rs` | what the workers share under one policy |
//! | `succession.rs` | how workers go on from one policy to the next |
//! | `supervisor.rs` | what the thread that runs the server does for the workers |
//! | `member.rs` | the scheduler of one worker |
//! | `moving.rs` | requests that any worker may resume, and their threads |
//! | `guard.rs` | whether requests that were preempted wait for too long |
//! | `prompter.rs` | what workers tell the timer core |
//! | `turn_bell.rs` | calls a worker out of its turn for a request of its own that was woken |
//! | `timer/` | preempts long requests for those that wait |
//! | `measured.rs`, `feedback.rs` | measurements in, knowledge out |
//! | `offers.rs` | connections whose requests wait |
//! | `peers.rs` | what the net worker of a worker needs of the others |

mod feedback;
mod guard;
#[cfg(all(test, loom))]
mod loom_tests;
mod measured;
mod member;
mod moving;
mod offers;
mod own_queue;
mod peers;
mod prompter;
mod roster;
mod sleepers;
mod succession;
mod supervisor;
mod timer;
mod turn_bell;
mod worker_group;

pub(crate) use moving::Moving;
pub(crate) use offers::Offers;
pub(crate) use peers::Peers;
pub(crate) use roster::Roster;
pub(crate) use succession::Joined;
pub(crate) use supervisor::{Rules, Supervisor};
pub(crate) use timer::{Watched, events_of};
pub(crate) use turn_bell::TurnBell;
