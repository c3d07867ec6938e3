//! Types of RESP requests: by the name of the command and, if that is not enough, by its arguments.
//!
//! ```text
//!   head ─► command ─► table ─► rules of the command ─► refinement of the type ─► type
//!                        │      first match counts        the user's function
//!                        └─ not in it: UNKNOWN
//! ```

mod command_table;
mod cost;
mod redis;
mod rule;

use psp_protocols::resp::RespHead;
use psp_server::{Classifier, RequestType, TypeSpec, TypeTable};

use crate::registry::register;

use command_table::CommandTable;
pub use command_table::NAME_LEN_MAX;
pub use cost::Work;
pub use rule::Rule;

/// The user's function for one type: takes a frame of that type and its head, returns its final type.
type Refinement = Box<dyn Fn(&[u8], &RespHead) -> RequestType + Send + Sync>;

/// Classifies RESP requests by command.
///
/// ```
/// use std::time::Duration;
/// use psp_classifiers::resp::{RespClassifier, Rule};
/// use psp_server::protocols::Framing;
/// use psp_server::protocols::resp::Resp;
/// use psp_server::{Classifier, TypeSpec};
///
/// let classifier = RespClassifier::new()
///     .group(TypeSpec::new("short").service_time(Duration::from_micros(1)), ["GET", "SET"])
///     .group(TypeSpec::new("long").service_time(Duration::from_millis(1)), ["KEYS", "MGET"])
///     .when(["MGET"], Rule::ArgCount { max: 8 }, "short");
///
/// let short = classifier.types().by_name("short").unwrap();
/// for frame in [&b"get k\r\n"[..], b"mget a b\r\n"] {
///     let head = Resp::default().head_of(frame).unwrap();
///     assert_eq!(classifier.classify(frame, &head), short);
/// }
/// ```
#[derive(Default)]
pub struct RespClassifier {
    types: TypeTable,
    commands: CommandTable,
    /// By index of the type.
    refinements: Vec<Option<Refinement>>,
    oversized: Option<Oversized>,
}

/// Which requests have one type whatever their command is.
#[derive(Debug, Clone, Copy)]
struct Oversized {
    bytes_max: usize,
    args_max: usize,
    request_type: RequestType,
}

impl RespClassifier {
    /// A classifier without commands.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The commands of Redis in five types with typical service times; see the table below.
    ///
    /// | type     | commands                                                        | expected |
    /// |----------|-----------------------------------------------------------------|----------|
    /// | `health` | probes and administration: PING, HELLO, CLIENT, INFO            | control  |
    /// | `read`   | O(1) and O(log n) reads: GET, HGET, ZSCORE, EXISTS of few keys  | 1 us     |
    /// | `write`  | O(1) and O(log n) writes: SET, INCR, LPUSH, DEL of few keys     | 1.5 us   |
    /// | `range`  | bounded or commonly small: LRANGE 0 99, HGETALL, SCAN, SMEMBERS | 20 us    |
    /// | `scan`   | O(n) of a large n: KEYS, SORT, LRANGE 0 -1, SUNION, FLUSHALL    | 10 ms    |
    ///
    /// `health` is a [control](TypeSpec::control) type: its requests run where they arrive, whatever the policy is. A
    /// `TypeSpec` of that name, with `control` set to `Some(false)`, makes it one like the others.
    ///
    /// Rules decide where the arguments tell the cost: [`Rule::ArgCount`] for commands with many keys
    /// or members, [`Rule::Span`] for indices, [`Rule::Number`] and [`Rule::Keyword`] for a count or
    /// limit. A server that knows the sizes of its keys can decide better with
    /// [`refine`](Self::refine).
    #[must_use]
    pub fn redis() -> Self {
        redis::classifier()
    }

    /// The type of this name. Registers it without hints if there is none.
    fn type_named(&mut self, name: &str) -> RequestType {
        match self.types.by_name(name) {
            Some(request_type) => request_type,
            None => register(&mut self.types, TypeSpec::new(name)),
        }
    }

