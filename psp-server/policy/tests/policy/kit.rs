//! The conformance kit names the promise that a policy breaks. Each fault here breaks one.

use psp_policy::conformance::{self, AllowedWorkers, Idling, Order, Promise, Promises};
use psp_policy::{
    Action, Custom, Darc, Event, Handover, Policy, PreemptionUse, Scheduler, SchedulerSetup,
    TypeStatus, TypedQueues,
};

/// What is wrong with a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Every fourth arrival is ignored.
    Loses,
    /// The last action is given twice.
    Repeats,
    /// Requests run on worker 0 only.
    Idles,
    /// No refusal is reported.
    Swallows,
    /// The deadline is always 0.
    IsLate,
    /// A worker is asked to stop as soon as its request has started, and again.
    AsksTwice,
    /// A worker is asked to stop whether or not a request waits.
    PreemptsForNone,
    /// The telemetry is that of the trait.
    CountsNothing,
    /// It does not hear of workers that come and go.
    Deaf,
    /// It has no handover.
    KeepsAll,
}

/// Serves the first type that can run.
struct Faulty {
    fault: Fault,
    queues: TypedQueues,
    arrivals: u64,
    last: Option<Action>,
    preemptive: bool,
}

impl Faulty {
    fn preempts(&mut self) -> Option<Action> {
        if !self.preemptive {
            return None;
        }
        let wanted = match self.fault {
            Fault::AsksTwice => (0..self.queues.slots()).any(|slot| self.queues.queued(slot) > 0),
            Fault::PreemptsForNone => true,
            _ => return None,
        };
        let worker = self.queues.running().map(|(worker, ..)| worker).next()?;
        let action = self.queues.preempt(worker, 0).filter(|_| wanted);
        if self.fault == Fault::AsksTwice {
            return action.or(self.last.take());
        }
        action
    }
}

impl Scheduler for Faulty {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        if matches!(event, Event::Arrived { .. }) {
            self.arrivals += 1;
            if self.fault == Fault::Loses && self.arrivals.is_multiple_of(4) {
                return;
            }
        }
        if matches!(event, Event::Workers { .. }) && self.fault == Fault::Deaf {
            return;
        }
        self.queues.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        while let Some(refused) = self.queues.next_refused() {
            if self.fault != Fault::Swallows {
                return Some(refused);
            }
        }
        if self.fault == Fault::Repeats && self.last.is_some() {
            return self.last.take();
        }
        if self.fault == Fault::Idles && self.queues.running().count() > 0 {
            return None;
        }
        let slot = (0..self.queues.slots()).find(|&slot| self.queues.can_run(slot));
        let action = slot.and_then(|slot| self.queues.run(now_ns, slot));
        if self.fault == Fault::Repeats {
            self.last = action;
        }
        action.or_else(|| {
            let action = self.preempts();
            self.last = action;
            action
        })
    }

    fn deadline_ns(&self) -> Option<u64> {
        (self.fault == Fault::IsLate).then_some(0)
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        (self.fault != Fault::KeepsAll).then_some(&mut self.queues)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        match self.fault {
            Fault::CountsNothing => TypeStatus::default(),
            _ => self.queues.type_status(slot),
        }
    }
}

fn policy(fault: Fault) -> Policy {
    let scheduler = move |setup: &SchedulerSetup<'_>| -> Box<dyn Scheduler> {
        Box::new(Faulty {
            fault,
            queues: TypedQueues::new(setup),
            arrivals: 0,
            last: None,
            preemptive: setup.preemption.is_some(),
        })
    };
    Custom::new("faulty", scheduler)
        .preemption(PreemptionUse::WherePossible)
        .into()
}

fn promises() -> Promises {
    Promises {
        order: Order::ArrivalInType,
        ..Promises::default()
    }
}

#[test]
fn a_policy_that_keeps_its_promises_passes() {
    for fault in [Fault::None, Fault::KeepsAll] {
        assert_eq!(conformance::check(&policy(fault), &promises()), Ok(()));
    }
}

