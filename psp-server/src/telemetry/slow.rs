//! Requests that took long, from their arrival to the end of their handler.
//!
//! ```text
//!   worker: the request is done ── longer than slow-us? no: that is all
//!                                   └─ yes ──► the last 128 ──► /slow, ServerHandle::slow_requests
//!                                         └──► log, once a second at most
//! ```
//!
//! No worker waits here: of two that are here at once, one only counts.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use psp_policy::{TypeTable, WorkerId};
use serde::Serialize;

use super::counters::Times;
use crate::peer::Peer;

/// Requests that are kept.
const KEPT: usize = 128;
/// There is at most one warning in this time.
const WARN_INTERVAL_S: u64 = 1;
/// No request is slow.
const NEVER: u64 = u64::MAX;

/// A request that took longer than [`Config::slow_us`](crate::Config::slow_us), or than its type's
/// [`slow`](psp_policy::TypeSpec::slow).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SlowRequest {
    /// Its number: the first slow request has 0.
    pub number: u64,
    /// When it ended, in milliseconds since the Unix epoch.
    pub ended_unix_ms: u64,
    /// Name of its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The worker that completed it.
    pub worker: u32,
    /// Who sent it.
    pub peer: String,
    /// From its arrival to the beginning of its handler, in microseconds.
    pub wait_us: u64,
    /// Its time with a worker, in microseconds.
    pub service_us: u64,
    /// From its arrival to the end of its handler, in microseconds.
    pub sojourn_us: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Per type slot: from when on a request is slow. Of its own, or of all.
    types: Box<[Threshold]>,
    count: AtomicU64,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Threshold {
    own_ns: Option<u64>,
    ns: AtomicU64,
}

#[derive(Debug, Default)]
struct Log {
    /// The last one first.
    requests: VecDeque<SlowRequest>,
    warned: Option<Instant>,
    /// The number of slow requests at the last warning.
    count_at_warning: u64,
}

impl SlowLog {
    /// Requests of types that say nothing else are slow from `slow_us` on; with 0 none is.
    pub(crate) fn new(types: &TypeTable, slow_us: u64) -> Self {
        let own = types.specs().iter().map(|spec| spec.slow).chain([None]);
        let own = own.map(|slow| slow.map(|slow| u64::try_from(slow.as_nanos()).unwrap_or(NEVER)));
        let threshold = |own_ns| Threshold { own_ns, ns: AtomicU64::new(NEVER) };
        let log = Self {
            types: own.map(threshold).collect(),
            count: AtomicU64::new(0),
            log: Mutex::default(),
        };
        log.set_slow_us(slow_us);
        log
    }

    /// Changes from when on requests are slow whose types say nothing else; 0 for never.
    pub(crate) fn set_slow_us(&self, slow_us: u64) {
        let all_ns = match slow_us {
            0 => NEVER,
            slow_us => slow_us.saturating_mul(1000),
        };
        for threshold in &self.types {
            let own_ns = threshold.own_ns.map(|ns| if ns == 0 { NEVER } else { ns });
            threshold.ns.store(own_ns.unwrap_or(all_ns), Ordering::Relaxed);
        }
    }

    /// Whether a request of the type at `slot` that took so long is slow.
    #[inline]
    pub(crate) fn is_slow(&self, slot: usize, sojourn_ns: u64) -> bool {
        sojourn_ns >= self.types[slot].ns.load(Ordering::Relaxed)
    }

    /// Keeps a slow request, and warns of it.
    #[cold]
    pub(crate) fn note(&self, type_name: &str, worker: WorkerId, peer: Peer, times: Times) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let Ok(mut log) = self.log.try_lock() else {
            return;
        };
        let us = |ns: u64| ns / 1000;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let ended_unix_ms = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let request = SlowRequest {
            number,
            ended_unix_ms,
            type_name: type_name.to_owned(),
            worker: worker.0,
            peer: peer.to_string(),
            wait_us: us(times.waited_ns),
            service_us: us(times.served_ns),
            sojourn_us: us(times.sojourn_ns),
        };
        let is_due = |warned: Instant| warned.elapsed().as_secs() >= WARN_INTERVAL_S;
        if log.warned.is_none_or(is_due) {
            log.warned = Some(Instant::now());
            let unsaid = number.saturating_sub(log.count_at_warning);
            log.count_at_warning = number + 1;
            let SlowRequest { worker, peer, wait_us, service_us, sojourn_us, .. } = &request;
            tracing::warn!(
                request_type = type_name,
                worker,
                peer,
                wait_us,
                service_us,
                sojourn_us,
                unsaid,
                "a request was slow"
            );
        }
        log.requests.truncate(KEPT - 1);
        log.requests.push_front(request);
    }

    /// How many requests were slow.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The last slow requests, the last one first.
    pub(crate) fn last(&self) -> Vec<SlowRequest> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.requests.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use psp_policy::TypeSpec;

    use super::*;

    fn log(slow_us: u64) -> SlowLog {
        let types = [
            TypeSpec::new("any"),
            TypeSpec::new("own").slow(Duration::from_micros(5)),
            TypeSpec::new("never").slow(Duration::ZERO),
        ];
        SlowLog::new(&types.into_iter().collect(), slow_us)
    }

    #[test]
    fn a_type_has_its_own_threshold_or_that_of_all() {
        let log = log(0);
        let slow = |ns| [0, 1, 2, 3].map(|slot| log.is_slow(slot, ns));
        assert_eq!(slow(4_999), [false; 4]);
        assert_eq!(slow(1 << 50), [false, true, false, false]);
        log.set_slow_us(9);
        assert_eq!(slow(5_000), [false, true, false, false]);
        assert_eq!(slow(9_000), [true, true, false, true]);
        log.set_slow_us(0);
        assert_eq!(slow(9_000), [false, true, false, false]);
    }

    #[test]
    fn the_last_requests_are_kept_and_all_are_counted() {
        let log = log(1);
        let peer = Peer::Ip("127.0.0.1:1".parse().unwrap());
        for number in 0..200 {
            let times = Times {
                waited_ns: 1_000 * number,
                served_ns: 2_000,
                sojourn_ns: 3_000 + 1_000 * number,
            };
            log.note("any", WorkerId(3), peer, times);
        }
        let last = log.last();
        assert_eq!((log.count(), last.len()), (200, KEPT));
        let first = &last[0];
        assert_eq!((first.number, first.wait_us, first.service_us), (199, 199, 2));
        assert_eq!((first.type_name.as_str(), first.worker), ("any", 3));
        assert_eq!(first.peer, "127.0.0.1:1");
        assert!(last.windows(2).all(|pair| pair[0].number == pair[1].number + 1));
    }
}
