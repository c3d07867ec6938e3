//! The types of the commands of Redis, by the cost that the table of commands names.

use std::time::Duration;

use psp_protocols::resp::Facts;
use psp_server::TypeSpec;

use super::RespClassifier;
use super::cost::{Cost, Work};
use super::rule::Rule;
use crate::registry::register;

/// Most keys or members of a request that still counts as a single-key command.
const FEW_ARGS: usize = 8;

/// Most elements that a request may touch and still count as a range.
const RANGE_LEN_MAX: u64 = 128;

/// Most arguments of a request with many keys or members that still counts as a range.
const RANGE_ARGS_MAX: usize = 128;

fn types() -> [TypeSpec; 5] {
    let spec = |name, ns, share| TypeSpec::new(name).service_time(Duration::from_nanos(ns)).share(share);
    [
        // Past the policy: what operators, and clients that begin, need while everything else is busy.
        spec("health", 1000, 0.02).control(),
        spec("read", 1000, 0.6),
        spec("write", 1500, 0.3),
        spec(RANGE, 20_000, 0.079),
        spec(LONG, 10_000_000, 0.001),
    ]
}

/// The type of requests whose work nothing bounds.
const LONG: &str = "scan";

/// The type of requests that touch up to [`RANGE_LEN_MAX`] elements.
const RANGE: &str = "range";

/// The requests of a command that touch few elements, as their arguments tell, in the order in which the rules are
/// tried. Without a rule all requests of a command are of the type of its cost; with one, all others are long.
fn rules(cost: &Cost) -> Vec<(Rule, &'static str)> {
    let keyword = |word, numbers, if_absent| Rule::Keyword { word, numbers, max: RANGE_LEN_MAX, if_absent };
    let span = |unless| Rule::Span { start_arg: 2, stop_arg: 3, max: RANGE_LEN_MAX, unless };
    match cost.work {
        Work::Arguments | Work::Sketch | Work::Fields | Work::Entries => vec![
            (Rule::ArgCount { max: FEW_ARGS }, cost.request_type),
            (Rule::ArgCount { max: RANGE_ARGS_MAX }, RANGE),
        ],
        Work::Count => {
            let up_to = |max| Rule::Number { arg: 2, max };
            vec![(up_to(FEW_ARGS as u64), cost.request_type), (up_to(RANGE_LEN_MAX), RANGE)]
        }
        // Without COUNT, a cursor returns 10 elements and a pop returns one.
        Work::Pop(_) | Work::Cursor | Work::KeyspaceCursor => vec![(keyword("COUNT", 1, true), RANGE)],
        Work::Span => vec![(span(&[]), RANGE)],
        Work::SpanOrLimit => vec![(span(&["BYSCORE", "BYLEX"]), RANGE)],
        Work::Limit => vec![(keyword("LIMIT", 2, false), RANGE)],
        Work::EntryRange => vec![(keyword("COUNT", 1, false), RANGE)],
        _ => Vec::new(),
    }
}

pub(super) fn classifier() -> RespClassifier {
    let mut classifier = RespClassifier::new();
    for spec in types() {
        register(&mut classifier.types, spec);
    }
    for facts in Facts::all() {
        if let Some(cost) = Cost::of(facts) {
            let rules = rules(&cost);
            let otherwise = if rules.is_empty() { cost.request_type } else { LONG };
            let rules = rules.into_iter().map(|(rule, name)| (rule, classifier.type_named(name))).collect();
            let request_type = classifier.type_named(otherwise);
            let entry = classifier.commands.entry(&facts.name.replace('|', " "));
            (entry.request_type, entry.rules) = (request_type, rules);
        }
    }
    classifier
}

#[cfg(test)]
mod tests {
    use psp_server::Classifier;

    use super::*;
    use crate::resp::head_of_line;

