//! The plan of a run.

use std::time::Duration;

use psp_sim::keys::Keyspace;
use psp_sim::workload::{ArrivalProcess, Distribution};

use crate::schedule::trace::file::Trace;
use crate::wire::{CommandTemplate, HttpHeader, Target};

/// A type below this share of the total rate is slow by default.
const SLOW_SHARE_MAX: f64 = 0.05;

/// A run.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// The server.
    pub target: Target,
    /// The request types.
    pub types: Vec<TypePlan>,
    /// What triggers requests.
    pub pacing: Pacing,
    /// How arrivals are distributed if [`Pacing::Drawn`] draws them, or a [`Pacing::Trace`] has a rate.
    pub arrivals: ArrivalProcess,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Time at the start. Its requests are sent but not measured.
    pub warmup: Duration,
    /// Time after the warm-up. Its requests are measured.
    pub duration: Duration,
    /// A request without a reply is given up this long after its intended time.
    pub timeout: Duration,
    /// Requests per type that may be in flight or wait for a connection; further ones are dropped.
    pub outstanding_max: usize,
    /// Requests that may be in flight on one connection.
    pub pipeline: usize,
    /// Time from the start in which each type's connections are opened. The first connection opens
    /// before the start.
    pub ramp: Duration,
    /// Keys and values of placeholders.
    pub keyspace: Keyspace,
    /// Header lines of all requests of HTTP.
    pub headers: Vec<HttpHeader>,
    /// Factor by which service times were multiplied; 1 for none.
    pub dilation: u32,
    /// How threads wait.
    pub waiting: Waiting,
    /// Nice value of the thread of slow types, 0 to 19.
    pub slow_nice: i32,
    /// Whether to watch for stalls of the machine and report the latency of calm requests.
    pub calm: bool,
    /// A port of DPDK for datagrams, in place of a socket.
    #[cfg(feature = "dpdk")]
    pub dpdk: Option<psp_server::dpdk::DpdkConfig>,
}

impl RunPlan {
    /// Ten measured seconds of Poisson arrivals after one of warm-up, with the program's other
    /// defaults.
    #[must_use]
    pub fn new(target: Target, types: Vec<TypePlan>) -> Self {
        Self {
            target,
            types,
            pacing: Pacing::Drawn,
            arrivals: ArrivalProcess::Poisson,
            seed: 1,
            warmup: Duration::from_secs(1),
            duration: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
            outstanding_max: 100_000,
            pipeline: 1,
            ramp: Duration::ZERO,
            keyspace: Keyspace::default(),
            headers: Vec::new(),
            dilation: 1,
            waiting: Waiting::SleepThenSpin(Duration::from_micros(50)),
            slow_nice: 10,
            calm: false,
            #[cfg(feature = "dpdk")]
            dpdk: None,
        }
    }

    /// Whether all requests go over one port. A port belongs to one thread.
    pub(crate) fn has_one_link(&self) -> bool {
        #[cfg(feature = "dpdk")]
        return self.dpdk.is_some();
        #[cfg(not(feature = "dpdk"))]
        false
    }
}

/// What triggers requests.
#[derive(Debug, Clone, Default)]
pub enum Pacing {
    /// Open loop: arrivals drawn from the types' rates.
    #[default]
    Drawn,
    /// Open loop: recorded requests.
    Trace(Trace),
    /// Closed loop: a reply triggers the next request.
    Closed(ClosedLoop),
}

/// Clients that send a request, wait for the reply, think, and send again.
///
/// Latency counts from the actual send. A stalled server prevents sends, and the percentiles lack
/// the requests that were not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedLoop {
    /// Number of clients, which is also the limit of requests in flight.
    pub outstanding: usize,
    /// Whether each type has this number of clients of its own. Otherwise all types share the
    /// clients. Each client draws the type of its next request in proportion to the types' rates,
    /// and all types are on one thread.
    pub per_type: bool,
    /// Time between a reply and the next request.
    pub think: Duration,
}

/// How a thread waits for its next send and for replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// The thread never sleeps. This has the lowest noise and takes a whole core.
    BusyPoll,
    /// The thread sleeps, and spins for this long before a due send and after each send.
    SleepThenSpin(Duration),
}

/// One request type of a run.
#[derive(Debug, Clone)]
pub struct TypePlan {
    /// Name in reports.
    pub name: String,
    /// Mean requests per second, in the first phase if there are phases.
    pub rate_rps: f64,
    /// Later phases in order. Only [`Pacing::Drawn`] has phases.
    pub phases: Vec<TypePhase>,
    /// Connections of the type. Unused for datagrams.
    pub connections: usize,
    /// The thread that sends the type's requests and reads the replies.
    pub thread: ThreadClass,
    /// The request.
    pub request: RequestPlan,
}

/// The request of a type.
#[derive(Debug, Clone)]
pub enum RequestPlan {
    /// A command.
    Command(CommandTemplate),
    /// The commands of a trace that share a type. Each arrival has the number of its own.
    Commands(Vec<CommandTemplate>),
    /// A psp request that asks for a service time.
    Synthetic {
        /// The type's number in the header.
        request_type: u16,
        /// The dilated service time.
        service: ServicePlan,
    },
}

impl RequestPlan {
    /// The commands: none if requests ask for service times.
    #[must_use]
    pub fn commands(&self) -> &[CommandTemplate] {
        match self {
            Self::Command(command) => std::slice::from_ref(command),
            Self::Commands(commands) => commands,
            Self::Synthetic { .. } => &[],
        }
    }

