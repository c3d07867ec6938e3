//! Distributions of sizes in bytes: of values, and of keys.

use std::fmt;
use std::str::FromStr;

use crate::random::WeightedChoice;

/// Largest size of a distribution without an upper end; larger sizes are cut to it. A megabyte is
/// also the largest item of a memcached with default settings.
const TAIL_BYTES_MAX: usize = 1 << 20;

/// Largest size that can be set.
const BYTES_MAX: usize = 64 << 20;

/// How sizes are distributed.
///
/// As text:
///
/// | text | sizes |
/// | --- | --- |
/// | `N` | all are N |
/// | `N-M` | uniform, both included |
/// | `exponential:MEAN` | exponential |
/// | `pareto:SCALE:SHAPE[:FROM]` | generalised Pareto, from FROM on (0 unless set) |
/// | `gev:LOCATION:SCALE:SHAPE` | generalised extreme values |
/// | `SIZES@WEIGHT,...` | one of these, by weight |
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Fixed(usize),
    Uniform { from: usize, to: usize },
    Exponential { mean: f64 },
    Pareto { from: f64, scale: f64, shape: f64 },
    ExtremeValue { location: f64, scale: f64, shape: f64 },
    Table { choice: WeightedChoice, rows: Vec<Kind> },
}

/// Why text is not a distribution of sizes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}`: sizes are N, N-M, exponential:MEAN, pareto:SCALE:SHAPE[:FROM], \
     gev:LOCATION:SCALE:SHAPE or a table of these, SIZES@WEIGHT,...; up to {BYTES_MAX} bytes"
)]
pub struct SizesError {
    text: String,
}

impl Sizes {
    /// All sizes are `bytes`, at most 64 MiB.
    #[must_use]
    pub fn fixed(bytes: usize) -> Self {
        let bytes = bytes.min(BYTES_MAX);
        Self { text: bytes.to_string(), kind: Kind::Fixed(bytes) }
    }

    /// The size, if all are the same.
    #[must_use]
    pub fn as_fixed(&self) -> Option<usize> {
        match self.kind {
            Kind::Fixed(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The largest size that can be drawn.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.kind.bytes_max()
    }

    /// The size below which the fraction `unit` of all sizes lies; `unit` is at least 0 and below
    /// 1. Uniform random units draw sizes.
    #[must_use]
    pub fn at(&self, unit: f64) -> usize {
        self.kind.at(unit)
    }
}

impl Kind {
    fn parse(text: &str) -> Option<Self> {
        if text.contains('@') {
            return Self::parse_table(text);
        }
        if let Some((name, parameters)) = text.split_once(':') {
            let numbers: Option<Vec<f64>> = parameters
                .split(':')
                .map(|number| number.parse().ok().filter(|number: &f64| number.is_finite()))
                .collect();
            return match (name, &numbers?[..]) {
                ("exponential", &[mean]) if mean > 0.0 => Some(Self::Exponential { mean }),
                ("pareto", &[scale, shape]) => Self::pareto(scale, shape, 0.0),
                ("pareto", &[scale, shape, from]) => Self::pareto(scale, shape, from),
                ("gev", &[location, scale, shape]) if scale > 0.0 => {
                    Some(Self::ExtremeValue { location, scale, shape })
                }
                _ => None,
            };
        }
        let bytes = |text: &str| text.parse().ok().filter(|bytes| *bytes <= BYTES_MAX);
        match text.split_once('-') {
            None => bytes(text).map(Self::Fixed),
            Some((from, to)) => {
                let (from, to) = (bytes(from)?, bytes(to)?);
                (from <= to).then_some(Self::Uniform { from, to })
            }
        }
    }

    fn pareto(scale: f64, shape: f64, from: f64) -> Option<Self> {
        (scale > 0.0 && from >= 0.0).then_some(Self::Pareto { from, scale, shape })
    }

    fn parse_table(text: &str) -> Option<Self> {
        let mut rows = Vec::new();
        let mut weights: Vec<f64> = Vec::new();
        for row in text.split(',') {
            let (sizes, weight) = row.trim().rsplit_once('@')?;
            if sizes.contains('@') {
                return None;
            }
            rows.push(Self::parse(sizes)?);
            weights.push(weight.parse().ok()?);
        }
        let choice = WeightedChoice::new(weights.iter().copied())?;
        Some(Self::Table { choice, rows })
    }

    fn bytes_max(&self) -> usize {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Uniform { to, .. } => *to,
            Self::Exponential { .. } | Self::Pareto { .. } | Self::ExtremeValue { .. } => TAIL_BYTES_MAX,
            Self::Table { rows, .. } => rows.iter().map(Self::bytes_max).max().unwrap_or(0),
        }
    }

    fn at(&self, unit: f64) -> usize {
        let size = match self {
            Self::Fixed(bytes) => return *bytes,
            Self::Uniform { from, to } => {
                let size = *from as f64 + unit * (to - from + 1) as f64;
                return whole(size).min(*to);
            }
            Self::Table { choice, rows } => {
                let (row, unit) = choice.draw(unit);
                return rows[row].at(unit);
            }
            Self::Exponential { mean } => -mean * (1.0 - unit).ln(),
            Self::Pareto { from, scale, shape } => from + scale * grown(-(1.0 - unit).ln(), *shape),
            Self::ExtremeValue { location, scale, shape } => location + scale * grown(-(-unit.ln()).ln(), *shape),
        };
        whole(size).min(TAIL_BYTES_MAX)
    }
}

/// `(e^(shape x) - 1) / shape`, which is `x` for a shape of 0.
fn grown(exponent: f64, shape: f64) -> f64 {
    if shape.abs() < 1e-9 {
        exponent
    } else {
        (shape * exponent).exp_m1() / shape
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates"
)]
fn whole(size: f64) -> usize {
    size as usize
}

impl FromStr for Sizes {
    type Err = SizesError;

