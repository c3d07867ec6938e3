//! The plots of a page: latency by load, percentile curves, what happened in each second.

use crate::condition::Condition;
use crate::figure::chart::svg;
use crate::figure::drawing::{Axis, Drawing, Panel};
use crate::intervals::TimelinePoint;
use crate::percentiles::Percentiles;
use crate::report::TypeReport;
use crate::statistics::Spread;
use crate::table::number;

use super::{Measured, names};

/// Panels of a row, at most.
const COLUMNS_MAX: usize = 3;

/// The axis of latencies.
const LATENCY: &str = "latency, us";

/// A plot on a page.
pub(super) struct Plot {
    pub(super) id: String,
    pub(super) caption: String,
    pub(super) svg: String,
}

pub(super) type Points = Vec<(f64, f64)>;

/// A percentile by its name in text and in conditions.
type Shown = (&'static str, &'static str, fn(&Percentiles) -> f64);

const SHOWN: [Shown; 3] = [
    ("p50", "p50", |points| points.p50),
    ("p99", "p99", |points| points.p99),
    ("p99.9", "p99_9", |points| points.p999),
];

/// All plots that the runs have numbers for.
pub(super) fn plots(measured: &[Measured<'_>], slo: &[Condition]) -> Vec<Plot> {
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

/// Names of all types, in order.
fn type_names<'a>(measured: &[Measured<'a>]) -> Vec<&'a str> {
    let mut types = Vec::new();
    for ty in measured.iter().flat_map(|run| &run.report.types) {
        if !types.contains(&ty.name.as_str()) {
            types.push(ty.name.as_str());
        }
    }
    types
}

fn of_type<'a>(run: &Measured<'a>, name: &str) -> Option<&'a TypeReport> {
    run.report.types.iter().find(|ty| ty.name == name)
}

/// Rates within a millionth are one.
fn is_same_rate(one: f64, other: f64) -> bool {
    (one - other).abs() <= one.abs().max(other.abs()) * 1e-6
}

fn rates(measured: &[Measured<'_>], name: &str) -> Vec<f64> {
    let runs = measured.iter().filter(|run| run.name == name);
    let mut rates: Vec<f64> = runs.map(|run| run.report.overall.offered_rps).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup_by(|one, other| is_same_rate(*one, *other));
    rates
}

fn runs_at<'a, 'b>(
    measured: &'b [Measured<'a>],
    name: &str,
    rate_rps: f64,
) -> Vec<&'b Measured<'a>> {
    let is_meant = |run: &&Measured<'_>| {
        run.name == name && is_same_rate(run.report.overall.offered_rps, rate_rps)
    };
    measured.iter().filter(is_meant).collect()
}

/// The runs that stand for a target where the load is not varied: those at the highest rate that
/// kept the objective, or at the lowest rate.
fn representatives<'a, 'b>(measured: &'b [Measured<'a>], name: &str) -> Vec<&'b Measured<'a>> {
    let rates = rates(measured, name);
    let is_kept = |rate: &&f64| {
        runs_at(measured, name, **rate)
            .iter()
            .all(|run| run.is_kept)
    };
    let rate = rates.iter().rev().find(is_kept).or(rates.first());
    rate.map_or_else(Vec::new, |rate| runs_at(measured, name, *rate))
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
                    let values: Vec<f64> = latencies
                        .filter_map(|ty| ty.summary.latency_us.as_ref().map(point))
                        .collect();
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
            x: Axis::log(
                "one request in so many is slower",
                1.0,
                decade_above(last.fold(10.0, f64::max)),
            ),
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

/// The median of several curves, as far as all of them reach.
fn median_curve(types: &[&TypeReport]) -> Points {
    let curves = || types.iter().map(|ty| &ty.summary.latency_curve_us);
    let Some(shortest) = curves().min_by_key(|curve| curve.len()) else {
        return Vec::new();
    };
    let points = shortest.iter().enumerate().filter_map(|(place, point)| {
        let values: Vec<f64> = curves().map(|curve| curve[place].value).collect();
        Some((point.one_in, Spread::of(&values)?.median))
    });
    points.collect()
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
            title: format!("{ty} {title}"),
            x: Axis::linear("second", 0.0, end),
            y,
            lines,
            target: None,
            stretches: Vec::new(),
            steps: false,
        };
        panels.push(panel("p99", decades(LATENCY, &latencies, None), latencies));
        let axis = Axis::linear("completed, requests/s", 0.0, most);
        panels.push(panel("completed", axis, counts));
    }
    let series = at_rates(measured, &names);
    Some(drawing("Timeline", &series, panels, 2))
}