    /// Registers a type and puts `commands` into it.
    ///
    /// Names may be in any case. A name may include a subcommand (`"COMMAND DOCS"`); a command without
    /// one stands for all of its subcommands that are not listed. A type that is already registered
    /// under this name keeps its number and its commands, and takes the hints of `spec`. A command
    /// that is already registered moves to this type and keeps its rules.
    ///
    /// # Panics
    /// When a name is longer than [`NAME_LEN_MAX`].
    #[must_use]
    pub fn group<I>(mut self, spec: TypeSpec, commands: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let request_type = register(&mut self.types, spec);
        for command in commands {
            self.commands.entry(command.as_ref()).request_type = request_type;
        }
        self
    }

    /// Requests for one of `commands` that satisfy `rule` are of the type `type_name`.
    ///
    /// The rules of a command are tried in the order in which they were added. A request that
    /// satisfies none has the type of its command's group. A type that is not registered yet is
    /// registered without hints.
    ///
    /// # Panics
    /// When a name is longer than [`NAME_LEN_MAX`].
    #[must_use]
    pub fn when<I>(mut self, commands: I, rule: Rule, type_name: &str) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let request_type = self.type_named(type_name);
        for command in commands {
            let entry = self.commands.entry(command.as_ref());
            entry.rules.push((rule.clone(), request_type));
        }
        self
    }

    /// Requests of more than `bytes_max` bytes or more than `args_max` arguments, the name included, are of the
    /// type `type_name`, whatever their command is. No rule and no refinement sees them.
    ///
    /// To read, copy and hash the arguments takes time even where the command itself takes none: `ECHO` of a
    /// gigabyte.
    #[must_use]
    pub fn oversized(mut self, bytes_max: usize, args_max: usize, type_name: &str) -> Self {
        let request_type = self.type_named(type_name);
        self.oversized = Some(Oversized { bytes_max, args_max, request_type });
        self
    }

    /// Lets `refinement` choose the final type of each request that the table and the rules give the
    /// type `type_name`.
    ///
    /// The refinement gets the frame and its head ([`RespHead::arg`] returns arguments) and may look into
    /// the server's store. It runs on the net worker's path, so it must neither block nor take long. A type
    /// has one refinement: the last one set. [`types`](Classifier::types) has the numbers of types, which
    /// do not change when groups are added.
    #[must_use]
    pub fn refine<F>(mut self, type_name: &str, refinement: F) -> Self
    where
        F: Fn(&[u8], &RespHead) -> RequestType + Send + Sync + 'static,
    {
        let request_type = self.type_named(type_name);
        self.refinements.resize_with(self.types.len(), || None);
        self.refinements[self.types.slot(request_type)] = Some(Box::new(refinement));
        self
    }
}

impl Classifier<RespHead> for RespClassifier {
    #[inline]
    fn classify(&self, request: &[u8], head: &RespHead) -> RequestType {
        if let Some(limit) = self.oversized
            && (request.len() > limit.bytes_max || head.arg_count() > limit.args_max)
        {
            return limit.request_type;
        }
        let Some(entry) = self.commands.find(request, head) else {
            return RequestType::UNKNOWN;
        };
        let mut rules = entry.rules.iter();
        let by_rule = rules.find(|(rule, _)| rule.holds(request, head));
        let request_type = by_rule.map_or(entry.request_type, |(_, by_rule)| *by_rule);
        let refinement = request_type.index().and_then(|index| self.refinements.get(index)?.as_ref());
        match refinement {
            Some(refinement) => refinement(request, head),
            None => request_type,
        }
    }

    fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

impl std::fmt::Debug for RespClassifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RespClassifier")
            .field("types", &self.types)
            .field("commands", &self.commands)
            .finish_non_exhaustive()
    }
}

