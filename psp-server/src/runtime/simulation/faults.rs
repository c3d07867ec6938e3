//! Faults that no server may have, for tests of the checks.

use psp_policy::{Action, Event, Scheduler, TypeStatus};

/// A component that does not do what it should. Once in a few hundred times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Fault {
    #[default]
    None,
    /// The handler writes a reply twice.
    AnswersTwice,
    /// The handler writes no reply.
    AnswersNot,
    /// The handler writes a wrong byte.
    WrongByte,
    /// A deferred reply is forgotten.
    Forgets,
    /// The handler gets a request again.
    RunsTwice,
    /// The socket loses bytes.
    LosesBytes,
    /// The dispatcher's scheduler loses a request.
    LosesRequest,
    /// Memory that was taken from the budget is not given back.
    LeaksBudget,
    /// The handler passes no checkpoint on the net thread.
    HoldsThread,
    /// The type of requests that kill others is no control type.
    ControlWaits,
}

/// How often a faulty component fails: once in so many times.
pub(super) const ONCE_IN: u64 = 300;

/// A scheduler that loses one of its requests.
pub(super) struct Losing {
    inner: Box<dyn Scheduler>,
    arrived: u64,
}

impl Losing {
    pub(super) fn new(inner: Box<dyn Scheduler>) -> Self {
        Self { inner, arrived: 0 }
    }
}

impl Scheduler for Losing {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        if matches!(event, Event::Arrived { .. }) {
            self.arrived += 1;
            if self.arrived == ONCE_IN {
                return;
            }
        }
        self.inner.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        self.inner.poll(now_ns)
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.inner.deadline_ns()
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.inner.type_status(slot)
    }
}
