//! The policies of the portfolio, each with the settings that suit a workload.

use std::sync::Arc;

use crate::event::Event;
use crate::policies::c_fcfs::CFcfs;
use crate::policies::darc::Darc;
use crate::policies::drr::Drr;
use crate::policies::edf::Edf;
use crate::policies::fixed_priority::FixedPriority;
use crate::policies::lending::Lending;
use crate::policies::mq::Mq;
use crate::policies::sq::Sq;
use crate::scheduler::Scheduler;
use crate::settings;
use crate::setup::SchedulerSetup;

type Make = dyn Fn(&SchedulerSetup<'_>) -> Box<dyn Scheduler> + Send + Sync;

/// A policy with its settings.
#[derive(Clone)]
pub(super) struct Candidate {
    /// As [`Policy`](crate::Policy) spells it, without the settings that are the default ones.
    pub(super) name: String,
    /// It is here for latencies: where no candidate is sure to keep the limits, it is the last choice.
    pub(super) sustains_less: bool,
    make: Arc<Make>,
}

/// Shortest quantum, in microseconds: the papers' shortest.
const QUANTUM_US_MIN: f64 = 2.0;
/// Shortest quantum, in costs of a preemption.
const QUANTUM_COSTS_MIN: f64 = 2.0;
/// Quanta of a mean request, at most twice as many. Shorter quanta do nothing but preempt.
const QUANTA_PER_MEAN: f64 = 100.0;
/// Quanta that are tried, in shortest ones.
pub const QUANTA: [f64; 3] = [1.0, 4.0, 16.0];
/// Groupings of DARC: its own, and a wider one.
const DELTAS: [f64; 2] = [2.0, 4.0];
/// Patience of lending for latencies: short requests take a worker back soon, or at once.
const EAGER: [f64; 2] = [0.1, 0.0];

impl Candidate {
    pub(super) fn new<S: Scheduler + 'static>(
        name: impl Into<String>,
        make: impl Fn(&SchedulerSetup<'_>) -> S + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            sustains_less: false,
            make: Arc::new(move |setup| Box::new(make(setup))),
        }
    }

    /// DARC with lending, which begins.
    pub(super) fn first(slo_slowdown: f64) -> Self {
        lending("darc-lending", lending_settings(slo_slowdown))
    }

    pub(super) fn scheduler(&self, setup: &SchedulerSetup<'_>) -> Box<dyn Scheduler> {
        let mut scheduler = (self.make)(setup);
        if setup.present < setup.workers {
            let present = setup.present;
            scheduler.on_event(0, Event::Workers { present });
        }
        scheduler
    }
}

/// The shortest quantum worth trying for this mean service time and cost of a preemption, in microseconds.
#[must_use]
pub fn least_quantum_us(mean_ns: f64, cost_ns: u64) -> f64 {
    // A power of two, so that a mean that moves a little has the same quanta.
    let of_mean_us = (mean_ns / 1e3 / QUANTA_PER_MEAN).log2().floor().exp2();
    QUANTUM_US_MIN.max(cost_ns as f64 / 1e3 * QUANTUM_COSTS_MIN).max(of_mean_us)
}

/// All candidates for a workload with this mean service time. Of two that decide alike the one comes first that can do
/// more: lending before all others, and what preempts before what does not.
pub(super) fn candidates(setup: &SchedulerSetup<'_>, mean_ns: f64, slo_slowdown: f64) -> Vec<Candidate> {
    let mut all = vec![Candidate::first(slo_slowdown)];
    if let Some(preemption) = setup.useful_preemption() {
        let [_, wide] = DELTAS;
        let settings = || lending_settings(slo_slowdown);
        all.push(lending(
            format!("darc-lending darc.delta={wide}"),
            settings().darc(settings::Darc::default().delta(wide)),
        ));
        all.extend(EAGER.map(|patience| Candidate {
            sustains_less: true,
            ..lending(
                format!("darc-lending patience={patience} patience-min=0"),
                settings().patience(patience).patience_min(0.0),
            )
        }));
        let least_us = least_quantum_us(mean_ns, preemption.cost_ns).max(preemption.quantum_ns_min as f64 / 1e3);
        all.extend(time_sharing(least_us));
    }
    all.extend([
        Candidate::new("c-fcfs", CFcfs::new),
        Candidate::new("edf", |setup| Edf::new(setup, &settings::Edf::default())),
        Candidate::new("drr", |setup| Drr::new(setup, &settings::Drr::default())),
    ]);
    all.extend(DELTAS.map(|delta| {
        let settings = settings::Darc::default().delta(delta);
        Candidate::new(format!("darc delta={delta}"), move |setup| Darc::new(setup, &settings))
    }));
    let mut reserved = vec![1, setup.present / 4, setup.present / 2];
    reserved.retain(|&reserved| reserved > 0 && reserved < setup.present);
    reserved.dedup();
    all.extend(reserved.into_iter().map(|reserved| {
        let settings = settings::DarcStatic::default().reserved(reserved);
        let name = format!("darc-static reserved={reserved}");
        Candidate::new(name, move |setup| FixedPriority::with_reserved(setup, &settings))
    }));
    all
}

