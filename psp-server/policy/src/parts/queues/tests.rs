//! Lanes and bounds by example, and queues beside plain lists.

use proptest::prelude::*;

use super::*;
use crate::backlog::BacklogRequest;
use crate::rehearsal::setup;
use crate::request_type::{TypeSpec, TypeTable};
use crate::setup::Contexts;

const SHORT: RequestType = RequestType::new(0);
const LONG: RequestType = RequestType::new(1);

fn queues(lanes: usize) -> Queues {
    let types: TypeTable = [TypeSpec::new("SHORT").queue_capacity(2), TypeSpec::new("LONG")].into_iter().collect();
    Queues::new(&setup(1, &types).queue_capacity(3), Lanes::shared(lanes))
}

fn pop_all(queues: &mut Queues, lane: usize) -> Vec<u32> {
    std::iter::from_fn(|| queues.pop(lane)).map(|waiting| waiting.request.0).collect()
}

#[test]
fn the_bound_is_per_type_whatever_the_lane() {
    let mut queues = queues(2);
    let pushed: Vec<bool> = [(0, SHORT), (1, SHORT), (0, SHORT), (0, LONG), (1, LONG)]
        .into_iter()
        .zip(0..)
        .map(|((lane, request_type), id)| queues.push(lane, 0, RequestId(id), request_type, None))
        .collect();
    assert_eq!(pushed, [true, true, false, true, true]);
    let counts = |slot| {
        let status = queues.type_status(slot);
        (status.queued, status.rejections)
    };
    assert_eq!((counts(0), counts(1)), ((2, 1), (2, 0)));
    assert_eq!(queues.pop_refused(), Some(Action::Reject { request: RequestId(2), request_type: SHORT }));
    assert_eq!(queues.pop_refused(), None);
    assert_eq!(pop_all(&mut queues, 0), [0, 3]);
    assert_eq!(pop_all(&mut queues, 1), [1, 4]);
    assert!(queues.is_empty());
}

/// Two workers with so many contexts each, where requests resume at home.
fn at_home(contexts: usize) -> Queues {
    let types = TypeTable::new();
    Queues::typed(&setup(2, &types).contexts(Contexts::at_home(contexts)))
}

#[test]
fn what_is_put_back_first_or_last_is_so_beside_what_never_ran() {
    let mut queues = at_home(4);
    for id in 0..3 {
        queues.push(0, 0, RequestId(id), RequestType::UNKNOWN, None);
    }
    let home = WorkerId(0);
    let next = |queues: &Queues| queues.next_for(0, home).map(|next| next.request.0);
    let suspended = Waiting { home: Some(home), ..queues.pop(0).unwrap() };
    queues.put_back_last(0, suspended);
    assert_eq!(next(&queues), Some(1));
    let suspended = queues.pop_at(0, home).unwrap();
    queues.put_back_first(0, suspended);
    assert_eq!(next(&queues), Some(0));
}

#[test]
fn what_is_blocked_is_counted_and_keeps_its_context() {
    let mut queues = at_home(2);
    let workers = [0, 1].map(WorkerId);
    for id in 0..2 {
        queues.block(0, workers[0], Waiting { request: RequestId(id), ..Waiting::example() });
    }
    assert_eq!((queues.blocked(0), queues.needs_any()), (2, true));
    assert_eq!(workers.map(|worker| queues.is_blocked_up(worker)), [true, false]);
    assert_eq!(queues.unblock(9, RequestId(0)).home, Some(workers[0]));
    assert_eq!(
        (queues.blocked(0), queues.needs_any(), queues.is_blocked_up(workers[0])),
        (1, true, false)
    );
    queues.unblock(9, RequestId(1));
    assert_eq!((queues.blocked(0), queues.needs_any()), (0, false));
}

#[test]
fn a_request_that_moves_to_another_lane_is_counted_once() {
    let mut queues = queues(2);
    for id in 0..3 {
        queues.push(0, 0, RequestId(id), LONG, None);
    }
    queues.move_first(0, 1);
    queues.move_first(0, 1);
    assert_eq!((queues.lane_len(0), queues.lane_len(1)), (1, 2));
    assert_eq!((queues.len(), queues.type_status(1).queued), (3, 3));
    assert_eq!(pop_all(&mut queues, 1), [0, 1]);
    queues.move_first(1, 0);
    assert_eq!((queues.lane_len(0), queues.lane_len(1)), (1, 0));
}

