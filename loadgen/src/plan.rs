//! Everything a run is told before it starts.

use std::time::Duration;

use crate::arrivals::ArrivalProcess;
use crate::command::CommandTemplate;
use crate::keys::Keyspace;
use crate::target::Target;
use crate::trace::Trace;
use crate::workload::Distribution;

/// Share of the total rate under which a type is taken for slow when nobody says otherwise.
const SLOW_SHARE_MAX: f64 = 0.05;

/// A whole run.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// What is measured.
    pub target: Target,
    /// What is sent.
    pub types: Vec<TypePlan>,
    /// What makes requests be sent.
    pub pacing: Pacing,
    /// How arrivals are distributed where [`Pacing::Drawn`] draws them.
    pub arrivals: ArrivalProcess,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Time at the start whose requests are sent but not measured.
    pub warmup: Duration,
    /// Time after the warm-up whose requests are measured.
    pub duration: Duration,
    /// A request without a reply for so long after its intended time is given up.
    pub timeout: Duration,
    /// Requests per type that may be sent or wait for a connection; one more is dropped.
    pub outstanding_max: usize,
    /// Requests that may be in flight on one connection.
    pub pipeline: usize,
    /// Time from the start over which each type's connections are opened; the first is open before.
    pub ramp: Duration,
    /// What placeholders are drawn from.
    pub keyspace: Keyspace,
    /// Factor by which service times were multiplied; 1 for none.
    pub dilation: u32,
    /// How threads wait.
    pub waiting: Waiting,
    /// Nice value of the thread for slow types, 0 to 19.
    pub slow_nice: i32,
    /// Whether to watch for stalls of the machine, and to tell calm requests apart.
    pub calm: bool,
    /// A port of DPDK that datagrams go through, in place of a socket.
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
            dilation: 1,
            waiting: Waiting::SleepThenSpin(Duration::from_micros(50)),
            slow_nice: 10,
            calm: false,
            #[cfg(feature = "dpdk")]
            dpdk: None,
        }
    }

    /// Whether all requests go over one port, which belongs to one thread.
    pub(crate) fn has_one_link(&self) -> bool {
        #[cfg(feature = "dpdk")]
        return self.dpdk.is_some();
        #[cfg(not(feature = "dpdk"))]
        false
    }
}

/// What makes requests be sent.
#[derive(Debug, Clone, Default)]
pub enum Pacing {
    /// Open loop: arrivals are drawn from the types' rates.
    #[default]
    Drawn,
    /// Open loop: arrivals were recorded.
    Trace(Trace),
    /// Closed loop: replies make the next requests be sent.
    Closed(ClosedLoop),
}

/// So many clients that send, wait for the reply, think, and send again.
///
/// Latency counts from the actual send. While the server stalls nothing is sent, so that what
/// would have been sent is missing from the percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedLoop {
    /// Number of clients, and thereby most requests in flight.
    pub outstanding: usize,
    /// Each type has so many clients of its own. Otherwise they share them: each draws the type of
    /// its next request by the types' rates, which need only be in proportion; and all types are on
    /// one thread.
    pub per_type: bool,
    /// Between a reply and the next request.
    pub think: Duration,
}

/// How a thread waits for its next send and for replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// It never sleeps: the lowest noise, and a whole core for each thread.
    BusyPoll,
    /// It sleeps, and spins for this long before a send is due and after a send.
    SleepThenSpin(Duration),
}

/// One request type of a run.
#[derive(Debug, Clone)]
pub struct TypePlan {
    /// Name in reports.
    pub name: String,
    /// Requests per second, on average; in the first phase, where there are others.
    pub rate_rps: f64,
    /// How it changes over time, in order. Only [`Pacing::Drawn`] has phases.
    pub phases: Vec<TypePhase>,
    /// Connections of its own. Without meaning for datagrams.
    pub connections: usize,
    /// The thread that sends it and reads its replies.
    pub thread: ThreadClass,
    /// What a request is.
    pub request: RequestPlan,
}

/// What one request is.
#[derive(Debug, Clone)]
pub enum RequestPlan {
    /// A command.
    Command(CommandTemplate),
    /// A psp request that asks for a service time.
    Synthetic {
        /// The type's number in the header.
        request_type: u16,
        /// The service time asked for, dilated.
        service: ServicePlan,
    },
}

/// The service times that requests of a type ask for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServicePlan {
    /// Their mean in nanoseconds. At least 1.
    pub mean_ns: u32,
    /// How they are distributed. What exceeds the 32 bits of the header is cut to them.
    pub distribution: Distribution,
}

/// A type from some time on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TypePhase {
    /// When it begins, counted from the start of the measured part.
    pub starts: Duration,
    /// Requests per second, on average.
    pub rate_rps: f64,
    /// The service times asked for; without meaning for commands.
    pub service: Option<ServicePlan>,
}

/// The two threads of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadClass {
    /// The thread whose timestamps must be right to the microsecond.
    Fast,
    /// The thread of rare types and of those with big replies; it runs at lower priority, so that
    /// reading two megabytes does not delay a fast type's timestamp.
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

    /// The service times asked for; `None` for commands. Phases may ask for others.
    #[must_use]
    pub fn service(&self) -> Option<ServicePlan> {
        match self.request {
            RequestPlan::Command(_) => None,
            RequestPlan::Synthetic { service, .. } => Some(service),
        }
    }

    /// The mean service time asked for in nanoseconds, dilated; `None` for commands.
    #[must_use]
    pub fn service_ns(&self) -> Option<u32> {
        self.service().map(|service| service.mean_ns)
    }

    /// Requests per second, averaged over a measured part of that length.
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

    /// The highest of its rates, in requests per second.
    #[must_use]
    pub fn rate_rps_max(&self) -> f64 {
        let phases = self.phases.iter().map(|phase| phase.rate_rps);
        phases.fold(self.rate_rps, f64::max)
    }
}

/// Which thread serves each type: those named in `slow` and `fast` as told, the rest by their share
/// of the total rate.
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
