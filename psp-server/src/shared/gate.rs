//! Admission, as the threads that receive requests drive it.
//!
//! ```text
//!                   arrive           turn                        end
//!   classifier ──► Gate ──► Scheduler ──► Gate ──► worker ──► Gate
//!                   └► refused             └► too late, or another one of its type goes first
//! ```
//!
//! All threads of a server share one gate, as their requests share the workers. It is locked for each of these events,
//! for as long as admission takes to answer.
//!
//! A run of pipelined requests is let in as one. Its last request waits for all others, so a run takes no more than a
//! part of the SLO: what a connection has beyond that comes in later runs.
//!
//! Requests change places where the one that goes first is not the one whose turn it is. So the scheduler's name of a
//! request may be that of another one: the gate keeps both. A server without admission has no gate, and its requests
//! keep their names.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use psp_policy::admission::{AdmissionStatus, Admit, Arrival, Refusal, Ticket, Verdict};
use psp_policy::{RequestId, Sample};

use crate::fiber::no_preempt;
use crate::transport::run::RUN_LEN_MAX;

/// Requests for which memory is set aside.
const PREALLOCATED: usize = 1 << 12;

/// Time between two measurements of the load.
const MEASURE_NS: u64 = 10_000_000;

/// Part of the SLO that the service of a run may take.
const RUN_PART: f64 = 0.25;

/// See the [module](self).
pub(crate) struct Gate {
    state: Mutex<State>,
    /// Whether requests wait where others take them, so that no two of them may change places.
    is_shared: bool,
    /// See [`Gate::load_level`]; the bits of a number.
    load_level: AtomicU64,
    /// When that is measured next.
    measure_at_ns: AtomicU64,
    /// Per type slot.
    types: Box<[OfType]>,
}

#[derive(Debug)]
struct OfType {
    /// See [`Gate::run_len_max`].
    run_len_max: AtomicUsize,
    /// It was said that the SLO is too short.
    is_told: AtomicBool,
}

struct State {
    admit: Box<dyn Admit>,
    /// How many workers are present.
    workers: usize,
    /// The time of the last event.
    now_ns: u64,
    /// Requests that were let in.
    inside: HashMap<RequestId, Inside>,
    /// The scheduler's name of each request that has another one's, and the request of each such name.
    names: HashMap<RequestId, RequestId>,
    named: HashMap<RequestId, RequestId>,
}

#[derive(Debug, Clone, Copy)]
struct Inside {
    ticket: Ticket,
    has_begun: bool,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GateTurn {
    pub(crate) request: RequestId,
    /// It does not run: it is too late for it.
    pub(crate) is_too_late: bool,
}

fn other(names: &HashMap<RequestId, RequestId>, id: RequestId) -> RequestId {
    names.get(&id).copied().unwrap_or(id)
}

fn rename(names: &mut HashMap<RequestId, RequestId>, id: RequestId, to: RequestId) {
    match id == to {
        true => names.remove(&id),
        false => names.insert(id, to),
    };
}

impl Gate {
    /// A gate before so many workers, at which `admit` decides about types of so many slots. `is_shared` says that each
    /// worker has queues from which others take.
    pub(crate) fn new(admit: Box<dyn Admit>, workers: usize, slots: usize, is_shared: bool) -> Self {
        let state = State {
            admit,
            workers,
            now_ns: 0,
            inside: HashMap::with_capacity(PREALLOCATED),
            names: HashMap::with_capacity(PREALLOCATED),
            named: HashMap::with_capacity(PREALLOCATED),
        };
        Self {
            state: Mutex::new(state),
            is_shared,
            load_level: AtomicU64::new(0),
            measure_at_ns: AtomicU64::new(0),
            types: { 0..slots }
                .map(|_| OfType {
                    run_len_max: AtomicUsize::new(RUN_LEN_MAX),
                    is_told: AtomicBool::new(false),
                })
                .collect(),
        }
    }

    /// Nothing is left half done by a thread that panics here, but for what its admission did.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for an event, with its time. That of another thread may be later: time does not go backwards here.
    fn state_at(&self, now_ns: u64) -> (MutexGuard<'_, State>, u64) {
        let mut state = self.state();
        state.now_ns = state.now_ns.max(now_ns);
        let now_ns = state.now_ns;
        (state, now_ns)
    }

    /// A request has come. Returns the scheduler's name for it, if it is let in.
    pub(crate) fn arrive(&self, now_ns: u64, mut arrival: Arrival) -> Result<RequestId, Refusal> {
        let (mut state, now_ns) = self.state_at(now_ns);
        let state = &mut *state;
        let request = arrival.request;
        let name = other(&state.names, request);
        arrival.request = name;
        arrival.ordered |= self.is_shared;
        match state.admit.arrive(now_ns, &arrival) {
            Verdict::Refuse(refusal) => Err(refusal),
            Verdict::Admit(ticket) => {
                let before = state.inside.insert(request, Inside { ticket, has_begun: false });
                debug_assert!(before.is_none(), "a request that is gone was cancelled");
                Ok(name)
            }
        }
    }

