//! Quotes and backslashes in commands, as a shell has them.
//!
//! Single quotes keep everything up to the next one. Double quotes keep blanks and commas; inside, a
//! backslash keeps `"` and `\`. Outside quotes a backslash keeps the character after it.

use std::iter::Peekable;
use std::str::CharIndices;

/// What a character of a command means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Outside quotes: blanks and commas separate, braces begin placeholders.
    Bare,
    /// In double quotes: only braces are special.
    Quoted,
    /// Itself.
    Literal,
    /// A quote or a backslash, which stands for nothing.
    Mark,
}

/// The characters of a text with their offsets and meanings.
#[derive(Debug)]
pub(crate) struct Quotes<'a> {
    rest: Peekable<CharIndices<'a>>,
    /// The quote that is open.
    open: Option<char>,
    is_escaped: bool,
}

impl<'a> Quotes<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            rest: text.char_indices().peekable(),
            open: None,
            is_escaped: false,
        }
    }

    /// Whether a quote is open, or a backslash was the last character.
    pub(crate) const fn is_open(&self) -> bool {
        self.open.is_some() || self.is_escaped
    }

    fn meaning(&mut self, character: char) -> Meaning {
        if std::mem::take(&mut self.is_escaped) {
            return Meaning::Literal;
        }
        match (self.open, character) {
            (None, '\\') => self.is_escaped = true,
            (Some('"'), '\\') if matches!(self.rest.peek(), Some((_, '"' | '\\'))) => {
                self.is_escaped = true;
            }
            (None, '"' | '\'') => self.open = Some(character),
            (Some(open), _) if open == character => self.open = None,
            (Some('\''), _) => return Meaning::Literal,
            (Some(_), _) => return Meaning::Quoted,
            (None, _) => return Meaning::Bare,
        }
        Meaning::Mark
    }
}

impl Iterator for Quotes<'_> {
    type Item = (usize, char, Meaning);

    fn next(&mut self) -> Option<Self::Item> {
        let (at, character) = self.rest.next()?;
        Some((at, character, self.meaning(character)))
    }
}