/// `sq` and `mq` with quanta from the shortest one on.
fn time_sharing(least_us: f64) -> impl Iterator<Item = Candidate> {
    QUANTA.into_iter().flat_map(move |factor| {
        let quantum_us = least_us * factor;
        let sq = settings::Sq::default().quantum_us(quantum_us);
        let mq = settings::Mq::default().quantum_us(quantum_us);
        [
            Candidate::new(format!("sq quantum-us={quantum_us}"), move |setup| Sq::new(setup, &sq)),
            Candidate::new(format!("mq quantum-us={quantum_us}"), move |setup| Mq::new(setup, &mq)),
        ]
    })
}

fn lending_settings(slo_slowdown: f64) -> settings::DarcLending {
    settings::DarcLending::default().slo_slowdown(slo_slowdown)
}

fn lending(name: impl Into<String>, settings: settings::DarcLending) -> Candidate {
    Candidate::new(name, move |setup| Lending::new(setup, &settings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_type::TypeTable;
    use crate::setup::Preemption;

    #[test]
    fn the_shortest_quantum_is_a_hundredth_of_the_mean_or_two_preemptions() {
        let cases = [
            (0.0, 0),
            (199_999.0, 1_000),
            (400_000.0, 1_000),
            (799_999.0, 1_000),
            (800_000.0, 500),
            (1e5, 6_000),
        ];
        let least_us = cases.map(|(mean_ns, cost_ns)| least_quantum_us(mean_ns, cost_ns));
        assert_eq!(least_us, [2.0, 2.0, 4.0, 4.0, 8.0, 12.0]);
    }

    #[test]
    fn candidates_have_the_settings_that_suit_the_workload() {
        let types = TypeTable::new();
        let names = |workers: usize, present: usize, preemption: Option<Preemption>| -> Vec<String> {
            let setup = SchedulerSetup::new(workers, &types).present(present).preemption(preemption);
            candidates(&setup, 1_000.0, 10.0).into_iter().map(|candidate| candidate.name).collect()
        };
        let whole = ["darc-lending", "c-fcfs", "edf", "drr", "darc delta=2", "darc delta=4"];
        for (present, reserved) in [(1, &[][..]), (2, &[1]), (4, &[1, 2]), (9, &[1, 2, 4])] {
            let reserved = reserved.iter().map(|reserved| format!("darc-static reserved={reserved}"));
            let expected: Vec<String> = whole.map(str::to_owned).into_iter().chain(reserved).collect();
            assert_eq!(names(9, present, None), expected);
        }
        let preempting = names(1, 1, Some(Preemption::new(4_000)));
        let expected = [
            "darc-lending",
            "darc-lending darc.delta=4",
            "darc-lending patience=0.1 patience-min=0",
            "darc-lending patience=0 patience-min=0",
            "sq quantum-us=8",
            "mq quantum-us=8",
            "sq quantum-us=32",
            "mq quantum-us=32",
            "sq quantum-us=128",
            "mq quantum-us=128",
        ];
        assert_eq!(preempting[..10], expected);
        assert_eq!(lending_settings(7.0).slo_slowdown, 7.0);
        let longer = Some(Preemption::new(4_000).quantum_ns_min(10_000));
        assert_eq!(names(1, 1, longer)[4], "sq quantum-us=10");
    }

    #[test]
    fn schedulers_begin_with_the_workers_that_are_present() {
        let types = TypeTable::new();
        for present in [1, 3, 4] {
            let setup = SchedulerSetup::new(4, &types).present(present);
            let all = candidates(&setup, 1_000.0, 10.0);
            assert_eq!(runs(&mut *all[1].scheduler(&setup)), present);
        }
    }

    /// How many of five requests run at once.
    fn runs(scheduler: &mut dyn Scheduler) -> usize {
        for number in 0..5 {
            let arrived = Event::Arrived {
                request: crate::event::RequestId(number),
                request_type: crate::request_type::RequestType::UNKNOWN,
                deadline_ns: None,
            };
            scheduler.on_event(0, arrived);
        }
        std::iter::from_fn(|| scheduler.poll(0)).count()
    }
}
