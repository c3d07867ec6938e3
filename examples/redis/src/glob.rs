//! Glob patterns by Redis's rules: `*`, `?`, `[a-z]`, `[^a-z]` and `\` before any of them.
//!
//! Stars divide a pattern into *segments*. Every segment has a fixed length, so the leftmost place of
//! a segment is the best one, and no place is tried twice. A segment without `?`, `[` and `\` is found
//! by a search in linear time. Other segments are tried at every place.
//!
//! Both lengths come from clients, so a match counts its [`Steps`] and yields meanwhile. A [`Pattern`] is looked at
//! once for all texts: runs of stars become one star, long classes become short ones, and texts that are too short are
//! refused at once.

use std::borrow::Cow;
use std::cell::Cell;

use memchr::memmem;
use psp_server::{checkpoint, is_abandoned};

/// Steps between two checkpoints: some microseconds.
const STEPS_PER_CHECKPOINT: u64 = 4096;

/// Length from which on a class is written anew: more than the ranges of all bytes have.
const CLASS_LEN_MAX: usize = 512;

/// Bytes that a search in linear time covers in one step.
const SEARCHED_BYTES_PER_STEP: usize = 16;

/// Bytes that a search covers between two checkpoints, unless the segment is longer.
const SEARCHED_BYTES: usize = 16 * 1024;

/// Counts the work of matches, with a [`checkpoint`] after some microseconds. One step compares one
/// byte of a pattern. The caller must not hold a lock. Matches end, without success, when the client has gone.
#[derive(Debug, Default)]
pub struct Steps {
    total: Cell<u64>,
    since_checkpoint: Cell<u64>,
    abandoned: Cell<bool>,
}

impl Steps {
    /// No steps.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Steps so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.get() + self.since_checkpoint.get()
    }

    #[inline]
    fn add(&self, steps: usize) {
        let since = self.since_checkpoint.get() + steps as u64;
        self.since_checkpoint.set(since);
        if since >= STEPS_PER_CHECKPOINT {
            self.total.set(self.total());
            self.since_checkpoint.set(0);
            checkpoint();
            self.abandoned.set(is_abandoned());
        }
    }
}

/// A bound on the steps of matches with one pattern.
#[derive(Debug, Clone, Copy)]
pub struct StepsBound {
    pattern_len: usize,
    is_literal: bool,
}

impl StepsBound {
    /// The bound for `pattern`.
    #[must_use]
    pub fn of(pattern: &[u8]) -> Self {
        Self { pattern_len: pattern.len(), is_literal: is_literal(pattern) }
    }

    /// The bound for any pattern of up to `pattern_len` bytes.
    #[must_use]
    pub const fn longest(pattern_len: usize) -> Self {
        Self { pattern_len, is_literal: false }
    }

    /// Most steps that a match with a text of `text_len` bytes takes.
    #[must_use]
    pub fn for_text(self, text_len: usize) -> usize {
        // Each segment takes one step at least, and a search may cover the segment twice.
        let fixed = 2 * self.pattern_len + 2;
        if self.is_literal {
            fixed + text_len / SEARCHED_BYTES_PER_STEP
        } else {
            let tried = self.pattern_len.saturating_mul(text_len);
            tried.saturating_add(fixed)
        }
    }
}

/// A pattern that many texts are matched with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern<'p> {
    text: Cow<'p, [u8]>,
    /// Length of the shortest text that matches.
    len_min: usize,
}

impl<'p> Pattern<'p> {
    /// The pattern with this text.
    #[must_use]
    pub fn new(text: &'p [u8]) -> Self {
        let text = shortened(text);
        let (mut rest, mut len_min) = (&*text, 0);
        while !rest.is_empty() {
            rest = match rest {
                [b'*', rest @ ..] => rest,
                _ => {
                    len_min += 1;
                    after_token(rest)
                }
            };
        }
        Self { text, len_min }
    }