    /// The same, to change them.
    #[must_use]
    pub fn commands_mut(&mut self) -> &mut [CommandTemplate] {
        match self {
            Self::Command(command) => std::slice::from_mut(command),
            Self::Commands(commands) => commands,
            Self::Synthetic { .. } => &mut [],
        }
    }
}

/// Service times of a type's requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServicePlan {
    /// Mean in nanoseconds. At least 1.
    pub mean_ns: u32,
    /// The distribution. Service times beyond the header's 32 bits are cut to them.
    pub distribution: Distribution,
    /// For how long each request waits without its worker, in nanoseconds; 0 if it does not.
    pub wait_ns: u32,
}

/// A type from some time on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TypePhase {
    /// When it begins, counted from the start of the measured part.
    pub starts: Duration,
    /// Requests per second, on average.
    pub rate_rps: f64,
    /// The service times; unused for commands.
    pub service: Option<ServicePlan>,
}

/// The two threads of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadClass {
    /// For types whose timestamps must be right to the microsecond.
    Fast,
    /// For rare types and types with big replies. It runs at lower priority, so that reading two
    /// megabytes does not delay a fast type's timestamp.
    Slow,
}

impl TypePlan {
    /// A steady type on the fast thread with one connection.
    #[must_use]
    pub fn new(name: impl Into<String>, rate_rps: f64, request: RequestPlan) -> Self {
        Self {
            name: name.into(),
            rate_rps,
            phases: Vec::new(),
            connections: 1,
            thread: ThreadClass::Fast,
            request,
        }
    }

    /// The service times; `None` for commands. Phases may have others.
    #[must_use]
    pub fn service(&self) -> Option<ServicePlan> {
        match self.request {
            RequestPlan::Command(_) | RequestPlan::Commands(_) => None,
            RequestPlan::Synthetic { service, .. } => Some(service),
        }
    }

    /// The dilated mean service time in nanoseconds; `None` for commands.
    #[must_use]
    pub fn service_ns(&self) -> Option<u32> {
        self.service().map(|service| service.mean_ns)
    }

    /// Mean requests per second over a measured part of that length.
    #[must_use]
    pub fn rate_rps_mean(&self, measured: Duration) -> f64 {
        if self.phases.is_empty() || measured.is_zero() {
            return self.rate_rps;
        }
        let starts = self.phases.iter().map(|phase| phase.starts);
        let ends = starts.clone().chain([measured]);
        let starts = std::iter::once(Duration::ZERO).chain(starts);
        let rates = std::iter::once(self.rate_rps).chain(self.phases.iter().map(|it| it.rate_rps));
        let requests: f64 = starts
            .zip(ends)
            .zip(rates)
            .map(|((start, end), rate_rps)| {
                let length = end.min(measured).saturating_sub(start);
                length.as_secs_f64() * rate_rps
            })
            .sum();
        requests / measured.as_secs_f64()
    }

    /// The highest rate in requests per second.
    #[must_use]
    pub fn rate_rps_max(&self) -> f64 {
        let phases = self.phases.iter().map(|phase| phase.rate_rps);
        phases.fold(self.rate_rps, f64::max)
    }
}

/// Assigns threads to types. `slow` and `fast` name types for either thread; the rate decides for
/// the others.
///
/// `types` are names and rates in requests per second.
#[must_use]
pub fn assign_threads(types: &[(&str, f64)], slow: &[String], fast: &[String]) -> Vec<ThreadClass> {
    let total_rps: f64 = types.iter().map(|(_, rate_rps)| rate_rps).sum();
    let told = |names: &[String], name: &str| names.iter().any(|told| told == name);
    types
        .iter()
        .map(|&(name, rate_rps)| {
            let rare = rate_rps < total_rps * SLOW_SHARE_MAX;
            if told(slow, name) || (rare && !told(fast, name)) {
                ThreadClass::Slow
            } else {
                ThreadClass::Fast
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_types_are_slow_unless_told_otherwise() {
        use ThreadClass::{Fast, Slow};
        let types = [("GET", 9_000.0), ("SET", 900.0), ("KEYS", 100.0)];
        assert_eq!(assign_threads(&types, &[], &[]), [Fast, Fast, Slow]);
        let slow = ["SET".to_owned()];
        let fast = ["KEYS".to_owned()];
        assert_eq!(assign_threads(&types, &slow, &fast), [Fast, Slow, Fast]);
        assert_eq!(assign_threads(&[("KEYS", 2.0)], &[], &[]), [Fast]);
    }

    #[test]
    fn rates_of_phases_are_averaged_over_the_measured_time() {
        let phase = |starts_s, rate_rps| TypePhase {
            starts: Duration::from_secs(starts_s),
            rate_rps,
            service: None,
        };
        let command = CommandTemplate::parse("GET").unwrap();
        let mut ty = TypePlan::new("GET", 100.0, RequestPlan::Command(command));
        let mean = |ty: &TypePlan, seconds| ty.rate_rps_mean(Duration::from_secs(seconds));
        assert!((mean(&ty, 10) - 100.0).abs() < 1e-9);
        ty.phases = vec![phase(2, 400.0), phase(4, 0.0)];
        assert!((mean(&ty, 1) - 100.0).abs() < 1e-9);
        assert!((mean(&ty, 4) - 250.0).abs() < 1e-9);
        assert!((mean(&ty, 10) - 100.0).abs() < 1e-9);
        assert!((ty.rate_rps_max() - 400.0).abs() < 1e-9);
    }
}
