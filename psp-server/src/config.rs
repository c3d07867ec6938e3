//! Settings of a server, for builders and TOML files alike.

use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::preempt::PreemptPolicy;
use crate::runtime::SEATS_MAX;

/// Which threads a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// `Inline` where the process may use up to four cores, `Dedicated` where it has more.
    #[default]
    Auto,
    /// The net thread is worker 0; the other workers are threads of their own, with a lower
    /// scheduling weight.
    Inline,
    /// The net worker and dispatcher have a thread, each worker has a thread.
    Dedicated,
}

impl std::str::FromStr for Topology {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(Self::Auto),
            "inline" => Ok(Self::Inline),
            "dedicated" => Ok(Self::Dedicated),
            _ => Err(format!(
                "unknown topology '{name}' (auto, inline, dedicated)"
            )),
        }
    }
}

impl std::fmt::Display for Topology {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Inline => "inline",
            Self::Dedicated => "dedicated",
        })
    }
}

/// What a server may use and how its threads behave. Every field has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Number of workers; chosen from the cores when absent.
    pub workers: Option<usize>,
    /// Which threads there are.
    pub topology: Topology,
    /// Requests (or runs of pipelined requests) that may wait in one typed queue.
    pub queue_capacity: usize,
    /// Connections that may be open at once.
    pub connections_max: usize,
    /// A connection without a request for this long is closed; 0 never closes.
    pub idle_timeout_s: u64,
    /// A connection that takes none of its output for this long is closed; 0 never closes.
    pub output_timeout_s: u64,
    /// Longest reply, in bytes.
    pub reply_bytes_max: usize,
    /// Bytes that may be held for all peers together: incomplete requests and unsent replies.
    /// A connection that holds more than 64 KiB and pushes the sum over this is closed.
    pub buffered_bytes_max: usize,
    /// Longest datagram of a request, in bytes; its reply may have as many, and what the request left.
    pub datagram_bytes_max: usize,
    /// Unsent output from which on a connection's further requests wait, in bytes.
    pub output_high_water_bytes: usize,
    /// How long a stopping server waits for requests in flight.
    pub drain_timeout_ms: u64,
    /// How long an idle thread polls before it sleeps, when every thread has a core to itself and one is left
    /// over. Where none is left, threads of the topology `dedicated` poll for as long as a wake-up takes at
    /// most, workers for their next request and the net thread for a worker that requests wait for.
    pub spin_us: u64,
    /// Nice value of workers that share cores with the net thread (0 to 19).
    pub background_nice: i32,
    /// Slice of a net thread that shares its core: with a short one the kernel lets it run as soon as
    /// it wakes, whoever holds the core. 0 leaves it at the system's default.
    pub net_slice_us: u64,
    /// How policies that share time make a request give way; the others never do. With `none` no
    /// such policy can be chosen, and workers have no contexts.
    pub preempt: PreemptPolicy,
    /// Contexts of each worker: all but one may hold a request that has begun, and that one takes
    /// over when a request gives way. Where none is left, the worker begins no other request.
    /// With `kernel-thread` they are threads, 64 at most.
    pub contexts_per_worker: usize,
    /// Stack of each context, in bytes. It is reserved at the start, and takes memory as it is used.
    /// The threads of `kernel-thread` have the usual stack of a thread instead.
    pub stack_bytes: usize,
    /// A request that was asked to give way and has not done so for this long is counted and logged;
    /// 0 never.
    pub preempt_warn_ms: u64,
    /// Seed of the policies that draw lots.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: None,
            topology: Topology::Auto,
            queue_capacity: 1024,
            connections_max: 10_000,
            idle_timeout_s: 0,
            output_timeout_s: 60,
            reply_bytes_max: 1 << 30,
            buffered_bytes_max: 1 << 30,
            datagram_bytes_max: 2048,
            output_high_water_bytes: 256 * 1024,
            drain_timeout_ms: 10_000,
            spin_us: 50,
            background_nice: 19,
            net_slice_us: 100,
            preempt: PreemptPolicy::default(),
            contexts_per_worker: 32,
            stack_bytes: 256 * 1024,
            preempt_warn_ms: 100,
            seed: 1,
        }
    }
}

impl Config {
    pub(crate) fn validate(&self) -> Result<(), BuildError> {
        let checks: [(&'static str, bool, &str); 10] = [
            ("workers", self.workers != Some(0), "must be at least 1"),
            (
                "queue_capacity",
                self.queue_capacity > 0,
                "must be at least 1",
            ),
            (
                "connections_max",
                self.connections_max > 0,
                "must be at least 1",
            ),
            (
                "connections_max",
                u32::try_from(self.connections_max).is_ok_and(|max| max < 1 << 30),
                "must be below 2^30",
            ),
            (
                "reply_bytes_max",
                self.reply_bytes_max > 0,
                "must be at least 1",
            ),
            (
                "datagram_bytes_max",
                (64..=65_507).contains(&self.datagram_bytes_max),
                "must be between 64 and 65507",
            ),
            (
                "background_nice",
                (0..=19).contains(&self.background_nice),
                "must be between 0 and 19",
            ),
            (
                "net_slice_us",
                self.net_slice_us == 0 || (100..=100_000).contains(&self.net_slice_us),
                "must be 0 or between 100 and 100000",
            ),
            (
                "contexts_per_worker",
                (2..=65_536).contains(&self.contexts_per_worker),
                "must be between 2 and 65536",
            ),
            (
                "stack_bytes",
                (64 << 10..=1 << 30).contains(&self.stack_bytes),
                "must be between 64 KiB and 1 GiB",
            ),
        ];
        for (setting, valid, reason) in checks {
            if !valid {
                return Err(BuildError::Setting {
                    setting,
                    reason: reason.to_owned(),
                });
            }
        }
        if self.preempt == PreemptPolicy::KernelThread && self.contexts_per_worker > SEATS_MAX {
            return Err(BuildError::Setting {
                setting: "contexts_per_worker",
                reason: format!("must be at most {SEATS_MAX} with kernel-thread"),
            });
        }
        Ok(())
    }
}
