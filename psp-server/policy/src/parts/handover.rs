//! Backlogs of queues and what runs.

use crate::backlog::{Backlog, BacklogRequest, RequestState};
use crate::parts::queues::Queues;
use crate::parts::running::Running;

/// Everything that waits in `queues`, runs and is blocked.
pub(crate) fn backlog(queues: &Queues, running: &Running) -> Backlog {
    let waiting = queues.waiting().into_iter().map(|waiting| {
        let state = match waiting.home {
            None => RequestState::Waiting,
            Some(home) => RequestState::Suspended { home },
        };
        (waiting.sequence, waiting.in_state(state))
    });
    let running = running.turns().map(|(worker, turn)| {
        let state = RequestState::Running {
            worker,
            started_ns: turn.started_ns,
            preempted: turn.preempted,
        };
        (turn.waiting.sequence, turn.waiting.in_state(state))
    });
    let begun = running.chain(queues.all_blocked());
    let mut requests: Vec<(u64, BacklogRequest)> = waiting.chain(begun).collect();
    requests.sort_unstable_by_key(|&(sequence, _)| sequence);
    let (refused, rejections) = queues.refusals();
    Backlog {
        requests: requests.into_iter().map(|(_, request)| request).collect(),
        refused,
        rejections,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Action, HandOff, RequestId, WorkerId};
    use crate::parts::suspended::Lanes;
    use crate::rehearsal::setup;
    use crate::request_type::{RequestType, TypeSpec, TypeTable};
    use crate::setup::{Contexts, SchedulerSetup};

    const ONE: RequestType = RequestType::new(0);

    #[test]
    fn everything_arrives_in_order_with_its_turns_and_refusals() {
        let types: TypeTable = [TypeSpec::new("ONE").queue_capacity(4)].into_iter().collect();
        let setup = SchedulerSetup { contexts: Contexts::at_home(4), ..setup(3, &types) };
        let (mut queues, mut running) = (Queues::typed(&setup), Running::new(&setup));
        for id in 0..5 {
            queues.push(0, u64::from(id), RequestId(id), ONE, None);
        }
        for (now_ns, worker) in [(10, 2), (11, 0), (12, 1)] {
            let waiting = queues.pop(0).unwrap();
            running.start(now_ns, WorkerId(worker), waiting, HandOff::Own);
        }
        running.preempt(WorkerId(2), 0);
        let yielded = running.give_up(WorkerId(0), 7);
        queues.put_back_last(0, yielded);

        let before = backlog(&queues, &running);
        let ids: Vec<u32> = before.requests.iter().map(|held| held.request.0).collect();
        assert_eq!(ids, [0, 1, 2, 3]);
        assert_eq!(before.requests[1].state, RequestState::Suspended { home: WorkerId(0) });
        assert_eq!((before.requests[1].served_ns, before.requests[3].served_ns), (7, 0));
        assert_eq!(before.refused, [(RequestId(4), ONE)]);
        assert_eq!(before.rejections, [1, 0]);

        let (mut queues, mut running) = (Queues::new(&setup, Lanes::shared(2)), Running::new(&setup));
        queues.fill(&before, |waiting| usize::from(waiting.home.is_some()));
        running.fill(&before);
        assert_eq!(backlog(&queues, &running), before, "nothing is lost on the way");
        assert_eq!((queues.len(), queues.queued(0), queues.lane_len(0)), (2, 2, 1));
        assert_eq!(queues.lane_len_at(1, WorkerId(0)), 1);
        assert_eq!(running.preempt(WorkerId(2), 0), None, "it was asked before");
        assert!(running.preempt(WorkerId(1), 0).is_some());
        assert_eq!(running.stopping(), 2);
        let refused = queues.pop_refused();
        assert!(matches!(refused, Some(Action::Reject { request, .. }) if request.0 == 4));
    }

    #[test]
    fn preempted_requests_keep_their_place_among_those_that_waited() {
        let types = TypeTable::new();
        let setup = setup(1, &types);
        let (mut queues, mut running) = (Queues::typed(&setup), Running::new(&setup));
        for id in 0..2 {
            queues.push(0, 5, RequestId(id), ONE, None);
        }
        running.start(6, WorkerId(0), queues.pop(0).unwrap(), HandOff::Own);
        let taken = backlog(&queues, &running);
        let (mut queues, mut running) = (Queues::typed(&setup), Running::new(&setup));
        queues.fill_typed(&taken);
        running.fill(&taken);
        queues.push(0, 9, RequestId(2), ONE, None);
        queues.put_back_first(0, running.give_up(WorkerId(0), 1));
        let order: Vec<u32> = std::iter::from_fn(|| queues.pop(0)).map(|waiting| waiting.request.0).collect();
        assert_eq!(order, [0, 1, 2]);
    }
}
