//! Requests that wait for a wake, and what is counted of them.

use hashbrown::HashMap;
use psp_policy::{RequestId, RequestType};

use crate::shared::Receiver;
use crate::telemetry::WaitCounters;

/// See the [module](self). There are no more than workers have contexts.
pub(crate) struct Blocked {
    shared: Receiver,
    requests: HashMap<RequestId, Wait>,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    request_type: RequestType,
    since_ns: u64,
}

impl Blocked {
    pub(crate) fn new(shared: Receiver) -> Self {
        Self { shared, requests: HashMap::new() }
    }

    /// The request waits from now on.
    pub(crate) fn begin(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        let since_ns = now_ns;
        let wait = Wait { request_type, since_ns };
        self.requests.insert(request, wait);
        let counters = self.counters(request_type);
        counters.blocked.add(1);
        counters.waits.add(1);
    }

    /// The request was woken. Returns its type.
    pub(crate) fn end(&mut self, now_ns: u64, request: RequestId) -> RequestType {
        let Some(wait) = self.requests.remove(&request) else {
            return RequestType::UNKNOWN;
        };
        let counters = self.counters(wait.request_type);
        counters.blocked.sub(1);
        counters.wait_ns.add(now_ns.saturating_sub(wait.since_ns));
        wait.request_type
    }

    fn counters(&self, request_type: RequestType) -> &WaitCounters {
        let slot = self.shared.types.slot(request_type);
        &self.shared.counters(slot).waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use psp_policy::TypeSpec;

    #[test]
    fn waits_are_counted_by_type() {
        let types = [TypeSpec::new("ONE")].into_iter().collect();
        let shared = Receiver::example(Config::default(), types, 1);
        let mut blocked = Blocked::new(shared.clone());
        let one = RequestType::new(0);
        let read = |slot: usize| {
            let counters = &shared.counters(slot).waits;
            let WaitCounters { blocked, waits, wait_ns } = counters;
            [blocked.get(), waits.get(), wait_ns.get()]
        };
        blocked.begin(100, RequestId(7), one);
        blocked.begin(150, RequestId(8), RequestType::UNKNOWN);
        blocked.begin(200, RequestId(9), one);
        assert_eq!((read(0), read(1)), ([2, 2, 0], [1, 1, 0]));
        assert_eq!(blocked.end(300, RequestId(7)), one);
        assert_eq!(blocked.end(300, RequestId(8)), RequestType::UNKNOWN);
        assert_eq!((read(0), read(1)), ([1, 2, 200], [0, 1, 150]));
        blocked.begin(400, RequestId(7), one);
        assert_eq!(blocked.end(450, RequestId(9)), one);
        assert_eq!(read(0), [1, 3, 450]);
    }
}
