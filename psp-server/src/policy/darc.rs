//! DARC: workers reserved for groups of types by their measured CPU demand, with cycle stealing by
//! shorter groups and spillway workers for what found none (Perséphone 3).
//!
//! Without hints for every type it starts as c-FCFS and makes its first reservation when the
//! first profiling window closes. The typed queues are the same before and after, so what waits
//! is handed over where it stands.

use super::grouped::{Dispatch, Grouped};
use super::profile::Profile;
use super::{Action, Backlog, Event, RequestType, Scheduler, SchedulerSetup, TypeStatus, settings};

/// See the [module](self).
pub(super) struct Darc {
    settings: settings::Darc,
    spillway: u32,
    pub(super) grouped: Grouped,
    pub(super) profile: Profile,
    /// Per type slot: the longest that a request waited, in this window.
    delay_ns_max: Vec<u64>,
    /// Per registered type: its share of the CPU demand when workers were last reserved. `None`
    /// when it was not known.
    demand_reserved: Vec<Option<f64>>,
    /// Whether the demand was still on the move at the last reservation.
    unsettled: bool,
    updates: u64,
}

impl Darc {
    pub(super) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Darc) -> Self {
        Self::over(setup, settings, Grouped::new(setup))
    }

    /// As [`Darc::new`], over queues of the caller's own.
    pub(super) fn over(
        setup: &SchedulerSetup<'_>,
        settings: &settings::Darc,
        grouped: Grouped,
    ) -> Self {
        let types = setup.types.len();
        let mut darc = Self {
            settings: settings.clone(),
            spillway: u32::try_from(settings.spillway).unwrap_or(u32::MAX),
            grouped,
            profile: Profile::new(setup, settings),
            delay_ns_max: vec![0; types + 1],
            demand_reserved: vec![None; types],
            unsettled: false,
            updates: 0,
        };
        if types > 0 && (0..types).all(|slot| darc.profile.mean_ns(slot).is_some()) {
            darc.reserve();
        }
        darc
    }

    /// Learns from the window, and reserves workers anew where that is called for.
    ///
    /// A reservation that was made while the demand moved is followed by another when the next
    /// window closes: a moving average takes some windows to arrive, and what is left of the way
    /// may be too little to ask for a reservation by itself.
    fn close_window(&mut self, now_ns: u64) {
        let moved = self.profile.close_window(now_ns);
        let outdated = self.demand_moved() && self.any_delayed(now_ns);
        if self.unsettled || self.first_measured() || outdated {
            self.reserve();
            self.unsettled = moved > self.settings.demand_deviation;
        }
        self.delay_ns_max.fill(0);
    }

    /// Takes note of how long a request waited before it was dispatched; the action.
    #[inline]
    pub(super) fn note_delay(&mut self, dispatch: &Dispatch) -> Action {
        let delay_ns_max = &mut self.delay_ns_max[dispatch.slot];
        *delay_ns_max = dispatch.delay_ns.max(*delay_ns_max);
        dispatch.action
    }

    /// Whether a request waited too long for its type's mean service time. That is the window's
    /// own mean: the moving average of a type that became short lags behind and would excuse the
    /// delay. Those that still wait count, since a starved type reaches no worker.
    fn any_delayed(&self, now_ns: u64) -> bool {
        self.delay_ns_max
            .iter()
            .enumerate()
            .any(|(slot, &dispatched_ns)| {
                let oldest = self.grouped.queues.front(slot);
                let waiting_ns = oldest.map_or(0, |waiting| waiting.waited_ns(now_ns));
                self.profile.latest_ns(slot).is_some_and(|mean_ns| {
                    let delay_ns = dispatched_ns.max(waiting_ns) as f64;
                    delay_ns > self.settings.slowdown_trigger * mean_ns
                })
            })
    }

    /// Whether the service time of some type is known now and was not at the last reservation.
    fn first_measured(&self) -> bool {
        self.demand_reserved
            .iter()
            .enumerate()
            .any(|(slot, before)| before.is_none() && self.profile.mean_ns(slot).is_some())
    }

    /// Whether some type's share of the demand is far from what workers were reserved for.
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
        Some(self.note_delay(&dispatch))
    }

    fn hand_over(&mut self) -> Backlog {
        self.grouped.hand_over()
    }

    fn take_over(&mut self, _now_ns: u64, backlog: Backlog) {
        self.grouped.take_over(backlog);
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
