//! Requests that are about to finish: to preempt one takes longer than to wait for its end.
//!
//! Where the service times of a type lie close together, their mean says how long a request will
//! still run. If that is no longer than a preemption takes, the requests that wait get the worker as
//! soon without one, and the request needs no other turn. So it is left alone until it should have
//! finished, and a margin beyond. A request that still runs then was misjudged, and is preempted.
//!
//! ```text
//!   service had   0 ──────── mean + deviation - cost ─── mean ─── mean + 2 deviations + cost / 2 ──►
//!                  preempted           │            left alone               │   preempted
//! ```
//!
//! Close together means a standard deviation that is no longer than a preemption. Nothing is known
//! until [`Dispersion`] has seen enough of a type.

use crate::event::WorkerId;
use crate::parts::dispersion::Dispersion;
use crate::parts::quanta::Quanta;
use crate::parts::queues::Queues;
use crate::parts::running::{Running, Turn};
use crate::setup::{Preemption, SchedulerSetup};

/// Standard deviations beyond the mean after which a request should have finished.
const MARGIN_DEVIATIONS: f64 = 2.0;
/// The same in costs of a preemption: what the driver's clock adds to the service time.
const MARGIN_COSTS: f64 = 0.5;

/// See the [module](self).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finishing {
    /// What a preemption costs. `None` if no request is left alone.
    cost_ns: Option<f64>,
}

impl Finishing {
    /// `spare` is the policy's setting. Unless set, requests are left alone if they do not migrate, as
    /// in live servers.
    pub(crate) fn new(setup: &SchedulerSetup<'_>, spare: Option<bool>) -> Self {
        let spares = |_: &Preemption| spare.unwrap_or(!setup.contexts.migrates);
        let cost_ns = |preemption: Preemption| preemption.cost_ns as f64;
        Self { cost_ns: setup.preemption.filter(spares).map(cost_ns) }
    }

    /// The longest expired worker that is not about to finish.
    pub(crate) fn expired(
        self,
        quanta: &mut Quanta,
        now_ns: u64,
        running: &Running,
        queues: &Queues,
        dispersion: &Dispersion,
    ) -> Option<WorkerId> {
        quanta.expired_for(queues, now_ns, |worker| self.until_ns(now_ns, worker, running, queues, dispersion))
    }

    /// Until when what runs on `worker` is left alone, if it is about to finish. Later than
    /// `now_ns`.
    pub(crate) fn until_ns(
        self,
        now_ns: u64,
        worker: WorkerId,
        running: &Running,
        queues: &Queues,
        dispersion: &Dispersion,
    ) -> Option<u64> {
        let cost_ns = self.cost_ns?;
        let turn: &Turn = running.on(worker)?;
        let service = dispersion.service(queues.slot(turn.waiting.request_type))?;
        if service.deviation_ns > cost_ns {
            return None;
        }
        let attained_ns = turn.attained_ns(now_ns);
        let from_ns = service.mean_ns + service.deviation_ns - cost_ns;
        let margin_ns = service.deviation_ns * MARGIN_DEVIATIONS + cost_ns * MARGIN_COSTS;
        let to_ns = (service.mean_ns + margin_ns) as u64;
        let left_alone = attained_ns as f64 >= from_ns && attained_ns < to_ns;
        left_alone.then(|| now_ns.saturating_add(to_ns - attained_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{HandOff, Sample};
    use crate::parts::waiting::Waiting;
    use crate::rehearsal::setup;
    use crate::request_type::RequestType;
    use crate::request_type::TypeTable;
    use crate::setup::Contexts;

    const WORKER: WorkerId = WorkerId(0);

    /// Until when a request is left alone that had `attained_ns`, half of it in an earlier turn, of
    /// a type that took these times.
    fn left_alone(
        (cost_ns, contexts): (u64, Contexts),
        spare: Option<bool>,
        times_ns: [u64; 2],
        attained_ns: u64,
    ) -> Option<u64> {
        let types = TypeTable::new();
        let setup = SchedulerSetup {
            preemption: Some(Preemption::new(cost_ns)),
            contexts,
            ..setup(1, &types)
        };
        let mut dispersion = Dispersion::new(&setup);
        for service_ns in times_ns.repeat(500) {
            let sample = Sample { request_type: RequestType::UNKNOWN, count: 1, service_ns };
            dispersion.record(0, &sample);
        }
        let mut running = Running::new(&setup);
        let waiting = Waiting { served_ns: attained_ns / 2, ..Waiting::example() };
        running.start(0, WORKER, waiting, HandOff::Own);
        let now_ns = attained_ns - attained_ns / 2;
        let finishing = Finishing::new(&setup, spare);
        let queues = Queues::typed(&setup);
        let until_ns = finishing.until_ns(now_ns, WORKER, &running, &queues, &dispersion)?;
        assert!(until_ns > now_ns);
        Some(until_ns - now_ns)
    }

    #[test]
    fn a_request_that_should_finish_within_a_preemption_is_left_alone_until_a_margin_beyond() {
        let at = |attained_ns| left_alone((1_000, Contexts::at_home(2)), None, [100_000; 2], attained_ns);
        assert_eq!(at(98_999), None);
        assert_eq!(at(99_000), Some(1_500));
        assert_eq!(at(100_499), Some(1), "late");
        assert_eq!(at(100_500), None, "misjudged");
    }

    #[test]
    fn the_margins_follow_the_deviation() {
        let at = |attained_ns| left_alone((1_000, Contexts::at_home(2)), None, [99_600, 100_400], attained_ns);
        assert_eq!(at(99_399), None);
        let until_ns = at(99_401).unwrap();
        assert!((1_898..=1_900).contains(&until_ns), "{until_ns}");
    }

    #[test]
    fn nothing_is_said_of_those_that_lie_apart_or_cost_nothing_to_preempt() {
        let at = |cost_ns, times_ns| left_alone((cost_ns, Contexts::at_home(2)), None, times_ns, 99_900);
        assert_eq!(at(1_000, [98_000, 102_000]), None);
        assert_eq!(left_alone((1_000, Contexts::at_home(2)), None, [98_000, 102_000], 101_500), None);
        assert!(at(2_200, [98_000, 102_000]).is_some());
        assert_eq!(at(0, [100_000; 2]), None);
    }

    #[test]
    fn unless_set_it_is_for_those_that_do_not_migrate() {
        let at = |contexts, spare| left_alone((1_000, contexts), spare, [100_000; 2], 99_500).is_some();
        let (migrating, at_home) = (Contexts::migrating(), Contexts::at_home(2));
        let unless_set = (at(migrating, None), at(at_home, None));
        assert_eq!(unless_set, (false, true));
        assert!(at(migrating, Some(true)) && !at(at_home, Some(false)));
    }
}