    /// The scheduler runs the request that it calls `name`. Returns whose turn it is.
    pub(crate) fn turn(&self, now_ns: u64, name: RequestId) -> GateTurn {
        let (mut state, now_ns) = self.state_at(now_ns);
        let state = &mut *state;
        let mut request = other(&state.named, name);
        let Some(&Inside { ticket, has_begun: false }) = state.inside.get(&request) else {
            return GateTurn { request, is_too_late: false };
        };
        let turn = state.admit.begin(now_ns, ticket);
        if let Some(instead) = turn.instead.filter(|instead| !self.is_shared && *instead != name) {
            request = state.change_places(request, instead);
        }
        if turn.runs {
            state.inside.entry(request).and_modify(|inside| inside.has_begun = true);
        } else {
            state.inside.remove(&request);
        }
        GateTurn { request, is_too_late: !turn.runs }
    }

    /// The scheduler rejects the request that it calls `name`. Returns it.
    pub(crate) fn rejected(&self, now_ns: u64, name: RequestId) -> RequestId {
        let request = other(&self.state().named, name);
        self.cancel(now_ns, request);
        request
    }

    /// The scheduler's name for a request.
    pub(crate) fn name_of(&self, request: RequestId) -> RequestId {
        other(&self.state().names, request)
    }

    /// A request is gone and has not run.
    pub(crate) fn cancel(&self, now_ns: u64, request: RequestId) {
        let (mut state, now_ns) = self.state_at(now_ns);
        if let Some(Inside { ticket, .. }) = state.inside.remove(&request) {
            state.admit.cancel(now_ns, ticket);
        }
    }

    /// A run has ended, of which so many requests were measured. One of which none was is as if it had not begun: it
    /// was of another type, say, and comes again.
    pub(crate) fn end(&self, now_ns: u64, request: RequestId, samples: &[Sample]) {
        let (mut state, now_ns) = self.state_at(now_ns);
        let Some(Inside { ticket, .. }) = state.inside.remove(&request) else {
            return;
        };
        let served_ns = samples.iter().map(|sample| sample.service_ns).sum();
        match samples.iter().map(|sample| sample.count).sum() {
            0 => state.admit.cancel(now_ns, ticket),
            done => state.admit.end(now_ns, ticket, served_ns, done),
        }
    }

    /// A running request waits for a wake.
    pub(crate) fn block(&self, now_ns: u64, request: RequestId) {
        let (mut state, now_ns) = self.state_at(now_ns);
        if let Some(&Inside { ticket, .. }) = state.inside.get(&request) {
            state.admit.block(now_ns, ticket);
        }
    }

    /// A request was woken.
    pub(crate) fn unblock(&self, now_ns: u64, request: RequestId) {
        let (mut state, now_ns) = self.state_at(now_ns);
        if let Some(&Inside { ticket, .. }) = state.inside.get(&request) {
            state.admit.unblock(now_ns, ticket);
        }
    }

    /// So many workers are present from now on.
    pub(crate) fn workers(&self, now_ns: u64, present: usize) {
        let (mut state, now_ns) = self.state_at(now_ns);
        state.admit.workers(now_ns, present);
        state.workers = present;
    }

    /// How many requests are inside.
    #[cfg(test)]
    pub(crate) fn inside(&self) -> usize {
        self.state().inside.len()
    }

    /// What admission says of each type, by slots. Handlers ask, too, and keep their workers meanwhile.
    pub(crate) fn statuses(&self) -> Vec<AdmissionStatus> {
        no_preempt(|| {
            let state = self.state();
            (0..self.types.len()).map(|slot| state.admit.status(slot)).collect()
        })
    }

    /// Measures the load, and how long runs may be, if it is time to. Returns a type, by its slot, whose SLO has turned
    /// out to be too short, and what is known of it; each type once.
    pub(crate) fn measure(&self, now_ns: u64) -> Option<(usize, AdmissionStatus)> {
        let (at_ns, relaxed) = (&self.measure_at_ns, Ordering::Relaxed);
        let due_ns = at_ns.load(relaxed);
        let next_ns = now_ns.saturating_add(MEASURE_NS);
        // One of the threads that find it due measures.
        if now_ns < due_ns || at_ns.compare_exchange(due_ns, next_ns, relaxed, relaxed).is_err() {
            return None;
        }
        let state = self.state();
        let (mut offered, mut news) = (0.0, None);
        for (slot, of_type) in self.types.iter().enumerate() {
            let status = state.admit.status(slot);
            let means = status.slo_ns / status.service_ns_mean;
            let len = match means.is_finite() && means > 0.0 {
                true => (means * RUN_PART) as usize,
                false => RUN_LEN_MAX,
            };
            of_type.run_len_max.store(len.clamp(1, RUN_LEN_MAX), Ordering::Relaxed);
            if news.is_none() && status.slo_infeasible && !of_type.is_told.swap(true, Ordering::Relaxed) {
                news = Some((slot, status));
            }
            offered += status.workers_offered;
        }
        let level = offered / state.workers.max(1) as f64;
        self.load_level.store(level.to_bits(), Ordering::Relaxed);
        news
    }

