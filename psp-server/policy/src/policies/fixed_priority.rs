//! Fixed priority: the shortest waiting type first, on any idle worker; and DARC-static, which is
//! fixed priority with workers set aside for the shortest group (Perséphone 5.3).
//!
//! A type's priority is its service-time hint. A type without one has that of its measured mean;
//! until there is one it comes last, together with `UNKNOWN`, in order of arrival, but for one request of
//! each untried type ([`grouped`](crate::parts::grouped)).

use crate::backlog::Handover;
use crate::event::{Action, Event};
use crate::parts::grouped::Grouped;
use crate::parts::profile::Profile;
use crate::request_type::RequestType;
use crate::scheduler::{Relief, Scheduler, TypeStatus};
use crate::settings::{Darc, DarcStatic};
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) struct FixedPriority {
    grouped: Grouped,
    reserved: u32,
    delta: f64,
    rank_ns: RankNs,
}

/// The service time by which the type at a slot is ranked; `None` ranks it with `UNKNOWN`.
type RankNs = fn(&Profile, usize) -> Option<f64>;

impl FixedPriority {
    /// Reserves no worker; only types of equal service time are served in order of arrival.
    pub(crate) fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self::ranked(setup, Profile::hinted_ns)
    }

    /// Like [`FixedPriority::new`], with types ranked otherwise.
    pub(crate) fn ranked(setup: &SchedulerSetup<'_>, rank_ns: RankNs) -> Self {
        let settings = DarcStatic { reserved: 0, delta: 1.0 };
        Self::with(setup, &settings, rank_ns)
    }

    /// DARC-static.
    pub(crate) fn with_reserved(setup: &SchedulerSetup<'_>, settings: &DarcStatic) -> Self {
        Self::with(setup, settings, Profile::hinted_ns)
    }

    fn with(setup: &SchedulerSetup<'_>, settings: &DarcStatic, rank_ns: RankNs) -> Self {
        let mut policy = Self {
            grouped: Grouped::new(setup, &Darc::default()),
            reserved: u32::try_from(settings.reserved).unwrap_or(u32::MAX),
            delta: settings.delta,
            rank_ns,
        };
        policy.make_plan();
        policy
    }

    fn make_plan(&mut self) {
        let Grouped { plan, profile, .. } = &mut self.grouped;
        plan.regroup(self.delta, |slot| (self.rank_ns)(profile, slot));
        plan.reserve_for_shortest(self.reserved);
    }
}

impl Scheduler for FixedPriority {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.grouped.record(now_ns, event);
        let come_or_gone = matches!(event, Event::Workers { .. });
        if self.grouped.close_window_if_due(now_ns).is_some() || come_or_gone {
            self.make_plan();
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let refused = self.grouped.queues.pop_refused();
        refused.or_else(|| Some(self.grouped.dispatch(now_ns)?.action))
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.grouped.deadline_ns()
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(&mut self.grouped)
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        self.grouped.same_group(first, next)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.grouped.type_status(slot)
    }

    fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        self.grouped.relief(now_ns, slot)
    }
}
