//! What the programs, benchmarks and tests of this workspace need beyond the API. It may change with every version.

pub use crate::runtime::shorten_slice;
pub use crate::settings::server_over;

#[cfg(feature = "dpdk")]
pub use crate::bench_support::{Side, Stages, measure_stages};
#[cfg(feature = "dpdk")]
pub use crate::transport::dpdk::mbufs_lost;
