//! Conditions on the figures of a report, such as `GET.p99_9 > 500us`: reasons to fail, or demands
//! of an objective.

use std::fmt;
use std::str::FromStr;

use psp_sim::measure::Percentiles;

use super::run_report::{OVERALL, Report};
use super::summary::Summary;

/// A figure of one type or of all types, and its limit.
#[derive(Debug, Clone)]
pub struct Condition {
    text: String,
    /// A type's name, or [`OVERALL`].
    subject: String,
    metric: &'static Metric,
    /// Whether the limit is a share of the offered rate or of the scheduled requests.
    is_share: bool,
    comparison: Comparison,
    limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Longer signs first: `<=` begins with `<`.
const COMPARISONS: &[(&str, Comparison)] = &[
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::More),
];

impl Comparison {
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::AtMost => value <= limit,
            Self::More => value > limit,
            Self::AtLeast => value >= limit,
        }
    }
}

/// A figure that conditions can name.
#[derive(Debug)]
struct Metric {
    name: &'static str,
    value: Value,
}

#[derive(Debug)]
enum Value {
    /// In microseconds.
    Time(fn(&Summary) -> Option<f64>),
    /// A number of requests; `%` makes it a share of those scheduled.
    Count(fn(&Summary) -> u64),
    /// Requests per second; `%` makes it a share of the offered rate.
    Rate(fn(&Summary) -> f64),
    /// A plain number.
    Factor(fn(&Summary) -> Option<f64>),
}

/// The metrics for the percentiles in one field of a summary.
macro_rules! points {
    ($kind:ident, $field:ident: $($name:literal = $point:ident),* $(,)?) => {
        [$(Metric {
            name: $name,
            value: Value::$kind(|summary| summary.$field.map(|points: Percentiles| points.$point)),
        }),*]
    };
}

const LATENCY: [Metric; 7] = points!(
    Time, latency_us:
    "p50" = p50, "p90" = p90, "p99" = p99, "p99_9" = p999, "p99_99" = p9999, "mean" = mean,
    "max" = max,
);

const CALM: [Metric; 7] = points!(
    Time, calm_latency_us:
    "calm_p50" = p50, "calm_p90" = p90, "calm_p99" = p99, "calm_p99_9" = p999, "calm_p99_99" = p9999,
    "calm_mean" = mean, "calm_max" = max,
);

const LAG: [Metric; 7] = points!(
    Time, lag_us:
    "lag_p50" = p50, "lag_p90" = p90, "lag_p99" = p99, "lag_p99_9" = p999, "lag_p99_99" = p9999,
    "lag_mean" = mean, "lag_max" = max,
);

const SLOWDOWN: [Metric; 7] = points!(
    Factor, slowdown:
    "slowdown_p50" = p50, "slowdown_p90" = p90, "slowdown_p99" = p99, "slowdown_p99_9" = p999,
    "slowdown_p99_99" = p9999, "slowdown_mean" = mean, "slowdown_max" = max,
);

const fn count(name: &'static str, value: fn(&Summary) -> u64) -> Metric {
    Metric { name, value: Value::Count(value) }
}

const fn rate(name: &'static str, value: fn(&Summary) -> f64) -> Metric {
    Metric { name, value: Value::Rate(value) }
}

const COUNTS: [Metric; 10] = [
    count("errors", |summary| summary.errors.values().sum()),
    count("timeouts", |summary| summary.timeouts),
    count("dropped", |summary| summary.dropped),
    count("failed", Summary::failed),
    count("completed", |summary| summary.completed),
    count("reconnects", |summary| summary.reconnects),
    count("hits", |summary| summary.hits.unwrap_or(0)),
    count("misses", |summary| summary.misses.unwrap_or(0)),
    rate("achieved_rps", |summary| summary.achieved_rps),
    rate("offered_rps", |summary| summary.offered_rps),
];

fn metrics() -> impl Iterator<Item = &'static Metric> {
    static METRICS: [&[Metric]; 5] = [&LATENCY, &CALM, &COUNTS, &LAG, &SLOWDOWN];
    METRICS.into_iter().flatten()
}

