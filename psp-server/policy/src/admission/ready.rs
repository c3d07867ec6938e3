//! The ready admission.

use super::admit::{AdmissionStatus, Admit, Arrival, PRIORITIES, Reason, Refusal, Ticket, Turn, Verdict};
use super::demand::Demand;
use super::expected::{Line, Service};
use super::limit::Limit;
use super::places::{Doing, LEVELS, OVER_SHARE, Place, Places};
use super::settings::AdmissionSettings;
use super::tenants::Tenants;
use crate::request_type::TypeTable;

/// Part of an SLO's slack that a queue may take while its type asks for more than its entitlement: such a queue is
/// always there, and need only be as long that workers find something in it.
const TARGET_PART: f64 = 0.25;

/// The same while the type asks for less: such a queue comes and goes.
const BURST_PART: f64 = 0.9;

/// A type asks for its entitlement if it asks for this part of it: demand is an average.
const ASKS: f64 = 0.95;

/// A type is hurt by others if it gets less than this part of its due: of what it asks for and is entitled to, as far
/// as workers are kept busy.
const GETS: f64 = 0.93;

/// The least SLO, in mean service times.
const SLO_LEAST: f64 = 2.0;

/// An interval of demand, in mean service times of the longest type.
const INTERVAL_MEANS: f64 = 2.0;

/// The shortest and the longest interval of demand, in nanoseconds.
const INTERVAL_NS: [f64; 2] = [100e3, 1e9];

/// Time in the shortest interval for each type.
const INTERVAL_NS_PER_TYPE: f64 = 10e3;

/// CoDel's interval for types without an SLO, in targets.
const CODEL_INTERVAL_TARGETS: f64 = 20.0;

/// So many requests more than allowed must be hurt before anything is cut: one is chance.
const HURT_MIN: f64 = 4.0;

/// A type is to blame for what happens to another if it runs so many times as much of its entitlement.
const TO_BLAME: f64 = 1.1;

/// The least that a type's limit is cut to for its own sake: a short queue keeps workers busy.
const OWN_LEAST: f64 = 1.5;

/// What happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    InTime,
    Late,
    /// Refused though its type gets less than it should.
    CrowdedOut,
}

/// How the requests of a type fare.
#[derive(Debug, Clone, Copy, Default)]
struct Fares {
    /// How many more were hurt than allowed, since nobody was.
    excess: f64,
    /// Requests in this interval, and in one on average.
    ended: f64,
    ended_mean: f64,
}

impl Fares {
    fn close(&mut self) {
        self.ended_mean += (std::mem::take(&mut self.ended) - self.ended_mean) / 8.0;
    }
}

/// One type.
#[derive(Debug, Clone)]
struct Type {
    slo_given_ns: Option<f64>,
    service: Service,
    lines: [Line; LEVELS],
    limit: Limit,
    fares: Fares,
    /// Since when its oldest request has waited for longer than the target each time that one began.
    over_target_since_ns: Option<u64>,
    under_pressure: bool,
    admitted: u64,
    refused: [u64; 4],
    dropped: u64,
}

impl Type {
    fn refuse(&mut self, reason: Reason, retry_after_ns: f64) -> Verdict {
        self.refused[reason as usize] += 1;
        let retry_after_ns = (retry_after_ns as u64).max(1);
        Verdict::Refuse(Refusal { reason, retry_after_ns })
    }
}

/// The ready [`Admit`]: it lets in what can end in time, and shares the workers' time fairly among types and tenants.
///
/// - **Entitlement.** Each type may have an equal part of the workers' time, and what others leave of theirs.
/// - **Time, not count.** So many requests of a type are in the system that its queue is worth a quarter of its slack:
///   of its SLO less its service time.
/// - **Who is hurt is heard.** If more than the SLO's percentile allows of a type's requests are too late, the types
///   that fill their entitlements more than it does have less in the system from then on, down to no queue at all, and
///   below. When nobody is hurt they slowly get more.
/// - **Feasible or not.** A request that is not expected to end in time is refused at once. If its turn comes when it
///   cannot end in time any more, it is dropped.
/// - **Who goes first.** Within a type the higher priority; then the older one, and the newer one as long as requests
///   wait for longer than the target. A request counts only those of its own and of higher priorities as in its way.
///   Requests of a tenant over its share come last.
///
/// While a type's mean service time is unknown, only the table of requests bounds it.
#[derive(Debug)]
pub struct Admission {
    settings: AdmissionSettings,
    workers: f64,
    types: Vec<Type>,
    unknown: usize,
    places: Places,
    demand: Demand,
    tenants: Tenants,
    interval_began_ns: Option<u64>,
    interval_ns: f64,
}

