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
use crate::parts::reservations::Reservations;
use crate::request_type::RequestType;
use crate::scheduler::{Relief, Scheduler, TypeStatus};
use crate::settings;
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) struct Darc {
    pub(crate) grouped: Grouped,
    reservations: Reservations,
}

impl Darc {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Darc) -> Self {
        Self::over(setup, settings, Grouped::new(setup, settings))
    }

    /// As [`Darc::new`], over queues of the caller's own.
    pub(crate) fn over(setup: &SchedulerSetup<'_>, settings: &settings::Darc, mut grouped: Grouped) -> Self {
        let Grouped { plan, profile, .. } = &mut grouped;
        let reservations = Reservations::new(setup, settings, plan, profile);
        Self { grouped, reservations }
    }

    /// Records an event, and learns from the window if that is due.
    pub(crate) fn observe(&mut self, now_ns: u64, event: Event<'_>) -> Option<Learned> {
        self.grouped.record(now_ns, event);
        if matches!(event, Event::Workers { .. }) {
            let Grouped { plan, profile, .. } = &mut self.grouped;
            self.reservations.workers_changed(plan, profile);
        }
        let learned = self.grouped.close_window_if_due(now_ns)?;
        let Grouped { plan, profile, queues, .. } = &mut self.grouped;
        self.reservations.learned(learned, plan, profile, |slot| {
            let oldest = queues.front(slot);
            oldest.map_or(0, |waiting| waiting.waited_ns(now_ns))
        });
        Some(learned)
    }

    /// Records how long a request waited before it was dispatched. Returns the action.
    #[inline]
    pub(crate) fn note_delay(&mut self, dispatch: &Dispatch) -> Action {
        self.reservations.note_delay(dispatch.slot, dispatch.delay_ns);
        dispatch.action
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
        self.reservations.updates()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::event::WorkerId;
    use crate::policy::Policy;
    use crate::rehearsal::Rehearsal;
    use crate::request_type::TypeSpec;
    use crate::setup::StuckAfter;

    #[test]
    fn the_own_thread_runs_what_takes_less_time_than_a_hand_over() {
        let spec = |name, us, share| TypeSpec::new(name).service_time(Duration::from_micros(us)).share(share);
        for (inline, middle, long) in [(true, "0@0, 1@1, 2@2", "0@2"), (false, "0@1, 1@2", "0@2")] {
            let of = |slot: u32| {
                let types = [spec("SHORT", 1, 0.96), spec("MIDDLE", 40, 0.035), spec("LONG", 1_000, 0.005)];
                let mut darc = Rehearsal::with_stuck(Policy::darc(), 3, types, StuckAfter::new(u64::MAX, 9), inline);
                let status = [0, 1, 2].map(|slot| darc.type_status(slot));
                assert_eq!(status.map(|status| status.workers_reserved), [1; 3]);
                assert_eq!(status.map(|status| status.on_own_thread), [inline, inline, false]);
                darc.arrive_all([slot; 3])
            };
            assert_eq!((of(1).as_str(), of(2).as_str()), (middle, long));
        }
    }

    #[test]
    fn reservations_are_over_the_workers_that_are_present() {
        let spec = |name, us, share| TypeSpec::new(name).service_time(Duration::from_micros(us)).share(share);
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
        for (present, reservations) in
            [(4, [(0, 1), (1, 3)]), (2, [(0, 1), (1, 1)]), (1, [(0, 1), (0, 1)]), (8, [(0, 2), (2, 6)])]
        {
            assert_eq!(darc.has_workers(present), "");
            assert_eq!(reserved(&darc), reservations, "{present}");
        }
        assert_eq!(darc.reservation_updates(), 5);
        darc.has_workers(4);
        assert_eq!(darc.arrive_all([1; 5]), "0@1, 1@2, 2@3", "worker 0 is SHORT's");
        assert_eq!(darc.has_workers(8), "3@4, 4@5");
    }
}