/// Time units in microseconds. `s` comes last, because every other unit ends with it.
const TIME_UNITS: &[(&str, f64)] = &[("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];

/// Why a text is not a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// There is no comparison.
    #[error("`{text}`: one of < <= > >= is missing, as in `GET.p99_9 > 500us`")]
    Comparison {
        /// The text.
        text: String,
    },
    /// There is no dot.
    #[error("`{left}` has no type: expected TYPE.METRIC or overall.METRIC, as in `GET.p99_9`")]
    Subject {
        /// The text before the comparison.
        left: String,
    },
    /// The metric is not known.
    #[error("`{metric}` is no metric; there are {known}")]
    Metric {
        /// The metric of the text.
        metric: String,
        /// All that are known.
        known: String,
    },
    /// The limit is not a number with a unit of the metric.
    #[error("`{limit}` does not fit `{metric}`: expected {expected}")]
    Limit {
        /// The limit of the text.
        limit: String,
        /// Name of the metric.
        metric: &'static str,
        /// The expected form.
        expected: &'static str,
    },
    /// No type of the run has this name.
    #[error("`{subject}` is no type of this run; there are {known}")]
    UnknownSubject {
        /// The subject of the text.
        subject: String,
        /// The run's types.
        known: String,
    },
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let comparison_error = || ConditionError::Comparison { text: text.to_owned() };
        let (at, sign, comparison) = COMPARISONS
            .iter()
            .find_map(|&(sign, comparison)| Some((text.rfind(sign)?, sign, comparison)))
            .ok_or_else(comparison_error)?;
        let left = text[..at].trim();
        let (subject, metric) = subject_and_metric(left)?;
        let (limit, is_share) = metric.limit(text[at + sign.len()..].trim())?;
        Ok(Self {
            text: text.trim().to_owned(),
            subject: subject.to_owned(),
            metric,
            is_share,
            comparison,
            limit,
        })
    }
}

/// Accepts `p99.9` for `p99_9`. Names of types may contain dots, too.
fn subject_and_metric(left: &str) -> Result<(&str, &'static Metric), ConditionError> {
    let named = metrics().find_map(|metric| {
        let before = left.strip_suffix(metric.name).or_else(|| {
            let dotted = metric.name.replace("9_9", "9.9");
            left.strip_suffix(&dotted)
        });
        Some((before?.strip_suffix('.')?, metric))
    });
    match (named, left.rsplit_once('.')) {
        (Some((subject, metric)), _) if !subject.is_empty() => Ok((subject, metric)),
        (None, Some((subject, metric))) if !subject.is_empty() => {
            let known: Vec<_> = metrics().map(|metric| metric.name).collect();
            Err(ConditionError::Metric { metric: metric.to_owned(), known: known.join(", ") })
        }
        _ => Err(ConditionError::Subject { left: left.to_owned() }),
    }
}

impl Metric {
    /// The limit in this metric's unit, and whether it is a share.
    fn limit(&self, text: &str) -> Result<(f64, bool), ConditionError> {
        let number = |digits: &str| {
            let number: Option<f64> = digits.trim_end().parse().ok();
            number.filter(|number| number.is_finite())
        };
        let share = || Some((number(text.strip_suffix('%')?)? / 100.0, true));
        let plain = || Some((number(text)?, false));
        let (limit, expected) = match self.value {
            Value::Time(_) => {
                let units = TIME_UNITS.iter();
                let time = units.clone().find_map(|(unit, us)| {
                    let digits = text.strip_suffix(unit)?;
                    Some((number(digits)? * us, false))
                });
                (time, "a time in ns, us, ms or s, such as 500us")
            }
            Value::Count(_) => (share().or_else(plain), "a number of requests, or their share such as 0.1%"),
            Value::Rate(_) => (
                share().or_else(|| Some((number(text.strip_suffix("/s")?)?, false))).or_else(plain),
                "requests per second, or a share of the offered rate such as 99%",
            ),
            Value::Factor(_) => (plain(), "a number"),
        };
        limit.ok_or_else(|| ConditionError::Limit { limit: text.to_owned(), metric: self.name, expected })
    }
}

