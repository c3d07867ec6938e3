//! For how long who asks will wait.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

/// Most digits of a `grpc-timeout`.
const DIGITS_MAX: usize = 8;

/// The shorter one of gRPC's timeout and that of a header in milliseconds, if there is any.
pub(crate) fn timeout(headers: &HeaderMap, millis: Option<&HeaderName>) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let of_grpc = text("grpc-timeout").and_then(grpc_timeout);
    let own = millis.and_then(|name| text(name.as_str())).and_then(number);
    let own = own.map(Duration::from_millis);
    of_grpc.into_iter().chain(own).min()
}

/// `TimeoutValue TimeoutUnit` of gRPC over HTTP/2.
fn grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > DIGITS_MAX {
        return None;
    }
    let value = number(digits)?;
    Some(match unit {
        "H" => Duration::from_secs(value * 3600),
        "M" => Duration::from_secs(value * 60),
        "S" => Duration::from_secs(value),
        "m" => Duration::from_millis(value),
        "u" => Duration::from_micros(value),
        "n" => Duration::from_nanos(value),
        _ => return None,
    })
}

/// Digits and nothing else.
fn number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_grpc_are_read_and_others_are_not() {
        let read = ["2H", "3M", "4S", "5m", "6u", "7n", "99999999S"].map(grpc_timeout);
        let seconds = |it| Some(Duration::from_secs(it));
        assert_eq!(read[..3], [seconds(7200), seconds(180), seconds(4)]);
        let short = [5_000_000, 6_000, 7].map(|it| Some(Duration::from_nanos(it)));
        assert_eq!(read[3..6], short);
        assert_eq!(read[6], seconds(99_999_999));
        for wrong in ["", "S", "5", "5s", "-5S", "+5S", "100000000S", "5 S", "5\u{fc}", "\u{fc}"] {
            assert_eq!(grpc_timeout(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_shorter_timeout_holds() {
        let mut headers = HeaderMap::new();
        let own = HeaderName::from_static("timeout-ms");
        assert_eq!(timeout(&headers, Some(&own)), None);
        headers.insert("grpc-timeout", "1S".parse().unwrap());
        assert_eq!(timeout(&headers, Some(&own)), Some(Duration::from_secs(1)));
        headers.insert(&own, "20".parse().unwrap());
        let both = timeout(&headers, Some(&own));
        assert_eq!(both, Some(Duration::from_millis(20)));
        assert_eq!(timeout(&headers, None), Some(Duration::from_secs(1)));
        headers.insert(&own, "soon".parse().unwrap());
        assert_eq!(timeout(&headers, Some(&own)), Some(Duration::from_secs(1)));
    }
}