#[test]
fn oldest_follows_the_order_of_arrival() {
    let mut queues = queues(2);
    queues.push(1, 7, RequestId(0), LONG, None);
    queues.push(0, 7, RequestId(1), SHORT, None);
    assert_eq!(queues.oldest([0, 1]), Some(1));
    assert_eq!(queues.oldest([0]), Some(0));
    queues.pop(1);
    assert_eq!(queues.oldest([0, 1]), Some(0));
    assert_eq!(queues.oldest([1]), None);
}

#[test]
fn unregistered_types_share_the_unknown_slot() {
    let queues = queues(1);
    assert_eq!(queues.slot(RequestType::UNKNOWN), 2);
    assert_eq!(queues.slot(RequestType::new(2)), 2);
    assert_eq!(queues.slot(RequestType::new(1 << 30)), 2);
}

#[test]
fn what_was_preempted_goes_before_what_arrived_later() {
    let mut queues = queues(1);
    for id in 0..3 {
        queues.push(0, 0, RequestId(id), LONG, None);
    }
    let [first, second] = [0, 1].map(|_| queues.pop(0).unwrap());
    queues.put_back_first(0, first);
    queues.put_back_first(0, second);
    assert_eq!(pop_all(&mut queues, 0), [0, 1, 2]);
    queues.put_back_first(0, second);
    queues.put_back_last(0, first);
    assert_eq!(pop_all(&mut queues, 0), [1, 0]);
}

#[test]
fn what_was_preempted_counts_and_is_let_in_when_the_queue_is_full() {
    let mut queues = queues(1);
    queues.push(0, 0, RequestId(0), SHORT, None);
    let preempted = queues.pop(0).unwrap();
    queues.push(0, 0, RequestId(1), SHORT, None);
    queues.push(0, 0, RequestId(2), SHORT, None);
    queues.put_back_last(0, preempted);
    assert_eq!(queues.type_status(0).queued, 3);
    assert!(!queues.push(0, 0, RequestId(3), SHORT, None));
    assert_eq!(pop_all(&mut queues, 0), [1, 2, 0]);
    assert!(queues.is_empty());
}

#[test]
fn a_backlog_fills_typed_queues_and_counts_against_their_capacities() {
    let waits = |id, request_type| BacklogRequest {
        request: RequestId(id),
        request_type,
        arrived_ns: 7,
        deadline_ns: None,
        served_ns: 0,
        blocked_ns: 0,
        state: RequestState::Waiting,
    };
    let backlog = Backlog {
        requests: vec![waits(0, SHORT), waits(1, LONG), waits(2, RequestType::new(9)), waits(3, SHORT)],
        refused: vec![(RequestId(4), SHORT)],
        rejections: vec![5],
    };
    let mut queues = queues(3);
    queues.fill_typed(&backlog);
    assert!(!queues.push(0, 8, RequestId(5), SHORT, None), "still full");
    assert!(queues.push(1, 8, RequestId(6), LONG, None));
    assert_eq!(queues.type_status(0).rejections, 6);
    let refused = queues.pop_refused();
    assert!(matches!(refused, Some(Action::Reject { request, .. }) if request.0 == 4));
    assert_eq!(pop_all(&mut queues, 0), [0, 3]);
    assert_eq!(pop_all(&mut queues, 1), [1, 6]);
    assert_eq!(pop_all(&mut queues, 2), [2], "no type has its number");
}

/// What happens to a lane.
#[derive(Debug, Clone, Copy)]
enum Step {
    Push,
    Pop,
    /// What was popped is put back, the n-th of it.
    PutBackFirst(usize),
    PutBackLast(usize),
    /// All lanes are merged, and divided anew.
    Redivide,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Push),
        4 => Just(Step::Pop),
        2 => any::<usize>().prop_map(Step::PutBackFirst),
        2 => any::<usize>().prop_map(Step::PutBackLast),
        1 => Just(Step::Redivide),
    ]
}

