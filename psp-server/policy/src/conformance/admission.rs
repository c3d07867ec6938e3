//! The same for an [`Admit`]: arbitrary requests that come, run, wait and leave, beside a model of who is inside.

use std::fmt;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::kit::CASES;
use crate::admission::{AdmissionStatus, Admit, Arrival, PRIORITIES, Ticket, Turn, Verdict};
use crate::event::RequestId;
use crate::request_type::{RequestType, TypeSpec, TypeTable};

/// Attempts after which an empty server lets a request in.
const ATTEMPTS_MAX: usize = 100;

/// The types of all cases; beside them there is `UNKNOWN`.
const TYPES: usize = 3;

/// What an [`Admit`] can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AdmitPromise {
    /// No two requests inside have the same ticket.
    Tickets,
    /// The request that goes instead of another one is of its type and waits.
    Instead,
    /// While a request of the type waits that must begin in order, no other one goes instead.
    InOrder,
    /// No request is let in, or run, whose deadline has passed.
    Deadlines,
    /// A refusal says when to come again: later.
    RetryAfter,
    /// An empty server lets a request in that comes whenever it is told to, at the latest at the hundredth attempt.
    LetsIn,
    /// If there is a status, it counts who was admitted, refused and dropped.
    Telemetry,
}

/// A promise that an [`Admit`] broke, and how.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BrokenAdmit {
    /// The promise.
    pub promise: AdmitPromise,
    /// What it did.
    pub what: String,
    /// The shortest case that was found, as text.
    pub case: String,
}

impl fmt::Display for BrokenAdmit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} is broken: {}\nin the case {}", self.promise, self.what, self.case)
    }
}

/// Applies arbitrary events to what `make` makes for so many workers and these types, in [`CASES`] cases that are the
/// same in every run.
///
/// ```
/// use psp_policy::admission::{Admission, AdmissionSettings};
/// use psp_policy::conformance::check_admit;
///
/// let make = |workers, types: &_| Admission::new(workers, types, AdmissionSettings::default());
/// assert_eq!(check_admit(make), Ok(()));
/// ```
///
/// # Errors
///
/// The promise that was broken, with the shortest case that was found.
///
/// # Panics
///
/// When the admission panics.
pub fn check_admit<A: Admit>(make: impl Fn(usize, &TypeTable) -> A) -> Result<(), BrokenAdmit> {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let check = |case: &Case| Model::new(make(case.workers, &types()), case.workers).check(case);
    let result = runner.run(&case(), |case| {
        check(&case).map_err(|(promise, what)| TestCaseError::fail(format!("{promise:?}: {what}")))
    });
    match result {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, case)) => match check(&case) {
            Err((promise, what)) => Err(BrokenAdmit { promise, what, case: format!("{case:#?}") }),
            Ok(()) => panic!("{reason}"),
        },
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

/// One has an SLO and a hint, one an SLO that is too short for it, and one nothing.
fn types() -> TypeTable {
    let us = std::time::Duration::from_micros;
    [
        TypeSpec::new("SHORT").service_time(us(1)).slo(us(10)),
        TypeSpec::new("LONG").service_time(us(100)).slo(us(50)),
        TypeSpec::new("ANY"),
    ]
    .into_iter()
    .collect()
}

#[derive(Debug, Clone)]
struct Case {
    workers: usize,
    steps: Vec<Step>,
}

/// One thing that happens. `nth` counts round and round the requests that there are.
#[derive(Debug, Clone)]
enum Step {
    Arrive {
        slot: usize,
        count: u32,
        priority: u8,
        tenant: u32,
        within_ns: Option<u64>,
        ordered: bool,
    },
    Begin {
        nth: usize,
    },
    End {
        nth: usize,
        served_ns: u64,
    },
    /// A request leaves that waits, or whose turn has just begun.
    Cancel {
        nth: usize,
    },
    /// A running request is blocked, or a blocked one no longer.
    BlockOrUnblock {
        nth: usize,
    },
    Workers {
        present: usize,
    },
    Advance {
        ns: u64,
    },
}

