//! Selects runs, types and curves for plots.

use super::measured::Measured;
use super::plot::Points;
use crate::report::{Spread, TypeReport};

/// Names of all types, in order.
pub(super) fn type_names<'a>(measured: &[Measured<'a>]) -> Vec<&'a str> {
    let mut types = Vec::new();
    for ty in measured.iter().flat_map(|run| &run.report.types) {
        if !types.contains(&ty.name.as_str()) {
            types.push(ty.name.as_str());
        }
    }
    types
}

pub(super) fn of_type<'a>(run: &Measured<'a>, name: &str) -> Option<&'a TypeReport> {
    run.report.types.iter().find(|ty| ty.name == name)
}

/// Rates within a millionth are equal.
fn is_same_rate(one: f64, other: f64) -> bool {
    (one - other).abs() <= one.abs().max(other.abs()) * 1e-6
}

pub(super) fn rates(measured: &[Measured<'_>], name: &str) -> Vec<f64> {
    let runs = measured.iter().filter(|run| run.name == name);
    let mut rates: Vec<f64> = runs.map(|run| run.report.overall.offered_rps).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup_by(|one, other| is_same_rate(*one, *other));
    rates
}

pub(super) fn runs_at<'a, 'b>(measured: &'b [Measured<'a>], name: &str, rate_rps: f64) -> Vec<&'b Measured<'a>> {
    let is_meant = |run: &&Measured<'_>| run.name == name && is_same_rate(run.report.overall.offered_rps, rate_rps);
    measured.iter().filter(is_meant).collect()
}

/// The runs that represent a target in plots without a load axis: at the highest rate that kept the
/// objective, or else at the lowest rate.
pub(super) fn representatives<'a, 'b>(measured: &'b [Measured<'a>], name: &str) -> Vec<&'b Measured<'a>> {
    let rates = rates(measured, name);
    let is_kept = |rate: &&f64| runs_at(measured, name, **rate).iter().all(|run| run.is_kept);
    let rate = rates.iter().rev().find(is_kept).or(rates.first());
    rate.map_or_else(Vec::new, |rate| runs_at(measured, name, *rate))
}

/// The median of several curves. It ends with the shortest curve.
pub(super) fn median_curve(types: &[&TypeReport]) -> Points {
    let curves = || types.iter().map(|ty| &ty.summary.latency_curve_us);
    let Some(shortest) = curves().min_by_key(|curve| curve.len()) else {
        return Vec::new();
    };
    let points = shortest.iter().enumerate().filter_map(|(index, point)| {
        let values: Vec<f64> = curves().map(|curve| curve[index].value).collect();
        Some((point.one_in, Spread::of(&values)?.median))
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::report;

    #[test]
    fn curves_end_where_the_shortest_does() {
        let mut short = report();
        short.types[0].summary.latency_curve_us.truncate(3);
        let long = report();
        let curve = median_curve(&[&long.types[0], &short.types[0]]);
        assert_eq!(curve.len(), 3);
        assert_eq!(median_curve(&[]), []);
    }
}