/// Names of the targets with the rates of the runs that stand for them.
fn at_rates(measured: &[Measured<'_>], names: &[&str]) -> Vec<String> {
    let name = |name: &&str| {
        let runs = representatives(measured, name);
        let rate = runs
            .first()
            .map(|run| number(run.report.overall.offered_rps));
        rate.map_or_else(|| (*name).to_owned(), |rate| format!("{name} at {rate}/s"))
    };
    names.iter().map(name).collect()
}

pub(super) fn drawing(
    title: &str,
    series: &[impl AsRef<str>],
    panels: Vec<Panel>,
    columns: usize,
) -> Drawing {
    Drawing {
        name: "report",
        title: title.to_owned(),
        series: series.iter().map(|name| name.as_ref().to_owned()).collect(),
        panels,
        columns,
        footer: Vec::new(),
    }
}

/// A logarithmic axis of whole decades around all values.
pub(super) fn decades(label: &str, lines: &[Points], limit: Option<f64>) -> Axis {
    let values = || lines.iter().flatten().map(|(_, value)| *value).chain(limit);
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(0.0, f64::max);
    let (from, to) = if least > 0.0 && least.is_finite() {
        (10_f64.powf(least.log10().floor()), decade_above(most))
    } else {
        (1.0, decade_above(most.max(1.0)))
    };
    Axis::log(label, from, to)
}

/// The power of ten above `value`.
fn decade_above(value: f64) -> f64 {
    10_f64.powf((value.log10() + 1e-9).floor() + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use crate::report::tests::report;

    fn at_rate(rate_rps: f64, p99_us: f64) -> Report {
        let mut report = report();
        report.overall.offered_rps = rate_rps;
        report.types[0].summary.latency_us.as_mut().unwrap().p99 = p99_us;
        report
    }

    fn measured(report: &Report, is_kept: bool) -> Measured<'_> {
        Measured {
            name: "one",
            report,
            is_kept,
        }
    }

    #[test]
    fn rates_are_points_and_repeats_have_their_median() {
        let reports = [
            at_rate(20.0, 9.0),
            at_rate(10.0, 1.0),
            at_rate(10.0, 3.0),
            at_rate(10.0, 2.0),
        ];
        let runs: Vec<_> = reports
            .iter()
            .map(|report| measured(report, true))
            .collect();
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
        let runs = [
            measured(&reports[0], true),
            measured(&reports[1], true),
            measured(&reports[2], false),
        ];
        let chosen = representatives(&runs, "one");
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].report.overall.offered_rps, 20.0);
        let drawing = timelines(&runs).unwrap();
        assert_eq!(drawing.series, ["one at 20.0/s"]);
        assert_eq!(drawing.panels[1].lines[0].len(), 10);
        let none_kept = [measured(&reports[1], false), measured(&reports[0], false)];
        assert_eq!(
            representatives(&none_kept, "one")[0]
                .report
                .overall
                .offered_rps,
            10.0
        );
    }

    #[test]
    fn curves_end_where_the_shortest_does() {
        let mut short = report();
        short.types[0].summary.latency_curve_us.truncate(3);
        let long = report();
        let curve = median_curve(&[&long.types[0], &short.types[0]]);
        assert_eq!(curve.len(), 3);
        assert_eq!(median_curve(&[]), []);
        assert_eq!((decade_above(10.0), decade_above(99.0)), (100.0, 100.0));
    }
}