fn case() -> impl Strategy<Value = Case> {
    let time_ns = prop_oneof![0..2_000_u64, 0..2_000_000_u64];
    let arrive = (
        0..=TYPES,
        1..5_u32,
        0..=PRIORITIES,
        0..4_u32,
        prop::option::of(time_ns.clone()),
        prop::bool::ANY,
    );
    let arrive = arrive.prop_map(|(slot, count, priority, tenant, within_ns, ordered)| Step::Arrive {
        slot,
        count,
        priority,
        tenant,
        within_ns,
        ordered,
    });
    let nth = 0..64_usize;
    let step = prop_oneof![
        6 => arrive,
        4 => nth.clone().prop_map(|nth| Step::Begin { nth }),
        3 => (nth.clone(), time_ns.clone()).prop_map(|(nth, served_ns)| Step::End { nth, served_ns }),
        1 => nth.clone().prop_map(|nth| Step::Cancel { nth }),
        1 => nth.prop_map(|nth| Step::BlockOrUnblock { nth }),
        1 => (1..9_usize).prop_map(|present| Step::Workers { present }),
        4 => time_ns.prop_map(|ns| Step::Advance { ns }),
    ];
    (1..9_usize, prop::collection::vec(step, 0..200)).prop_map(|(workers, steps)| Case { workers, steps })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Waits,
    Runs,
    Blocked,
}

/// A request inside, with its name and its ticket.
#[derive(Debug, Clone, Copy)]
struct Inside {
    arrival: Arrival,
    slot: usize,
    ticket: Ticket,
    doing: Doing,
}

struct Model<A> {
    admit: A,
    now_ns: u64,
    workers: usize,
    next_id: u32,
    inside: Vec<Inside>,
    /// Per type slot: admitted, refused, dropped.
    counts: [[u64; 3]; TYPES + 1],
}

type Checked<T = ()> = Result<T, (AdmitPromise, String)>;

fn broken<T>(promise: AdmitPromise, what: impl Into<String>) -> Checked<T> {
    Err((promise, what.into()))
}

impl<A: Admit> Model<A> {
    fn new(admit: A, workers: usize) -> Self {
        Self {
            admit,
            now_ns: 1_000,
            workers,
            next_id: 0,
            inside: Vec::new(),
            counts: [[0; 3]; TYPES + 1],
        }
    }

    fn check(mut self, case: &Case) -> Checked {
        for step in &case.steps {
            self.apply(step)?;
            self.check_status()?;
        }
        self.lets_in()
    }

    fn apply(&mut self, step: &Step) -> Checked {
        match *step {
            Step::Arrive { slot, count, priority, tenant, within_ns, ordered } => {
                let arrival = Arrival::new(RequestId(self.next_id), type_of(slot), self.now_ns)
                    .count(count)
                    .priority(priority)
                    .tenant(tenant)
                    .deadline_ns(within_ns.map(|ns| self.now_ns + ns))
                    .ordered(ordered);
                self.arrive(slot, arrival).map(|_| ())
            }
            Step::Begin { nth } => self.nth(nth, Doing::Waits).map_or(Ok(()), |at| self.begin(at)),
            Step::End { nth, served_ns } => {
                if let Some(at) = self.nth(nth, Doing::Runs) {
                    let Inside { ticket, .. } = self.inside.remove(at);
                    self.admit.end(self.now_ns, ticket, served_ns, 1);
                }
                Ok(())
            }
            Step::Cancel { nth } => {
                let (waits, runs) = (self.nth(nth, Doing::Waits), self.nth(nth, Doing::Runs));
                if let Some(at) = waits.filter(|_| nth % 2 == 0).or(runs) {
                    let Inside { ticket, .. } = self.inside.remove(at);
                    self.admit.cancel(self.now_ns, ticket);
                }
                Ok(())
            }
            Step::BlockOrUnblock { nth } => {
                self.block_or_unblock(nth);
                Ok(())
            }
            Step::Workers { present } => {
                self.workers = present;
                self.admit.workers(self.now_ns, present);
                Ok(())
            }
            Step::Advance { ns } => {
                self.now_ns += ns;
                Ok(())
            }
        }
    }