    fn from_str(text: &str) -> Result<Self, SizesError> {
        Kind::parse(text.trim())
            .map(|kind| Self { text: text.trim().to_owned(), kind })
            .ok_or_else(|| SizesError { text: text.to_owned() })
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(text: &str) -> Sizes {
        text.parse().unwrap()
    }

    /// Mean over evenly spaced parts, which is the distribution's.
    fn mean(sizes: &Sizes) -> f64 {
        const STEPS: u32 = 200_000;
        let at = |step| sizes.at((f64::from(step) + 0.5) / f64::from(STEPS)) as f64;
        (0..STEPS).map(at).sum::<f64>() / f64::from(STEPS)
    }

    #[test]
    fn means_are_those_of_the_textbook() {
        for (text, expected) in [
            ("64", 64.0),
            ("10-20", 15.0),
            // Cutting fractions off takes half a byte.
            ("exponential:1000", 999.5),
            ("pareto:200:0.25:15", 15.0 + 200.0 / 0.75 - 0.5),
            ("pareto:200:0", 199.5),
            // Location + scale * Euler's constant.
            ("gev:100:10:0", 100.0 + 5.772 - 0.5),
            ("10@3,50@1", 20.0),
            ("0-10@1,exponential:100@1", 52.25),
        ] {
            let found = mean(&sizes(text));
            assert!((found / expected - 1.0).abs() < 0.01, "{text}: {found}");
        }
    }

    #[test]
    fn fixed_sizes_are_known_to_be() {
        assert_eq!(sizes("7").as_fixed(), Some(7));
        assert_eq!(Sizes::fixed(7), sizes("7"));
        assert_eq!(sizes("7-7").as_fixed(), None);
        assert_eq!(sizes("3-9").bytes_max(), 9);
        assert_eq!(sizes("3@1,20-30@1").bytes_max(), 30);
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_the_forms() {
        for text in [
            "",
            "x",
            "-1",
            "5-4",
            "1@",
            "1@0",
            "1@1@1",
            "exponential",
            "exponential:0",
            "exponential:1:2",
            "pareto:0:1",
            "gev:1:2",
            "gev:1:0:1",
            "99999999999",
            "normal:3",
        ] {
            let error = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(error.contains("sizes are N, N-M"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_sizes_stay_in_bounds(
            text in "(exponential:|pareto:|gev:)?[0-9:@,.e-]{0,20}",
            unit in 0.0..1.0,
        ) {
            if let Ok(sizes) = text.parse::<Sizes>() {
                prop_assert!(sizes.at(unit) <= sizes.bytes_max());
                prop_assert!(sizes.bytes_max() <= BYTES_MAX);
            }
        }
    }
}