impl Admission {
    /// Admission for a server of so many workers with these types.
    ///
    /// # Panics
    ///
    /// If the settings are [not valid](AdmissionSettings::validate), or there is no worker.
    #[must_use]
    pub fn new(workers: usize, types: &TypeTable, settings: AdmissionSettings) -> Self {
        assert!(workers > 0, "there is at least one worker");
        settings.validate().expect("valid settings");
        let slots = types.len() + 1;
        let of_slot = |slot: usize| {
            let spec = types.specs().get(slot);
            let ns = |time: std::time::Duration| time.as_nanos() as f64;
            Type {
                slo_given_ns: spec.and_then(|spec| spec.slo).map(ns),
                service: Service::new(spec.and_then(|spec| spec.service_time).map_or(0.0, ns)),
                lines: [Line::new(); LEVELS],
                limit: Limit::new(),
                fares: Fares::default(),
                over_target_since_ns: None,
                under_pressure: false,
                admitted: 0,
                refused: [0; 4],
                dropped: 0,
            }
        };
        let mut admission = Self {
            workers: workers as f64,
            types: (0..slots).map(of_slot).collect(),
            unknown: types.len(),
            places: Places::new(slots, settings.requests_max),
            demand: Demand::new(slots),
            tenants: Tenants::new(settings.tenant_share_max),
            settings,
            interval_began_ns: None,
            interval_ns: 0.0,
        };
        admission.interval_ns = admission.next_interval_ns();
        admission
    }

    fn next_interval_ns(&self) -> f64 {
        let means = self.types.iter().map(|ty| ty.service.mean_ns());
        let longest_ns = means.fold(0.0, f64::max);
        let [shortest, longest] = INTERVAL_NS;
        let shortest = shortest.max(INTERVAL_NS_PER_TYPE * self.types.len() as f64);
        (longest_ns * INTERVAL_MEANS).clamp(shortest, longest)
    }

    /// The SLO of a type; infinity for none.
    fn slo_ns(&self, slot: usize) -> f64 {
        let ty = &self.types[slot];
        let mean_ns = ty.service.mean_ns();
        let by_mean = || {
            let slowdown = self.settings.slo_slowdown;
            (slowdown > 0.0 && mean_ns > 0.0).then_some(slowdown * mean_ns)
        };
        let slo_ns = ty.slo_given_ns.or_else(by_mean);
        slo_ns.map_or(f64::INFINITY, |slo_ns| slo_ns.max(SLO_LEAST * mean_ns))
    }

    /// CoDel's target and interval: how long requests of a type may wait while it is over its entitlement, and for how
    /// long that may be exceeded.
    fn target_ns(&self, slot: usize) -> [f64; 2] {
        let slo_ns = self.slo_ns(slot);
        if slo_ns.is_finite() {
            let slack_ns = slo_ns - self.types[slot].service.mean_ns();
            [slack_ns * TARGET_PART, slo_ns / 2.0]
        } else {
            let target_ns = self.settings.target_us * 1e3;
            [target_ns, target_ns * CODEL_INTERVAL_TARGETS]
        }
    }

    /// Workers that the type is entitled to.
    fn entitled(&self, slot: usize) -> f64 {
        self.demand.entitled(slot) * self.workers
    }

    /// Whether requests of the type, of this level and those above, ask for all that the type is entitled to.
    fn asks_for_all(&self, slot: usize, level: usize) -> bool {
        self.demand.offered_above(slot, level) > ASKS * self.demand.entitled(slot)
    }

