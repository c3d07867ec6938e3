//! Policies from outside the crate.

use psp_policy::conformance::{self, Order, Preempts, Promises};
use psp_policy::{
    Action, Custom, Event, Handover, Policy, PreemptionUse, Scheduler, SchedulerSetup, TypeStatus, TypeTable,
    TypedQueues, WorkerId,
};

/// Serves the first type that can run, and has the others yield where requests migrate.
struct FirstType {
    queues: TypedQueues,
    preempts: bool,
    present: usize,
    hands_over: bool,
}

impl Scheduler for FirstType {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        if let Event::Workers { present } = event {
            self.present = present;
        }
        self.queues.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.queues.next_refused() {
            return Some(refused);
        }
        let mut slots = 0..self.queues.slots();
        if let Some(slot) = slots.clone().find(|&slot| self.queues.can_run(slot)) {
            return self.queues.run(now_ns, slot);
        }
        let anyone_waits = slots.any(|slot| self.queues.queued(slot) > 0);
        let running = self.queues.running().map(|(worker, ..)| worker);
        let present: Vec<WorkerId> = running
            .filter(|worker| worker.index() < self.present && anyone_waits && self.preempts)
            .collect();
        let mut present = present.into_iter();
        present.find_map(|worker| self.queues.preempt(worker, 0))
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        self.hands_over.then_some(&mut self.queues)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.queues.type_status(slot)
    }
}

fn first_type(hands_over: bool) -> Policy {
    let scheduler = move |setup: &SchedulerSetup<'_>| -> Box<dyn Scheduler> {
        Box::new(FirstType {
            queues: TypedQueues::new(setup),
            preempts: setup.preemption.is_some() && setup.contexts.migrates,
            present: setup.present,
            hands_over,
        })
    };
    Custom::new("first-type", scheduler).preemption(PreemptionUse::WherePossible).into()
}

#[test]
fn typed_queues_keep_promises() {
    let promises = Promises {
        order: Order::ArrivalInType,
        preempts: Preempts::ForOthers,
        ..Promises::default()
    };
    for hands_over in [true, false] {
        assert_eq!(conformance::check(&first_type(hands_over), &promises), Ok(()));
    }
}

#[test]
fn a_custom_policy_equals_its_clones_and_serialises_as_its_name() {
    let (one, other) = (first_type(true), first_type(true));
    assert_eq!(one, one.clone());
    assert_ne!(one, other);
    let table = std::collections::BTreeMap::from([("policy", &one)]);
    assert_eq!(toml::to_string(&table).unwrap(), "policy = \"first-type\"\n");
    assert_eq!((one.spelled().as_str(), one.to_string().as_str()), ("first-type", "first-type"));
    assert!(one.can_preempt() && !one.needs_preemption() && one.has_dispatcher());
    assert!(one.validate(1).is_ok());
    for name in ["", "darc"] {
        let taken = Policy::custom(name, |_| unreachable!("it is not run"));
        assert!(taken.validate(1).is_err(), "{name}");
    }
    let types = TypeTable::new();
    let setup = SchedulerSetup::new(1, &types).queue_capacity(1).seed(0);
    assert!(one.can_switch(&setup));
    assert!(!first_type(false).can_switch(&setup));
}
