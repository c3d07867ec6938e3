//! The turn that runs on each worker, as the net thread knows it, and when a turn is asked to yield.
//!
//! ```text
//!            Run               Preempt            had its quantum            preempt_warn_ms
//!   idle ──────────► runs ──────────────► due ──────────────────► asked ─────────────────────► late
//!     ▲                │ Completed          │ Completed              │ Yielded: honoured
//!     └────────────────┴────────────────────┴────────────────────────┘
//! ```
//!
//! Policies count a quantum from when they gave the request to its worker. The worker may take longer to wake
//! than a short quantum lasts. So a turn is asked to yield when it has had the quantum since its [own
//! beginning](TurnStart). A turn that has not begun is not asked. It cannot be over before a quantum has passed, so it
//! is checked no earlier than that, and ever more rarely. It does not hold up other turns.

use std::sync::Arc;

use psp_policy::{Action, PreemptPolicy, RequestId, RequestType, StuckAfter, WorkerId};

use super::late_turns::LateLog;
use crate::runtime::channel::turn_start::TurnStart;
use crate::shared::Receiver;
use crate::telemetry::TurnCounters;

/// How often there is a look for stuck turns in the time after which a turn is stuck.
const STUCK_LOOKS: u64 = 8;

/// See the [module](self).
pub(crate) struct Turns {
    shared: Receiver,
    workers: Vec<Turn>,
    starts: Vec<Arc<TurnStart>>,
    quantum_ns_min: u64,
    /// When the next due turn is checked, if there is one.
    look_ns: Option<u64>,
    /// How long a request may take to yield before a warning. `None`: no warning.
    warn_after_ns: Option<u64>,
    late: LateLog,
    stuck_after: Option<StuckAfter>,
    /// When to look for stuck turns again.
    stuck_look_ns: u64,
}

/// A turn that has begun and is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunningTurn {
    pub(crate) worker: WorkerId,
    pub(crate) request: RequestId,
    pub(crate) request_type: RequestType,
    /// How long it has lasted.
    pub(crate) for_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    /// The request of the turn, until the turn is over.
    request: Option<RequestId>,
    /// The request was woken before its worker reported that it is blocked.
    is_woken: bool,
    request_type: RequestType,
    /// The turn's number, as both ends of the worker's link count.
    number: u64,
    since_ns: u64,
    is_stuck: bool,
    stop: Option<Stop>,
}

/// A decision to end a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stop {
    decided_ns: u64,
    /// The time that the turn must have had.
    quantum_ns: u64,
    /// When to check again whether the turn has had that. `None` once it was asked to yield.
    look_ns: Option<u64>,
    is_late: bool,
}

/// The shortest quantum of a mechanism: the time that a worker may take from the announcement of the turn to
/// the request's next instruction, with the registers that a signal saved, or in a thread that waited.
pub(crate) const fn quantum_ns_min(preempt: PreemptPolicy) -> u64 {
    match preempt {
        PreemptPolicy::Signal => 5_000,
        PreemptPolicy::KernelThread => 10_000,
        _ => 0,
    }
}

impl Turns {
    /// `starts` says when the turns of each worker begin.
    pub(crate) fn new(shared: Receiver, starts: Vec<Arc<TurnStart>>) -> Self {
        let idle = Turn {
            request: None,
            is_woken: false,
            request_type: RequestType::UNKNOWN,
            number: 0,
            since_ns: 0,
            is_stuck: false,
            stop: None,
        };
        let warn_ms = shared.config.preempt_warn_ms;
        Self {
            workers: vec![idle; shared.workers_each()],
            starts,
            quantum_ns_min: quantum_ns_min(shared.config.preempt),
            look_ns: None,
            warn_after_ns: (warn_ms > 0).then(|| warn_ms.saturating_mul(1_000_000)),
            late: LateLog::default(),
            stuck_after: shared.config.stuck_after(),
            stuck_look_ns: 0,
            shared,
        }
    }

