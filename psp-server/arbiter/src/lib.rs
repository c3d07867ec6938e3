//! Cores that move between the servers of one machine, after the core arbiter of Arachne (OSDI '18, section 4).
//!
//! A server asks the arbiter for cores and offers the threads that would run on them. The arbiter grants whole
//! cores, and asks for them back when a more important server wants them.
//!
//! ```text
//!   server process                                   psp-arbiter
//!  ┌ net thread ──────────────┐  Want, Offer, ..   ┌───────────────────────────────────────┐
//!  │ client::Arbiter          │ ─────────────────► │ Daemon ──► Arbitration (pure: who has │
//!  │   poll() ─► ArbiterEvent │ ◄───────────────── │   │        which core, by when)       │
//!  └──────────────────────────┘  Granted, Taken    │   ▼                                   │
//!  ┌ worker threads ──────────┐                    │ Mechanism: cpuset v1, cpuset v2,      │
//!  │ Page: one load           │ ◄── shared page ── │            affinity                   │
//!  └──────────────────────────┘                    └───────────────────────────────────────┘
//! ```
//!
//! | to | look at |
//! | --- | --- |
//! | ask for cores in a server | [`Arbiter`](client::Arbiter), [`Registration`], [`Gate`](client::Gate) |
//! | run an arbiter | [`Daemon`](daemon::Daemon), [`mechanism::choose`] |
//! | see who has what | [`status`] |
//! | know how cores are divided | [`arbitration`] |
//! | know which cores belong together | [`Topology`] |
//! | know the messages | [`protocol`] |
//!
//! `docs/arbiter.md` has the program, figures and limits.

pub mod arbitration;
pub mod client;
mod cores;
pub mod daemon;
pub mod limits;
pub mod mechanism;
mod packet;
mod page;
pub mod protocol;
mod registration;
pub mod status;
mod thread;
mod topology;

pub use cores::{CoreId, CoreSet, InvalidCores};
pub use page::{Page, PageError};
pub use registration::{Priority, Registration, RegistrationError};
pub use thread::ThreadId;
pub use topology::Topology;
