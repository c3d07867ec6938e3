//! Commands with placeholders.

/// Most arguments one template may expand to.
const ARGUMENTS_MAX: usize = 100_000;

/// A command as it is written in a mix, e.g. `LRANGE bigkey 0 -1` or `SET {key} {value}`.
///
/// Blanks separate words; double quotes keep blanks together. Placeholders: `{key}`, a random key;
/// `{key:HIT}`, a random key in the fraction HIT of all requests, and a key that is never preloaded
/// in the others; `{keys:N}`, N random keys as N arguments; `{value}`; `{n}`, the request's number.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandTemplate {
    pub(super) arguments: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Literal(Vec<u8>),
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
    /// A quote is not closed.
    #[error("a double quote is not closed")]
    Quote,
    /// The placeholder is unknown.
    #[error(
        "unknown placeholder `{{{name}}}`; there are {{key}}, {{key:HIT}}, {{keys:N}}, {{value}}, \
         {{n}}"
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
    #[error(
        "`{{keys:{count}}}`: the count is a number from 1 to {ARGUMENTS_MAX}, alone in its word"
    )]
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

#[cfg(test)]
mod tests {
    use super::*;

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
