//! What a faulty policy sees of what goes on.

use crate::backlog::{Backlog, BacklogRequest, RequestState};
use crate::event::{Action, Event, HandOff, RequestId, WorkerId};
use crate::request_type::{RequestType, TypeTable};
use crate::setup::{Contexts, SchedulerSetup};

/// What goes on, as the policy hears and does it.
pub(super) struct View {
    pub(super) now_ns: u64,
    workers: usize,
    pub(super) present: usize,
    pub(super) preemptive: bool,
    types: TypeTable,
    contexts: Contexts,
    requests: Vec<BacklogRequest>,
}

/// A request that runs.
pub(super) struct Turn {
    pub(super) worker: WorkerId,
    pub(super) preempted: bool,
    pub(super) yields: bool,
}

pub(super) const fn runs(request: &BacklogRequest) -> bool {
    matches!(request.state, RequestState::Running { .. })
}

pub(super) const fn is_blocked(request: &BacklogRequest) -> bool {
    matches!(request.state, RequestState::Blocked { .. })
}

/// Asks a worker to stop that need not run anything.
pub(super) const fn preempt(worker: WorkerId) -> Action {
    let quantum_ns = 0;
    Action::Preempt { worker, quantum_ns }
}

/// Runs a request on worker 0, whatever it and the worker do.
pub(super) const fn run(request: &BacklogRequest) -> Action {
    Action::Run {
        worker: WorkerId(0),
        request: request.request,
        request_type: request.request_type,
        hand_off: HandOff::Dispatched,
    }
}

impl View {
    pub(super) fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self {
            now_ns: 0,
            workers: setup.workers,
            present: setup.present,
            preemptive: setup.preemption.is_some(),
            types: setup.types.clone(),
            contexts: setup.contexts,
            requests: Vec::new(),
        }
    }

    /// The first of the requests that wait, run or are blocked, in order of arrival.
    pub(super) fn find(&self, is_such: impl Fn(&BacklogRequest) -> bool) -> Option<&BacklogRequest> {
        self.requests.iter().find(|request| is_such(request))
    }

    /// Whether the request began before, and can run on one worker alone.
    pub(super) fn resumes_at_home(&self, id: RequestId) -> bool {
        let began = |state| matches!(state, RequestState::Suspended { .. });
        let such = self.find(|request| request.request == id && began(request.state));
        such.is_some() && !self.contexts.migrates
    }

    /// Whether the request was blocked, and has not run since.
    pub(super) fn was_blocked(&self, id: RequestId) -> bool {
        self.find(|request| request.request == id && request.blocked_ns > 0).is_some()
    }

    /// The busy workers.
    pub(super) fn turns(&self) -> impl Iterator<Item = Turn> {
        self.requests.iter().filter_map(|request| {
            let slot = self.types.slot(request.request_type);
            match request.state {
                RequestState::Running { worker, preempted, .. } => {
                    Some(Turn { worker, preempted, yields: self.types.yields(slot) })
                }
                _ => None,
            }
        })
    }

    /// How many requests wait that any worker may run.
    pub(super) fn unbound(&self) -> usize {
        let is_unbound = |request: &&BacklogRequest| {
            request.waits() && (self.contexts.migrates || request.state == RequestState::Waiting)
        };
        self.requests.iter().filter(is_unbound).count()
    }

    /// The workers that are present and run nothing.
    pub(super) fn idle(&self) -> impl Iterator<Item = WorkerId> {
        let present = (0..self.present as u32).map(WorkerId);
        present.filter(|&worker| self.turns().all(|turn| turn.worker != worker))
    }

    /// Whether all workers are present and idle, and nothing is blocked.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_away = |request: &BacklogRequest| runs(request) || is_blocked(request);
        self.present == self.workers && self.find(is_away).is_none()
    }

    /// Asks a worker to stop, where requests can be preempted.
    pub(super) fn preempts(&self, is_such: impl Fn(&Turn) -> bool) -> Option<Action> {
        let turn = self.turns().find(is_such).filter(|_| self.preemptive)?;
        Some(preempt(turn.worker))
    }

    /// Whether `worker` can begin any request, whatever is suspended there.
    pub(super) const fn can_begin(&self, worker: WorkerId) -> bool {
        let unbounded = self.contexts.migrates || self.contexts.per_worker == usize::MAX;
        unbounded && worker.index() < self.present
    }

    /// Whether the type is registered.
    pub(super) fn knows(&self, request_type: RequestType) -> bool {
        self.types.slot(request_type) < self.types.len()
    }

    fn request(&mut self, id: RequestId) -> Option<&mut BacklogRequest> {
        let mut requests = self.requests.iter_mut();
        requests.find(|request| request.request == id)
    }

    fn running_on(&mut self, on: WorkerId) -> Option<&mut BacklogRequest> {
        let mut requests = self.requests.iter_mut();
        requests.find(|request| matches!(request.state, RequestState::Running { worker, .. } if worker == on))
    }

    pub(super) fn takes_over(&mut self, backlog: &Backlog) {
        self.requests.clone_from(&backlog.requests);
    }

    pub(super) fn hears(&mut self, event: &Event<'_>) {
        match *event {
            Event::Arrived { request, request_type, deadline_ns } => self.requests.push(BacklogRequest {
                request,
                request_type,
                arrived_ns: self.now_ns,
                deadline_ns,
                served_ns: 0,
                blocked_ns: 0,
                state: RequestState::Waiting,
            }),
            Event::Completed { worker, .. } => {
                let ended = self.running_on(worker).map(|ended| ended.request);
                self.requests.retain(|other| Some(other.request) != ended);
            }
            Event::Yielded { worker, .. } => {
                if let Some(yielded) = self.running_on(worker) {
                    yielded.state = RequestState::Suspended { home: worker };
                }
            }
            Event::Blocked { worker, .. } => {
                let since_ns = self.now_ns;
                if let Some(blocked) = self.running_on(worker) {
                    let home = worker;
                    blocked.state = RequestState::Blocked { home, since_ns };
                }
            }
            Event::Unblocked { request } => {
                if let Some(unblocked) = self.request(request)
                    && let RequestState::Blocked { home, .. } = unblocked.state
                {
                    unblocked.state = RequestState::Suspended { home };
                    unblocked.blocked_ns = 1;
                }
            }
            Event::Workers { present } => self.present = present,
            Event::Tick => {}
        }
    }

    pub(super) fn does(&mut self, action: &Action) {
        let started_ns = self.now_ns;
        match *action {
            Action::Run { worker, request, .. } => {
                if let Some(begun) = self.request(request) {
                    begun.blocked_ns = 0;
                    begun.state = RequestState::Running { worker, started_ns, preempted: false };
                }
            }
            Action::Preempt { worker, .. } => {
                if let Some(asked) = self.running_on(worker)
                    && let RequestState::Running { preempted, .. } = &mut asked.state
                {
                    *preempted = true;
                }
            }
            Action::Reject { request, .. } => {
                self.requests.retain(|other| other.request != request);
            }
        }
    }
}