    /// Whether the type gets less than it should.
    fn gets_too_little(&self, slot: usize) -> bool {
        let due = self.demand.offered(slot).min(self.demand.entitled(slot));
        self.demand.used(slot) < GETS * due * self.demand.used_by_all()
    }

    /// The most of a type's limit: with it the queue is worth the target, or as much as comes in a burst.
    fn factor_max(&self, slot: usize, level: usize) -> f64 {
        let target_ns = self.target_ns(slot)[0];
        let part = if self.asks_for_all(slot, level) {
            1.0
        } else {
            BURST_PART / TARGET_PART
        };
        1.0 + target_ns * part / self.types[slot].service.mean_ns()
    }

    /// As many requests of the type, of this level and those above, may be in the system.
    fn in_system_max(&self, slot: usize, level: usize) -> f64 {
        let ty = &self.types[slot];
        if ty.service.mean_ns() == 0.0 {
            return f64::INFINITY;
        }
        (ty.limit.factor(self.factor_max(slot, level)) * self.entitled(slot)).max(1.0)
    }

    /// Requests of the type that began and did not end, for each worker that it is entitled to.
    fn pressure(&self, slot: usize) -> f64 {
        let began = self.places.in_system(slot, OVER_SHARE) - self.places.waiting(slot, OVER_SHARE);
        f64::from(began) / self.entitled(slot)
    }

    /// Closes intervals that have ended.
    #[inline]
    fn pass(&mut self, now_ns: u64) {
        let began_ns = *self.interval_began_ns.get_or_insert(now_ns);
        let passed_ns = now_ns.saturating_sub(began_ns) as f64;
        if passed_ns >= self.interval_ns {
            self.close_interval(now_ns, passed_ns);
        }
    }

    fn close_interval(&mut self, now_ns: u64, passed_ns: f64) {
        self.interval_began_ns = Some(now_ns);
        let workers_ns = passed_ns * self.workers;
        self.demand.close(workers_ns);
        self.tenants.close(workers_ns);
        for slot in 0..self.types.len() {
            // The largest of any level: each has its own bound beside it.
            let most = self.factor_max(slot, 0);
            self.types[slot].limit.close(most);
            self.types[slot].fares.close();
        }
        self.interval_ns = self.next_interval_ns();
    }

    /// What happened to a request of the type. If more are hurt than the SLO's percentile allows, by more than comes in
    /// a burst, those who take more of their entitlements than it does are cut.
    ///
    /// What happens to the requests of a tenant over its share is no reason.
    fn fares(&mut self, now_ns: u64, (slot, level): (usize, usize), fate: Fate) {
        if level == OVER_SHARE {
            return;
        }
        let allowed = 1.0 - self.settings.slo_percentile / 100.0;
        let fares = &mut self.types[slot].fares;
        fares.ended += 1.0;
        let hurt = f64::from(u8::from(fate != Fate::InTime));
        fares.excess = (fares.excess + hurt - allowed).max(0.0);
        if fares.excess > HURT_MIN + allowed * fares.ended_mean {
            fares.excess = 0.0;
            self.relieve(now_ns, (slot, level), fate);
        }
    }

    /// Too many requests of the type at `hurt` are.
    fn relieve(&mut self, now_ns: u64, (hurt, level): (usize, usize), fate: Fate) {
        // Who runs no more than its entitlement crowds nobody out, but its requests may be in the way of others.
        let least = if fate == Fate::CrowdedOut { 1.0 } else { 0.0 };
        let pressure = (self.pressure(hurt) * TO_BLAME).max(least);
        let mut others = false;
        for slot in (0..self.types.len()).filter(|slot| *slot != hurt) {
            if self.pressure(slot) > pressure {
                others = true;
                self.cut(now_ns, slot, least);
            }
        }
        if !others && fate == Fate::Late && self.asks_for_all(hurt, level) {
            self.cut(now_ns, hurt, OWN_LEAST);
        }
    }

