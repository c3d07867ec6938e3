//! Everything a run is told before it starts.

use std::time::Duration;

use crate::arrivals::ArrivalProcess;
use crate::command::{CommandTemplate, Keyspace};
use crate::target::Target;

/// Share of the total rate under which a type is taken for slow when nobody says otherwise.
const SLOW_SHARE_MAX: f64 = 0.05;

/// A whole run.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// What is measured.
    pub target: Target,
    /// What is sent.
    pub types: Vec<TypePlan>,
    /// How arrivals are distributed.
    pub arrivals: ArrivalProcess,
    /// Seed of the schedules and of the drawn keys.
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
    /// What placeholders are drawn from.
    pub keyspace: Keyspace,
    /// Factor by which service times were multiplied; 1 for none.
    pub dilation: u32,
    /// How threads wait.
    pub waiting: Waiting,
    /// Nice value of the thread for slow types, 0 to 19.
    pub slow_nice: i32,
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
    /// Requests per second, on average.
    pub rate_rps: f64,
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
        /// The service time asked for, dilated, in nanoseconds. At least 1.
        service_ns: u32,
    },
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
    /// The service time asked for in nanoseconds, dilated; `None` for commands.
    #[must_use]
    pub fn service_ns(&self) -> Option<u32> {
        match self.request {
            RequestPlan::Command(_) => None,
            RequestPlan::Synthetic { service_ns, .. } => Some(service_ns),
        }
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
}
