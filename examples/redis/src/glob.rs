//! Glob patterns by Redis's rules: `*`, `?`, `[a-z]`, `[^a-z]` and `\` before any of them.

/// Whether the whole of `text` matches `pattern`.
///
/// For any pattern, the time is at most of the order of the product of both lengths.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut pattern_left = pattern;
    let mut text_left = text;
    // Where to resume after a mismatch: the last star then takes one more byte.
    let mut retry: Option<(&[u8], &[u8])> = None;
    while let Some((&byte, text_rest)) = text_left.split_first() {
        if let Some((b'*', after_star)) = pattern_left.split_first() {
            retry = Some((after_star, text_left));
            pattern_left = after_star;
        } else if let Some(pattern_rest) = match_byte(pattern_left, byte) {
            pattern_left = pattern_rest;
            text_left = text_rest;
        } else if let Some((after_star, [_, swallowed_rest @ ..])) = retry {
            retry = Some((after_star, swallowed_rest));
            pattern_left = after_star;
            text_left = swallowed_rest;
        } else {
            return false;
        }
    }
    pattern_left.iter().all(|&byte| byte == b'*')
}

/// Matches `byte` against the start of `pattern`, which is not a star. Returns the rest.
fn match_byte(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', class @ ..] => {
            let (fits, rest) = match_class(class, byte);
            fits.then_some(rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte).then_some(rest),
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
    use super::*;

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
            ("user:*:name", "user:17:name", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), &[b'a'; 4000]));
    }
}
