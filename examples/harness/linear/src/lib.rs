//! Checks whether concurrent clients saw a server whose operations happen one at a time: whether a recorded history
//! is linearizable (M. Herlihy and J. Wing, "Linearizability", TOPLAS 1990).
//!
//! ```text
//!   client 0   ├─ SET k0 1 ─┤        ├─ GET k0 -> 2 ─┤        recorder: calls with their begin and end
//!   client 1        ├─ SET k0 2 ─┤                             │
//!   client 2   ├─ LPUSH k3 7 ─┤    ├─ closed: pending          ▼
//!                                                         partitions: calls that share keys, directly or not
//!                                                              │
//!   Operation::apply: what one operation does alone ────────►  ▼
//!                                                         check: an order in which each call has its reply,
//!                                                                or a Violation
//! ```
//!
//! A model is a type of operations, a state, and [`Operation::apply`]. There are two: [`keyspace`] has the commands of
//! psp-redis, [`cache`] those of psp-memcached. A transaction or a script is an operation that applies several. A pop
//! that waits is a pop: it happened when the list had an element, or at some instant when it had none.

mod checker;
#[cfg(test)]
mod faults;
mod history;
mod model;
mod partition;
mod recorder;
mod run;
#[cfg(test)]
mod testing;
mod violation;

pub use checker::{Failure, check};
pub use history::{Call, PENDING};
pub use model::{Key, Operation, cache, keyspace};
pub use partition::partitions;
pub use recorder::{Client, Draw};
pub use run::assert_linearizable;
pub use violation::Violation;
