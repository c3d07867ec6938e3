//! DARC: workers reserved for groups of types by their measured CPU demand, with cycle stealing by
//! shorter groups and spillway workers for what found none (Perséphone 3).
//!
//! Without hints for every type it starts as c-FCFS and makes its first reservation when the
//! first profiling window closes. The typed queues are the same before and after, so what waits
//! is handed over where it stands.

use super::grouped::Grouped;
use super::profile::Profile;
use super::{Action, Event, RequestType, Scheduler, SchedulerSetup, TypeStatus, settings};

/// See the [module](self).
pub(super) struct Darc {
    settings: settings::Darc,
    spillway: u32,
    grouped: Grouped,
    profile: Profile,
    /// Per type slot: a request that waits longer shows that the reservation may be wrong.
    delay_ns_max: Vec<u64>,
    /// Whether one did, in this window.
    delayed: bool,
    /// Per registered type: its share of the CPU demand when workers were last reserved. `None`
    /// when it was not known.
    demand_reserved: Vec<Option<f64>>,
    updates: u64,
}

impl Darc {
    pub(super) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Darc) -> Self {
        let types = setup.types.len();
        let mut darc = Self {
            settings: settings.clone(),
            spillway: u32::try_from(settings.spillway).unwrap_or(u32::MAX),
            grouped: Grouped::new(setup),
            profile: Profile::new(setup, settings),
            delay_ns_max: vec![u64::MAX; types + 1],
            delayed: false,
            demand_reserved: vec![None; types],
            updates: 0,
        };
        darc.update_delay_limits();
        if types > 0 && (0..types).all(|slot| darc.profile.mean_ns(slot).is_some()) {
            darc.reserve();
        }
        darc
    }

    fn close_window(&mut self, now_ns: u64) {
        let delayed = self.delayed || self.any_waits_too_long(now_ns);
        self.profile.close_window(now_ns);
        self.update_delay_limits();
        if self.first_measured() || (delayed && self.demand_moved()) {
            self.reserve();
        }
        self.delayed = false;
    }

    /// Whether a request that still waits has exceeded its type's limit. Delays are otherwise
    /// seen at dispatch, which a starved type does not reach.
    fn any_waits_too_long(&self, now_ns: u64) -> bool {
        self.delay_ns_max.iter().enumerate().any(|(slot, &limit)| {
            let oldest = self.grouped.queues.front(slot);
            oldest.is_some_and(|waiting| now_ns.saturating_sub(waiting.arrived_ns) > limit)
        })
    }

    /// Whether the service time of some type is known now and was not at the last reservation.
    fn first_measured(&self) -> bool {
        self.demand_reserved
            .iter()
            .enumerate()
            .any(|(slot, before)| before.is_none() && self.profile.mean_ns(slot).is_some())
    }

    fn demand_moved(&self) -> bool {
        self.demand_reserved
            .iter()
            .enumerate()
            .any(|(slot, before)| {
                let moved = self.profile.demand(slot) - before.unwrap_or(0.0);
                moved.abs() > self.settings.demand_deviation
            })
    }

    fn reserve(&mut self) {
        let Self { profile, .. } = self;
        let plan = &mut self.grouped.plan;
        plan.regroup(self.settings.delta, |slot| profile.mean_ns(slot));
        plan.reserve_by_demand(
            |slot| profile.demand(slot),
            self.spillway,
            self.settings.stealing,
        );
        for (slot, demand) in self.demand_reserved.iter_mut().enumerate() {
            *demand = profile.mean_ns(slot).map(|_| profile.demand(slot));
        }
        self.updates += 1;
    }

    fn update_delay_limits(&mut self) {
        for (slot, limit) in self.delay_ns_max.iter_mut().enumerate() {
            *limit = self.profile.mean_ns(slot).map_or(u64::MAX, |mean_ns| {
                (mean_ns * self.settings.slowdown_trigger) as u64
            });
        }
    }
}

impl Scheduler for Darc {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.grouped.take_note(now_ns, event, &mut self.profile);
        if self.profile.window_due(now_ns) {
            self.close_window(now_ns);
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.grouped.queues.pop_refused() {
            return Some(refused);
        }
        let dispatch = self.grouped.dispatch(now_ns)?;
        self.delayed |= dispatch.delay_ns > self.delay_ns_max[dispatch.slot];
        Some(dispatch.action)
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        self.grouped.same_group(first, next)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.grouped.type_status(slot, &self.profile)
    }

    fn reservation_updates(&self) -> u64 {
        self.updates
    }
}