    /// Records a decision of the scheduler. Returns whether to carry it out now; otherwise [`Turns::next_due`]
    /// returns it when it is due.
    #[inline]
    pub(crate) fn decided(&mut self, now_ns: u64, action: &Action) -> bool {
        match *action {
            Action::Run { worker, request, request_type, .. } => {
                let turn = &mut self.workers[worker.index()];
                *turn = Turn {
                    request: Some(request),
                    is_woken: false,
                    request_type,
                    number: turn.number + 1,
                    since_ns: now_ns,
                    is_stuck: false,
                    stop: None,
                };
                self.count(worker, |counters| counters.turns.add(1));
                true
            }
            Action::Preempt { worker, quantum_ns } => {
                self.workers[worker.index()].stop = Some(Stop {
                    decided_ns: now_ns,
                    quantum_ns: quantum_ns.max(self.quantum_ns_min),
                    look_ns: Some(now_ns),
                    is_late: false,
                });
                let is_asked = self.ask_if_had(now_ns, worker);
                self.look_ns = self.earliest_look_ns();
                is_asked
            }
            Action::Reject { .. } => true,
        }
    }

    /// The next preemption that came before the turn had had its quantum, and is due now.
    #[inline]
    pub(crate) fn next_due(&mut self, now_ns: u64) -> Option<Action> {
        if self.look_ns.is_none_or(|look_ns| look_ns > now_ns) {
            return None;
        }
        let workers = (0..self.shared.workers as u32).map(WorkerId);
        let asked = { workers }.find(|&worker| self.ask_if_had(now_ns, worker));
        self.look_ns = self.earliest_look_ns();
        let worker = asked?;
        let quantum_ns = self.workers[worker.index()].stop?.quantum_ns;
        Some(Action::Preempt { worker, quantum_ns })
    }

    fn earliest_look_ns(&self) -> Option<u64> {
        let stops = self.workers.iter().filter_map(|turn| turn.stop);
        stops.filter_map(|stop| stop.look_ns).min()
    }

    /// Checks a turn if it is time for that. Returns whether the turn is asked to yield by this call.
    fn ask_if_had(&mut self, now_ns: u64, worker: WorkerId) -> bool {
        let turn = &mut self.workers[worker.index()];
        let Some(stop) = &mut turn.stop else {
            return false;
        };
        if stop.look_ns.is_none_or(|look_ns| look_ns > now_ns) {
            return false;
        }
        let start = &self.starts[worker.index()];
        let left_ns = start.left_ns(turn.number, stop.quantum_ns, stop.decided_ns, now_ns);
        stop.look_ns = (left_ns > 0).then(|| now_ns.saturating_add(left_ns));
        if left_ns == 0 {
            self.count(worker, |counters| counters.preemptions_asked.add(1));
            let of_server = self.shared.global(worker);
            self.shared.trace.asked(self.shared.index(), of_server);
        }
        left_ns == 0
    }

    /// The request on `worker` is complete.
    #[inline]
    pub(crate) fn completed(&mut self, worker: WorkerId) {
        self.end(worker);
    }

    /// The turn that was decided for `worker` is not sent there: it never was.
    pub(crate) fn dropped(&mut self, worker: WorkerId) {
        self.completed(worker);
        self.workers[worker.index()].number -= 1;
        self.count(worker, |counters| counters.turns.sub(1));
    }

    /// The request that runs on `worker`.
    pub(crate) fn request_on(&self, worker: WorkerId) -> Option<RequestId> {
        self.workers[worker.index()].request
    }

    /// The type of the request that runs on `worker`, or ran there last.
    pub(crate) fn type_on(&self, worker: WorkerId) -> RequestType {
        self.workers[worker.index()].request_type
    }

    /// The request on `worker` was asked to yield, by others than this.
    pub(crate) fn asked(&self, worker: WorkerId) {
        self.count(worker, |counters| counters.preemptions_asked.add(1));
    }

    /// The request on `worker` yielded.
    pub(crate) fn yielded(&mut self, worker: WorkerId) {
        self.end(worker);
        self.count(worker, |counters| counters.preemptions_honoured.add(1));
    }