    fn cut(&mut self, now_ns: u64, slot: usize, floor: f64) {
        let most = self.factor_max(slot, OVER_SHARE);
        let pause_ns = self.types[slot].service.mean_ns();
        if most.is_finite() && self.types[slot].limit.cut(now_ns, most, floor, pause_ns) {
            for ty in &mut self.types {
                ty.fares.excess = 0.0;
            }
        }
    }

    /// Follows CoDel as a request of the type begins.
    fn note_waiting(&mut self, now_ns: u64, slot: usize) {
        // Of the level that is served now: others wait for this one.
        let oldest = self.places.oldest(slot).next().map(|ticket| self.places.get(ticket).arrived_ns);
        let oldest_ns = oldest.unwrap_or(now_ns);
        let [target_ns, interval_ns] = self.target_ns(slot);
        let ty = &mut self.types[slot];
        if (now_ns.saturating_sub(oldest_ns) as f64) < target_ns {
            ty.over_target_since_ns = None;
            ty.under_pressure = false;
            return;
        }
        let since_ns = *ty.over_target_since_ns.get_or_insert(now_ns);
        ty.under_pressure = (now_ns - since_ns) as f64 >= interval_ns;
    }

    /// Whether a request can still end in time, if it begins now and takes as long as its like.
    fn is_too_late(&self, now_ns: u64, place: &Place) -> bool {
        let ends_ns = now_ns.saturating_add(self.types[place.slot].service.mean_ns() as u64);
        ends_ns > place.due_ns
    }

    /// Which request of the type takes its turn, given the one whose turn it is.
    fn choose(&self, now_ns: u64, ticket: Ticket) -> Ticket {
        let slot = self.places.get(ticket).slot;
        if self.places.is_ordered(slot) {
            return ticket;
        }
        let mut oldest = self.places.oldest(slot);
        let late = oldest.find(|ticket| self.is_too_late(now_ns, self.places.get(*ticket)));
        let newest = || self.places.newest(slot).filter(|_| self.types[slot].under_pressure);
        late.or_else(newest).or_else(|| self.places.oldest(slot).next()).unwrap_or(ticket)
    }
}

impl Admit for Admission {
    fn arrive(&mut self, now_ns: u64, arrival: &Arrival) -> Verdict {
        self.pass(now_ns);
        let slot = arrival.request_type.index().map_or(self.unknown, |index| index.min(self.unknown));
        let mean_ns = self.types[slot].service.mean_ns();
        let service_ns = mean_ns * f64::from(arrival.count);
        let over_share = self.tenants.asks(arrival.tenant, service_ns);
        let level = if over_share {
            OVER_SHARE
        } else {
            usize::from(arrival.priority.min(PRIORITIES - 1))
        };
        self.demand.arrived(slot, level, service_ns);
        let in_system = self.places.in_system(slot, level);
        if f64::from(in_system) + 1.0 > self.in_system_max(slot, level) {
            let retry_ns = mean_ns.max(self.target_ns(slot)[0]);
            let ty = &mut self.types[slot];
            if over_share {
                return ty.refuse(Reason::OverShare, self.interval_ns.max(retry_ns));
            }
            ty.limit.refused();
            if self.gets_too_little(slot) {
                self.fares(now_ns, (slot, level), Fate::CrowdedOut);
            }
            return self.types[slot].refuse(Reason::OverTarget, retry_ns);
        }
        let slo_ns = self.slo_ns(slot);
        let in_line = f64::from(self.places.waiting(slot, level) + 1);
        let memory_ns = self.target_ns(slot)[1];
        let wait_ns = self.types[slot].lines[level].wait_ns(now_ns, in_line, memory_ns);
        let by_slo_ns = arrival.arrived_ns.saturating_add(slo_ns as u64);
        let due_ns = arrival.deadline_ns.map_or(by_slo_ns, |deadline_ns| deadline_ns.min(by_slo_ns));
        if now_ns as f64 + wait_ns + service_ns > due_ns as f64 {
            // A request whose own deadline was too near is nobody's fault.
            if due_ns == by_slo_ns && self.gets_too_little(slot) {
                self.fares(now_ns, (slot, level), Fate::CrowdedOut);
            }
            return self.types[slot].refuse(Reason::Infeasible, wait_ns.max(mean_ns));
        }
        let Some(ticket) = self.places.insert(slot, level, arrival) else {
            return self.types[slot].refuse(Reason::OutOfRoom, wait_ns.max(mean_ns));
        };
        self.tenants.charge(arrival.tenant, service_ns);
        let place = self.places.get_mut(ticket);
        place.due_ns = due_ns;
        place.in_line = in_line;
        place.expected_ns = wait_ns;
        place.charged_ns = service_ns;
        self.types[slot].admitted += 1;
        Verdict::Admit(ticket)
    }

