//! The plots of simulations: latency and slowdown of each type by load, one line for each policy.

use psp_sim::chart::{Axis, Panel, svg};
use psp_sim::experiment::{Point, SimReport, TypePoint};
use psp_sim::text::distinct;

use super::plot::{Plot, Points, decades, drawing};
use crate::report::Spread;

/// A quantity of each type: the panel's title, the axis, and the value.
type Shown = (&'static str, &'static str, fn(&TypePoint) -> Option<f64>);

const SHOWN: [Shown; 3] = [
    ("latency p99", "latency, us", |ty| ty.latency_us.p99),
    ("latency p99.9", "latency, us", |ty| ty.latency_us.p999),
    ("slowdown p99.9", "slowdown", |ty| ty.slowdown.p999),
];

/// A plot for each workload and number of workers with several loads.
pub(super) fn simulated_plots(reports: &[&SimReport]) -> Vec<Plot> {
    let points: Vec<&Point> = reports.iter().flat_map(|report| &report.points).collect();
    let servers = distinct(points.iter().map(|point| (&*point.workload, point.workers)));
    let mut plots = Vec::new();
    for (workload, workers) in servers {
        let is_meant = |point: &&&Point| point.workload == workload && point.workers == workers;
        let points: Vec<&Point> = points.iter().filter(is_meant).copied().collect();
        let policies = distinct(points.iter().map(|point| &*point.policy));
        let panels = panels(&points, &policies);
        if panels.iter().flat_map(|panel| &panel.lines).all(|line| line.len() < 2) {
            continue;
        }
        let title = format!("{workload}, {workers} workers");
        let drawing = drawing(&title, &policies, panels, SHOWN.len());
        plots.push(Plot {
            id: format!("simulated-{}", plots.len() + 1),
            caption: format!(
                "{title}, simulated: latency and slowdown by load. Of several simulations of one \
                 load the median is shown."
            ),
            svg: svg(&drawing),
        });
    }
    plots
}

/// A row for each type.
fn panels(points: &[&Point], policies: &[&str]) -> Vec<Panel> {
    let mut loads: Vec<f64> = points.iter().map(|point| point.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let types = distinct(points.iter().flat_map(|point| point.types.iter().map(|ty| &*ty.name)));
    let mut panels = Vec::new();
    for ty in types {
        for (title, label, figure) in SHOWN {
            let value = |policy: &str, load: f64| {
                let is_meant = |point: &&&Point| point.policy == policy && point.load == load;
                let types = points.iter().filter(is_meant).flat_map(|point| &point.types);
                let values: Vec<f64> = types.filter(|it| it.name == ty).filter_map(figure).collect();
                Some((load, Spread::of(&values)?.median))
            };
            let line = |policy: &&str| -> Points {
                let values = loads.iter().filter_map(|load| value(policy, *load));
                values.collect()
            };
            let lines: Vec<Points> = policies.iter().map(line).collect();
            panels.push(Panel {
                title: format!("{ty} {title}"),
                x: Axis::linear("load", 0.0, loads.last().map_or(1.0, |last| last.max(1.0))),
                y: decades(label, &lines, None),
                lines,
                target: None,
                stretches: Vec::new(),
                steps: false,
            });
        }
    }
    panels
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use psp_sim::experiment::{Conditions, SIM_SCHEMA, SimSettings};
    use psp_sim::simulator::{SimPlan, SimPolicy};
    use psp_sim::workload::Workload;

    /// High Bimodal under two policies at two loads, a hundred requests each.
    pub(crate) fn sim_report() -> SimReport {
        let workload = Workload::named("high-bimodal").unwrap();
        let policies = ["c-fcfs", "darc"].map(|name| name.parse::<SimPolicy>().unwrap());
        let mut points = Vec::new();
        for policy in &policies {
            for load in [0.4, 0.8] {
                let plan = SimPlan::new(workload.clone(), policy.clone(), 4, load).requests(100);
                let outcome = psp_sim::simulator::simulate(&plan, &mut |_| std::ops::ControlFlow::Continue(()));
                points.push(Point::new(&plan, &outcome.unwrap()));
            }
        }
        SimReport {
            schema: SIM_SCHEMA.to_owned(),
            conditions: Conditions {
                requests: 100,
                warmup: 10,
                seed: 1,
                settings: SimSettings::default(),
                policies: policies.into(),
                types: Vec::new(),
                interrupted: false,
            },
            points,
        }
    }

    #[test]
    fn each_type_has_its_latency_and_slowdown_by_load() {
        let report = sim_report();
        let points: Vec<&Point> = report.points.iter().collect();
        let panels = panels(&points, &["c-fcfs", "darc"]);
        let titles: Vec<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
        let short = report.points[0].types[0].name.as_str();
        assert_eq!(panels.len(), 6, "{titles:?}");
        assert_eq!(titles[2], format!("{short} slowdown p99.9"));
        for (series, first) in [(0, 0), (1, 2)] {
            let expected = report.points[first..first + 2].iter();
            let expected = expected.map(|point| (point.load, point.types[0].slowdown.p999.unwrap()));
            assert_eq!(panels[2].lines[series], expected.collect::<Points>());
        }
    }

    #[test]
    fn a_single_load_is_no_plot_and_servers_are_apart() {
        let mut report = sim_report();
        assert_eq!(simulated_plots(&[&report, &report]).len(), 1);
        let mut other = report.clone();
        for point in &mut other.points {
            point.workers = 8;
        }
        let both = simulated_plots(&[&report, &other]);
        assert_eq!([&*both[0].id, &*both[1].id], ["simulated-1", "simulated-2"]);
        report.points.retain(|point| point.load == 0.4);
        assert!(simulated_plots(&[&report]).is_empty());
    }
}
