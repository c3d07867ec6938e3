//! Weighted round robin keeps its weights: types whose queues are never empty start requests in the ratio of
//! their weights, over any period, whatever other types do.

use proptest::prelude::*;
use psp_policy::{
    Action, Event, Policy, RequestId, RequestType, Scheduler, SchedulerSetup, TypeSpec, TypeTable, WorkerId,
};

/// Types that always have a request that waits. Further types have some now and then.
const BUSY: usize = 2;

/// A scheduler, and what started so far.
struct Driven {
    scheduler: Box<dyn Scheduler>,
    types: usize,
    workers_busy: Vec<bool>,
    arrived: u32,
    /// The slot of each request, by its number.
    slots: Vec<usize>,
    /// The slot of each request that started, in order.
    started: Vec<usize>,
}

impl Driven {
    fn new(workers: usize, types: &TypeTable) -> Self {
        Self {
            scheduler: Policy::wrr().scheduler(&SchedulerSetup::new(workers, types)),
            types: types.len(),
            workers_busy: vec![false; workers],
            arrived: 0,
            slots: Vec::new(),
            started: Vec::new(),
        }
    }

    fn arrives(&mut self, slot: usize) {
        let index = if slot == self.types {
            RequestType::UNKNOWN
        } else {
            RequestType::new(slot as u32)
        };
        self.slots.push(slot);
        let arrived = Event::Arrived {
            request: RequestId(self.arrived),
            request_type: index,
            deadline_ns: None,
        };
        self.arrived += 1;
        self.scheduler.on_event(0, arrived);
    }

    /// The worker completes its request, if it has one, and all workers get what they can.
    fn completes(&mut self, worker: usize) {
        if std::mem::take(&mut self.workers_busy[worker]) {
            let completed = Event::Completed {
                worker: WorkerId(worker as u32),
                samples: &[],
                dropped: false,
            };
            self.scheduler.on_event(0, completed);
        }
        loop {
            for slot in 0..BUSY {
                if self.scheduler.type_status(slot).queued == 0 {
                    self.arrives(slot);
                }
            }
            match self.scheduler.poll(0) {
                Some(Action::Run { request, worker, .. }) => {
                    let was_busy = std::mem::replace(&mut self.workers_busy[worker.index()], true);
                    assert!(!was_busy);
                    self.started.push(self.slots[request.0 as usize]);
                }
                Some(other) => panic!("{other:?}"),
                None => return,
            }
        }
    }
}

proptest! {
    #[test]
    fn types_that_always_wait_start_requests_in_the_ratio_of_their_weights(
        weights in prop::collection::vec(1..7_u32, 4),
        workers in 1..5_usize,
        steps in prop::collection::vec((any::<usize>(), prop::option::of(0..4_usize)), 1..400),
    ) {
        let types = weights.iter().map(|&weight| TypeSpec::new("T").weight(weight));
        let types: TypeTable = types.collect();
        let mut driven = Driven::new(workers, &types);
        for (worker, other) in steps {
            if let Some(other) = other {
                driven.arrives(BUSY + other % 3);
            }
            driven.completes(worker % workers);
        }
        // What one type is ahead by, in requests times the other's weight. Over any period it changes by no more
        // than one turn.
        let (mut ahead, mut most, mut least) = (0_i64, 0_i64, 0_i64);
        for &slot in &driven.started {
            ahead += match slot {
                0 => i64::from(weights[1]),
                1 => -i64::from(weights[0]),
                _ => 0,
            };
            (most, least) = (most.max(ahead), least.min(ahead));
        }
        let turn = i64::from(weights[0] * weights[1]);
        prop_assert!(most - least <= turn, "{} of {turn}: {:?}", most - least, driven.started);
    }

    #[test]
    fn a_type_waits_for_no_more_than_the_turns_of_the_others(
        weights in prop::collection::vec(1..7_u32, 2..5),
        late in any::<prop::sample::Index>(),
    ) {
        let types = weights.iter().map(|&weight| TypeSpec::new("T").weight(weight));
        let types: TypeTable = types.collect();
        let late = late.index(weights.len());
        let others: u32 = weights.iter().sum::<u32>() - weights[late];
        let mut driven = Driven::new(1, &types);
        let others_wait = (0..weights.len()).filter(|&slot| slot != late);
        for slot in others_wait.flat_map(|slot| [slot; 20]) {
            driven.arrives(slot);
        }
        driven.arrives(late);
        while !driven.started.contains(&late) {
            driven.completes(0);
        }
        let before = driven.started.len() - 1;
        prop_assert!(before <= others as usize, "{:?}", driven.started);
    }
}
