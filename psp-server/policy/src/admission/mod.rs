//! Admission: what an overloaded server still lets in.
//!
//! [`Admit`] is the trait, between a classifier and a scheduler. [`Admission`] is the ready one; `docs/overload.md`
//! says what it does at which load. Both are as pure as schedulers: events in, answers out, time is an argument.
//!
//! | part | what it decides |
//! | --- | --- |
//! | `demand` | what each type asks for, and what it is entitled to |
//! | `limit` | how many requests of a type may be in the system |
//! | `expected` | how long a request is expected to wait, and to take |
//! | `places` | the requests in the system, and which of a type goes first |
//! | `tenants` | who is over a share |

mod admit;
mod demand;
mod expected;
mod limit;
mod places;
mod ready;
mod settings;
mod tenants;

pub use admit::{
    AdmissionStatus, Admit, Arrival, PRIORITIES, PRIORITY_DEFAULT, Reason, Refusal, Ticket, Turn, Verdict,
};
pub use ready::Admission;
pub use settings::{AdmissionSettings, AdmissionSettingsError};
