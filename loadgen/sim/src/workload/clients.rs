//! Who sends the requests of a workload, and what they do when an answer takes long.

use serde::{Deserialize, Serialize};

/// Levels of priority.
const PRIORITIES: usize = 8;

/// Tenants that a workload may name.
const TENANTS_MAX: usize = 1 << 20;

/// Retries of a request at most.
const RETRIES_MAX: u32 = 100;

/// How clients behave. The default is patient clients without tenants, all of one priority.
///
/// In a workload file this is the table `[clients]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clients {
    /// How long a client waits before it gives up, in mean service times of the request's type; 0: for ever.
    pub timeout_slowdown: f64,
    /// The same in microseconds. The shorter of both counts; 0: for ever.
    pub timeout_us: f64,
    /// Whether requests carry the time at which their clients give up, so that the server need not run them later.
    pub deadline: bool,
    /// How often a client sends its request again, after it gave up or was refused.
    pub retries: u32,
    /// For how long it waits before the first retry, in microseconds. Twice as long before each further one.
    pub backoff_us: f64,
    /// The part of such a wait that is random, 0 to 1.
    pub jitter: f64,
    /// Shares of the requests by priority, 0 first; all have the default priority if there are none.
    pub priorities: Vec<f64>,
    /// Shares of the requests by tenant; nobody in particular sends them if there are none.
    pub tenants: Vec<f64>,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            timeout_slowdown: 0.0,
            timeout_us: 0.0,
            deadline: false,
            retries: 0,
            backoff_us: 100.0,
            jitter: 0.5,
            priorities: Vec::new(),
            tenants: Vec::new(),
        }
    }
}

impl Clients {
    /// How long the client of a request waits whose type has this mean service time, in nanoseconds.
    #[must_use]
    pub fn timeout_ns(&self, service_ns_mean: u64) -> Option<u64> {
        let by_slowdown = self.timeout_slowdown * service_ns_mean as f64;
        let timeouts_ns = [by_slowdown, self.timeout_us * 1e3].into_iter().filter(|ns| *ns > 0.0);
        timeouts_ns.reduce(f64::min).map(|ns| (ns as u64).max(1))
    }

    /// What is wrong with the settings, if anything is.
    pub(super) fn fault(&self) -> Option<String> {
        let times = [
            ("timeout_slowdown", self.timeout_slowdown),
            ("timeout_us", self.timeout_us),
            ("backoff_us", self.backoff_us),
        ];
        let wrong = times.into_iter().find(|(_, value)| !(0.0..=1e10).contains(value));
        if let Some((name, value)) = wrong {
            return Some(format!("clients: {name} is {value}, it must be from 0 to 10 billion"));
        }
        let shares_are_valid = |shares: &[f64]| shares.iter().all(|share| (0.0..=1e9).contains(share));
        if !(0.0..=1.0).contains(&self.jitter) {
            Some(format!("clients: jitter is {}, it must be from 0 to 1", self.jitter))
        } else if self.retries > RETRIES_MAX {
            Some(format!("clients: retries is {}, it must be at most {RETRIES_MAX}", self.retries))
        } else if self.priorities.len() > PRIORITIES || !shares_are_valid(&self.priorities) {
            Some(format!("clients: priorities are at most {PRIORITIES} shares, from 0 on"))
        } else if self.tenants.len() > TENANTS_MAX || !shares_are_valid(&self.tenants) {
            Some(format!("clients: tenants are at most {TENANTS_MAX} shares, from 0 on"))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_timeout_counts() {
        let clients = |timeout_slowdown, timeout_us| Clients { timeout_slowdown, timeout_us, ..Clients::default() };
        assert_eq!(clients(0.0, 0.0).timeout_ns(1_000), None);
        assert_eq!(clients(10.0, 0.0).timeout_ns(1_000), Some(10_000));
        assert_eq!(clients(10.0, 3.0).timeout_ns(1_000), Some(3_000));
        assert_eq!(clients(0.0, 3.0).timeout_ns(1_000), Some(3_000));
    }

    #[test]
    fn settings_have_ranges() {
        let with = |change: fn(&mut Clients)| {
            let mut clients = Clients::default();
            change(&mut clients);
            clients.fault()
        };
        assert_eq!(with(|_| {}), None);
        for wrong in [
            with(|clients| clients.jitter = 1.5),
            with(|clients| clients.timeout_us = f64::NAN),
            with(|clients| clients.backoff_us = -1.0),
            with(|clients| clients.retries = 101),
            with(|clients| clients.priorities = vec![1.0; 9]),
            with(|clients| clients.tenants = vec![-1.0]),
        ] {
            assert!(wrong.is_some_and(|fault| fault.starts_with("clients: ")));
        }
    }
}
