//! What can go wrong with DPDK.

/// DPDK, or a port of it, cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DpdkError {
    /// The environment was not initialised. It says more on the standard error output.
    #[error("DPDK's environment cannot be initialised: {0}")]
    Eal(String),
    /// A process has one environment, whose arguments cannot be changed.
    #[error("DPDK's environment is already initialised, with `{running}`")]
    OtherArguments {
        /// The arguments it has.
        running: String,
    },
    /// A zero byte in a name or an argument.
    #[error("names and arguments of DPDK cannot have zero bytes")]
    Text,
    /// A setting is out of its range.
    #[error("{0}")]
    Setting(String),
    /// There is no device of that name.
    #[error("DPDK has no device `{0}`")]
    NoDevice(String),
    /// There is no port of that number.
    #[error(
        "DPDK has no port {id}, but {ports} in all: a NIC is bound to its driver beforehand, and a \
         virtual device comes from `--vdev`"
    )]
    NoPort {
        /// The number.
        id: u16,
        /// How many ports there are.
        ports: u16,
    },
    /// The port is in use in this process.
    #[error("port {0} is in use")]
    InUse(u16),
    /// There is no memory for packet buffers.
    #[error("no memory for {mbufs} mbufs: {reason}")]
    Mempool {
        /// How many were asked for.
        mbufs: u32,
        /// DPDK's reason.
        reason: String,
    },
    /// A port or device refused something.
    #[error("cannot {what} the port: {reason}")]
    Port {
        /// What it was to do.
        what: &'static str,
        /// DPDK's reason.
        reason: String,
    },
}