    #[test]
    fn every_cost_names_a_type_and_what_decides() {
        for facts in Facts::all() {
            let cost = Cost::of(facts);
            assert_eq!(cost.is_none(), facts.cost.is_empty(), "{}: {}", facts.name, facts.cost);
            let is_type = |cost: Cost| types().iter().any(|spec| spec.name == cost.request_type);
            assert!(cost.is_none_or(is_type), "{}: {}", facts.name, facts.cost);
        }
    }

    #[test]
    fn shares_add_up() {
        let sum: f64 = types().iter().filter_map(|spec| spec.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }

    /// Requests, and names of their types.
    const TYPICAL: &[(&str, &str)] = &[
        ("PING", "health"),
        ("client setinfo lib-name x", "health"),
        ("CLIENT LIST", "health"),
        ("CONFIG SET policy darc", "health"),
        ("FUNCTION KILL", "health"),
        ("FUNCTION LOAD x", "scan"),
        ("FCALL f 0", "scan"),
        ("COMMAND COUNT", "range"),
        ("MULTI", "write"),
        ("SCRIPT KILL", "health"),
        ("ACL WHOAMI", "health"),
        ("ACL LOAD", "scan"),
        ("COMMAND DOCS", "scan"),
        ("COMMAND", "scan"),
        ("DEBUG SLEEP 1", "scan"),
        ("GET k", "read"),
        ("SET k v EX 10", "write"),
        ("SETBIT b 7 1", "write"),
        ("BITFIELD b INCRBY u8 0 1", "write"),
        ("BITFIELD_RO b GET u8 0", "read"),
        ("LPUSH l a", "write"),
        ("BLPOP l 0", "write"),
        ("BLMPOP 0 1 l LEFT COUNT 10000", "scan"),
        ("SPOP s", "write"),
        ("SPOP s 100", "range"),
        ("SPOP s 1000", "scan"),
        ("SRANDMEMBER s -3", "read"),
        ("LRANGE l 0 99", "range"),
        ("LRANGE l 0 -1", "scan"),
        ("ZRANGE z 0 99 WITHSCORES", "range"),
        ("ZRANGE z 0 99 BYSCORE", "scan"),
        ("ZRANGE z 0 -1 WITHSCORES", "scan"),
        ("ZRANGEBYSCORE z -inf +inf LIMIT 0 10", "range"),
        ("ZRANGEBYSCORE z -inf +inf", "scan"),
        ("XADD s MAXLEN ~ 1000 * f v", "write"),
        ("XACK s g 1-1", "write"),
        ("XREADGROUP GROUP g c COUNT 10 STREAMS s >", "range"),
        ("XREAD STREAMS s 0", "scan"),
        ("XRANGE s - + COUNT 10", "range"),
        ("XRANGE s - +", "scan"),
        ("SCAN 0", "range"),
        ("SCAN 0 COUNT 10000", "scan"),
        ("HGETALL h", "range"),
        ("KEYS *", "scan"),
        ("SORT l", "scan"),
        ("SUNION a b", "scan"),
        ("FLUSHALL", "scan"),
        ("NOSUCHCOMMAND", "UNKNOWN"),
    ];

    /// Commands, numbers of their arguments, and names of their types.
    const OF_MANY: [(&str, usize, &str); 6] = [
        ("LPUSH", 9, "range"),
        ("MGET", 8, "read"),
        ("MGET", 128, "range"),
        ("MGET", 1000, "scan"),
        ("DEL", 1, "write"),
        ("DEL", 1000, "scan"),
    ];

    #[test]
    fn typical_requests_are_of_the_expected_type() {
        let classifier = RespClassifier::redis();
        let types = classifier.types();
        let typical = TYPICAL.iter().map(|&(line, name)| (line.to_owned(), name));
        let of_many = OF_MANY.map(|(command, count, name)| (command.to_owned() + &" k".repeat(count), name));
        for (line, name) in typical.chain(of_many) {
            let (frame, head) = head_of_line(&line);
            let slot = types.slot(classifier.classify(&frame, &head));
            assert_eq!(types.name_of_slot(slot), name, "{line}");
        }
    }
}
