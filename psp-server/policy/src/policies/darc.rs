//! DARC: workers reserved for groups of types by their measured CPU demand, with cycle stealing by
//! shorter groups and spillway workers for what found none (Perséphone 3).
//!
//! Without hints for every type it starts as c-FCFS and makes its first reservation when the profile
//! first [looks](crate::parts::profile) into its window. That reservation is provisional: there is another
//! at each further look, and when the window closes. The typed queues are the same before and after, so what
//! waits is handed over where it stands.

use crate::backlog::Handover;
use crate::event::{Action, Event};
use crate::parts::grouped::{Dispatch, Grouped};
use crate::parts::profile::Learned;
use crate::request_type::RequestType;
use crate::scheduler::{Relief, Scheduler, TypeStatus};
use crate::settings;
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) struct Darc {
    settings: settings::Darc,
    spillway: u32,
    pub(crate) grouped: Grouped,
    /// Per type slot: the longest that a request waited, in this window.
    delay_ns_max: Vec<u64>,
    /// Per registered type: its share of the CPU demand when workers were last reserved. `None`
    /// when it was not known.
    demand_reserved: Vec<Option<f64>>,
    /// Whether the demand was still on the move at the last reservation, or that was provisional.
    unsettled: bool,
    updates: u64,
}

impl Darc {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Darc) -> Self {
        Self::over(setup, settings, Grouped::new(setup, settings))
    }

    /// As [`Darc::new`], over queues of the caller's own.
    pub(crate) fn over(
        setup: &SchedulerSetup<'_>,
        settings: &settings::Darc,
        grouped: Grouped,
    ) -> Self {
        let types = setup.types.len();
        let mut darc = Self {
            settings: settings.clone(),
            spillway: u32::try_from(settings.spillway).unwrap_or(u32::MAX),
            grouped,
            delay_ns_max: vec![0; types + 1],
            demand_reserved: vec![None; types],
            unsettled: false,
            updates: 0,
        };
        if types > 0 && !darc.grouped.profile.any_unknown() {
            darc.reserve();
        }
        darc
    }

    /// Records an event, and learns from the window if that is due.
    pub(crate) fn observe(&mut self, now_ns: u64, event: Event<'_>) -> Option<Learned> {
        self.grouped.record(now_ns, event);
        if matches!(event, Event::Workers { .. }) && self.updates > 0 {
            self.reserve();
        }
        let learned = self.grouped.close_window_if_due(now_ns)?;
        match learned {
            Learned::Provisional => {
                self.reserve();
                self.unsettled = true;
            }
            Learned::Window { moved } => self.window_closed(now_ns, moved),
        }
        Some(learned)
    }

    /// Reserves workers anew if the demand has moved.
    ///
    /// If the demand was still moving, another reservation follows when the next window closes: a
    /// moving average needs several windows to arrive, and the rest of its way may be too short to
    /// cause a reservation by itself.
    fn window_closed(&mut self, now_ns: u64, moved: f64) {
        let outdated = self.demand_moved() && self.any_delayed(now_ns);
        if self.unsettled || self.first_measured() || outdated {
            self.reserve();
            self.unsettled = moved > self.settings.demand_deviation;
        }
        self.delay_ns_max.fill(0);
    }

    /// Records how long a request waited before it was dispatched. Returns the action.
    #[inline]
    pub(crate) fn note_delay(&mut self, dispatch: &Dispatch) -> Action {
        let delay_ns_max = &mut self.delay_ns_max[dispatch.slot];
        *delay_ns_max = dispatch.delay_ns.max(*delay_ns_max);
        dispatch.action
    }

    /// Whether a request waited too long for its type's mean service time. The mean is the window's
    /// own: the moving average of a type that became short lags behind, and would excuse the delay.
    /// Requests that still wait count, since a starved type reaches no worker.
    fn any_delayed(&self, now_ns: u64) -> bool {
        self.delay_ns_max
            .iter()
            .enumerate()
            .any(|(slot, &dispatched_ns)| {
                let oldest = self.grouped.queues.front(slot);
                let waiting_ns = oldest.map_or(0, |waiting| waiting.waited_ns(now_ns));
                self.grouped.profile.latest_ns(slot).is_some_and(|mean_ns| {
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
            .any(|(slot, before)| before.is_none() && self.grouped.profile.knows_length(slot))
    }

    /// Whether some type's share of the demand is far from what workers were reserved for.
    fn demand_moved(&self) -> bool {
        self.demand_reserved
            .iter()
            .enumerate()
            .any(|(slot, before)| {
                let moved = self.grouped.profile.demand(slot) - before.unwrap_or(0.0);
                moved.abs() > self.settings.demand_deviation
            })
    }

    fn reserve(&mut self) {
        let Grouped { plan, profile, .. } = &mut self.grouped;
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
        self.observe(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.grouped.queues.pop_refused() {
            return Some(refused);
        }
        let dispatch = self.grouped.dispatch(now_ns)?;
        Some(self.note_delay(&dispatch))
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

    fn reservation_updates(&self) -> u64 {
        self.updates
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::event::WorkerId;
    use crate::policy::Policy;
    use crate::rehearsal::Rehearsal;
    use crate::request_type::TypeSpec;

    #[test]
    fn reservations_are_over_the_workers_that_are_present() {
        let spec = |name, us, share| {
            TypeSpec::new(name)
                .service_time(Duration::from_micros(us))
                .share(share)
        };
        let types = [spec("SHORT", 1, 0.75), spec("LONG", 10, 0.25)];
        let mut darc = Rehearsal::new(Policy::darc(), 8, types);
        let reserved = |darc: &Rehearsal| {
            [0, 1].map(|slot| {
                let status = darc.type_status(slot);
                let first = status.worker_first.map(|WorkerId(first)| first);
                (first.expect("both have some"), status.workers_reserved)
            })
        };
        assert_eq!(reserved(&darc), [(0, 2), (2, 6)]);
        for (present, reservations) in [
            (4, [(0, 1), (1, 3)]),
            (2, [(0, 1), (1, 1)]),
            (1, [(0, 1), (0, 1)]),
            (8, [(0, 2), (2, 6)]),
        ] {
            assert_eq!(darc.has_workers(present), "");
            assert_eq!(reserved(&darc), reservations, "{present}");
        }
        assert_eq!(darc.reservation_updates(), 5);
        darc.has_workers(4);
        assert_eq!(
            darc.arrive_all([1; 5]),
            "0@1, 1@2, 2@3",
            "worker 0 is SHORT's"
        );
        assert_eq!(darc.has_workers(8), "3@4, 4@5");
    }
}
