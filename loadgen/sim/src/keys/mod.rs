//! Key spaces: names of keys, how often each key is used, and sizes of values.

mod distribution;
mod keyspace;
mod sizes;

pub use distribution::{KeyDistribution, KeyDistributionError, KeyDraws};
pub use keyspace::{KeyFormat, Keyspace, KeyspaceError};
pub use sizes::{Sizes, SizesError};