impl Condition {
    /// Checks that a run with these types has the condition's type.
    ///
    /// # Errors
    /// [`ConditionError::UnknownSubject`].
    pub fn require_subject<'a>(&self, types: impl Iterator<Item = &'a str> + Clone) -> Result<(), ConditionError> {
        let mut known = types.chain(std::iter::once(OVERALL));
        if known.clone().any(|name| name == self.subject) {
            return Ok(());
        }
        let first = known.next().unwrap_or(OVERALL).to_owned();
        Err(ConditionError::UnknownSubject {
            subject: self.subject.clone(),
            known: known.fold(first, |all, name| all + ", " + name),
        })
    }

    /// The condition's figure in one report.
    fn value(&self, report: &Report) -> Option<f64> {
        let (_, summary) = report.summaries().find(|(name, _)| *name == self.subject)?;
        match self.metric.value {
            Value::Time(value) | Value::Factor(value) => value(summary),
            Value::Count(count) if self.is_share => {
                let scheduled = summary.scheduled as f64;
                (scheduled > 0.0).then(|| count(summary) as f64 / scheduled)
            }
            Value::Count(count) => Some(count(summary) as f64),
            Value::Rate(rate) if self.is_share => {
                let offered = summary.offered_rps;
                (offered > 0.0).then(|| rate(summary) / offered)
            }
            Value::Rate(rate) => Some(rate(summary)),
        }
    }

    /// Checks the mean of the figure over the runs.
    #[must_use]
    pub fn verdict(&self, runs: &[Report]) -> Verdict {
        let values: Option<Vec<f64>> = runs.iter().map(|report| self.value(report)).collect();
        let Some(values) = values.filter(|values| !values.is_empty()) else {
            return Verdict { holds: None, value: None };
        };
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Verdict {
            holds: Some(self.comparison.holds(mean, self.limit)),
            value: Some(mean),
        }
    }

    /// The figure in words.
    #[must_use]
    pub fn describe(&self, verdict: Verdict) -> String {
        let name = format!("{}.{}", self.subject, self.metric.name);
        match (verdict.value, &self.metric.value) {
            (None, _) => format!("{self}: {name} has no figure, since nothing was measured"),
            (Some(value), Value::Time(_)) => format!("{self}: {name} is {value:.1} us"),
            (Some(value), _) if self.is_share => {
                format!("{self}: {name} is {:.3} %", value * 100.0)
            }
            (Some(value), _) => format!("{self}: {name} is {value:.1}"),
        }
    }

    /// The type, the metric and the limit in microseconds, if the condition is about a latency.
    #[must_use]
    pub fn latency_limit_us(&self) -> Option<(&str, &'static str, f64)> {
        let is_latency = LATENCY.iter().any(|metric| metric.name == self.metric.name);
        is_latency.then_some((self.subject.as_str(), self.metric.name, self.limit))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The result of a condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Whether the condition holds; `None` without a figure.
    pub holds: Option<bool>,
    /// The figure, in the unit of the metric.
    pub value: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::report;

    fn holds(text: &str) -> Option<bool> {
        text.parse::<Condition>().unwrap().verdict(&[report()]).holds
    }

    /// The report has 100 GETs from 1 us to 100 us, of which 90 completed, and a type without
    /// requests.
    #[test]
    fn conditions_read_their_figure_in_their_unit() {
        for (text, expected) in [
            ("GET.p50 > 40us", true),
            ("GET.p50>0.04ms", true),
            ("GET.p50 < 44 us", false),
            ("GET.p99_9 <= 1s", true),
            ("GET.p99.9 <= 80000ns", false),
            ("GET.p99_99 >= 89us", true),
            ("GET.max < 91us", true),
            ("GET.mean < 50us", true),
            ("GET.errors > 6", false),
            ("GET.errors > 5.5%", true),
            ("GET.timeouts >= 4%", true),
            ("GET.failed < 10", false),
            ("GET.achieved_rps < 99%", true),
            ("GET.achieved_rps >= 9/s", true),
            ("GET.offered_rps >= 10", true),
            ("overall.errors > 0", true),
            ("GET.lag_p99 < 3us", true),
            ("GET.slowdown_p99_9 > 50", true),
            ("odd.name.errors > 0", false),
        ] {
            assert_eq!(holds(text), Some(expected), "{text}");
        }
        for text in ["odd.name.p50 < 1s", "odd.name.p50 > 1s", "odd.name.errors > 1%"] {
            assert_eq!(holds(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_not_looked_up_has_neither_hits_nor_misses() {
        let mut looked_up = report();
        looked_up.types[0].summary.hits = Some(85);
        looked_up.types[0].summary.misses = Some(5);
        for (text, expected) in [
            ("GET.misses >= 5", true),
            ("GET.misses > 5%", false),
            ("GET.hits < 86", true),
            ("odd.name.misses > 0", false),
        ] {
            let condition: Condition = text.parse().unwrap();
            let verdict = condition.verdict(std::slice::from_ref(&looked_up));
            assert_eq!(verdict.holds, Some(expected), "{text}");
        }
    }

    #[test]
    fn several_runs_are_judged_by_their_mean() {
        let condition: Condition = "GET.errors > 6".parse().unwrap();
        let mut worse = report();
        worse.types[0].summary.errors = [("ERR".to_owned(), 8)].into();
        let verdict = condition.verdict(&[report(), worse]);
        assert_eq!((verdict.holds, verdict.value), (Some(true), Some(7.0)));
        assert_eq!(condition.verdict(&[]).holds, None);
        let text = condition.describe(verdict);
        assert_eq!(text, "GET.errors > 6: GET.errors is 7.0");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, reason) in [
            ("GET.p99 500us", "one of < <= > >= is missing"),
            ("p99 > 500us", "`p99` has no type"),
            (".p99 > 500us", "`.p99` has no type"),
            ("GET.p98 > 500us", "`p98` is no metric; there are p50, p90"),
            ("GET.p99 > 500", "`500` does not fit `p99`: expected a time"),
            ("GET.p99 > us", "`us` does not fit `p99`"),
            ("GET.p99 > 5%", "`5%` does not fit `p99`"),
            ("GET.errors > 5ms", "expected a number of requests"),
            ("GET.achieved_rps < x", "expected requests per second"),
            ("GET.slowdown_p99 > 10us", "expected a number"),
            ("GET.p99 > nanus", "does not fit"),
        ] {
            let error = text.parse::<Condition>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let condition: Condition = "SET.p99 > 1ms".parse().unwrap();
        let error = condition.require_subject(["GET", "KEYS"].into_iter());
        assert_eq!(
            error.unwrap_err().to_string(),
            "`SET` is no type of this run; there are GET, KEYS, overall"
        );
        assert_eq!(condition.require_subject(["SET"].into_iter()), Ok(()));
    }
}