#[test]
fn each_broken_promise_is_named() {
    for (fault, promise) in [
        (Fault::Repeats, Promise::NothingTwice),
        (Fault::Idles, Promise::WorkConserving),
        (Fault::Swallows, Promise::RefusedOnlyWhenFull),
        (Fault::IsLate, Promise::Deadline),
        (Fault::PreemptsForNone, Promise::PreemptsForOthers),
        (Fault::CountsNothing, Promise::Telemetry),
        (Fault::Deaf, Promise::PresentWorkers),
    ] {
        let broken = conformance::check(&policy(fault), &promises()).unwrap_err();
        assert_eq!(broken.promise, promise, "{fault:?}: {broken}");
        assert!(broken.case.contains("workers"), "{}", broken.case);
    }
}

#[test]
fn faults_that_break_several_promises_are_found_without_telemetry() {
    let promises = Promises {
        idling: Idling::BesideQueues {
            queued_max: usize::MAX,
        },
        telemetry: false,
        ..promises()
    };
    let broken = conformance::check(&policy(Fault::Loses), &promises).unwrap_err();
    assert_eq!(broken.promise, Promise::NothingLost, "{broken}");
}

#[test]
fn a_request_is_asked_to_stop_once() {
    use psp_policy::conformance::Preempts;
    let promises = Promises {
        preempts: Preempts::ForOthers,
        ..promises()
    };
    let broken = conformance::check(&policy(Fault::AsksTwice), &promises).unwrap_err();
    assert_eq!(broken.promise, Promise::PreemptsOnce, "{broken}");
}

/// DARC, and DARC that was not told which worker is the driver's own thread.
#[test]
fn a_policy_that_begins_unknown_lengths_on_the_own_thread_is_found() {
    let forgetful = Policy::custom("forgetful", |setup| {
        Policy::darc().scheduler(&setup.clone().inline(false))
    });
    let promises = Promises {
        order: Order::ShortestGroup,
        workers: AllowedWorkers::Reservation(Darc::default()),
        own_thread_spared: true,
        own_thread_first: false,
        relieves: true,
        ..Promises::default()
    };
    let broken = conformance::check(&forgetful, &promises).unwrap_err();
    assert_eq!(broken.promise, Promise::OwnThreadSpared, "{broken}");
    let promises = Promises {
        own_thread_first: true,
        ..promises
    };
    assert_eq!(conformance::check(&Policy::darc(), &promises), Ok(()));
}

/// DARC that was not told when requests are stuck, and DARC that takes the driver's own thread for any other worker.
#[test]
fn a_policy_that_relieves_no_group_or_on_the_own_thread_is_found() {
    type Change = fn(&SchedulerSetup<'_>) -> Box<dyn Scheduler>;
    let patient: Change = |setup| Policy::darc().scheduler(&setup.clone().stuck(None));
    let greedy: Change = |setup| Policy::darc().scheduler(&setup.clone().inline(false));
    for (name, change, promise) in [
        ("patient", patient, Promise::Relieved),
        ("greedy", greedy, Promise::AllowedWorkers),
    ] {
        let promises = Promises {
            order: Order::ShortestGroup,
            workers: AllowedWorkers::Reservation(Darc::default()),
            own_thread_first: false,
            relieves: true,
            ..Promises::default()
        };
        let broken = conformance::check(&Policy::custom(name, change), &promises).unwrap_err();
        assert_eq!(broken.promise, promise, "{broken}");
    }
}

#[test]
fn a_custom_policy_equals_its_clones_and_serialises_as_its_name() {
    let (one, other) = (policy(Fault::None), policy(Fault::None));
    assert_eq!(one, one.clone());
    assert_ne!(one, other);
    let table = std::collections::BTreeMap::from([("policy", &one)]);
    assert_eq!(toml::to_string(&table).unwrap(), "policy = \"faulty\"\n");
    assert_eq!(
        (one.spelled().as_str(), one.to_string().as_str()),
        ("faulty", "faulty")
    );
    assert!(one.can_preempt() && !one.needs_preemption() && one.has_dispatcher());
    assert!(one.validate(1).is_ok());
    for name in ["", "darc"] {
        let taken = Policy::custom(name, |_| unreachable!("it is not run"));
        assert!(taken.validate(1).is_err(), "{name}");
    }
    let types = psp_policy::TypeTable::new();
    let setup = SchedulerSetup::new(1, &types).queue_capacity(1).seed(0);
    assert!(one.can_switch(&setup));
    assert!(!policy(Fault::KeepsAll).can_switch(&setup));
}
