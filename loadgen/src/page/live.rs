//! The plots of a page: latency by load, percentile curves, and the seconds of the measurement.

use psp_sim::chart::{Axis, Drawing, Panel, svg};
use psp_sim::measure::Percentiles;
use psp_sim::text::number;

use super::measured::{Measured, names};
use super::plot::{LATENCY, Plot, Points, decade_above, decades, drawing};
use super::selection::{median_curve, of_type, rates, representatives, runs_at, type_names};
use crate::record::TimelinePoint;
use crate::report::{Condition, Spread};

/// Panels of a row, at most.
const COLUMNS_MAX: usize = 3;

/// A percentile by its name in text and in conditions.
type Shown = (&'static str, &'static str, fn(&Percentiles) -> f64);

const SHOWN: [Shown; 3] = [
    ("p50", "p50", |points| points.p50),
    ("p99", "p99", |points| points.p99),
    ("p99.9", "p99_9", |points| points.p999),
];

/// All plots for which the runs have numbers.
pub(super) fn live_plots(measured: &[Measured<'_>], slo: &[Condition]) -> Vec<Plot> {
    let loads = [
        (
            "latency-by-load",
            "Latency by offered load. Where a rate was measured several times, the median is shown.",
            latency_by_load(measured, slo),
        ),
        (
            "percentile-curve",
            "Percentile curves: 2 is the median, 1 000 the 99.9th percentile. Of several runs the \
             median is shown.",
            percentile_curves(measured),
        ),
        (
            "timeline",
            "Each second of the measurement, by the time at which requests ended; of several runs, \
             the first.",
            timelines(measured),
        ),
    ];
    let plots = loads.into_iter().filter_map(|(id, caption, drawing)| {
        let drawing = drawing?;
        drawing.has_points().then(|| Plot {
            id: id.to_owned(),
            caption: caption.to_owned(),
            svg: svg(&drawing),
        })
    });
    plots.collect()
}

fn latency_by_load(measured: &[Measured<'_>], slo: &[Condition]) -> Option<Drawing> {
    let names = names(measured);
    let loads: Vec<Vec<f64>> = names.iter().map(|name| rates(measured, name)).collect();
    if loads.iter().all(|loads| loads.len() < 2) {
        return None;
    }
    let most = loads.iter().flatten().copied().fold(0.0, f64::max);
    let mut panels = Vec::new();
    for ty in type_names(measured) {
        for (title, metric, point) in SHOWN {
            let line = |(name, loads): (&&str, &Vec<f64>)| -> Points {
                let at = |load: &f64| {
                    let latencies = runs_at(measured, name, *load);
                    let latencies = latencies.iter().filter_map(|run| of_type(run, ty));
                    let values: Vec<f64> =
                        latencies.filter_map(|ty| ty.summary.latency_us.as_ref().map(point)).collect();
                    Some((*load, Spread::of(&values)?.median))
                };
                loads.iter().filter_map(at).collect()
            };
            let lines: Vec<Points> = names.iter().zip(&loads).map(line).collect();
            let limit = slo.iter().find_map(|condition| {
                let (subject, named, limit_us) = condition.latency_limit_us()?;
                (subject == ty && named == metric).then(|| (limit_us, "objective".to_owned()))
            });
            panels.push(Panel {
                title: format!("{ty} {title}"),
                x: Axis::linear("offered, requests/s", 0.0, most),
                y: decades(LATENCY, &lines, limit.as_ref().map(|(limit, _)| *limit)),
                lines,
                target: limit,
                stretches: Vec::new(),
                steps: false,
            });
        }
    }
    Some(drawing("Latency by load", &names, panels, SHOWN.len()))
}

fn percentile_curves(measured: &[Measured<'_>]) -> Option<Drawing> {
    let names = names(measured);
    let mut panels = Vec::new();
    for ty in type_names(measured) {
        let lines: Vec<Points> = names
            .iter()
            .map(|name| {
                let runs = representatives(measured, name);
                let types: Vec<_> = runs.iter().filter_map(|run| of_type(run, ty)).collect();
                median_curve(&types)
            })
            .collect();
        let last = lines.iter().flatten().map(|(one_in, _)| *one_in);
        panels.push(Panel {
            title: ty.to_owned(),
            x: Axis::log("one request in so many is slower", 1.0, decade_above(last.fold(10.0, f64::max))),
            y: decades(LATENCY, &lines, None),
            lines,
            target: None,
            stretches: Vec::new(),
            steps: false,
        });
    }
    let series = at_rates(measured, &names);
    let columns = panels.len().clamp(1, COLUMNS_MAX);
    Some(drawing("Percentile curves", &series, panels, columns))
}

fn timelines(measured: &[Measured<'_>]) -> Option<Drawing> {
    let names = names(measured);
    let mut panels = Vec::new();
    for ty in type_names(measured) {
        let timelines: Vec<&[TimelinePoint]> = names
            .iter()
            .map(|name| {
                let runs = representatives(measured, name);
                let first = runs.first().and_then(|run| of_type(run, ty));
                first.map_or(&[][..], |ty| &ty.timeline)
            })
            .collect();
        let points = |value: &dyn Fn(&TimelinePoint) -> Option<f64>| -> Vec<Points> {
            let line = |timeline: &&[TimelinePoint]| {
                let point = |point: &TimelinePoint| Some((point.second as f64, value(point)?));
                timeline.iter().filter_map(point).collect()
            };
            timelines.iter().map(line).collect()
        };
        let latencies = points(&|point| point.p99_us);
        let counts = points(&|point| Some(point.completed as f64));
        let end = timelines.iter().map(|timeline| timeline.len()).max();
        let end = end.unwrap_or(0).saturating_sub(1).max(1) as f64;
        let most = counts.iter().flatten().map(|(_, count)| *count);
        let most = most.fold(1.0, f64::max) * 1.1;
        let panel = |title: &str, y: Axis, lines| Panel {
            lines,
            ..Panel::new(format!("{ty} {title}"), Axis::linear("second", 0.0, end), y)
        };
        panels.push(panel("p99", decades(LATENCY, &latencies, None), latencies));
        let axis = Axis::linear("completed, requests/s", 0.0, most);
        panels.push(panel("completed", axis, counts));
    }
    let series = at_rates(measured, &names);
    Some(drawing("Timeline", &series, panels, 2))
}

/// Names of the targets with the rates of their representative runs.
fn at_rates(measured: &[Measured<'_>], names: &[&str]) -> Vec<String> {
    let name = |name: &&str| {
        let runs = representatives(measured, name);
        let rate = runs.first().map(|run| number(run.report.overall.offered_rps));
        rate.map_or_else(|| (*name).to_owned(), |rate| format!("{name} at {rate}/s"))
    };
    names.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use crate::report::fixture::report;

    fn at_rate(rate_rps: f64, p99_us: f64) -> Report {
        let mut report = report();
        report.overall.offered_rps = rate_rps;
        report.types[0].summary.latency_us.as_mut().unwrap().p99 = p99_us;
        report
    }

    fn measured(report: &Report, is_kept: bool) -> Measured<'_> {
        Measured { name: "one", report, is_kept }
    }

    #[test]
    fn rates_are_points_and_repeats_have_their_median() {
        let reports = [at_rate(20.0, 9.0), at_rate(10.0, 1.0), at_rate(10.0, 3.0), at_rate(10.0, 2.0)];
        let runs: Vec<_> = reports.iter().map(|report| measured(report, true)).collect();
        let slo = ["GET.p99 < 500us".parse().unwrap()];
        let drawing = latency_by_load(&runs, &slo).unwrap();
        // Two types, three percentiles.
        assert_eq!(drawing.panels.len(), 6);
        let p99 = &drawing.panels[1];
        assert_eq!(p99.title, "GET p99");
        assert_eq!(p99.lines, [vec![(10.0, 2.0), (20.0, 9.0)]]);
        assert_eq!(p99.target, Some((500.0, "objective".to_owned())));
        assert_eq!((p99.y.from, p99.y.to), (1.0, 1_000.0));
        assert_eq!(drawing.panels[0].target, None);
        assert_eq!(latency_by_load(&runs[..1], &slo), None);
    }

    #[test]
    fn the_highest_rate_that_was_kept_stands_for_a_sweep() {
        let reports = [10.0, 20.0, 30.0].map(|rate_rps| at_rate(rate_rps, 1.0));
        let runs = [measured(&reports[0], true), measured(&reports[1], true), measured(&reports[2], false)];
        let chosen = representatives(&runs, "one");
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].report.overall.offered_rps, 20.0);
        let drawing = timelines(&runs).unwrap();
        assert_eq!(drawing.series, ["one at 20.0/s"]);
        assert_eq!(drawing.panels[1].lines[0].len(), 10);
        let none_kept = [measured(&reports[1], false), measured(&reports[0], false)];
        assert_eq!(representatives(&none_kept, "one")[0].report.overall.offered_rps, 10.0);
    }

    #[test]
    fn a_decade_lies_above_every_value() {
        assert_eq!((decade_above(10.0), decade_above(99.0)), (100.0, 100.0));
    }
}
