//! Commands with newly drawn keys and values for each request.

use psp_sim::keys::{KeyDraws, Keyspace};
use psp_sim::random::stream_rng;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::arguments::Arguments;
use super::template::{CommandTemplate, Piece};

/// Draws the keys and values of one request type's commands.
#[derive(Debug, Clone)]
pub struct CommandSource {
    keyspace: Keyspace,
    keys: KeyDraws,
    rng: Xoshiro256PlusPlus,
    number: u64,
    drawn: Arguments,
}

impl CommandSource {
    /// Draws from `keyspace`. `stream` separates several sources that share one seed.
    #[must_use]
    pub fn new(keyspace: Keyspace, seed: u64, stream: u64) -> Self {
        Self {
            keys: keyspace.draws(),
            keyspace,
            rng: stream_rng(seed, stream),
            number: 0,
            drawn: Arguments::default(),
        }
    }

    /// Draws the next command, one of `template`.
    pub fn draw(&mut self, template: &CommandTemplate) -> &Arguments {
        self.drawn.clear();
        for pieces in &template.arguments {
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
    use crate::wire::target::Protocol;

    fn source(template: &str) -> (CommandSource, CommandTemplate) {
        let template = CommandTemplate::for_protocol(template, Protocol::Redis).unwrap();
        (CommandSource::new(Keyspace::new(50, 3), 1, 0), template)
    }

    fn draw((source, template): &mut (CommandSource, CommandTemplate)) -> Vec<String> {
        let text = |argument: &[u8]| String::from_utf8(argument.to_vec()).unwrap();
        source.draw(template).iter().map(text).collect()
    }

    #[test]
    fn placeholders_are_drawn_for_each_request() {
        let mut source = source("SET user:{n}:x \"{value} {value}\" EX 10");
        assert_eq!(draw(&mut source), ["SET", "user:0:x", "abc abc", "EX", "10"]);
        assert_eq!(draw(&mut source)[1], "user:1:x");
        let mut source = self::source(r#"SET k "{{\"id\": {n}, \"of\": \"{value}\"}}""#);
        assert_eq!(draw(&mut source)[2], r#"{"id": 0, "of": "abc"}"#);
    }

    #[test]
    fn random_keys_cover_the_keyspace_and_stay_inside() {
        let mut source = source("MGET {keys:1000}");
        let drawn = draw(&mut source);
        assert_eq!(drawn.len(), 1001);
        let distinct: std::collections::BTreeSet<_> = drawn[1..].iter().cloned().collect();
        let all: std::collections::BTreeSet<_> = (0..50).map(|index| format!("key:{index:012}")).collect();
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
}
