//! The requests of a simulation in order of arrival. The plan's workload, load and seed fix them,
//! so every policy sees the same requests.

use std::ops::ControlFlow;

use psp_policy::admission::PRIORITY_DEFAULT;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::plan::SimPlan;
use crate::random::{WeightedChoice, stream_rng};
use crate::workload::{Gaps, Phase, PhaseLength, ServiceTimes, WorkloadType};

/// The purposes of random numbers. Each has a stream of its own, so that none disturbs another.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    Gaps,
    Types,
    ServiceTimes,
    Classifier,
    Spread,
    Preemptions,
    Clients,
    Retries,
}

impl Stream {
    pub(super) fn rng(self, seed: u64) -> Xoshiro256PlusPlus {
        stream_rng(seed, self as u64)
    }
}

/// Arrivals between two progress reports.
const PROGRESS_ARRIVALS: u64 = 1 << 16;

/// A request as it arrives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at_ns: u64,
    /// Index of its type in the workload.
    pub(super) kind: u32,
    pub(super) service_ns: u64,
    pub(super) wait_ns: u64,
    pub(super) priority: u8,
    /// 0 for nobody in particular.
    pub(super) tenant: u32,
}

/// A phase, ready to draw from.
#[derive(Debug)]
struct Mix {
    length: PhaseLength,
    gap_mean_ns: f64,
    /// For each type but the last: the end of its part of the range of 64-bit numbers.
    ends: Vec<u64>,
    service_times: Vec<ServiceTimes>,
    waits_ns: Vec<u64>,
}

impl Mix {
    fn new(plan: &SimPlan, length: PhaseLength, load: f64, types: &[WorkloadType]) -> Self {
        let mut total = 0.0;
        let mut ends: Vec<u64> = types
            .iter()
            .map(|ty| {
                total += ty.share;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the conversion saturates"
                )]
                let end = (total * 2_f64.powi(64)) as u64;
                end
            })
            .collect();
        ends.pop();
        Self {
            length,
            gap_mean_ns: plan.gap_mean_ns(types, load),
            ends,
            service_times: types.iter().map(|ty| ServiceTimes::new(ty.distribution, ty.service_ns)).collect(),
            waits_ns: types.iter().map(|ty| ty.wait_ns).collect(),
        }
    }
}