    /// Where the n-th request is that does this.
    fn nth(&self, nth: usize, doing: Doing) -> Option<usize> {
        let places = self.inside.iter().enumerate().filter(|(_, inside)| inside.doing == doing);
        let places: Vec<usize> = places.map(|(at, _)| at).collect();
        places.get(nth % places.len().max(1)).copied()
    }

    /// Returns the time after which a refused request may come again.
    fn arrive(&mut self, slot: usize, arrival: Arrival) -> Checked<Option<u64>> {
        self.next_id += 1;
        match self.admit.arrive(self.now_ns, &arrival) {
            Verdict::Refuse(refusal) => {
                self.counts[slot][1] += 1;
                match refusal.retry_after_ns {
                    0 => broken(AdmitPromise::RetryAfter, format!("{refusal:?}")),
                    retry_after_ns => Ok(Some(retry_after_ns)),
                }
            }
            Verdict::Admit(ticket) => {
                self.counts[slot][0] += 1;
                if self.inside.iter().any(|inside| inside.ticket == ticket) {
                    return broken(AdmitPromise::Tickets, format!("{ticket:?} is another request's"));
                }
                if self.is_past(&arrival) {
                    return broken(AdmitPromise::Deadlines, format!("{arrival:?} is let in at {}", self.now_ns));
                }
                self.inside.push(Inside { arrival, slot, ticket, doing: Doing::Waits });
                Ok(None)
            }
        }
    }

    fn is_past(&self, arrival: &Arrival) -> bool {
        arrival.deadline_ns.is_some_and(|deadline_ns| deadline_ns < self.now_ns)
    }

    fn begin(&mut self, first: usize) -> Checked {
        let Inside { arrival, slot, ticket, .. } = self.inside[first];
        let Turn { runs, instead } = self.admit.begin(self.now_ns, ticket);
        let mut at = first;
        if let Some(name) = instead {
            let waiting = |inside: &Inside| inside.doing == Doing::Waits && inside.slot == slot;
            let is_ordered = self.inside.iter().any(|inside| waiting(inside) && inside.arrival.ordered);
            match self.inside.iter().position(|inside| inside.arrival.request == name && waiting(inside)) {
                _ if is_ordered => return broken(AdmitPromise::InOrder, format!("{name:?} goes for {arrival:?}")),
                None => return broken(AdmitPromise::Instead, format!("{name:?} goes for {arrival:?}")),
                Some(second) => at = second,
            }
            self.inside[first].arrival.request = name;
            self.inside[at].arrival.request = arrival.request;
        }
        let inside = self.inside[at];
        if runs && self.is_past(&inside.arrival) {
            return broken(AdmitPromise::Deadlines, format!("{inside:?} runs at {}", self.now_ns));
        }
        match runs {
            true => self.inside[at].doing = Doing::Runs,
            false => {
                self.counts[slot][2] += 1;
                self.inside.remove(at);
            }
        }
        Ok(())
    }

    fn block_or_unblock(&mut self, nth: usize) {
        let (runs, blocked) = (self.nth(nth, Doing::Runs), self.nth(nth, Doing::Blocked));
        match (runs, blocked) {
            (Some(at), _) if nth.is_multiple_of(2) => {
                self.admit.block(self.now_ns, self.inside[at].ticket);
                self.inside[at].doing = Doing::Blocked;
            }
            (_, Some(at)) => {
                self.admit.unblock(self.now_ns, self.inside[at].ticket);
                self.inside[at].doing = Doing::Runs;
            }
            _ => {}
        }
    }

    fn check_status(&self) -> Checked {
        for (slot, expected) in self.counts.iter().enumerate() {
            let status = self.admit.status(slot);
            let counted = [status.admitted, status.refused.iter().sum(), status.dropped];
            if status != AdmissionStatus::default() && counted != *expected {
                let what =
                    format!("type {slot} has {counted:?} admitted, refused, dropped; it should have {expected:?}");
                return broken(AdmitPromise::Telemetry, what);
            }
        }
        Ok(())
    }

