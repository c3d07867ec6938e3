//! Commands with placeholders.

use std::sync::Arc;

use super::quotes::{Meaning, Quotes};

/// Most arguments one template may expand to.
const ARGUMENTS_MAX: usize = 100_000;

/// A command as it is written in a mix, e.g. `LRANGE bigkey 0 -1` or `SET {key} {value}`.
///
/// Blanks separate words. Quotes and backslashes are those of a shell: `'{"id": 1}'` is one word, as
/// it stands. Outside single quotes `{{` and `}}` are braces, and there are placeholders: `{key}`, a random key;
/// `{key:HIT}`, a random key in the fraction HIT of all requests, and a key that is never preloaded
/// in the others; `{keys:N}`, N random keys as N arguments; `{value}`; `{n}`, the request's number.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandTemplate {
    pub(super) arguments: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Literal(Arc<[u8]>),
    Key,
    /// A key that exists in this fraction of all requests.
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
    /// A quote is not closed, or nothing follows a backslash.
    #[error("a quote is not closed, or nothing follows a backslash")]
    Quote,
    /// A brace that belongs to no placeholder.
    #[error("a single `{brace}` belongs to no placeholder; write it twice, or in single quotes")]
    Brace {
        /// The brace.
        brace: String,
    },
    /// The placeholder is unknown.
    #[error(
        "unknown placeholder `{{{name}}}`; there are {{key}}, {{key:HIT}}, {{keys:N}}, {{value}}, \
         {{n}}; text in single quotes has none"
    )]
    Placeholder {
        /// The text between the braces.
        name: String,
    },
    /// `{key:HIT}` with a HIT that is not from 0 to 1.
    #[error("`{{key:{hits}}}`: the fraction of requests that hit is a number from 0 to 1")]
    HitRatio {
        /// The text after the colon.
        hits: String,
    },
    /// `{keys:N}` with an N that is not a number, or with too many arguments.
    #[error("`{{keys:{count}}}`: the count is a number from 1 to {ARGUMENTS_MAX}, alone in its word")]
    KeyCount {
        /// The text after the colon.
        count: String,
    },
    /// The protocol has no such command.
    #[error("the target's protocol has no command `{command}`; there are {known}")]
    Command {
        /// The command.
        command: String,
        /// The known commands.
        known: String,
    },
    /// The arguments do not fit the command.
    #[error("the target takes {usage}")]
    Shape {
        /// The arguments in words.
        usage: String,
    },
    /// Blanks separate arguments in this protocol, so arguments contain no blanks and are not
    /// empty.
    #[error("arguments of the target's commands have no blanks and are not empty")]
    Blank,
}

impl CommandTemplate {
    /// Parses a template with all of its arguments.
    ///
    /// # Errors
    /// [`TemplateError`] says what is wrong.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut arguments = Vec::new();
        for word in split_words(text)? {
            let plain = match &word[..] {
                [Part::Plain(text)] => text,
                _ => "",
            };
            let count = plain.strip_prefix("{keys:");
            if let Some(count) = count.and_then(|rest| rest.strip_suffix('}')) {
                let parsed = count.parse().ok();
                let count = parsed
                    .filter(|count| (1..=ARGUMENTS_MAX).contains(count))
                    .ok_or_else(|| TemplateError::KeyCount { count: count.to_owned() })?;
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

    /// A template of these arguments, without placeholders.
    pub(super) fn of_literals(arguments: impl IntoIterator<Item = Arc<[u8]>>) -> Self {
        let arguments = arguments.into_iter();
        Self {
            arguments: arguments.map(|argument| vec![Piece::Literal(argument)]).collect(),
        }
    }

    /// Makes `literal` the argument of that number, which is there or is the next one.
    pub(super) fn set_literal(&mut self, argument: usize, literal: &Arc<[u8]>) {
        let pieces = vec![Piece::Literal(Arc::clone(literal))];
        match self.arguments.get_mut(argument) {
            Some(there) => *there = pieces,
            None => self.arguments.push(pieces),
        }
    }

    /// Number of arguments, the command's name included.
    #[must_use]
    pub fn arguments(&self) -> usize {
        self.arguments.len()
    }

    /// The argument of that number, if it has no placeholders. Argument 0 is the command's name.
    #[must_use]
    pub fn literal(&self, argument: usize) -> Option<&[u8]> {
        match &self.arguments.get(argument)?[..] {
            [Piece::Literal(literal)] => Some(literal),
            _ => None,
        }
    }

    /// The parts of an argument between its placeholders.
    pub fn literals(&self, argument: usize) -> impl Iterator<Item = &[u8]> {
        let pieces = self.arguments.get(argument).into_iter().flatten();
        pieces.filter_map(|piece| match piece {
            Piece::Literal(literal) => Some(&literal[..]),
            Piece::Key | Piece::KeyOrMiss(_) | Piece::Value | Piece::Number => None,
        })
    }
}

/// A part of a word. Only plain parts have placeholders.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Plain(String),
    Literal(String),
}

/// Splits at blanks outside quotes and drops the quotes.
fn split_words(text: &str) -> Result<Vec<Vec<Part>>, TemplateError> {
    let mut words = Vec::new();
    let mut word: Option<Vec<Part>> = None;
    let mut quotes = Quotes::new(text);
    for (_, character, meaning) in quotes.by_ref() {
        if meaning == Meaning::Bare && character.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let parts = word.get_or_insert_default();
        match (meaning, parts.last_mut()) {
            // An empty word is one in quotes.
            (Meaning::Mark, _) => {}
            (Meaning::Literal, Some(Part::Literal(part)))
            | (Meaning::Bare | Meaning::Quoted, Some(Part::Plain(part))) => part.push(character),
            (Meaning::Literal, _) => parts.push(Part::Literal(character.into())),
            (Meaning::Bare | Meaning::Quoted, _) => parts.push(Part::Plain(character.into())),
        }
    }
    if quotes.is_open() {
        return Err(TemplateError::Quote);
    }
    words.extend(word);
    Ok(words)
}

fn parse_pieces(word: &[Part]) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Pieces::default();
    for part in word {
        match part {
            Part::Plain(text) => parse_plain(text, &mut pieces)?,
            Part::Literal(text) => pieces.literal.push_str(text),
        }
    }
    pieces.end_literal();
    if pieces.ended.is_empty() {
        pieces.ended.push(Piece::Literal(Arc::default()));
    }
    Ok(pieces.ended)
}