    fn begin(&mut self, now_ns: u64, ticket: Ticket) -> Turn {
        self.note_waiting(now_ns, self.places.get(ticket).slot);
        let chosen = self.choose(now_ns, ticket);
        let instead = (chosen != ticket).then(|| self.places.swap_names(ticket, chosen));
        let place = *self.places.get(chosen);
        self.places.leave_lane(chosen);
        if self.is_too_late(now_ns, &place) {
            self.types[place.slot].dropped += 1;
            self.places.remove(chosen);
            self.tenants.charge(place.tenant, -place.charged_ns);
            self.fares(now_ns, (place.slot, place.level), Fate::Late);
            return Turn::new(false, instead);
        }
        let waited_ns = now_ns.saturating_sub(place.arrived_ns) as f64;
        let line = &mut self.types[place.slot].lines[place.level];
        line.began(now_ns, waited_ns, place.in_line, place.expected_ns);
        Turn::new(true, instead)
    }

    fn end(&mut self, now_ns: u64, ticket: Ticket, served_ns: u64, done: u32) {
        self.pass(now_ns);
        let place = self.places.remove(ticket);
        let served_ns = served_ns as f64;
        self.tenants.charge(place.tenant, served_ns - place.charged_ns);
        self.demand.served(place.slot, served_ns);
        let slo_ns = self.slo_ns(place.slot);
        let service = &mut self.types[place.slot].service;
        let done = done.max(1);
        let each_ns = served_ns / f64::from(done);
        let longer = (each_ns / service.mean_ns()).max(1.0);
        service.served(each_ns, done);
        let took_ns = now_ns.saturating_sub(place.arrived_ns) as f64;
        let fate = if took_ns > slo_ns * longer {
            Fate::Late
        } else {
            Fate::InTime
        };
        self.fares(now_ns, (place.slot, place.level), fate);
    }

    fn cancel(&mut self, now_ns: u64, ticket: Ticket) {
        self.pass(now_ns);
        if self.places.get(ticket).doing == Doing::Waits {
            self.places.leave_lane(ticket);
        }
        let place = self.places.remove(ticket);
        self.tenants.charge(place.tenant, -place.charged_ns);
    }

    fn block(&mut self, now_ns: u64, ticket: Ticket) {
        self.places.block(now_ns, ticket);
    }

    fn unblock(&mut self, now_ns: u64, ticket: Ticket) {
        self.places.unblock(now_ns, ticket);
    }

    fn workers(&mut self, now_ns: u64, present: usize) {
        self.pass(now_ns);
        self.workers = present.max(1) as f64;
    }

    fn status(&self, slot: usize) -> AdmissionStatus {
        let ty = &self.types[slot];
        let mean_ns = ty.service.mean_ns();
        let slo_ns = self.slo_ns(slot);
        AdmissionStatus {
            admitted: ty.admitted,
            refused: ty.refused,
            dropped: ty.dropped,
            in_system: u64::from(self.places.in_system(slot, OVER_SHARE)),
            in_system_max: self.in_system_max(slot, OVER_SHARE),
            workers_fair: self.entitled(slot),
            workers_offered: self.demand.offered(slot) * self.workers,
            service_ns_mean: mean_ns,
            slo_ns: if slo_ns.is_finite() { slo_ns } else { 0.0 },
            slo_infeasible: ty.slo_given_ns.is_some_and(|given_ns| given_ns < SLO_LEAST * mean_ns),
            expectation_error_ns: ty.lines.iter().map(Line::error_ns).fold(0.0, f64::max),
            under_pressure: ty.under_pressure,
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