    /// Everybody leaves, and one comes of each type.
    fn lets_in(&mut self) -> Checked {
        for Inside { ticket, doing, .. } in std::mem::take(&mut self.inside) {
            if doing == Doing::Blocked {
                self.admit.unblock(self.now_ns, ticket);
            }
            match doing {
                Doing::Waits => self.admit.cancel(self.now_ns, ticket),
                Doing::Runs | Doing::Blocked => self.admit.end(self.now_ns, ticket, 1_000, 1),
            }
        }
        for slot in 0..=TYPES {
            let mut attempts = 0;
            loop {
                let arrival = Arrival::new(RequestId(self.next_id), type_of(slot), self.now_ns);
                let Some(retry_after_ns) = self.arrive(slot, arrival)? else {
                    break;
                };
                self.now_ns = self.now_ns.saturating_add(retry_after_ns);
                attempts += 1;
                if attempts == ATTEMPTS_MAX {
                    return broken(AdmitPromise::LetsIn, format!("{arrival:?} of type {slot}"));
                }
            }
            if let Some(Inside { ticket, .. }) = self.inside.pop() {
                self.admit.cancel(self.now_ns, ticket);
            }
        }
        Ok(())
    }
}

/// The type at `slot`, of which the last is unknown.
fn type_of(slot: usize) -> RequestType {
    match slot {
        TYPES => RequestType::UNKNOWN,
        slot => RequestType::new(slot as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Admission, AdmissionSettings, Reason, Refusal};

    /// Lets everybody in whose deadline has not passed, but for what it does wrong.
    struct Faulty {
        fault: AdmitPromise,
        /// Those who wait, with their deadlines, by tickets.
        waiting: Vec<Option<Arrival>>,
    }

    fn is_past(now_ns: u64, arrival: &Arrival) -> bool {
        arrival.deadline_ns.is_some_and(|deadline_ns| deadline_ns < now_ns)
    }

    fn refuse(retry_after_ns: u64) -> Verdict {
        Verdict::Refuse(Refusal { reason: Reason::OverTarget, retry_after_ns })
    }

    impl Admit for Faulty {
        fn arrive(&mut self, _now_ns: u64, arrival: &Arrival) -> Verdict {
            match self.fault {
                AdmitPromise::RetryAfter => return refuse(0),
                AdmitPromise::LetsIn => return refuse(1),
                _ => self.waiting.push(Some(*arrival)),
            }
            Verdict::Admit(Ticket(match self.fault {
                AdmitPromise::Tickets => 0,
                _ => self.waiting.len() as u32 - 1,
            }))
        }

        fn begin(&mut self, now_ns: u64, ticket: Ticket) -> Turn {
            let first = ticket.0 as usize;
            let Some(arrival) = self.waiting[first].take() else {
                return Turn::RUN;
            };
            let runs = Turn::new(!is_past(now_ns, &arrival), None);
            match self.fault {
                AdmitPromise::Instead => Turn::new(true, Some(RequestId(u32::MAX))),
                AdmitPromise::Deadlines => Turn::RUN,
                AdmitPromise::InOrder => {
                    let of_type = |other: &Arrival| other.request_type == arrival.request_type;
                    let mut others = self.waiting.iter_mut();
                    let other = others.find(|other| other.as_ref().is_some_and(of_type)).and_then(Option::take);
                    other.map_or(runs, |other| {
                        // The first one waits on, under the name of the one that has its turn.
                        self.waiting[first] = Some(Arrival { request: other.request, ..arrival });
                        Turn::new(!is_past(now_ns, &other), Some(other.request))
                    })
                }
                _ => runs,
            }
        }

        fn end(&mut self, _now_ns: u64, _ticket: Ticket, _served_ns: u64, _done: u32) {}

        fn cancel(&mut self, _now_ns: u64, ticket: Ticket) {
            self.waiting[ticket.0 as usize] = None;
        }

        fn status(&self, _slot: usize) -> AdmissionStatus {
            let dropped = u64::from(self.fault == AdmitPromise::Telemetry);
            AdmissionStatus { dropped, ..AdmissionStatus::default() }
        }
    }

    #[test]
    fn each_promise_is_missed_where_it_is_broken() {
        for fault in [
            AdmitPromise::Tickets,
            AdmitPromise::Instead,
            AdmitPromise::InOrder,
            AdmitPromise::Deadlines,
            AdmitPromise::RetryAfter,
            AdmitPromise::LetsIn,
            AdmitPromise::Telemetry,
        ] {
            let broken = check_admit(|_, types| {
                assert_eq!(types.len(), TYPES);
                Faulty { fault, waiting: Vec::new() }
            });
            let broken = broken.unwrap_err();
            assert_eq!(broken.promise, fault, "{broken}");
            let first = format!("{fault:?} is broken: {}\nin the case Case {{", broken.what);
            assert!(broken.to_string().starts_with(&first), "{broken}");
        }
    }

    /// Refuses requests of no type twice, drops those that are late, and writes down what it hears.
    #[derive(Default)]
    struct Recorder {
        log: Vec<String>,
        counts: [AdmissionStatus; TYPES + 1],
        /// By tickets: slots and deadlines.
        admitted: Vec<(usize, Option<u64>)>,
        instead: Option<RequestId>,
    }

    impl Recorder {
        fn writes(&mut self, now_ns: u64, what: &str) {
            self.log.push(format!("{now_ns}: {what}"));
        }
    }

    impl Admit for Recorder {
        fn arrive(&mut self, now_ns: u64, arrival: &Arrival) -> Verdict {
            let slot = arrival.request_type.index().unwrap_or(TYPES);
            self.writes(now_ns, &format!("{} comes of type {slot}", arrival.request.0));
            if slot == TYPES && self.counts[slot].refused[0] < 2 {
                self.counts[slot].refused[0] += 1;
                return refuse(5);
            }
            self.counts[slot].admitted += 1;
            self.admitted.push((slot, arrival.deadline_ns));
            Verdict::Admit(Ticket(self.admitted.len() as u32 - 1))
        }

        fn begin(&mut self, now_ns: u64, ticket: Ticket) -> Turn {
            let (slot, deadline_ns) = self.admitted[ticket.0 as usize];
            let runs = deadline_ns.is_none_or(|deadline_ns| deadline_ns >= now_ns);
            self.counts[slot].dropped += u64::from(!runs);
            self.writes(now_ns, &format!("@{} begins, runs {runs}", ticket.0));
            Turn::new(runs, self.instead)
        }

        fn end(&mut self, now_ns: u64, ticket: Ticket, served_ns: u64, _done: u32) {
            self.writes(now_ns, &format!("@{} ends after {served_ns}", ticket.0));
        }

        fn cancel(&mut self, now_ns: u64, ticket: Ticket) {
            self.writes(now_ns, &format!("@{} leaves", ticket.0));
        }

        fn block(&mut self, now_ns: u64, ticket: Ticket) {
            self.writes(now_ns, &format!("@{} blocks", ticket.0));
        }

        fn unblock(&mut self, now_ns: u64, ticket: Ticket) {
            self.writes(now_ns, &format!("@{} unblocks", ticket.0));
        }

        fn workers(&mut self, now_ns: u64, present: usize) {
            self.writes(now_ns, &format!("{present} present"));
        }

        fn status(&self, slot: usize) -> AdmissionStatus {
            self.counts[slot]
        }
    }

    const fn arrives(slot: usize, within_ns: Option<u64>, ordered: bool) -> Step {
        Step::Arrive { slot, count: 1, priority: 0, tenant: 0, within_ns, ordered }
    }

    /// A model after these steps, which break no promise.
    fn after(steps: impl IntoIterator<Item = Step>) -> Model<Recorder> {
        let mut model = Model::new(Recorder::default(), 4);
        for step in steps {
            model.apply(&step).unwrap();
            model.check_status().unwrap();
        }
        model
    }

    #[test]
    fn an_admission_hears_of_each_event_when_it_happens() {
        let mut model = after([]);
        for (step, heard) in [
            (arrives(0, None, false), Some("1000: 0 comes of type 0")),
            (arrives(TYPES, None, false), Some("1000: 1 comes of type 3")),
            (arrives(1, Some(500), false), Some("1000: 2 comes of type 1")),
            (arrives(2, Some(0), false), Some("1000: 3 comes of type 2")),
            (arrives(0, None, false), Some("1000: 4 comes of type 0")),
            (Step::Advance { ns: 600 }, None),
            (Step::Begin { nth: 5 }, Some("1600: @1 begins, runs false")),
            (Step::Begin { nth: 3 }, Some("1600: @0 begins, runs true")),
            (Step::Begin { nth: 1 }, Some("1600: @3 begins, runs true")),
            (Step::BlockOrUnblock { nth: 2 }, Some("1600: @0 blocks")),
            (Step::Workers { present: 3 }, Some("1600: 3 present")),
            (Step::BlockOrUnblock { nth: 2 }, Some("1600: @3 blocks")),
            (Step::BlockOrUnblock { nth: 3 }, Some("1600: @3 unblocks")),
            (Step::End { nth: 0, served_ns: 7 }, Some("1600: @3 ends after 7")),
            (arrives(0, None, false), Some("1600: 5 comes of type 0")),
            (arrives(0, None, false), Some("1600: 6 comes of type 0")),
            (Step::Begin { nth: 1 }, Some("1600: @4 begins, runs true")),
            (Step::Cancel { nth: 2 }, Some("1600: @2 leaves")),
            (Step::Cancel { nth: 1 }, Some("1600: @4 leaves")),
            (arrives(0, None, false), Some("1600: 7 comes of type 0")),
            (Step::Begin { nth: 2 }, Some("1600: @5 begins, runs true")),
            (Step::BlockOrUnblock { nth: 0 }, Some("1600: @5 blocks")),
            (arrives(1, None, false), Some("1600: 8 comes of type 1")),
            (arrives(1, None, false), Some("1600: 9 comes of type 1")),
            (Step::Begin { nth: 2 }, Some("1600: @8 begins, runs true")),
        ] {
            model.apply(&step).unwrap();
            model.check_status().unwrap();
            assert_eq!(std::mem::take(&mut model.admit.log), Vec::from_iter(heard), "{step:?}");
        }
        model.lets_in().unwrap();
        assert_eq!(
            model.admit.log,
            [
                "1600: @0 unblocks",
                "1600: @0 ends after 1000",
                "1600: @5 unblocks",
                "1600: @5 ends after 1000",
                "1600: @6 leaves",
                "1600: @7 leaves",
                "1600: @8 ends after 1000",
                "1600: 10 comes of type 0",
                "1600: @9 leaves",
                "1600: 11 comes of type 1",
                "1600: @10 leaves",
                "1600: 12 comes of type 2",
                "1600: @11 leaves",
                "1600: 13 comes of type 3",
                "1605: 14 comes of type 3",
                "1605: @12 leaves",
            ]
        );
    }

    #[test]
    fn only_a_request_of_the_same_type_that_waits_may_go_instead_and_none_before_one_that_is_in_order() {
        for (instead, ordered, broken) in [
            (1, false, None),
            (2, false, Some(AdmitPromise::Instead)),
            (3, false, Some(AdmitPromise::Instead)),
            (1, true, Some(AdmitPromise::InOrder)),
        ] {
            let arrivals = [arrives(0, None, false), arrives(0, None, ordered), arrives(1, None, false)];
            let runs = [arrives(0, None, false), Step::Begin { nth: 3 }];
            let mut model = after(arrivals.into_iter().chain(runs));
            model.admit.instead = Some(RequestId(instead));
            let checked = model.apply(&Step::Begin { nth: 0 });
            assert_eq!(checked.err().map(|(promise, _)| promise), broken, "{instead}");
        }
    }

    #[test]
    fn the_ready_admission_keeps_all_promises() {
        for settings in [
            AdmissionSettings::default(),
            AdmissionSettings::default().slo_slowdown(3.0).requests_max(4),
            AdmissionSettings::default().tenant_share_max(0.2).target_us(10.0),
        ] {
            let make = |workers, types: &TypeTable| Admission::new(workers, types, settings);
            assert_eq!(check_admit(make), Ok(()));
        }
    }
}