    /// The request on `worker` is blocked. Returns it if it was woken before.
    pub(crate) fn blocked(&mut self, worker: WorkerId) -> Option<RequestId> {
        let turn = self.workers[worker.index()];
        self.end(worker);
        turn.request.filter(|_| turn.is_woken)
    }

    /// The request on `worker` paused: it had the net thread for too long.
    pub(crate) fn paused(&mut self, worker: WorkerId) {
        self.end(worker);
        self.count(worker, |counters| counters.pauses.add(1));
    }

    /// A request that blocks on `worker` was woken. Returns whether `worker` has yet to report that it is blocked.
    pub(crate) fn woken(&mut self, worker: WorkerId, request: RequestId) -> bool {
        let Some(turn) = self.workers.get_mut(worker.index()) else {
            return false;
        };
        let is_early = turn.request == Some(request);
        turn.is_woken |= is_early;
        is_early
    }

    /// A turn that no scheduler decided has passed on `worker`, which runs no other. It may be beyond the workers that
    /// schedulers know.
    pub(crate) fn ran_aside(&mut self, worker: WorkerId, request_type: RequestType) {
        if let Some(turn) = self.workers.get_mut(worker.index()) {
            turn.number += 1;
        }
        let slot = self.shared.types.slot(request_type);
        self.shared.counters(slot).turns.turns.add(1);
        self.shared.turns(worker).turns.add(1);
    }

    fn end(&mut self, worker: WorkerId) {
        let turn = &mut self.workers[worker.index()];
        turn.stop = None;
        turn.request = None;
    }

