//! Command mixes: `GET:90,SET:9,LRANGE bigkey 0 -1:1` or `GET@10000/s,KEYS@2/s`.

use crate::wire::{CommandTemplate, Meaning, Protocol, Quotes, TemplateError};

/// Commands and their proportions.
///
/// Commas outside quotes separate items. An item is a command template
/// ([`CommandTemplate::for_protocol`]), optionally after `NAME=`, and ends with its weight (`:90`)
/// or its own rate (`@10000/s`). Weights share one rate; they need not add up to 100.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// The items in the order they were written; at least one, with distinct names.
    pub items: Vec<MixItem>,
}

/// One request type of a [`Mix`].
#[derive(Debug, Clone, PartialEq)]
pub struct MixItem {
    /// Name in reports: the text before `=`, or else the command's first word, in capitals if the
    /// protocol ignores case.
    pub name: String,
    /// The command.
    pub command: CommandTemplate,
    /// How often.
    pub rate: ItemRate,
}

/// How often an item is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ItemRate {
    /// A weight: the item's part of the rate that all weighted items share.
    Weight(f64),
    /// Requests per second, independent of other items.
    PerSecond(f64),
}

/// Why text is not a mix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MixError {
    /// An item without weight or rate, or with one that is not a positive number.
    #[error("mix item `{item}`: it ends with neither a weight (`:90`) nor a rate (`@100/s`)")]
    Rate {
        /// The item.
        item: String,
    },
    /// The command is not a template.
    #[error("mix item `{item}`")]
    Template {
        /// The item.
        item: String,
        /// Why.
        source: TemplateError,
    },
    /// Two items have one name.
    #[error("two mix items are called `{name}`; tell them apart with NAME=COMMAND")]
    Duplicate {
        /// Their name.
        name: String,
    },
    /// Weighted items, but no rate to share.
    #[error("mix item `{name}` has a weight, but there is no rate that the weights share")]
    NoSharedRate {
        /// The first weighted item.
        name: String,
    },
    /// A rate to share, but no weighted items.
    #[error("every mix item has a rate of its own; nothing shares the given rate")]
    NothingShares,
}

impl Mix {
    /// Parses a mix for a server that speaks `protocol`.
    ///
    /// # Errors
    /// [`MixError`] says what is wrong.
    pub fn parse(text: &str, protocol: Protocol) -> Result<Self, MixError> {
        let mut items: Vec<MixItem> = Vec::new();
        for text in split_items(text) {
            let item = parse_item(text, protocol)?;
            if items.iter().any(|other| other.name == item.name) {
                return Err(MixError::Duplicate { name: item.name });
            }
            items.push(item);
        }
        Ok(Self { items })
    }

    /// Requests per second of each item when the weights share `shared_rps`.
    ///
    /// # Errors
    /// [`MixError::NoSharedRate`] or [`MixError::NothingShares`] when weights and rate do not fit
    /// together.
    pub fn rates_rps(&self, shared_rps: Option<f64>) -> Result<Vec<f64>, MixError> {
        let weights = || self.items.iter().filter_map(MixItem::weight);
        let weight_total: f64 = weights().sum();
        if shared_rps.is_some() && weights().next().is_none() {
            return Err(MixError::NothingShares);
        }
        self.items
            .iter()
            .map(|item| match (item.rate, shared_rps) {
                (ItemRate::PerSecond(rate_rps), _) => Ok(rate_rps),
                (ItemRate::Weight(weight), Some(rate_rps)) => Ok(rate_rps * weight / weight_total),
                (ItemRate::Weight(_), None) => Err(MixError::NoSharedRate { name: item.name.clone() }),
            })
            .collect()
    }
}

impl MixItem {
    fn weight(&self) -> Option<f64> {
        match self.rate {
            ItemRate::Weight(weight) => Some(weight),
            ItemRate::PerSecond(_) => None,
        }
    }
}

fn split_items(text: &str) -> impl Iterator<Item = &str> {
    let separates = |&(_, character, meaning): &_| character == ',' && meaning == Meaning::Bare;
    let ends = Quotes::new(text).filter(separates).map(|(at, ..)| at);
    let mut start = 0;
    ends.chain([text.len()])
        .map(move |end| text[std::mem::replace(&mut start, end + 1)..end].trim())
}

fn parse_item(item: &str, protocol: Protocol) -> Result<MixItem, MixError> {
    let rate_error = || MixError::Rate { item: item.to_owned() };
    let split = item.rfind([':', '@']).ok_or_else(rate_error)?;
    let (named, suffix) = item.split_at(split);
    let positive = |text: &str| {
        let number: Option<f64> = text.parse().ok();
        number.filter(|number| number.is_finite() && *number > 0.0)
    };
    let rate = match suffix.strip_prefix(':') {
        Some(weight) => positive(weight).map(ItemRate::Weight),
        None => suffix
            .strip_prefix('@')
            .and_then(|rate| rate.strip_suffix("/s"))
            .and_then(positive)
            .map(ItemRate::PerSecond),
    }
    .ok_or_else(rate_error)?;
    let (name, text) = split_name(named);
    let command = CommandTemplate::for_protocol(text, protocol).map_err(|source| {
        let item = item.to_owned();
        MixError::Template { item, source }
    })?;
    let name = name.map_or_else(|| protocol.type_name(text), str::to_owned);
    Ok(MixItem { name, command, rate })
}

