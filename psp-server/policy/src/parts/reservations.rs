//! When DARC reserves workers anew, and for whom (Perséphone 3): over a profile and a plan.

use crate::parts::own_thread::HAND_OVER_NS;
use crate::parts::plan::Plan;
use crate::parts::profile::{Learned, Profile};
use crate::settings;
use crate::setup::SchedulerSetup;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Reservations {
    settings: settings::Darc,
    spillway: u32,
    /// Worker 0 is the driver's own thread.
    inline: bool,
    /// Per type slot: the longest that a request waited, in this window.
    delay_ns_max: Vec<u64>,
    /// Per registered type: its share of the CPU demand when workers were last reserved. `None`
    /// when it was not known.
    demand_reserved: Vec<Option<f64>>,
    /// Whether the demand was still on the move at the last reservation, or that was provisional.
    unsettled: bool,
    updates: u64,
}

impl Reservations {
    /// Reserves workers at once if the length of every type is known.
    pub(crate) fn new(
        setup: &SchedulerSetup<'_>,
        settings: &settings::Darc,
        plan: &mut Plan,
        profile: &Profile,
    ) -> Self {
        let types = setup.types.len();
        let mut reservations = Self {
            settings: settings.clone(),
            spillway: u32::try_from(settings.spillway).unwrap_or(u32::MAX),
            inline: setup.inline,
            delay_ns_max: vec![0; types + 1],
            demand_reserved: vec![None; types],
            unsettled: false,
            updates: 0,
        };
        if types > 0 && !profile.any_unknown() {
            reservations.reserve(plan, profile);
        }
        reservations
    }

    /// How often workers were reserved.
    pub(crate) const fn updates(&self) -> u64 {
        self.updates
    }

    /// A request of the type at `slot` had waited for so long when it began.
    #[inline]
    pub(crate) fn note_delay(&mut self, slot: usize, delay_ns: u64) {
        let delay_ns_max = &mut self.delay_ns_max[slot];
        *delay_ns_max = delay_ns.max(*delay_ns_max);
    }

    /// Workers came or went: if they had been reserved, they are reserved anew.
    pub(crate) fn workers_changed(&mut self, plan: &mut Plan, profile: &Profile) {
        if self.updates > 0 {
            self.reserve(plan, profile);
        }
    }

    /// The profile has learned something. `waiting_ns` says for how long the oldest waiting request of the type
    /// at a slot has waited.
    pub(crate) fn learned(
        &mut self,
        learned: Learned,
        plan: &mut Plan,
        profile: &Profile,
        waiting_ns: impl Fn(usize) -> u64,
    ) {
        match learned {
            Learned::Provisional => {
                self.reserve(plan, profile);
                self.unsettled = true;
            }
            Learned::Window { moved } => self.window_closed(moved, plan, profile, waiting_ns),
        }
    }

    /// Reserves workers anew if the demand has moved.
    ///
    /// If the demand was still moving, another reservation follows when the next window closes: a
    /// moving average needs several windows to arrive, and the rest of its way may be too short to
    /// cause a reservation by itself.
    fn window_closed(&mut self, moved: f64, plan: &mut Plan, profile: &Profile, waiting_ns: impl Fn(usize) -> u64) {
        let outdated = self.demand_moved(profile) && self.any_delayed(profile, waiting_ns);
        if self.unsettled || self.first_measured(profile) || outdated {
            self.reserve(plan, profile);
            self.unsettled = moved > self.settings.demand_deviation;
        }
        self.delay_ns_max.fill(0);
    }

    /// Whether a request waited too long for its type's mean service time. The mean is the window's
    /// own: the moving average of a type that became short lags behind, and would excuse the delay.
    /// Requests that still wait count, since a starved type reaches no worker.
    fn any_delayed(&self, profile: &Profile, waiting_ns: impl Fn(usize) -> u64) -> bool {
        let mut delays = self.delay_ns_max.iter().enumerate();
        delays.any(|(slot, &dispatched_ns)| {
            profile.latest_ns(slot).is_some_and(|mean_ns| {
                let delay_ns = dispatched_ns.max(waiting_ns(slot)) as f64;
                delay_ns > self.settings.slowdown_trigger * mean_ns
            })
        })
    }

    /// Whether the service time of some type is known now and was not at the last reservation.
    fn first_measured(&self, profile: &Profile) -> bool {
        let mut before = self.demand_reserved.iter().enumerate();
        before.any(|(slot, before)| before.is_none() && profile.knows_length(slot))
    }

    /// Whether some type's share of the demand is far from what workers were reserved for.
    fn demand_moved(&self, profile: &Profile) -> bool {
        let mut before = self.demand_reserved.iter().enumerate();
        before.any(|(slot, before)| {
            let moved = profile.demand(slot) - before.unwrap_or(0.0);
            moved.abs() > self.settings.demand_deviation
        })
    }

    fn reserve(&mut self, plan: &mut Plan, profile: &Profile) {
        plan.regroup(self.settings.delta, |slot| profile.mean_ns(slot));
        plan.reserve_by_demand(|slot| profile.demand(slot), self.spillway, self.settings.stealing);
        if self.inline {
            plan.open_own_thread(HAND_OVER_NS, |slot| profile.mean_ns(slot));
        }
        for (slot, demand) in self.demand_reserved.iter_mut().enumerate() {
            *demand = profile.mean_ns(slot).map(|_| profile.demand(slot));
        }
        self.updates += 1;
    }
}