/// The pieces of an argument while it is parsed.
#[derive(Default)]
struct Pieces {
    ended: Vec<Piece>,
    /// The literal behind them.
    literal: String,
}

impl Pieces {
    fn end_literal(&mut self) {
        if !self.literal.is_empty() {
            self.ended.push(Piece::Literal(self.literal.as_bytes().into()));
            self.literal.clear();
        }
    }
}

/// Appends the pieces of text that may have placeholders.
fn parse_plain(text: &str, pieces: &mut Pieces) -> Result<(), TemplateError> {
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (literal, tail) = rest.split_at(at);
        pieces.literal.push_str(literal);
        let (brace, inside) = tail.split_at(1);
        if let Some(after) = inside.strip_prefix(brace) {
            pieces.literal.push_str(brace);
            rest = after;
            continue;
        }
        let placeholder = inside.split_once('}').filter(|_| brace == "{");
        let (name, after) = placeholder.ok_or_else(|| TemplateError::Brace { brace: brace.to_owned() })?;
        pieces.end_literal();
        pieces.ended.push(match name {
            "key" => Piece::Key,
            "value" => Piece::Value,
            "n" => Piece::Number,
            _ => parse_parameter(name)?,
        });
        rest = after;
    }
    pieces.literal.push_str(rest);
    Ok(())
}

/// A placeholder with a parameter.
fn parse_parameter(name: &str) -> Result<Piece, TemplateError> {
    match name.split_once(':') {
        Some(("key", hits)) => {
            let ratio = hits.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            let piece = ratio.map(Piece::KeyOrMiss);
            piece.ok_or_else(|| TemplateError::HitRatio { hits: hits.to_owned() })
        }
        Some(("keys", count)) => Err(TemplateError::KeyCount { count: count.to_owned() }),
        _ => Err(TemplateError::Placeholder { name: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bad_templates_are_refused() {
        let key_count = |count: &str| TemplateError::KeyCount { count: count.to_owned() };
        let brace = |brace: &str| TemplateError::Brace { brace: brace.to_owned() };
        for (text, expected) in [
            (" ", TemplateError::Empty),
            ("SET k \"v", TemplateError::Quote),
            ("SET k 'v\"", TemplateError::Quote),
            ("SET k v\\", TemplateError::Quote),
            ("SET k {", brace("{")),
            ("SET k }", brace("}")),
            ("SET k {{n}", brace("}")),
            ("MGET {keys:0}", key_count("0")),
            ("MGET {keys:many}", key_count("many")),
            ("MGET x{keys:2}", key_count("2")),
            ("GET {key:1.1}", TemplateError::HitRatio { hits: "1.1".to_owned() }),
            ("GET {kee}", TemplateError::Placeholder { name: "kee".to_owned() }),
        ] {
            assert_eq!(CommandTemplate::parse(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn quotes_and_backslashes_are_those_of_a_shell() {
        for (text, word) in [
            (r#"'{"id": 1, "of": {"a": "\"}}'"#, r#"{"id": 1, "of": {"a": "\"}}"#),
            (r#""{{\"id\": 1}}""#, r#"{"id": 1}"#),
            (r#"{{\"id\":1}}"#, r#"{"id":1}"#),
            (r#"'it'\''s'"#, "it's"),
            (r#""it's""#, "it's"),
            (r#"'say "a"'"#, r#"say "a""#),
            (r#""a\b\\""#, r"a\b\"),
            (r"a\ b\{n\}", "a b{n}"),
            (r"'{key}'", "{key}"),
            ("{{{{}}}}", "{{}}"),
            ("''", ""),
        ] {
            let template = CommandTemplate::parse(&format!("SET k {text}")).unwrap();
            assert_eq!(template.arguments(), 3, "{text}");
            let literal = String::from_utf8_lossy(template.literal(2).unwrap());
            assert_eq!(literal, word, "{text}");
        }
        let template = CommandTemplate::parse(r#"'{"id":'{n}'}'"#).unwrap();
        let literal = |text: &str| Piece::Literal(text.as_bytes().into());
        let pieces = [literal(r#"{"id":"#), Piece::Number, literal("}")];
        assert_eq!(template.arguments, [pieces.to_vec()]);
        let braced = CommandTemplate::parse("{{{n}}}").unwrap();
        assert_eq!(braced.arguments, [[literal("{"), Piece::Number, literal("}")]]);
    }

    proptest! {
        #[test]
        fn text_that_is_quoted_for_a_shell_comes_through(word in ".{0,40}") {
            let quoted = word.replace('\'', r"'\''");
            let template = CommandTemplate::parse(&format!("'{quoted}' '{quoted}'")).unwrap();
            let literals = [template.literal(0), template.literal(1)];
            prop_assert_eq!(literals, [Some(word.as_bytes()); 2]);
        }
    }
}
