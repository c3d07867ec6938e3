//! Keys of configuration files in either case: `quantum-us` and `quantum_us` are one key.
//!
//! [`either_case`] stands between a format and a type. Where the type asks for a struct, a key that is a field of
//! the struct in the other case becomes that field. A file that has both gets the error of a duplicate field.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};

/// Deserializes a value whose keys, and those of all values in it, may have dashes or underscores.
///
/// # Errors
/// Those of the format and of the type.
pub(crate) fn either_case<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(EitherCase(deserializer))
}

/// Wraps a deserializer, or what one gives to a visitor.
#[derive(Debug)]
pub struct EitherCase<D>(pub D);

/// Wraps a visitor, which may expect the fields of a struct.
struct Fields<V> {
    inner: V,
    fields: &'static [&'static str],
}

/// `key` as one of `fields`, if it is one in the other case.
fn as_field<'a>(key: &'a str, fields: &[&str]) -> Cow<'a, str> {
    if fields.contains(&key) {
        return key.into();
    }
    let others = [key.replace('_', "-"), key.replace('-', "_")];
    let field = others.into_iter().find(|other| fields.contains(&other.as_str()));
    field.map_or(key.into(), Cow::from)
}

macro_rules! forward_deserialize {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            fn $method<V: Visitor<'de>>(
                self,
                $($argument: $type,)*
                visitor: V,
            ) -> Result<V::Value, D::Error> {
                self.0.$method($($argument,)* Fields { inner: visitor, fields: &[] })
            }
        )*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for EitherCase<D> {
    type Error = D::Error;

    forward_deserialize! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        inner: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Fields { inner, fields };
        self.0.deserialize_struct(name, fields, visitor)
    }
}

macro_rules! forward_visit {
    ($($method:ident($type:ty);)*) => {
        $(
            fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
                self.inner.$method(value)
            }
        )*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Fields<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.expecting(formatter)
    }

    forward_visit! {
        visit_bool(bool);
        visit_i64(i64);
        visit_u64(u64);
        visit_f64(f64);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(EitherCase(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(EitherCase(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(EitherCase(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let fields = self.fields;
        self.inner.visit_map(Fields { inner: map, fields })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(variant)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for EitherCase<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(EitherCase(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let fields = self.fields;
        self.inner.next_key_seed(Fields { inner: seed, fields })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(EitherCase(seed))
    }
}

/// A value.
impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for EitherCase<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(EitherCase(deserializer))
    }
}

/// A key.
impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Fields<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let key = String::deserialize(deserializer)?;
        self.inner.deserialize(as_field(&key, self.fields).into_deserializer())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    struct Outer {
        first_key: Vec<Inner>,
        second_key: Option<Inner>,
        words: BTreeMap<String, u8>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        a_b: f64,
    }

    fn parse(text: &str) -> Result<Outer, String> {
        let deserializer = toml::Deserializer::parse(text).map_err(|error| error.to_string())?;
        either_case(deserializer).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_of_structs_may_have_either_case_at_any_depth() {
        let dashes = "first-key = [{ a-b = 1.0 }]\nsecond-key = { a-b = 2.0 }\nwords = { a_b = 1, a-b = 2 }";
        let underscores = "first_key = [{ a_b = 1.0 }]\nsecond_key = { a_b = 2.0 }\nwords = { a_b = 1, a-b = 2 }";
        let outer = parse(dashes).unwrap();
        assert_eq!(outer.words.len(), 2, "the keys of a map are its own");
        assert_eq!(outer.first_key, [Inner { a_b: 1.0 }]);
        assert_eq!(parse(underscores), Ok(outer));
    }

    #[test]
    fn other_keys_and_doubled_ones_are_refused() {
        for (text, line, reason) in [
            ("first-key = []\nsecond_key = { a_c = 1.0 }", 2, "unknown field `a_c`"),
            ("first-key = []\nwords = {}\nfirst_key = []", 1, "duplicate field `first-key`"),
            ("\nthird_key = 1", 2, "unknown field `third_key`"),
            ("first-key = 1", 1, "expected a sequence"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
            assert!(error.contains(&format!("line {line}")), "{error}");
        }
    }
}
