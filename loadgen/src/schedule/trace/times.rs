//! Times as files write them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time in seconds: a number, or a time of RFC 3339, as in `2024-05-01T12:00:00.5+02:00`. A blank may stand for
/// the `T`.
pub(super) fn parse_time(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|time: &f64| time.is_finite());
    let date = || OffsetDateTime::parse(text, &Rfc3339).ok().map(unix_s);
    seconds.or_else(date).ok_or_else(|| {
        let start: String = text.chars().take(40).collect();
        format!("`{start}` is not a time in seconds, nor one as in 2024-05-01T12:00:00.5+02:00")
    })
}

/// Seconds since 1970.
pub(super) fn unix_s(date: OffsetDateTime) -> f64 {
    date.unix_timestamp_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_numbers_or_dates() {
        for (text, time_s) in [
            ("0", 0.0),
            ("1700000000.25", 1_700_000_000.25),
            ("-1e3", -1_000.0),
            ("2024-05-01T12:00:00Z", 1_714_564_800.0),
            ("2024-05-01 14:00:00.5+02:00", 1_714_564_800.5),
            ("2016-12-31T23:59:60Z", 1_483_228_799.999_999_8),
        ] {
            let parsed = parse_time(text).unwrap();
            assert!((parsed - time_s).abs() < 1e-6, "{text}: {parsed}");
        }
        for text in [
            "",
            "soon",
            "inf",
            "nan",
            "2024-05-01",
            "2024-05-01T12:00:00",
            "2024-13-01T12:00:00Z",
            "2024-05-01T12:00:00Z later",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}", near in "[0-9TZ:+. -]{0,40}") {
            let _ = (parse_time(&text), parse_time(&near));
        }
    }
}