    /// The same with a text of its own.
    #[must_use]
    pub fn into_owned(self) -> Pattern<'static> {
        Pattern {
            text: Cow::Owned(self.text.into_owned()),
            len_min: self.len_min,
        }
    }

    /// Whether the whole of `text` matches. Takes at most as many steps as [`StepsBound`] says.
    #[must_use]
    pub fn matches(&self, text: &[u8], steps: &Steps) -> bool {
        if text.len() < self.len_min {
            steps.add(1);
            return false;
        }
        let mut segment = Segment::first(&self.text, steps);
        if !segment.is_at_start(text, steps) {
            return false;
        }
        let mut left = &text[segment.len..];
        let Some(mut rest) = segment.after_star else {
            return left.is_empty();
        };
        loop {
            segment = Segment::first(rest, steps);
            let Some(next) = segment.after_star else {
                let start = left.len().checked_sub(segment.len);
                return start.is_some_and(|start| segment.is_at_start(&left[start..], steps));
            };
            let Some(start) = segment.find(left, steps) else {
                return false;
            };
            left = &left[start + segment.len..];
            rest = next;
        }
    }
}

/// A pattern with the text by which people know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPattern {
    name: Box<[u8]>,
    pattern: Pattern<'static>,
}

impl NamedPattern {
    /// The pattern with this text.
    #[must_use]
    pub fn new(name: &[u8]) -> Self {
        Self { name: name.into(), pattern: Pattern::new(name).into_owned() }
    }

    /// Its text, as it was given.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// See [`Pattern::matches`].
    #[must_use]
    pub fn matches(&self, text: &[u8], steps: &Steps) -> bool {
        self.pattern.matches(text, steps)
    }
}

/// A pattern that matches the same texts, in which each run of stars is one star, and classes are short.
fn shortened(pattern: &[u8]) -> Cow<'_, [u8]> {
    let has_classes = pattern.len() > CLASS_LEN_MAX && memchr::memchr(b'[', pattern).is_some();
    if !has_classes && memmem::find(pattern, b"**").is_none() {
        return Cow::Borrowed(pattern);
    }
    let mut short = Vec::with_capacity(pattern.len());
    let (mut rest, mut follows_star) = (pattern, false);
    while !rest.is_empty() {
        if let [b'*', after @ ..] = rest {
            if !follows_star {
                short.push(b'*');
            }
            (rest, follows_star) = (after, true);
            continue;
        }
        let after = after_token(rest);
        match &rest[..rest.len() - after.len()] {
            [b'[', class @ ..] if class.len() > CLASS_LEN_MAX => write_class(class, &mut short),
            token => short.extend_from_slice(token),
        }
        (rest, follows_star) = (after, false);
    }
    Cow::Owned(short)
}

/// Writes the class whose text follows a `[` as ranges of the bytes that it has.
fn write_class(class: &[u8], out: &mut Vec<u8>) {
    let has = |byte: &u8| match_class(class, *byte).0;
    let is_special = |byte: u8| matches!(byte, b']' | b'\\' | b'^' | b'-');
    let mut first = None;
    out.push(b'[');
    for byte in 0..=u8::MAX {
        if !has(&byte) {
            continue;
        }
        if is_special(byte) {
            out.extend([b'\\', byte]);
            continue;
        }
        let start = *first.get_or_insert(byte);
        let next = byte.checked_add(1).filter(|next| has(next) && !is_special(*next));
        if next.is_none() {
            out.extend([start, b'-', byte]);
            first = None;
        }
    }
    out.push(b']');
}

/// Whether the bytes of `pattern` other than stars stand for themselves.
fn is_literal(pattern: &[u8]) -> bool {
    memchr::memchr3(b'?', b'[', b'\\', pattern).is_none()
}

/// The part of a pattern up to a star.
struct Segment<'p> {
    pattern: &'p [u8],
    is_literal: bool,
    /// Bytes of text that it matches.
    len: usize,
    /// The pattern after the star; `None` after the last segment.
    after_star: Option<&'p [u8]>,
}

