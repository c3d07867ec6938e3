//! The latency of one request type as a picture of its own: one percentile curve for each target.

use psp_sim::chart::{Axis, Drawing, Panel, standalone_svg};
use psp_sim::text::number;

use super::measured::{Measured, names};
use super::plot::{Points, decades, drawing};
use super::results::Results;
use super::selection::{median_curve, of_type, representatives, type_names};
use crate::report::Report;

/// Labels of the horizontal axis. At `one_in`, one request in `one_in` is slower.
const PERCENTILES: [(f64, &str); 6] = [
    (2.0, "p50"),
    (10.0, "p90"),
    (100.0, "p99"),
    (1e3, "p99.9"),
    (1e4, "p99.99"),
    (1e5, "p99.999"),
];

/// The curve begins at the median.
const FROM_ONE_IN: f64 = 2.0;

/// Why there is no picture of a type's latency.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LatencyError {
    /// The results have no run with this type.
    #[error("the results have no type `{name}`; they have {known}")]
    UnknownType {
        /// The type that was asked for.
        name: String,
        /// The types of the results.
        known: String,
    },
    /// The results are simulations or capacities, or no request of the type was completed.
    #[error("the results have no run with a latency")]
    NoLatency,
}

/// The latency of `type_name` in all `results` as an SVG document with one curve for each target.
/// Without a name, the first type of the results. If a target has several runs, the curve is their
/// median.
///
/// # Errors
/// [`LatencyError`] when no run has a latency of the type.
pub fn latency_svg(results: &[Results], type_name: Option<&str>) -> Result<String, LatencyError> {
    let measured: Vec<_> = results.iter().flat_map(Results::measured).collect();
    let types = type_names(&measured);
    let first = *types.first().ok_or(LatencyError::NoLatency)?;
    let name = type_name.unwrap_or(first);
    if !types.contains(&name) {
        return Err(LatencyError::UnknownType { name: name.to_owned(), known: types.join(", ") });
    }
    let drawing = latency(&measured, name, &types);
    if !drawing.has_points() {
        return Err(LatencyError::NoLatency);
    }
    Ok(standalone_svg(&drawing))
}

fn latency(measured: &[Measured<'_>], name: &str, types: &[&str]) -> Drawing {
    let targets = names(measured);
    let line = |target: &&str| -> Points {
        let runs = representatives(measured, target);
        let of_name: Vec<_> = runs.iter().filter_map(|run| of_type(run, name)).collect();
        let curve = median_curve(&of_name).into_iter();
        curve.filter(|(one_in, _)| *one_in >= FROM_ONE_IN).collect()
    };
    let lines: Vec<Points> = targets.iter().map(line).collect();
    let last = lines.iter().flatten().map(|(one_in, _)| *one_in);
    let labels = PERCENTILES.map(|(one_in, label)| (one_in, label.to_owned()));
    let panel = Panel {
        title: String::new(),
        x: Axis::log(format!("percentile of {name} requests"), FROM_ONE_IN, last.fold(10.0, f64::max))
            .labelled(labels.to_vec()),
        y: decades(&format!("{name} latency (us)"), &lines, None),
        lines,
        target: None,
        stretches: Vec::new(),
        steps: false,
    };
    let others: Vec<&str> = types.iter().copied().filter(|ty| *ty != name).collect();
    let title = if others.is_empty() {
        format!("Latency of {name}")
    } else {
        format!("Latency of {name} beside {}", others.join(", "))
    };
    let footer = targets.iter().filter_map(|target| {
        let runs = representatives(measured, target);
        let first = runs.first()?;
        Some(conditions(target, first.report, runs.len()))
    });
    Drawing {
        footer: footer.collect(),
        ..drawing(&title, &targets, vec![panel], 1)
    }
}

/// The rates, the duration and the cores of a target's runs.
fn conditions(target: &str, report: &Report, runs: usize) -> String {
    let rates = report.types.iter().map(|ty| {
        let rate = number(ty.summary.offered_rps);
        format!("{} {rate}/s", ty.name)
    });
    let rates: Vec<String> = rates.collect();
    let duration = number(report.duration_s);
    let extent = match runs {
        1 => format!("{duration} s"),
        _ => format!("median of {runs} runs of {duration} s"),
    };
    format!("{target}: {}; {extent}, {} cores.", rates.join(", "), report.client.cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::CompareReport;
    use crate::report::fixture::report;

    /// Redis' GETs are ten times as slow as psp's.
    fn comparison() -> Results {
        let mut redis = report();
        for point in &mut redis.types[0].summary.latency_curve_us {
            point.value *= 10.0;
        }
        let targets = [("redis", redis), ("psp & co", report())];
        let targets = targets.map(|(name, report)| (name.to_owned(), None, vec![report; 3]));
        Results::Compare(CompareReport::new(targets.to_vec(), false))
    }

    /// The names of all elements. Fails unless each element is closed in order.
    fn elements(document: &str) -> Vec<&str> {
        let mut open = Vec::new();
        let mut names = Vec::new();
        for part in document.split('<').skip(1) {
            let (tag, text) = part.split_once('>').expect("every tag ends");
            assert!(!text.contains('>'), "a stray > after {tag}");
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes in {tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name.trim()), "{tag}");
                continue;
            }
            let name = tag.split([' ', '\n', '/']).next().unwrap_or_default();
            names.push(name);
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert_eq!(open, Vec::<&str>::new());
        names
    }

    #[test]
    fn the_picture_is_well_formed_and_has_a_curve_for_each_target() {
        let measured = comparison();
        let document = latency_svg(std::slice::from_ref(&measured), None).unwrap();
        let elements = elements(&document);
        assert_eq!(elements[..2], ["svg", "style"]);
        for text in [
            "Latency of GET beside odd.name",
            "redis",
            "psp &amp; co",
            "percentile of GET requests",
            "GET latency (us)",
            "p50",
            "GET 10.0/s, odd.name 0.00/s; median of 3 runs of 10.0 s",
        ] {
            assert!(document.contains(text), "{text}");
        }
        let runs = measured.measured();
        let drawing = latency(&runs, "GET", &type_names(&runs));
        let [redis, psp] = &drawing.panels[0].lines[..] else {
            panic!("two curves");
        };
        assert!(redis.len() > 5 && redis.len() == psp.len());
        for ((_, redis_us), (_, psp_us)) in redis.iter().zip(psp) {
            assert!((redis_us / psp_us - 10.0).abs() < 1e-9);
        }
        // Each curve is a line of its colour in the document, beside the sample in the legend.
        for colour in ["#0072B2", "#D55E00"] {
            let lines = document
                .lines()
                .filter(|line| line.starts_with("<polyline") && line.contains(&format!("stroke=\"{colour}\"")));
            assert_eq!(lines.count(), 2, "{colour}");
        }
    }

    #[test]
    fn the_picture_fits_800_pixels() {
        let document = latency_svg(&[comparison()], Some("GET")).unwrap();
        let (_, width) = document.split_once("width=\"").unwrap();
        let width: u32 = width.split('"').next().unwrap().parse().unwrap();
        assert!((600..=800).contains(&width), "{width}");
    }

    #[test]
    fn a_type_without_latencies_has_no_picture() {
        let error = latency_svg(&[comparison()], Some("SET")).unwrap_err();
        let expected = "the results have no type `SET`; they have GET, odd.name";
        assert_eq!(error.to_string(), expected);
        let empty = latency_svg(&[comparison()], Some("odd.name"));
        assert_eq!(empty, Err(LatencyError::NoLatency));
        assert_eq!(latency_svg(&[], None), Err(LatencyError::NoLatency));
    }
}
