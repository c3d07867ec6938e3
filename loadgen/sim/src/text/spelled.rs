//! What a file gives by its name or spells as a table.

use std::fmt::{self, Display, Formatter};

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads `what` with `named` from a text, and with `spelled` from a table. Errors have the position of either.
pub(crate) fn named_or_spelled<'de, D, Table, Value, Error>(
    deserializer: D,
    what: &'static str,
    named: fn(&str) -> Result<Value, Error>,
    spelled: fn(Table) -> Result<Value, Error>,
) -> Result<Value, D::Error>
where
    D: Deserializer<'de>,
    Table: Deserialize<'de>,
    Error: Display,
{
    deserializer.deserialize_any(NamedOrSpelled { what, named, spelled })
}

struct NamedOrSpelled<Table, Value, Error> {
    what: &'static str,
    named: fn(&str) -> Result<Value, Error>,
    spelled: fn(Table) -> Result<Value, Error>,
}

impl<'de, Table: Deserialize<'de>, Value, Error: Display> Visitor<'de> for NamedOrSpelled<Table, Value, Error> {
    type Value = Value;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, by its name or as a table", self.what)
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Value, E> {
        (self.named)(name).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        (self.spelled)(table).map_err(A::Error::custom)
    }
}