impl<'p> Segment<'p> {
    /// The first segment of `pattern`.
    fn first(pattern: &'p [u8], steps: &Steps) -> Self {
        steps.add(1);
        let end = memchr::memchr(b'*', pattern).unwrap_or(pattern.len());
        let literal = &pattern[..end];
        if is_literal(literal) {
            steps.add(end / SEARCHED_BYTES_PER_STEP);
            return Self {
                pattern: literal,
                is_literal: true,
                len: end,
                after_star: pattern.get(end + 1..),
            };
        }
        // A star may stand in a class, or after a backslash.
        let (mut rest, mut len) = (pattern, 0);
        while !matches!(rest, [] | [b'*', ..]) {
            let before = rest.len();
            rest = after_token(rest);
            steps.add(before - rest.len());
            len += 1;
        }
        Self {
            pattern: &pattern[..pattern.len() - rest.len()],
            is_literal: false,
            len,
            after_star: rest.get(1..),
        }
    }

    /// Whether `text` starts with this segment. It has at least its length.
    fn is_at_start(&self, text: &[u8], steps: &Steps) -> bool {
        if self.is_literal {
            steps.add(self.len / SEARCHED_BYTES_PER_STEP);
            return text.starts_with(self.pattern);
        }
        let mut rest = self.pattern;
        for &byte in &text[..self.len] {
            let (fits, after) = match_token(rest, byte);
            steps.add(rest.len() - after.len());
            if !fits {
                return false;
            }
            rest = after;
        }
        true
    }

    /// The first place in `text` where this segment starts.
    fn find(&self, text: &[u8], steps: &Steps) -> Option<usize> {
        if self.is_literal {
            return self.search(text, steps);
        }
        let last = text.len().checked_sub(self.len)?;
        let mut places = (0..=last).take_while(|_| !steps.abandoned.get());
        places.find(|&start| self.is_at_start(&text[start..], steps))
    }

    /// [`find`](Self::find) of a literal, in linear time.
    fn search(&self, text: &[u8], steps: &Steps) -> Option<usize> {
        let last = text.len().checked_sub(self.len)?;
        let finder = memmem::Finder::new(self.pattern);
        // Windows of text that overlap by one segment.
        let places = SEARCHED_BYTES.max(self.len);
        for start in (0..=last).step_by(places) {
            let window = &text[start..text.len().min(start + places + self.len)];
            let found = finder.find(window);
            let covered = found.unwrap_or(places.min(window.len()));
            steps.add(covered / SEARCHED_BYTES_PER_STEP);
            if let Some(place) = found {
                return Some(start + place);
            }
        }
        None
    }
}

/// The pattern after its first token. A token matches one byte of text.
fn after_token(pattern: &[u8]) -> &[u8] {
    match_token(pattern, 0).1
}

/// Matches `byte` against the first token of `pattern`, which is no star. Also returns the rest.
fn match_token(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    match pattern {
        [] => (false, pattern),
        [b'?', rest @ ..] => (true, rest),
        [b'[', class @ ..] => match_class(class, byte),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte, rest),
    }
}

