//! Why a workload cannot be used.

/// Why a workload cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("unknown workload `{name}`; there are {known}, and files whose names end in .toml")]
    Unknown {
        /// The name.
        name: String,
        /// The names of all workloads.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The text is not TOML, or has unknown keys.
    #[error("{reason}")]
    Syntax {
        /// The error and its position.
        reason: String,
    },
    /// A value is out of its range, or two values contradict each other.
    #[error("{reason}")]
    Invalid {
        /// The error.
        reason: String,
    },
    /// The workload lacks something that a live run needs.
    #[error("workload `{workload}`: {reason}")]
    NotLive {
        /// Its name.
        workload: String,
        /// The missing setting.
        reason: String,
    },
    /// A dilated service time or wait does not fit the 32 bits of nanoseconds of psp requests.
    #[error(
        "type `{type_name}` at {time_ns} ns dilated by {factor} exceeds the header's limit of \
         4.29 s; the largest dilation of this workload is {factor_max}"
    )]
    Dilation {
        /// The type.
        type_name: String,
        /// Its service time or, if that is longer, its wait; not dilated, in nanoseconds.
        time_ns: u64,
        /// The dilation asked for.
        factor: u32,
        /// The largest that fits.
        factor_max: u64,
    },
    /// A dilation by 0.
    #[error("a dilation is at least 1")]
    DilationZero,
}
