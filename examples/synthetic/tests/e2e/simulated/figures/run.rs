//! Measures the points that figures need, in groups of servers that run at the same time.

use std::fmt::Write as _;
use std::time::Duration;

use super::case::Case;
use super::figure::Figure;
use super::side::{Found, Side};
use crate::simulated::compared::Compared;
use crate::simulated::measure::measure;
use crate::simulated::point::Point;

/// Arrivals of a point, without those before they are measured.
pub(super) const MEASURED_S: f64 = 180.0;
/// Servers at the same time: each has some twenty threads, and few of them have something to do.
const SERVERS_MAX: usize = 64;

/// All points of some figures.
pub(super) struct Run {
    figures: usize,
    groups: Vec<Vec<Planned>>,
}

struct Planned {
    case: &'static Case,
    system: &'static str,
    point: Point,
}

impl Run {
    pub(super) fn of(figures: &[&Figure]) -> Self {
        let mut cases: Vec<&'static Case> = Vec::new();
        for case in figures.iter().flat_map(|figure| figure.cases()) {
            if !cases.iter().any(|known| std::ptr::eq(*known, case)) {
                cases.push(case);
            }
        }
        let needs = |case: &Case, system: &str| {
            figures.iter().any(|figure| {
                let mut of_case = figure.cases().into_iter();
                of_case.any(|it| std::ptr::eq(it, case)) && figure.series.iter().any(|series| series.system == system)
            })
        };
        let mut groups: Vec<Vec<Planned>> = vec![Vec::new()];
        for case in cases {
            let systems = case.systems.iter().filter(|it| needs(case, it.name));
            let planned = systems.flat_map(|system| {
                let points = case.points(system, MEASURED_S).into_iter();
                points.map(move |point| Planned { case, system: system.name, point })
            });
            let planned: Vec<Planned> = planned.collect();
            let group = groups.last_mut().expect("there is one from the start");
            if group.len() + planned.len() <= SERVERS_MAX {
                group.extend(planned);
            } else {
                groups.push(planned);
            }
        }
        Self { figures: figures.len(), groups }
    }

    /// How long it takes, by the simulations: the last request of a group ends it.
    pub(super) fn announcement(&self) -> String {
        let mut text = String::new();
        let mut total = Duration::ZERO;
        for (index, group) in self.groups.iter().enumerate() {
            let ends = group.iter().map(|it| (it.point.simulated_end(), it));
            let (end, last) = ends.max_by_key(|(end, _)| *end).expect("a group has points");
            total += end;
            let Planned { case, system, point } = last;
            let _ = writeln!(
                text,
                "group {}: {} servers, {:.0} s, until {system} on {} at load {} is done",
                index + 1,
                group.len(),
                end.as_secs_f64(),
                case.workload,
                point.load
            );
        }
        let minutes = total.as_secs_f64() / 60.0;
        format!("{} live figures take about {minutes:.0} minutes:\n{text}", self.figures)
    }

    /// Measures one group after another.
    pub(super) fn measure(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            let (compared, lag_ns) = measure(group.iter().map(|it| &it.point));
            let left = compared.iter().flat_map(Compared::left);
            let least = left.fold(1.0, f64::min) * 100.0;
            println!(
                "group {}: threads woke up {:.2} ms late in the mean; at least {least:.0} % of a type's requests had no stall",
                index + 1,
                lag_ns / 1e6
            );
            let sides = compared.iter().map(Side::of_both);
            found.extend(group.iter().zip(sides).map(|(it, sides)| it.found(sides)));
        }
        found
    }
}

/// The simulations in place of the live servers.
pub(super) fn simulated(run: &Run) -> Vec<Found> {
    let planned = run.groups.iter().flatten();
    planned
        .map(|it| {
            let side = Side::of_simulation(&it.point);
            it.found([side.clone(), side])
        })
        .collect()
}

impl Planned {
    fn found(&self, sides: [Side; 2]) -> Found {
        let factor = f64::from(self.point.factor());
        Found {
            case: self.case,
            system: self.system,
            load: self.point.load,
            krps: self.point.plan().offered_rps() * factor / 1e3,
            sides,
        }
    }
}