/// Whether `byte` is in the class whose text follows a `[`, and the text after the class. The end
/// of the pattern also ends the class.
fn match_class(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut found = false;
    loop {
        match rest {
            [] => return (found != negated, rest),
            [b']', after @ ..] => return (found != negated, after),
            [b'\\', literal, after @ ..] => {
                found |= *literal == byte;
                rest = after;
            }
            [start, b'-', end, after @ ..] => {
                found |= (*start.min(end)..=*start.max(end)).contains(&byte);
                rest = after;
            }
            [literal, after @ ..] => {
                found |= *literal == byte;
                rest = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &[u8], text: &[u8], steps: &Steps) -> bool {
        Pattern::new(pattern).matches(text, steps)
    }

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c", "hb", true),
            ("[]a", "a", false),
            ("[\\]]", "]", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("a\\", "a\\", true),
            ("*.*", "a.b.c", true),
            ("*ab*ab", "abxab", true),
            ("*ab*ab", "abxa", false),
            ("", "", true),
            ("", "x", false),
            ("a**", "a", true),
            ("a*a", "a", false),
            ("[*]*[*]", "*", false),
            ("[*]*[*]", "*x*", true),
            ("user:*:name", "user:17:name", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), &Steps::new()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn runs_of_stars_and_long_classes_take_as_long_as_short_ones() {
        let text = vec![b'b'; 100];
        for (long, short) in [
            ("*".repeat(60_000), "*".to_owned()),
            (format!("a{}b", "*".repeat(60_000)), "a*b".to_owned()),
            (format!("[{}]*c", "a-z".repeat(20_000)), "[a-z]*c".to_owned()),
            (format!("*[^{}]", "ab".repeat(30_000)), "*[^a-b]".to_owned()),
            (format!("{}*", "?".repeat(60_000)), "?".repeat(101)),
        ] {
            let (long, short) = (Pattern::new(long.as_bytes()), Pattern::new(short.as_bytes()));
            let (steps, expected) = (Steps::new(), Steps::new());
            let matches = long.matches(&text, &steps);
            assert_eq!(matches, short.matches(&text, &expected), "{short:?}");
            assert!(steps.total() <= 16 * expected.total() + 16, "{short:?}: {}", steps.total());
        }
    }

    /// Tries all places for each star.
    fn matches_naively(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|start| matches_naively(rest, &text[start..])),
            ([], _) => text.is_empty(),
            (_, []) => false,
            (_, [byte, text @ ..]) => {
                let (fits, rest) = match_token(pattern, *byte);
                fits && matches_naively(rest, text)
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_matcher(
            pattern in r"[ab*?\[\]^\\-]{0,12}",
            text in r"[ab*\[\]^-]{0,12}",
        ) {
            let steps = Steps::new();
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches(pattern, text, &steps), matches_naively(pattern, text));
            prop_assert!(steps.total() <= StepsBound::of(pattern).for_text(text.len()) as u64);
        }

        #[test]
        fn classes_are_written_anew(
            class in r"\^?[a-e\[\\^\]-]{0,12}",
            byte in prop_oneof![Just(b'\\'), Just(b']'), Just(b'^'), Just(b'-'), any::<u8>()],
        ) {
            let mut written = Vec::new();
            write_class(class.as_bytes(), &mut written);
            let (expected, _) = match_class(class.as_bytes(), byte);
            prop_assert_eq!(match_class(&written[1..], byte), (expected, &b""[..]));
            prop_assert!(written.len() <= CLASS_LEN_MAX);
        }

        #[test]
        fn never_takes_more_steps_than_announced(
            unit in r"[ab*?\[\]\\]{1,6}",
            units in 0_usize..200,
            text in "[ab]{0,40}",
            texts in 0_usize..200,
        ) {
            let (pattern, text) = (unit.repeat(units), text.repeat(texts));
            let steps = Steps::new();
            let _ = matches(pattern.as_bytes(), text.as_bytes(), &steps);
            prop_assert!(steps.total() <= StepsBound::of(pattern.as_bytes()).for_text(text.len()) as u64);
        }
    }

    #[test]
    fn literal_segments_take_linear_time() {
        let text = vec![b'a'; 200_000];
        let half = "a".repeat(50_000);
        for pattern in [
            format!("*{half}{half}b*"),
            format!("*{half}*{half}b*"),
            format!("{half}*{half}b"),
            "a*".repeat(50_000) + "b",
        ] {
            let steps = Steps::new();
            assert!(!matches(pattern.as_bytes(), &text, &steps));
            let linear = 2 * pattern.len() + text.len();
            assert!(steps.total() <= linear as u64, "{} steps", steps.total());
        }
    }

    #[test]
    fn searches_find_what_lies_across_windows() {
        for place in (SEARCHED_BYTES - 8..SEARCHED_BYTES + 8).chain([0, 2 * SEARCHED_BYTES]) {
            let mut text = vec![b'a'; place];
            text.extend(b"needle");
            for (pattern, expected) in [("*needle*", true), ("*needles*", false)] {
                let found = matches(pattern.as_bytes(), &text, &Steps::new());
                assert_eq!(found, expected, "{pattern} at {place}");
            }
        }
    }
}
