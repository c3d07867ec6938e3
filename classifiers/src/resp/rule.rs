//! Rules that judge the cost of a command by its arguments.

use psp_protocols::resp::{RespHead, parse_integer};

/// A bound on the work that a request asks for, read from its arguments.
///
/// The name of the command is argument 0. A number that cannot be parsed satisfies no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// At most `max` arguments after the name: `MGET`, `DEL`, `SADD`.
    ArgCount {
        /// Most arguments.
        max: usize,
    },
    /// Indices from `start` to `stop` that span at most `max` elements: `LRANGE k 0 99`,
    /// `LRANGE k -10 -1`. Both indices count from the front, or both from the back (negative). With
    /// one of each, the span depends on the length of the value, and the rule is not satisfied.
    Span {
        /// Which argument is the first index.
        start_arg: usize,
        /// Which argument is the last index.
        stop_arg: usize,
        /// Most elements.
        max: u64,
        /// Words after `stop_arg` that turn the two arguments into something other than indices:
        /// `BYSCORE` of `ZRANGE`.
        unless: &'static [&'static str],
    },
    /// No count, or one whose magnitude is at most `max`: `LPOP k`, `SPOP k 10`, `SRANDMEMBER k -5`.
    Number {
        /// Which argument is the count.
        arg: usize,
        /// Largest magnitude.
        max: u64,
    },
    /// An option with numbers from 0 to `max`: `COUNT 10` of `SCAN`, `LIMIT 0 10` of `ZRANGEBYSCORE`.
    Keyword {
        /// The option's name, in any case.
        word: &'static str,
        /// How many numbers follow it.
        numbers: usize,
        /// Largest value of each number.
        max: u64,
        /// Whether a request without the option satisfies the rule.
        if_absent: bool,
    },
}

/// Most arguments of a request that is searched for options; one with more satisfies no rule about them.
const OPTION_ARGS_MAX: usize = 16;

impl Rule {
    /// Whether the request in `frame`, whose head is `head`, satisfies the rule.
    #[must_use]
    pub fn holds(&self, frame: &[u8], head: &RespHead) -> bool {
        let number_at = |arg| head.arg(frame, arg).and_then(parse_integer);
        match *self {
            Self::ArgCount { max } => head.arg_count().saturating_sub(1) <= max,
            Self::Span { start_arg, stop_arg, max, unless } => {
                let (Some(start), Some(stop)) = (number_at(start_arg), number_at(stop_arg)) else {
                    return false;
                };
                // The two numbers are no words.
                let mut options = head.args(frame).skip(start_arg);
                (start < 0) == (stop < 0)
                    && (stop < start || stop.abs_diff(start) < max)
                    && head.arg_count() <= OPTION_ARGS_MAX
                    && !options.any(|arg| unless.iter().any(|word| is_word(arg, word)))
            }
            Self::Number { arg, max } => {
                arg >= head.arg_count() || number_at(arg).is_some_and(|count| count.unsigned_abs() <= max)
            }
            Self::Keyword { word, numbers, max, if_absent } => {
                if head.arg_count() > OPTION_ARGS_MAX {
                    return false;
                }
                let is_small = |number: &[u8]| {
                    let number = parse_integer(number).and_then(|number| u64::try_from(number).ok());
                    number.is_some_and(|number| number <= max)
                };
                // The last of several options counts, and an argument may merely look like one.
                let mut args = head.args(frame).skip(1);
                let mut found = false;
                while let Some(arg) = args.next() {
                    if is_word(arg, word) {
                        found = true;
                        let mut following = args.clone();
                        if !(0..numbers).all(|_| following.next().is_some_and(is_small)) {
                            return false;
                        }
                    }
                }
                found || if_absent
            }
        }
    }
}

fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::head_of_line;
    use psp_protocols::Framing;
    use psp_protocols::resp::Resp;

    fn check(rule: &Rule, cases: &[(&str, bool)]) {
        for (line, holds) in cases {
            let (frame, head) = head_of_line(line);
            assert_eq!(rule.holds(&frame, &head), *holds, "{line}");
        }
    }

    #[test]
    fn arguments_are_counted_without_the_name() {
        let rule = Rule::ArgCount { max: 2 };
        check(&rule, &[("", true), ("MGET", true), ("MGET a b", true), ("MGET a b c", false)]);
        let array = b"*4\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n";
        let head = Resp::default().head_of(array).expect("a whole frame");
        assert!(!rule.holds(array, &head));
    }

    #[test]
    fn spans_are_bounded_from_either_end() {
        let rule = Rule::Span { start_arg: 2, stop_arg: 3, max: 10, unless: &["BYSCORE"] };
        check(
            &rule,
            &[
                ("ZRANGE k 0 9", true),
                ("ZRANGE k 0 10", false),
                ("ZRANGE k 1000 1009 WITHSCORES", true),
                ("ZRANGE k 5 3", true),
                ("ZRANGE k 1000 0", true),
                ("ZRANGE k -5 0", false),
                ("ZRANGE byscore 0 9", true),
                ("ZRANGE k -10 -1", true),
                ("ZRANGE k -11 -1", false),
                ("ZRANGE k 0 -1", false),
                ("ZRANGE k -5 3", false),
                ("ZRANGE k 0 9 byscore", false),
                ("ZRANGE k 0 9 REV BYSCORE", false),
                (&format!("ZRANGE k 0 9{} BYSCORE", " REV".repeat(20)), false),
                ("ZRANGE k a b", false),
                ("ZRANGE k 0", false),
                ("ZRANGE k -9223372036854775808 -1", false),
            ],
        );
    }

    #[test]
    fn counts_may_be_absent_or_negative() {
        let rule = Rule::Number { arg: 2, max: 10 };
        check(
            &rule,
            &[
                ("SPOP k", true),
                ("SPOP k 10", true),
                ("SPOP k -10", true),
                ("SPOP k 11", false),
                ("SPOP k -9223372036854775808", false),
                ("SPOP k many", false),
            ],
        );
    }

    #[test]
    fn options_are_found_in_any_place() {
        let scan = Rule::Keyword { word: "COUNT", numbers: 1, max: 100, if_absent: true };
        check(
            &scan,
            &[
                ("SCAN 0", true),
                ("SCAN 0 MATCH * count 100", true),
                ("SCAN 0 COUNT 101", false),
                ("SCAN 0 COUNT -1", false),
                ("SCAN 0 COUNT", false),
                ("SCAN 0 COUNT 10 COUNT 101", false),
                ("SCAN 0 MATCH count COUNT 10", false),
                (&format!("SCAN 0{}", " TYPE hash".repeat(7)), true),
                (&format!("SCAN 0{} COUNT 101", " TYPE hash".repeat(7)), false),
            ],
        );
        let limit = Rule::Keyword { word: "LIMIT", numbers: 2, max: 100, if_absent: false };
        check(
            &limit,
            &[
                ("ZRANGEBYSCORE k 0 1", false),
                ("ZRANGEBYSCORE k 0 1 LIMIT 0 100", true),
                ("ZRANGEBYSCORE k 0 1 LIMIT 200 10", false),
                ("ZRANGEBYSCORE k 0 1 LIMIT 0 -1", false),
                ("ZRANGEBYSCORE k 0 1 LIMIT 0", false),
            ],
        );
    }
}