/// See the [module](self).
pub(super) struct Arrivals<'a> {
    mixes: Vec<Mix>,
    mix: usize,
    /// When the current mix ends by time; infinity if it does not.
    mix_ends_ns: f64,
    /// How many arrivals the current mix has left; `u64::MAX` if it does not end by number.
    mix_left: u64,
    gaps: Gaps,
    types: Xoshiro256PlusPlus,
    service_times: Xoshiro256PlusPlus,
    clients: Xoshiro256PlusPlus,
    priorities: Option<WeightedChoice>,
    tenants: Option<WeightedChoice>,
    /// Time of the last arrival drawn, with fractions of a nanosecond.
    clock_ns: f64,
    drawn: u64,
    warmup: u64,
    total: u64,
    next: Option<Arrival>,
    progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    interrupted: bool,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(plan: &SimPlan, progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>) -> Self {
        let phase = |phase: &Phase| Mix::new(plan, phase.length, phase.load, &phase.types);
        let mut mixes: Vec<Mix> = plan.workload.phases.iter().map(phase).collect();
        if mixes.is_empty() {
            mixes.push(Mix::new(plan, PhaseLength::Open, 1.0, &plan.workload.types));
        }
        let clients = &plan.workload.clients;
        let choice = |shares: &[f64]| WeightedChoice::new(shares.iter().copied());
        let mut arrivals = Self {
            mixes,
            mix: 0,
            mix_ends_ns: f64::INFINITY,
            mix_left: u64::MAX,
            gaps: Gaps::new(plan.workload.arrivals, plan.seed, Stream::Gaps as u64),
            types: Stream::Types.rng(plan.seed),
            service_times: Stream::ServiceTimes.rng(plan.seed),
            clients: Stream::Clients.rng(plan.seed),
            priorities: choice(&clients.priorities),
            tenants: choice(&clients.tenants),
            clock_ns: 0.0,
            drawn: 0,
            warmup: plan.warmup,
            total: plan.warmup + plan.requests,
            next: None,
            progress,
            interrupted: false,
        };
        arrivals.draw();
        arrivals
    }

    /// The next arrival, without consuming it. `None` after the last.
    #[inline]
    pub(super) fn peek(&self) -> Option<&Arrival> {
        self.next.as_ref()
    }

    /// Time of the next arrival; the end of time after the last.
    #[inline]
    pub(super) fn next_ns(&self) -> u64 {
        self.next.map_or(u64::MAX, |arrival| arrival.at_ns)
    }

    /// The next arrival.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Arrival> {
        let next = self.next.take();
        self.draw();
        next
    }

    /// Whether the caller of the simulation ended it.
    pub(super) const fn interrupted(&self) -> bool {
        self.interrupted
    }

    fn draw(&mut self) {
        if self.drawn.is_multiple_of(PROGRESS_ARRIVALS) || self.drawn == self.total {
            self.interrupted |= (self.progress)(self.drawn).is_break();
        }
        if self.drawn == self.total || self.interrupted {
            return;
        }
        self.advance_clock();
        if self.drawn == self.warmup {
            self.begin_mix(0);
        }
        self.drawn += 1;
        self.mix_left -= u64::from(self.mix_left != u64::MAX);
        let mix = &self.mixes[self.mix];
        let kind = if mix.ends.is_empty() {
            0
        } else {
            let drawn: u64 = self.types.random();
            mix.ends.iter().map(|&end| usize::from(drawn >= end)).sum()
        };
        let service_ns = mix.service_times[kind].draw(&mut self.service_times);
        let wait_ns = mix.waits_ns[kind];
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the clock is positive, and kinds are few"
        )]
        let (at_ns, kind) = (self.clock_ns as u64, kind as u32);
        let mut drawn = |choice: &WeightedChoice| choice.draw(self.clients.random()).0;
        let priority = self.priorities.as_ref().map_or(PRIORITY_DEFAULT, |choice| drawn(choice) as u8);
        let tenant = self.tenants.as_ref().map_or(0, |choice| drawn(choice) as u32 + 1);
        self.next = Some(Arrival { at_ns, kind, service_ns, wait_ns, priority, tenant });
    }

    /// Moves the clock to the next arrival. A gap that reaches into later phases passes through
    /// each phase at that phase's rate.
    #[inline]
    fn advance_clock(&mut self) {
        if self.mix_left == 0 {
            self.begin_mix(self.mix + 1);
        }
        let mut gap = self.gaps.draw();
        loop {
            let gap_mean_ns = self.mixes[self.mix].gap_mean_ns;
            let at_ns = self.clock_ns + gap * gap_mean_ns;
            if at_ns < self.mix_ends_ns {
                self.clock_ns = at_ns;
                return;
            }
            gap -= (self.mix_ends_ns - self.clock_ns) / gap_mean_ns;
            self.clock_ns = self.mix_ends_ns;
            self.begin_mix(self.mix + 1);
        }
    }

    /// Begins the mix of that number. The last mix lasts to the end.
    fn begin_mix(&mut self, number: usize) {
        let is_last = number + 1 >= self.mixes.len();
        self.mix = number.min(self.mixes.len() - 1);
        self.mix_ends_ns = f64::INFINITY;
        self.mix_left = u64::MAX;
        if is_last {
            return;
        }
        match self.mixes[self.mix].length {
            PhaseLength::Time { duration_ns } => {
                self.mix_ends_ns = self.clock_ns + duration_ns as f64;
            }
            PhaseLength::Requests(requests) => self.mix_left = requests,
            PhaseLength::Open => {}
        }
    }
}
