//! Commands with placeholders, drawn anew for each request.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::arrivals::stream_rng;
use crate::keys::{KeyDraws, Keyspace};
use crate::target::Protocol;
use crate::wire::{self, RequestWriter};

/// Most arguments one template may expand to.
const ARGUMENTS_MAX: usize = 100_000;

/// A command as it is written in a mix, e.g. `LRANGE bigkey 0 -1` or `SET {key} {value}`.
///
/// Words are separated by blanks; double quotes keep blanks together. Placeholders: `{key}`, a
/// random key; `{key:HIT}`, the same in the part HIT of all requests and in the others a key that is
/// never preloaded; `{keys:N}`, N random keys as N arguments; `{value}`; `{n}`, the request's number.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandTemplate {
    arguments: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Literal(Vec<u8>),
    Key,
    /// A key that is there in this part of all requests.
    KeyOrMiss(f64),
    Value,
    Number,
}

/// Why text is not a command template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// There is no command.
    #[error("the command is empty")]
    Empty,
    /// A quote is not closed.
    #[error("a double quote is not closed")]
    Quote,
    /// Not one of the placeholders.
    #[error(
        "unknown placeholder `{{{name}}}`; there are {{key}}, {{key:HIT}}, {{keys:N}}, {{value}}, \
         {{n}}"
    )]
    Placeholder {
        /// What stands between the braces.
        name: String,
    },
    /// `{key:HIT}` with a HIT that is no part of a whole.
    #[error("`{{key:{hits}}}`: the part of requests that hit is a number from 0 to 1")]
    HitRatio {
        /// What stands after the colon.
        hits: String,
    },
    /// `{keys:N}` with an N that is not a number, or too many arguments.
    #[error(
        "`{{keys:{count}}}`: the count is a number from 1 to {ARGUMENTS_MAX}, alone in its word"
    )]
    KeyCount {
        /// What stands after the colon.
        count: String,
    },
    /// The protocol has no such command.
    #[error("the target's protocol has no command `{command}`; there are {known}")]
    Command {
        /// The command.
        command: String,
        /// All that there are.
        known: String,
    },
    /// The arguments are not those of the command.
    #[error("the target takes {usage}")]
    Shape {
        /// What it takes.
        usage: String,
    },
    /// The protocol separates arguments by blanks, so that none can hold one or be empty.
    #[error("arguments of the target's commands have no blanks and are not empty")]
    Blank,
}

impl CommandTemplate {
    /// Parses a template of what a server that speaks `protocol` is sent. A command without
    /// arguments gets its usual ones: `GET` is `GET {key}`.
    ///
    /// # Errors
    /// [`TemplateError`] says what is wrong, or that the protocol has no such command.
    pub fn for_protocol(text: &str, protocol: Protocol) -> Result<Self, TemplateError> {
        let template = Self::parse(&wire::complete(protocol, text))?;
        RequestWriter::new(protocol, &template, Duration::ZERO)?;
        Ok(template)
    }

    /// Parses a template that has all of its arguments.
    ///
    /// # Errors
    /// [`TemplateError`] says what is wrong.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut arguments = Vec::new();
        for word in split_words(text)? {
            if let Some(count) = word
                .strip_prefix("{keys:")
                .and_then(|rest| rest.strip_suffix('}'))
            {
                let parsed = count.parse().ok();
                let count = parsed
                    .filter(|count| (1..=ARGUMENTS_MAX).contains(count))
                    .ok_or_else(|| TemplateError::KeyCount {
                        count: count.to_owned(),
                    })?;
                arguments.extend(std::iter::repeat_n(vec![Piece::Key], count));
            } else {
                arguments.push(parse_pieces(&word)?);
            }
        }
        if arguments.is_empty() {
            return Err(TemplateError::Empty);
        }
        Ok(Self { arguments })
    }

    /// Number of arguments, the command's name included.
    pub(crate) fn arguments(&self) -> usize {
        self.arguments.len()
    }

    /// The argument of that number, if there is one without placeholders; the first is the
    /// command's name.
    pub(crate) fn literal(&self, argument: usize) -> Option<&[u8]> {
        match &self.arguments.get(argument)?[..] {
            [Piece::Literal(literal)] => Some(literal),
            _ => None,
        }
    }

    /// The parts of an argument that are no placeholders.
    pub(crate) fn literals(&self, argument: usize) -> impl Iterator<Item = &[u8]> {
        let pieces = self.arguments.get(argument).into_iter().flatten();
        pieces.filter_map(|piece| match piece {
            Piece::Literal(literal) => Some(&literal[..]),
            Piece::Key | Piece::KeyOrMiss(_) | Piece::Value | Piece::Number => None,
        })
    }
}

/// Splits at blanks outside double quotes and drops the quotes.
fn split_words(text: &str) -> Result<Vec<String>, TemplateError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for character in text.chars() {
        match character {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            blank if blank.is_whitespace() && !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    if quoted {
        return Err(TemplateError::Quote);
    }
    words.extend(word);
    Ok(words)
}

fn parse_pieces(word: &str) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some((literal, (name, after))) = rest
        .split_once('{')
        .and_then(|(literal, after)| Some((literal, after.split_once('}')?)))
    {
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal.into()));
        }
        pieces.push(match name {
            "key" => Piece::Key,
            "value" => Piece::Value,
            "n" => Piece::Number,
            _ => parse_parameter(name)?,
        });
        rest = after;
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Literal(rest.into()));
    }
    Ok(pieces)
}