/// Splits off `NAME=` at the start. A later `=` belongs to the command.
fn split_name(text: &str) -> (Option<&str>, &str) {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|character| character.is_alphanumeric() || "-_.".contains(character))
    };
    match text.split_once('=') {
        Some((name, command)) if is_name(name) => (Some(name), command),
        _ => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redis(text: &str) -> Result<Mix, MixError> {
        Mix::parse(text, Protocol::Redis)
    }

    fn names(mix: &Mix) -> Vec<&str> {
        mix.items.iter().map(|item| item.name.as_str()).collect()
    }

    #[test]
    fn weights_share_the_rate() {
        let mix = redis("GET:90, SET:9 ,LRANGE bigkey 0 -1:1").unwrap();
        assert_eq!(names(&mix), ["GET", "SET", "LRANGE"]);
        assert_eq!(mix.rates_rps(Some(1e4)).unwrap(), [9_000.0, 900.0, 100.0]);
        let name = "GET".to_owned();
        assert_eq!(mix.rates_rps(None), Err(MixError::NoSharedRate { name }));
    }

    #[test]
    fn absolute_rates_stand_beside_weights() {
        let mix = redis("GET:3,SET:1,KEYS@2/s").unwrap();
        assert_eq!(mix.rates_rps(Some(400.0)).unwrap(), [300.0, 100.0, 2.0]);
        let mix = redis("GET@10000/s,KEYS@0.5/s").unwrap();
        assert_eq!(mix.rates_rps(None).unwrap(), [10_000.0, 0.5]);
        assert_eq!(mix.rates_rps(Some(1.0)), Err(MixError::NothingShares));
    }

    #[test]
    fn names_colons_and_quotes_are_understood() {
        let text = r#"small=LRANGE list:1 0 9:1,big=LRANGE list:2 0 -1:2,SET "a,b" "x=1:2":1"#;
        let mix = redis(text).unwrap();
        assert_eq!(names(&mix), ["small", "big", "SET"]);
        let literal = |text| CommandTemplate::parse(text).unwrap();
        assert_eq!(mix.items[1].command, literal("LRANGE list:2 0 -1"));
        assert_eq!(mix.items[2].command, literal(r#"SET "a,b" "x=1:2""#));
        let text = r#"SET a\,b '{"c":"d,e","f":[1,2]}':1,GET '\':2"#;
        let mix = redis(text).unwrap();
        assert_eq!(names(&mix), ["SET", "GET"]);
        let json = br#"{"c":"d,e","f":[1,2]}"#;
        assert_eq!(mix.items[0].command.literal(2), Some(&json[..]));
    }

    #[test]
    fn commands_are_those_of_the_protocol() {
        let text = "get:90,SET:9,mget 100:1,touched=TOUCH {key} 60:1";
        let mix = Mix::parse(text, Protocol::MemcachedMeta).unwrap();
        assert_eq!(names(&mix), ["GET", "SET", "MGET", "touched"]);
        let keys = CommandTemplate::parse("MGET {keys:100}").unwrap();
        assert_eq!(mix.items[2].command, keys);
        let mix = Mix::parse("Get:99,Scan {key}:1,get:1", Protocol::Protobuf).unwrap();
        assert_eq!(names(&mix), ["Get", "Scan", "get"]);
        let error = Mix::parse("KEYS:1", Protocol::Memcached).unwrap_err();
        assert!(matches!(error, MixError::Template { .. }));
    }

    #[test]
    fn bad_mixes_are_refused_with_the_item() {
        for (text, reason) in [
            ("", "mix item ``: it ends with neither"),
            ("GET", "mix item `GET`: it ends with neither"),
            ("GET:1,", "mix item ``: it ends with neither"),
            ("GET:-1", "ends with neither"),
            ("GET:0", "ends with neither"),
            ("GET:nan", "ends with neither"),
            ("GET@100", "ends with neither"),
            (":5", "the command is empty"),
            ("GET 'a,b:5", "a quote is not closed"),
            ("GET {x}:5", "unknown placeholder `{x}`"),
            ("GET:1,get:2", "two mix items are called `GET`"),
        ] {
            let error = anyhow::Error::from(redis(text).unwrap_err());
            let error = format!("{error:#}");
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_rates_add_up(text in "[A-Zk{}n:@/s,='\\\\\" 0-9.]{0,40}") {
            if let Ok(mix) = redis(&text) {
                let weighted = mix.items.iter().any(|item| item.weight().is_some());
                let rates = mix.rates_rps(weighted.then_some(1e3)).unwrap();
                let own: f64 = mix.items.iter().filter_map(|item| match item.rate {
                    ItemRate::PerSecond(rate_rps) => Some(rate_rps),
                    ItemRate::Weight(_) => None,
                }).sum();
                let expected = own + if weighted { 1e3 } else { 0.0 };
                let total: f64 = rates.iter().sum();
                prop_assert!((total / expected - 1.0).abs() < 1e-6);
            }
        }
    }
}
