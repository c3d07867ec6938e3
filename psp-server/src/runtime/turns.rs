//! What runs on each worker, as the net thread knows it, and who was asked to give way.
//!
//! ```text
//!            Run                   Preempt                  preempt_warn_ms
//!   Idle ──────────► Running ──────────────────► Asked ─────────────────────► Late: counted, logged
//!     ▲                 │ Completed               │ Yielded: honoured           │
//!     └─────────────────┴─────────────────────────┴─────────────────────────────┘
//! ```

use std::sync::Arc;

use super::shared::Shared;
use crate::policy::{Action, WorkerId};
use crate::preempt::PreemptPolicy;
use crate::request_type::RequestType;
use crate::telemetry::TurnCounters;

/// At most one warning in this time, of all workers.
const WARN_INTERVAL_NS: u64 = 1_000_000_000;

/// See the [module](self).
pub(crate) struct Turns {
    shared: Arc<Shared>,
    workers: Vec<Turn>,
    /// How long a request may take to give way. `None` for ever.
    warn_after_ns: Option<u64>,
    warn_again_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    request_type: RequestType,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    /// Asked to give way at this time.
    Asked(u64),
    /// Asked too long ago.
    Late,
}

impl Turns {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let idle = Turn {
            request_type: RequestType::UNKNOWN,
            state: State::Idle,
        };
        let warn_ms = shared.config.preempt_warn_ms;
        Self {
            workers: vec![idle; shared.workers],
            warn_after_ns: (warn_ms > 0).then(|| warn_ms.saturating_mul(1_000_000)),
            warn_again_ns: 0,
            shared,
        }
    }

    /// Takes note of what the scheduler decided.
    pub(crate) fn decided(&mut self, now_ns: u64, action: &Action) {
        match *action {
            Action::Run {
                worker,
                request_type,
                ..
            } => {
                self.workers[worker.index()] = Turn {
                    request_type,
                    state: State::Running,
                };
                self.count(worker, |counters| counters.turns.add(1));
            }
            Action::Preempt { worker } if self.gives_way(worker) => {
                self.workers[worker.index()].state = State::Asked(now_ns);
                self.count(worker, |counters| counters.preemptions_asked.add(1));
            }
            Action::Preempt { .. } | Action::Reject { .. } => {}
        }
    }

    /// Whether what runs on `worker` is of a type that gives way. A scheduler that asks another one has
    /// the worker when that is done, as it would where the request was faster than the asking.
    pub(crate) fn gives_way(&self, worker: WorkerId) -> bool {
        let Turn { request_type, .. } = self.workers[worker.index()];
        self.shared.preempt[self.shared.types.slot(request_type)] != PreemptPolicy::None
    }

    /// What ran on `worker` is done.
    pub(crate) fn completed(&mut self, worker: WorkerId) {
        self.workers[worker.index()].state = State::Idle;
    }

    /// What ran on `worker` gave way.
    pub(crate) fn yielded(&mut self, worker: WorkerId) {
        let before = std::mem::replace(&mut self.workers[worker.index()].state, State::Idle);
        if matches!(before, State::Asked(_) | State::Late) {
            self.count(worker, |counters| counters.preemptions_honoured.add(1));
        }
    }

    /// When [`Turns::watch`] has something to do next.
    pub(crate) fn watch_ns(&self) -> Option<u64> {
        let after_ns = self.warn_after_ns?;
        let asked = self.workers.iter().filter_map(|turn| match turn.state {
            State::Asked(asked_ns) => Some(asked_ns.saturating_add(after_ns)),
            State::Idle | State::Running | State::Late => None,
        });
        asked.min()
    }

    /// Counts and logs those that have not given way in time, each turn once.
    pub(crate) fn watch(&mut self, now_ns: u64) {
        let Some(after_ns) = self.warn_after_ns else {
            return;
        };
        for index in 0..self.workers.len() {
            let Turn {
                request_type,
                state,
            } = self.workers[index];
            let State::Asked(asked_ns) = state else {
                continue;
            };
            if now_ns < asked_ns.saturating_add(after_ns) {
                continue;
            }
            self.workers[index].state = State::Late;
            let worker = WorkerId(u32::try_from(index).expect("workers are counted in u32"));
            self.count(worker, |counters| counters.preemptions_late.add(1));
            if now_ns >= self.warn_again_ns {
                self.warn_again_ns = now_ns.saturating_add(WARN_INTERVAL_NS);
                let types = &self.shared.types;
                tracing::warn!(
                    "worker {index} has not given way for {} ms: {} blocks, reaches no checkpoint, \
                     or runs in no_preempt",
                    (now_ns - asked_ns) / 1_000_000,
                    types.name_of_slot(types.slot(request_type)),
                );
            }
        }
    }

    /// Counts something for `worker` and for the type of what runs there.
    fn count(&self, worker: WorkerId, count: impl Fn(&TurnCounters)) {
        let telemetry = &self.shared.telemetry;
        let slot = self
            .shared
            .types
            .slot(self.workers[worker.index()].request_type);
        count(&telemetry.types[slot].0.turns);
        count(&telemetry.turns[worker.index()].0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::policy::{HandOff, RequestId};
    use crate::request_type::TypeSpec;

    const LONG: RequestType = RequestType::new(0);
    const MS: u64 = 1_000_000;

    fn turns(preempt_warn_ms: u64) -> Turns {
        let config = Config {
            preempt_warn_ms,
            ..Config::default()
        };
        let types = [TypeSpec::new("LONG")].into_iter().collect();
        Turns::new(Arc::new(Shared::example(config, types, 2)))
    }

    fn run(turns: &mut Turns, now_ns: u64, worker: u32) {
        let run = Action::Run {
            worker: WorkerId(worker),
            request: RequestId(9),
            request_type: LONG,
            hand_off: HandOff::Dispatched,
        };
        turns.decided(now_ns, &run);
    }

    fn preempt(turns: &mut Turns, now_ns: u64, worker: u32) {
        let worker = WorkerId(worker);
        turns.decided(now_ns, &Action::Preempt { worker });
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
        let telemetry = &turns.shared.telemetry;
        (
            read(&telemetry.turns[worker].0),
            read(&telemetry.types[0].0.turns),
        )
    }

    #[test]
    fn who_gives_way_is_counted_and_who_was_faster_is_not() {
        let mut turns = turns(100);
        run(&mut turns, 0, 0);
        run(&mut turns, 0, 1);
        preempt(&mut turns, 5, 0);
        preempt(&mut turns, 5, 1);
        turns.yielded(WorkerId(0));
        turns.completed(WorkerId(1));
        run(&mut turns, 9, 0);
        turns.yielded(WorkerId(0));
        assert_eq!(counted(&turns, 0), ([2, 1, 1, 0], [3, 2, 1, 0]));
        assert_eq!(counted(&turns, 1).0, [1, 1, 0, 0]);
        assert_eq!(turns.watch_ns(), None);
    }

    #[test]
    fn who_does_not_is_late_once() {
        let mut turns = turns(100);
        run(&mut turns, 0, 1);
        run(&mut turns, 0, 0);
        preempt(&mut turns, 7 * MS, 1);
        preempt(&mut turns, 9 * MS, 0);
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
    fn a_type_that_never_gives_way_is_not_asked() {
        let mut turns = turns(100);
        let shared = Arc::get_mut(&mut turns.shared).unwrap();
        shared.preempt[0] = PreemptPolicy::None;
        run(&mut turns, 0, 0);
        preempt(&mut turns, 5, 0);
        assert!(!turns.gives_way(WorkerId(0)));
        assert_eq!(counted(&turns, 0), ([1, 0, 0, 0], [1, 0, 0, 0]));
        assert_eq!(turns.watch_ns(), None);
    }

    #[test]
    fn the_watch_can_be_off() {
        let mut turns = turns(0);
        run(&mut turns, 0, 0);
        preempt(&mut turns, 0, 0);
        turns.watch(u64::MAX);
        assert_eq!((turns.watch_ns(), counted(&turns, 0).0[3]), (None, 0));
    }
}
