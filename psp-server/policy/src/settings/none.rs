//! Settings of the policies that have none.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;

/// Writes a type without fields for each policy. Its braces make serde refuse settings that a
/// policy does not have.
macro_rules! no_settings {
    ($($(#[$doc:meta])* $policy:ident),* $(,)?) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            #[non_exhaustive]
            pub struct $policy {}

            impl $policy {
                pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
                    Ok(())
                }
            }
        )*
    };
}

no_settings!(
    /// Centralised first come, first served.
    CFcfs,
    /// Decentralised first come, first served.
    DFcfs,
    /// Fixed priority.
    FixedPriority,
    /// Shortest job first.
    Sjf,
    /// Decentralised first come, first served, with work stealing.
    Stealing,
    /// Weighted round robin; the weights are those of [types](crate::TypeSpec::weight).
    Wrr,
);