/// A placeholder with a parameter.
fn parse_parameter(name: &str) -> Result<Piece, TemplateError> {
    match name.split_once(':') {
        Some(("key", hits)) => {
            let ratio = hits
                .parse()
                .ok()
                .filter(|ratio| (0.0..=1.0).contains(ratio));
            let piece = ratio.map(Piece::KeyOrMiss);
            piece.ok_or_else(|| TemplateError::HitRatio {
                hits: hits.to_owned(),
            })
        }
        Some(("keys", count)) => Err(TemplateError::KeyCount {
            count: count.to_owned(),
        }),
        _ => Err(TemplateError::Placeholder {
            name: name.to_owned(),
        }),
    }
}

/// Draws the commands of one request type.
#[derive(Debug, Clone)]
pub struct CommandSource {
    template: CommandTemplate,
    keyspace: Keyspace,
    keys: KeyDraws,
    rng: Xoshiro256PlusPlus,
    number: u64,
    drawn: Arguments,
}

/// The arguments of one command, its name first.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Arguments {
    /// The arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let argument = &self.bytes[start..end];
            start = end;
            argument
        })
    }

    /// Forgets all arguments and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends one argument.
    pub fn push(&mut self, argument: &[u8]) {
        self.bytes.extend_from_slice(argument);
        self.ends.push(self.bytes.len());
    }
}

impl CommandSource {
    /// Draws from `keyspace`. `stream` separates several sources that share one seed.
    #[must_use]
    pub fn new(template: CommandTemplate, keyspace: Keyspace, seed: u64, stream: u64) -> Self {
        Self {
            template,
            keys: keyspace.draws(),
            keyspace,
            rng: stream_rng(seed, stream),
            number: 0,
            drawn: Arguments::default(),
        }
    }

    /// Draws the next command.
    pub fn draw(&mut self) -> &Arguments {
        self.drawn.clear();
        for pieces in &self.template.arguments {
            for piece in pieces {
                let bytes = &mut self.drawn.bytes;
                match piece {
                    Piece::Literal(literal) => bytes.extend_from_slice(literal),
                    Piece::Key => {
                        let index = self.keys.draw(&mut self.rng);
                        self.keyspace.push_key(index, bytes);
                    }
                    Piece::KeyOrMiss(hits) => {
                        let index = if self.rng.random::<f64>() < *hits {
                            self.keys.draw(&mut self.rng)
                        } else {
                            self.keyspace.draw_missing(&mut self.rng)
                        };
                        self.keyspace.push_key(index, bytes);
                    }
                    Piece::Value => {
                        bytes.extend_from_slice(self.keyspace.draw_value(&mut self.rng));
                    }
                    Piece::Number => {
                        let mut digits = itoa::Buffer::new();
                        bytes.extend_from_slice(digits.format(self.number).as_bytes());
                    }
                }
            }
            self.drawn.ends.push(self.drawn.bytes.len());
        }
        self.number += 1;
        &self.drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(template: &str) -> CommandSource {
        let template = CommandTemplate::for_protocol(template, Protocol::Redis).unwrap();
        CommandSource::new(template, Keyspace::new(50, 3), 1, 0)
    }

    fn draw(source: &mut CommandSource) -> Vec<String> {
        let text = |argument: &[u8]| String::from_utf8(argument.to_vec()).unwrap();
        source.draw().iter().map(text).collect()
    }

    #[test]
    fn placeholders_are_drawn_for_each_request() {
        let mut source = source("SET user:{n}:x \"{value} {value}\" EX 10");
        assert_eq!(
            draw(&mut source),
            ["SET", "user:0:x", "abc abc", "EX", "10"]
        );
        assert_eq!(draw(&mut source)[1], "user:1:x");
    }

    #[test]
    fn random_keys_cover_the_keyspace_and_stay_inside() {
        let mut source = source("MGET {keys:1000}");
        let drawn = draw(&mut source);
        assert_eq!(drawn.len(), 1001);
        let distinct: std::collections::BTreeSet<_> = drawn[1..].iter().cloned().collect();
        let all: std::collections::BTreeSet<_> =
            (0..50).map(|index| format!("key:{index:012}")).collect();
        assert_eq!(distinct, all);
        assert_ne!(draw(&mut source), drawn);
    }

    #[test]
    fn a_part_of_the_keys_is_not_there() {
        let mut source = source("GET {key:0.8}");
        let mut misses = 0;
        for _ in 0..10_000 {
            let key = &draw(&mut source)[1];
            let index: u64 = key["key:".len()..].parse().unwrap();
            assert!(index < 100, "{key}");
            misses += u32::from(index >= 50);
        }
        assert!((1_850..2_150).contains(&misses), "{misses}");
        let always = draw(&mut self::source("GET {key:0}"));
        assert!(*always[1] >= *"key:000000000050", "{always:?}");
    }

    #[test]
    fn bare_commands_get_their_arguments() {
        assert_eq!(draw(&mut source("keys")), ["KEYS", "*"]);
        assert_eq!(draw(&mut source("SET"))[2], "abc");
        assert_eq!(draw(&mut source("PING")), ["PING"]);
        assert_eq!(draw(&mut source("ECHO \"\"")), ["ECHO", ""]);
    }

    #[test]
    fn bad_templates_are_refused() {
        let key_count = |count: &str| TemplateError::KeyCount {
            count: count.to_owned(),
        };
        for (text, expected) in [
            (" ", TemplateError::Empty),
            ("SET k \"v", TemplateError::Quote),
            ("MGET {keys:0}", key_count("0")),
            ("MGET {keys:many}", key_count("many")),
            ("MGET x{keys:2}", key_count("2")),
            (
                "GET {key:1.1}",
                TemplateError::HitRatio {
                    hits: "1.1".to_owned(),
                },
            ),
            (
                "GET {kee}",
                TemplateError::Placeholder {
                    name: "kee".to_owned(),
                },
            ),
        ] {
            assert_eq!(CommandTemplate::parse(text), Err(expected), "{text}");
        }
    }
}