/// `line` as an inline command, and its head; no arguments where it is none.
#[cfg(test)]
fn head_of_line(line: &str) -> (Vec<u8>, RespHead) {
    use psp_protocols::Framing;

    let frame = format!("{line}\r\n").into_bytes();
    let head = psp_protocols::resp::Resp::default().head_of(&frame);
    (frame, head.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use psp_protocols::Framing;
    use psp_protocols::resp::Resp;

    use super::*;

    fn name_of(classifier: &RespClassifier, line: &str) -> String {
        let (frame, head) = head_of_line(line);
        let types = classifier.types();
        let slot = types.slot(classifier.classify(&frame, &head));
        types.name_of_slot(slot).to_owned()
    }

    fn check(classifier: &RespClassifier, cases: &[(&str, &str)]) {
        for (line, name) in cases {
            assert_eq!(name_of(classifier, line), *name, "{line}");
        }
    }

    #[test]
    fn oversized_requests_are_of_one_type() {
        let classifier = two_groups().refine("long", |_, _| RequestType::UNKNOWN).oversized(20, 4, "long");
        check(
            &classifier,
            &[
                ("get k", "short"),
                ("GET 90123456789012", "short"),
                ("GET 901234567890123", "long"),
                ("GET a b c", "short"),
                ("GET a b c d", "long"),
                ("NOPE a b c d", "long"),
                ("KEYS a", "UNKNOWN"),
            ],
        );
    }

    fn two_groups() -> RespClassifier {
        RespClassifier::new()
            .group(TypeSpec::new("short"), ["GET", "command count"])
            .group(TypeSpec::new("long"), ["Keys", "MGET", "COMMAND"])
    }

    #[test]
    fn names_are_found_in_any_case() {
        let classifier = two_groups();
        check(
            &classifier,
            &[
                ("get k", "short"),
                ("GET k", "short"),
                ("gEt k", "short"),
                ("KEYS *", "long"),
                ("GETX k", "UNKNOWN"),
                ("", "UNKNOWN"),
                ("'unbalanced", "UNKNOWN"),
            ],
        );
        let array = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        let head = Resp::default().head_of(array).expect("a whole frame");
        assert_eq!(Some(classifier.classify(array, &head)), classifier.types().by_name("short"));
    }

    #[test]
    fn subcommands_may_differ_from_their_command() {
        let classifier = two_groups().group(TypeSpec::new("sleep"), ["DEBUG SLEEP"]);
        check(
            &classifier,
            &[
                ("COMMAND COUNT", "short"),
                ("command Count x", "short"),
                ("COMMAND DOCS", "long"),
                ("COMMAND", "long"),
                ("DEBUG SLEEP 1", "sleep"),
                ("DEBUG JMAP", "UNKNOWN"),
                ("DEBUG", "UNKNOWN"),
            ],
        );
    }

    #[test]
    fn groups_can_be_extended_and_commands_moved() {
        let base = two_groups();
        let numbers: Vec<_> = ["short", "long"].map(|name| base.types().by_name(name)).into();
        let classifier = base
            .group(TypeSpec::new("short").share(0.9), ["PING"])
            .group(TypeSpec::new("third"), ["MGET"]);
        let types = classifier.types();
        assert_eq!(["short", "long"].map(|name| types.by_name(name))[..], numbers);
        assert_eq!(types.len(), 3);
        assert_eq!(types.specs()[0].share, Some(0.9));
        check(&classifier, &[("PING", "short"), ("GET k", "short"), ("MGET k", "third")]);
    }

    #[test]
    fn the_first_rule_that_is_satisfied_decides() {
        let classifier = two_groups().when(["MGET"], Rule::ArgCount { max: 1 }, "short").when(
            ["MGET"],
            Rule::ArgCount { max: 3 },
            "middle",
        );
        check(&classifier, &[("MGET a", "short"), ("MGET a b c", "middle"), ("MGET a b c d", "long")]);
    }

    #[test]
    fn a_refinement_decides_the_final_type() {
        let base = two_groups();
        let short = base.types().by_name("short").expect("registered");
        let long = base.types().by_name("long").expect("registered");
        let classifier = base.refine("long", move |frame, head| match head.arg(frame, 1) {
            Some(b"small") => short,
            _ => long,
        });
        check(
            &classifier,
            &[
                ("KEYS small", "short"),
                ("KEYS large", "long"),
                ("GET small", "short"),
                ("NOSUCH small", "UNKNOWN"),
            ],
        );
    }
}