const LANES: usize = 3;

/// New queues, divided anew, with what waits in `queues` and what was popped of them.
fn refill(
    queues: &Queues,
    setup: &SchedulerSetup<'_>,
    popped: &mut [Waiting],
    lane_of: impl Fn(u32) -> usize,
) -> Queues {
    let runs = RequestState::Running { worker: WorkerId(0), started_ns: 0, preempted: false };
    let mut all: Vec<(u64, BacklogRequest)> = queues
        .waiting()
        .iter()
        .map(|waiting| (waiting, RequestState::Waiting))
        .chain(popped.iter().map(|popped| (popped, runs)))
        .map(|(waiting, state)| (waiting.sequence, waiting.in_state(state)))
        .collect();
    all.sort_unstable_by_key(|&(sequence, _)| sequence);
    for popped in popped {
        let place = all.iter().position(|&(sequence, _)| sequence == popped.sequence);
        popped.sequence = place.unwrap() as u64;
    }
    let backlog = Backlog {
        requests: all.into_iter().map(|(_, request)| request).collect(),
        ..Backlog::default()
    };
    let mut refilled = Queues::new(setup, Lanes::shared(LANES));
    refilled.fill(&backlog, |waiting| lane_of(waiting.request.0));
    refilled
}

/// Queues, beside plain lists of ids, which ascend in order of arrival.
struct Beside<'a> {
    setup: &'a SchedulerSetup<'a>,
    queues: Queues,
    plain: Vec<Vec<u32>>,
    popped: Vec<Waiting>,
}

impl Beside<'_> {
    /// The step of this number happens to `lane`.
    fn apply(&mut self, id: u32, step: Step, lane: usize) {
        let Self { queues, plain, popped, .. } = self;
        let list = &mut plain[lane];
        match step {
            Step::Push => {
                queues.push(lane, 0, RequestId(id), RequestType::UNKNOWN, None);
                list.push(id);
            }
            Step::Pop => {
                let expected = (!list.is_empty()).then(|| list.remove(0));
                let waiting = queues.pop(lane);
                assert_eq!(waiting.map(|waiting| waiting.request.0), expected);
                popped.extend(waiting);
            }
            Step::PutBackFirst(_) | Step::PutBackLast(_) if popped.is_empty() => {}
            Step::PutBackFirst(nth) => {
                let waiting = popped.swap_remove(nth % popped.len());
                queues.put_back_first(lane, waiting);
                let id = waiting.request.0;
                let later = list.iter().position(|&other| other > id);
                list.insert(later.unwrap_or(list.len()), id);
            }
            Step::PutBackLast(nth) => {
                let waiting = popped.swap_remove(nth % popped.len());
                queues.put_back_last(lane, waiting);
                list.push(waiting.request.0);
            }
            Step::Redivide => {
                let lane_of = |id: u32| (id as usize + lane) % LANES;
                *queues = refill(queues, self.setup, popped, lane_of);
                let mut all = plain.concat();
                all.sort_unstable();
                *plain = vec![Vec::new(); LANES];
                for id in all {
                    plain[lane_of(id)].push(id);
                }
            }
        }
    }

    fn check(&self) {
        let Self { queues, plain, .. } = self;
        assert_eq!(queues.len(), plain.concat().len());
        assert_eq!(queues.type_status(0).queued, queues.len());
        for (lane, list) in plain.iter().enumerate() {
            let waiting = queues.lists.iter(&queues.lanes[lane]);
            let ids: Vec<u32> = waiting.map(|waiting| waiting.request.0).collect();
            assert_eq!(&ids, list);
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_lists(steps in prop::collection::vec((step(), 0..LANES), 0..200)) {
        let types = TypeTable::new();
        let setup = setup(1, &types).queue_capacity(usize::MAX);
        let queues = Queues::new(&setup, Lanes::shared(LANES));
        let mut beside = Beside { setup: &setup, queues, plain: vec![Vec::new(); LANES], popped: Vec::new() };
        for (id, (step, lane)) in (0..).zip(steps) {
            beside.apply(id, step, lane);
            beside.check();
        }
    }
}