    /// How many requests a run may have that begins with one of the type at `slot`.
    pub(crate) fn run_len_max(&self, slot: usize) -> usize {
        self.types[slot].run_len_max.load(Ordering::Relaxed)
    }

    /// The work that requests ask for, refused ones included, as a part of what the workers can do.
    pub(crate) fn load_level(&self) -> f64 {
        f64::from_bits(self.load_level.load(Ordering::Relaxed))
    }
}

impl State {
    /// The request that waits under the name `instead` has its turn in the place of `first`. Returns it, or the first
    /// one if none waits under that name.
    fn change_places(&mut self, first: RequestId, instead: RequestId) -> RequestId {
        let name = other(&self.names, first);
        let second = other(&self.named, instead);
        if !matches!(self.inside.get(&second), Some(Inside { has_begun: false, .. })) {
            return first;
        }
        for (request, name) in [(first, instead), (second, name)] {
            rename(&mut self.names, request, name);
            rename(&mut self.named, name, request);
        }
        second
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use psp_policy::RequestType;
    use psp_policy::admission::{Reason, Turn};

    use super::*;

    /// Lets four in, and has the newest go first; drops what arrived at 0.
    #[derive(Default)]
    struct NewestFirst {
        /// By ticket.
        waiting: Vec<(RequestId, u64)>,
    }

    impl Admit for NewestFirst {
        fn arrive(&mut self, _: u64, arrival: &Arrival) -> Verdict {
            if self.waiting.len() == 4 {
                let (reason, retry_after_ns) = (Reason::OverTarget, 1);
                return Verdict::Refuse(Refusal { reason, retry_after_ns });
            }
            self.waiting.push((arrival.request, arrival.arrived_ns));
            Verdict::Admit(Ticket(self.waiting.len() as u32 - 1))
        }

        fn begin(&mut self, _: u64, ticket: Ticket) -> Turn {
            let first = ticket.0 as usize;
            let last = self.waiting.len() - 1;
            let (name, instead) = (self.waiting[first].0, self.waiting[last].0);
            (self.waiting[first].0, self.waiting[last].0) = (instead, name);
            let (_, arrived_ns) = self.waiting.pop().unwrap();
            Turn::new(arrived_ns > 0, (first != last).then_some(instead))
        }

        fn end(&mut self, _: u64, _: Ticket, _: u64, _: u32) {}

        fn cancel(&mut self, _: u64, ticket: Ticket) {
            self.waiting.remove(ticket.0 as usize);
        }
    }

    #[test]
    fn requests_change_places_under_the_names_that_the_scheduler_knows() {
        let gate = Gate::new(Box::<NewestFirst>::default(), 1, 1, false);
        let arrive = |id, at_ns| gate.arrive(at_ns, Arrival::new(RequestId(id), RequestType::new(0), at_ns));
        for (id, at_ns) in [(0, 0), (1, 1), (2, 2), (3, 3)] {
            assert_eq!(arrive(id, at_ns), Ok(RequestId(id)));
        }
        assert_eq!(arrive(4, 4).map_err(|refusal| refusal.reason), Err(Reason::OverTarget));
        let turn = |name| {
            let GateTurn { request, is_too_late } = gate.turn(9, RequestId(name));
            (request.0, is_too_late)
        };
        assert_eq!(turn(0), (3, false), "the newest");
        assert_eq!((gate.name_of(RequestId(3)), gate.name_of(RequestId(0))), (RequestId(0), RequestId(3)));
        assert_eq!(turn(0), (3, false), "it goes on after it yielded");
        assert_eq!(turn(1), (2, false));
        let sample = Sample { request_type: RequestType::new(0), count: 1, service_ns: 5 };
        gate.end(10, RequestId(3), &[sample]);
        assert_eq!(arrive(3, 11), Ok(RequestId(0)), "its name is free, and that of the oldest is not");
        assert_eq!(turn(3), (3, false));
        assert_eq!(gate.rejected(12, RequestId(2)), RequestId(1));
        assert_eq!(turn(0), (0, true), "it is too late for the oldest");
    }
}