    /// When to call [`Turns::next_due`] or [`Turns::watch`] next.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.look_ns.into_iter().chain(self.watch_ns()).min()
    }

    fn watch_ns(&self) -> Option<u64> {
        let after_ns = self.warn_after_ns?;
        let stops = self.workers.iter().filter_map(|turn| turn.stop);
        stops
            .filter(|stop| !stop.is_late)
            .map(|stop| stop.decided_ns.saturating_add(after_ns))
            .min()
    }

    /// Counts and logs turns that have not yielded in time, each turn once.
    pub(crate) fn watch(&mut self, now_ns: u64) {
        let Some(after_ns) = self.warn_after_ns else {
            return;
        };
        for (index, worker) in (0..self.workers.len()).zip((0..).map(WorkerId)) {
            let turn = &mut self.workers[index];
            let request_type = turn.request_type;
            let Some(stop) = &mut turn.stop else {
                continue;
            };
            if stop.is_late || now_ns < stop.decided_ns.saturating_add(after_ns) {
                continue;
            }
            stop.is_late = true;
            let for_ns = now_ns.saturating_sub(stop.decided_ns);
            let has_begun = stop.look_ns.is_none();
            self.count(worker, |counters| counters.preemptions_late.add(1));
            let types = &self.shared.types;
            let name = types.name_of_slot(types.slot(request_type));
            self.late.warn(now_ns, index, name, for_ns, has_begun);
        }
    }

    /// The next turn that is stuck and was not returned before, by the mean service time of each type; 0 is unknown.
    #[inline]
    pub(crate) fn next_stuck(&mut self, now_ns: u64, mean_ns: impl Fn(RequestType) -> f64) -> Option<RunningTurn> {
        let after = self.stuck_after?;
        if now_ns < self.stuck_look_ns {
            return None;
        }
        for (turn, worker) in self.workers.iter_mut().zip((0..).map(WorkerId)) {
            let for_ns = now_ns.saturating_sub(turn.since_ns);
            let Some(request) = turn.request.filter(|_| !turn.is_stuck) else {
                continue;
            };
            let request_type = turn.request_type;
            if for_ns >= after.time_ns && for_ns >= after.service_ns(mean_ns(request_type)) {
                turn.is_stuck = true;
                self.count_stuck(worker);
                return Some(RunningTurn { worker, request, request_type, for_ns });
            }
        }
        self.stuck_look_ns = now_ns.saturating_add(after.time_ns / STUCK_LOOKS);
        None
    }

    /// The turn on `worker`, unless it was decided that it ends.
    #[inline]
    pub(crate) fn unasked(&self, now_ns: u64, worker: WorkerId) -> Option<RunningTurn> {
        let turn = self.workers.get(worker.index())?;
        let request = turn.request.filter(|_| turn.stop.is_none())?;
        Some(RunningTurn {
            worker,
            request,
            request_type: turn.request_type,
            for_ns: now_ns.saturating_sub(turn.since_ns),
        })
    }

    /// Counts a request on `worker` that may never end.
    pub(crate) fn count_stuck(&self, worker: WorkerId) {
        self.count(worker, |counters| counters.stuck.add(1));
    }

    /// Counts for `worker` and for the type of the request that runs there.
    #[inline]
    fn count(&self, worker: WorkerId, count: impl Fn(&TurnCounters)) {
        let slot = self.shared.types.slot(self.workers[worker.index()].request_type);
        count(&self.shared.counters(slot).turns);
        count(self.shared.turns(worker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::runtime::channel::turn_start::{LOOK_NS_MAX, LOOK_NS_MIN};
    use psp_policy::HandOff;
    use psp_policy::TypeSpec;

    const LONG: RequestType = RequestType::new(0);
    const MS: u64 = 1_000_000;

    /// Two workers.
    fn turns(preempt_warn_ms: u64) -> Turns {
        turns_by(PreemptPolicy::Cooperative, preempt_warn_ms)
    }

    /// The same where requests yield by `preempt`.
    fn turns_by(preempt: PreemptPolicy, preempt_warn_ms: u64) -> Turns {
        let config = Config { preempt, preempt_warn_ms, ..Config::default() };
        let types = [TypeSpec::new("LONG")].into_iter().collect();
        let shared = Receiver::example(config, types, 2);
        let starts = (0..2).map(|_| Arc::new(TurnStart::new())).collect();
        Turns::new(shared, starts)
    }

    /// Sends `worker` a request, which the worker has not begun yet.
    fn send(turns: &mut Turns, now_ns: u64, worker: u32) {
        let action = Action::Run {
            worker: WorkerId(worker),
            request: RequestId(worker),
            request_type: LONG,
            hand_off: HandOff::Dispatched,
        };
        assert!(turns.decided(now_ns, &action));
    }

    /// The turn begins now.
    fn begin(turns: &Turns, now_ns: u64, worker: usize) {
        let number = turns.workers[worker].number;
        turns.starts[worker].announce(number, now_ns);
    }

    fn run(turns: &mut Turns, now_ns: u64, worker: u32) {
        send(turns, now_ns, worker);
        begin(turns, now_ns, worker as usize);
    }

    /// Returns whether the turn is asked at once.
    fn ask(turns: &mut Turns, now_ns: u64, worker: u32, quantum_ns: u64) -> bool {
        let worker = WorkerId(worker);
        turns.decided(now_ns, &Action::Preempt { worker, quantum_ns })
    }

    /// The worker that is asked at `now_ns`.
    fn due(turns: &mut Turns, now_ns: u64) -> Option<u32> {
        let action = turns.next_due(now_ns)?;
        match action {
            Action::Preempt { worker, .. } => Some(worker.0),
            other => panic!("{other:?}"),
        }
    }

    /// Turns, asked, honoured, late: of `worker`, and of all by type.
    fn counted(turns: &Turns, worker: usize) -> ([u64; 4], [u64; 4]) {
        let read = |counters: &TurnCounters| {
            [
                counters.turns.get(),
                counters.preemptions_asked.get(),
                counters.preemptions_honoured.get(),
                counters.preemptions_late.get(),
            ]
        };
        let worker = WorkerId(worker as u32);
        (read(turns.shared.turns(worker)), read(&turns.shared.counters(0).turns))
    }

    #[test]
    fn a_request_that_yields_is_counted_and_one_that_completes_first_is_not() {
        let mut turns = turns(100);
        run(&mut turns, 0, 0);
        run(&mut turns, 0, 1);
        assert!(ask(&mut turns, 5, 0, 5));
        assert!(ask(&mut turns, 5, 1, 5));
        turns.yielded(WorkerId(0));
        turns.completed(WorkerId(1));
        run(&mut turns, 9, 0);
        turns.completed(WorkerId(0));
        assert_eq!(counted(&turns, 0), ([2, 1, 1, 0], [3, 2, 1, 0]));
        assert_eq!(counted(&turns, 1).0, [1, 1, 0, 0]);
        assert_eq!(turns.deadline_ns(), None);
    }

    #[test]
    fn a_dropped_turn_leaves_no_trace() {
        let mut turns = turns(100);
        send(&mut turns, 0, 0);
        turns.dropped(WorkerId(0));
        assert_eq!(counted(&turns, 0), ([0; 4], [0; 4]));
        run(&mut turns, 5, 0);
        assert_eq!(turns.workers[0].number, 1, "as the worker counts");
        assert!(ask(&mut turns, 9, 0, 4));
    }

    #[test]
    fn a_quantum_runs_from_when_the_turn_began() {
        let mut turns = turns(0);
        run(&mut turns, 0, 0);
        send(&mut turns, 0, 1);
        begin(&turns, 60, 1);
        assert!(ask(&mut turns, 100, 0, 100));
        assert!(!ask(&mut turns, 100, 1, 100), "it had 40");
        assert_eq!(turns.deadline_ns(), Some(160));
        assert_eq!(due(&mut turns, 159), None);
        assert_eq!(due(&mut turns, 160), Some(1));
        assert_eq!(due(&mut turns, 1_000), None, "each once");
        assert_eq!(turns.deadline_ns(), None);
        assert_eq!(counted(&turns, 1).0, [1, 1, 0, 0]);
    }

    #[test]
    fn a_request_that_completes_before_its_quantum_is_over_is_never_asked() {
        let mut turns = turns(0);
        send(&mut turns, 0, 0);
        assert!(!ask(&mut turns, 10, 0, 10));
        turns.completed(WorkerId(0));
        run(&mut turns, 20, 0);
        assert_eq!(due(&mut turns, u64::MAX), None);
        assert_eq!(counted(&turns, 0).0, [2, 0, 0, 0]);
    }

    #[test]
    fn a_turn_that_does_not_begin_is_checked_ever_more_rarely_and_holds_up_no_other() {
        let mut turns = turns(100);
        send(&mut turns, 0, 0);
        assert!(!ask(&mut turns, 1_000, 0, 1_000));
        let mut looks = Vec::new();
        while let Some(at_ns) = turns.deadline_ns().filter(|&at_ns| at_ns < 100 * MS) {
            looks.push(at_ns);
            assert_eq!(due(&mut turns, at_ns), None);
        }
        let waits = looks.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(waits.clone().is_sorted() && waits.max() == Some(LOOK_NS_MAX));
        assert!(looks.len() < 120, "{}", looks.len());
        run(&mut turns, 50 * MS, 1);
        assert!(ask(&mut turns, 60 * MS, 1, 1_000));
        turns.yielded(WorkerId(1));
        turns.watch(101 * MS);
        assert_eq!(counted(&turns, 0).0, [1, 0, 0, 1], "it is late all the same");
        begin(&turns, 200 * MS, 0);
        assert_eq!(due(&mut turns, 200 * MS + 999), None);
        assert_eq!(due(&mut turns, 200 * MS + 1_000), Some(0));
    }

    #[test]
    fn a_turn_that_has_not_begun_is_not_checked_before_its_quantum_could_be_over() {
        for quantum_ns in [MS / 2, 7 * MS] {
            let mut turns = turns(0);
            send(&mut turns, 0, 0);
            assert!(!ask(&mut turns, quantum_ns, 0, quantum_ns));
            assert_eq!(turns.deadline_ns(), Some(2 * quantum_ns));
            begin(&turns, quantum_ns + 1, 0);
            assert_eq!(due(&mut turns, 2 * quantum_ns), None, "it has had less");
            assert_eq!(turns.deadline_ns(), Some(2 * quantum_ns + 1));
            assert_eq!(due(&mut turns, 2 * quantum_ns + 1), Some(0));
        }
    }

    #[test]
    fn several_turns_that_are_due_at_once_are_asked_one_by_one() {
        let mut turns = turns(0);
        for worker in [0, 1] {
            send(&mut turns, 0, worker);
            assert!(!ask(&mut turns, 5, worker, 5));
            begin(&turns, 10, worker as usize);
        }
        let asked = [LOOK_NS_MIN + 5; 3].map(|now_ns| due(&mut turns, now_ns));
        assert_eq!(asked, [Some(0), Some(1), None]);
    }

    #[test]
    fn quanta_are_no_shorter_than_what_a_mechanism_needs_to_begin() {
        for (preempt, least_ns) in [
            (PreemptPolicy::Cooperative, 1),
            (PreemptPolicy::Signal, 5_000),
            (PreemptPolicy::KernelThread, 10_000),
        ] {
            let mut turns = turns_by(preempt, 0);
            run(&mut turns, 0, 0);
            run(&mut turns, 0, 1);
            assert!(!ask(&mut turns, 0, 0, 1), "{preempt}");
            assert!(!ask(&mut turns, 0, 1, 70_000));
            assert_eq!(turns.deadline_ns(), Some(least_ns), "{preempt}");
            assert_eq!(due(&mut turns, least_ns - 1), None);
            assert_eq!(due(&mut turns, least_ns), Some(0));
            assert_eq!(turns.deadline_ns(), Some(70_000), "longer ones stay");
        }
    }

    #[test]
    fn a_request_that_does_not_yield_is_late_once() {
        let mut turns = turns(100);
        run(&mut turns, 0, 1);
        run(&mut turns, 0, 0);
        ask(&mut turns, 7 * MS, 1, MS);
        ask(&mut turns, 9 * MS, 0, MS);
        assert_eq!(turns.watch_ns(), Some(107 * MS));
        turns.watch(107 * MS - 1);
        assert_eq!(counted(&turns, 1).0, [1, 1, 0, 0]);
        turns.watch(107 * MS);
        turns.watch(108 * MS);
        assert_eq!(counted(&turns, 1).0, [1, 1, 0, 1]);
        assert_eq!(turns.watch_ns(), Some(109 * MS));
        turns.completed(WorkerId(0));
        turns.yielded(WorkerId(1));
        assert_eq!(counted(&turns, 1).1, [2, 2, 1, 1]);
        assert_eq!(turns.watch_ns(), None);
    }

    #[test]
    fn a_turn_is_stuck_once_after_both_bounds_and_not_when_it_has_ended() {
        let mut turns = turns(0);
        turns.stuck_after = Some(StuckAfter::new(80 * MS, 10));
        run(&mut turns, 0, 0);
        run(&mut turns, 20 * MS, 1);
        let worker = |stuck: RunningTurn| (stuck.worker.0, stuck.for_ns / MS);
        let known = |_| 9.0 * MS as f64;
        assert_eq!(turns.next_stuck(80 * MS, known), None, "9 means");
        assert_eq!(turns.next_stuck(90 * MS, known).map(worker), Some((0, 90)));
        assert_eq!(turns.next_stuck(90 * MS, known), None, "once");
        turns.completed(WorkerId(1));
        run(&mut turns, 95 * MS, 1);
        assert_eq!(turns.next_stuck(110 * MS, |_| 0.0), None, "another turn");
        assert_eq!(turns.next_stuck(174 * MS, |_| 0.0), None);
        assert_eq!(turns.next_stuck(184 * MS, |_| 0.0).map(worker), Some((1, 89)));
        let stuck = |turns: &Turns| turns.shared.counters(0).turns.stuck.get();
        assert_eq!(stuck(&turns), 2);
        turns.stuck_after = None;
        run(&mut turns, 200 * MS, 0);
        assert_eq!(turns.next_stuck(u64::MAX, |_| 0.0), None);
    }

    #[test]
    fn the_watch_can_be_off() {
        let mut turns = turns(0);
        run(&mut turns, 0, 0);
        ask(&mut turns, 0, 0, 0);
        turns.watch(u64::MAX);
        assert_eq!((turns.watch_ns(), counted(&turns, 0).0[3]), (None, 0));
    }
}
