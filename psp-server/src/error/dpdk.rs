//! Errors of DPDK.

/// DPDK, or one of its ports, cannot be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// The environment was not initialised. DPDK prints details to standard error.
    #[error("DPDK's environment cannot be initialised: {0}")]
    Eal(String),
    /// A process has one environment, and its arguments cannot be changed.
    #[error("DPDK's environment is already initialised, with `{running}`")]
    OtherArguments {
        /// The arguments of the running environment.
        running: String,
    },
    /// A zero byte in a name or an argument.
    #[error("names and arguments of DPDK cannot have zero bytes")]
    Text,
    /// A setting is out of its range.
    #[error("{0}")]
    Setting(String),
    /// No device has that name.
    #[error("DPDK has no device `{0}`")]
    NoDevice(String),
    /// No port has that number.
    #[error(
        "DPDK has no port {id}; it has {ports} ports. Bind a NIC to its driver first; a virtual device \
         comes from `--vdev`"
    )]
    NoPort {
        /// The number that was asked for.
        id: u16,
        /// How many ports there are.
        ports: u16,
    },
    /// The port is in use in this process.
    #[error("port {0} is in use")]
    InUse(u16),
    /// Workers that poll for themselves need a receive queue and a transmit queue each.
    #[error(
        "the topology `distributed` needs a receive and a transmit queue for each of {workers} workers; the port has \
         {port_has} of a kind, and {asked} were asked for. Have as many workers as queues at most, or choose the \
         topology `dedicated` or `inline`"
    )]
    TooFewQueues {
        /// The number of workers.
        workers: usize,
        /// How many queues of each kind were asked for.
        asked: usize,
        /// How many of each kind the port can have.
        port_has: u16,
    },
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
        /// The operation.
        what: &'static str,
        /// DPDK's reason.
        reason: String,
    },
}
