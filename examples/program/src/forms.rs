//! Settings that a file may have in the form of their flags.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Several values: an array, or a text as after the flag, in which commas separate them.
///
/// # Errors
/// A value is not valid.
pub fn one_or_many<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + FromStr,
    T::Err: Display,
{
    struct OneOrMany<T>(PhantomData<T>);

    impl<'de, T> Visitor<'de> for OneOrMany<T>
    where
        T: Deserialize<'de> + FromStr,
        T::Err: Display,
    {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a text, or an array of texts")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
            let values = text.split(',').map(str::trim);
            values.map(|value| value.parse().map_err(E::custom)).collect()
        }

        fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<Vec<T>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(values))
        }
    }

    deserializer.deserialize_any(OneOrMany(PhantomData))
}

/// A number: as such, or as a text that `parse` takes after the flag.
///
/// # Errors
/// The number is out of range, or the text is no number.
pub fn number_or_text<'de, D, N, E>(deserializer: D, parse: fn(&str) -> Result<N, E>) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64>,
    E: Display,
{
    struct NumberOrText<N, E>(fn(&str) -> Result<N, E>);

    impl<N: TryFrom<u64>, E: Display> Visitor<'_> for NumberOrText<N, E> {
        type Value = N;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a number of at least 0, or a text such as for the flag")
        }

        fn visit_i64<F: Error>(self, number: i64) -> Result<N, F> {
            match u64::try_from(number) {
                Ok(number) => self.visit_u64(number),
                Err(_negative) => Err(F::custom(format!("{number} is out of range: it must be at least 0"))),
            }
        }

        fn visit_u64<F: Error>(self, number: u64) -> Result<N, F> {
            let fits = N::try_from(number);
            fits.map_err(|_| F::custom(format!("{number} is out of range: it is too large")))
        }

        fn visit_str<F: Error>(self, text: &str) -> Result<N, F> {
            (self.0)(text).map_err(|error| F::custom(format!("`{text}`: {error}")))
        }
    }

    deserializer.deserialize_any(NumberOrText(parse))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Config {
        #[serde(default, deserialize_with = "one_or_many")]
        bind: Vec<IpAddr>,
        #[serde(default, deserialize_with = "dozens")]
        eggs: u32,
    }

    fn dozens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        number_or_text(deserializer, |text| match text.strip_suffix("dz") {
            Some(dozens) => dozens.parse().map(|dozens: u32| 12 * dozens).map_err(|_| "no number"),
            None => Err("no dozens"),
        })
    }

    fn parse(text: &str) -> Result<Config, String> {
        let parsed = psp_server::settings::parse(text, None);
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn one_value_needs_no_array() {
        let bind = |text: &str| parse(text).unwrap().bind;
        let both: [IpAddr; 2] = ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
        assert_eq!(bind("bind = '127.0.0.1'"), both[..1]);
        assert_eq!(bind("bind = '127.0.0.1, ::1'"), both);
        assert_eq!(bind("bind = ['127.0.0.1', '::1']"), both);
        assert!(bind("bind = []").is_empty());
        for (text, expected) in [
            ("\nbind = 'here'", "line 2, column 8: invalid IP address"),
            ("bind = 7", "line 1, column 8: invalid type: integer `7`, expected a text, or an array"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn numbers_may_have_the_units_of_the_flag() {
        for (text, eggs) in [("eggs = 7", 7), ("eggs = '2dz'", 24)] {
            assert_eq!(parse(text).unwrap().eggs, eggs);
        }
        for (text, expected) in [
            ("\neggs = 'x'", "line 2, column 8: `x`: no dozens"),
            ("eggs = -1", "line 1, column 8: -1 is out of range: it must be at least 0"),
            ("eggs = 4294967296", "line 1, column 8: 4294967296 is out of range"),
            ("eggs = true", "line 1, column 8: invalid type: boolean `true`, expected a number"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
