//! Looks for an order that explains a history: Wing and Gong's search ("Testing and verifying concurrent objects",
//! JPDC 1993) with Lowe's memory of what it has seen and his just-in-time choice of the next call ("Testing for
//! linearizability", CCPE 2017).
//!
//! A call can be next if no call that has not happened yet ended before it began. The search first tries the call
//! that ends first. It tries others, pending calls last, only when that leads nowhere: they happen just in time.
//! It tries none that shares no key with the first to end, also not through others: it can as well happen later.
//! Where all that shares its keys leads nowhere, the search goes back to the last call that shares keys with those.
//! It never visits the same set of calls with the same state twice. What happens by itself, such as the death of a key,
//! is in no such set: the state tells.

use std::collections::HashMap;
use std::fmt;

use crate::history::{Call, PENDING};
use crate::model::Operation;
use crate::violation::Violation;

/// Most configurations that the search visits. Those of a few hundred calls on few keys are far fewer.
const STEPS_MAX: usize = 4_000_000;

/// Why a history is not accepted.
#[derive(Debug)]
pub enum Failure<O: Operation> {
    /// No order explains it.
    Violation(Box<Violation<O>>),
    /// The search took too many steps. The history is too long, or has too many pending calls.
    Undecided,
}

impl<O: Operation> fmt::Display for Failure<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(violation) => write!(f, "{violation}"),
            Self::Undecided => write!(f, "no order found in {STEPS_MAX} steps: use shorter rounds"),
        }
    }
}

/// Checks one part of a history: calls in the order of their begins.
///
/// # Errors
/// [`Failure::Violation`] if there is no order of the calls in which each has its reply.
pub fn check<O: Operation>(calls: &[Call<O>]) -> Result<(), Failure<O>> {
    match Search::new(calls).run() {
        Outcome::Order(_) => Ok(()),
        Outcome::None => Err(Failure::Violation(Box::new(shortest_violation(calls)))),
        Outcome::Undecided => Err(Failure::Undecided),
    }
}

/// Finds the first end of a call that no order explains. What is true of a history holds for all longer ones.
fn shortest_violation<O: Operation>(calls: &[Call<O>]) -> Violation<O> {
    let mut ended: Vec<&Call<O>> = calls.iter().filter(|call| call.ended != PENDING).collect();
    ended.sort_by_key(|call| call.ended);
    let until = |time| -> Vec<Call<O>> { calls.iter().filter_map(|call| call.at(time)).collect() };
    let is_explained = |call: &&Call<O>| {
        let calls = until(call.ended);
        !matches!(Search::new(&calls).run(), Outcome::None)
    };
    let unexplained = ended[ended.partition_point(is_explained)];
    let before = until(unexplained.ended - 1);
    let order = match Search::new(&before).run() {
        Outcome::Order(order) => order,
        Outcome::None | Outcome::Undecided => Vec::new(),
    };
    Violation::new(&before, &order, unexplained.clone())
}

enum Outcome {
    /// The places of calls in an order that explains all ended calls.
    Order(Vec<usize>),
    None,
    Undecided,
}

/// The set of calls that have happened, a bit each.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Happened(Box<[u64]>);

impl Happened {
    fn has(&self, call: usize) -> bool {
        self.0[call / 64] >> (call % 64) & 1 == 1
    }

    fn flip(&mut self, call: usize) {
        self.0[call / 64] ^= 1 << (call % 64);
    }

    /// The calls that have not happened, and places behind the last call.
    fn missing(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            let rest = |left: &u64| Some(left & left.wrapping_sub(1)).filter(|&left| left != 0);
            let lefts = std::iter::successors(Some(!word).filter(|&left| left != 0), rest);
            lefts.map(move |left| 64 * index + left.trailing_zeros() as usize)
        })
    }
}

/// A state that the search has reached.
struct Step<S> {
    state: S,
    /// The calls that it has not yet tried here, the best last.
    choices: Vec<usize>,
    /// The keys of all calls that it has tried or may try, here and in the steps that follow and lead nowhere.
    keys: u64,
}

/// States that lead nowhere after some calls, with the keys that this depends on.
type Failed<S> = HashMap<Happened, Vec<(S, u64)>>;

struct Search<'a, O: Operation> {
    calls: &'a [Call<O>],
    /// For each call, those of the request before it on its connection.
    before: Vec<Vec<usize>>,
    /// Whether calls of its connection follow a call.
    has_next: Vec<bool>,
    /// The keys of each call, as a set of 64.
    keys: Vec<u64>,
    /// Whether a call may happen by itself. The state tells whether it has, so it never counts as one that has
    /// happened.
    by_itself: Vec<bool>,
    happened: Happened,
    /// Ended calls that have not happened.
    left: usize,
}

impl<'a, O: Operation> Search<'a, O> {
    fn new(calls: &'a [Call<O>]) -> Self {
        let before = requests_before(calls);
        let mut has_next = vec![false; calls.len()];
        for &index in before.iter().flatten() {
            has_next[index] = true;
        }
        Self {
            calls,
            before,
            has_next,
            keys: calls.iter().map(keys).collect(),
            by_itself: calls.iter().map(is_by_itself).collect(),
            happened: Happened(vec![0; calls.len().div_ceil(64)].into()),
            left: calls.iter().filter(|call| call.ended != PENDING).count(),
        }
    }

    fn run(mut self) -> Outcome {
        let mut failed = Failed::new();
        let mut order = Vec::new();
        let mut steps = vec![self.step(O::State::default())];
        let mut taken = 0;
        while self.left > 0 {
            let Some(step) = steps.last_mut() else {
                return Outcome::None;
            };
            let Some(next) = step.choices.pop() else {
                self.go_back(&mut steps, &mut order, &mut failed);
                continue;
            };
            let Some(state) = self.state_after(&step.state, next) else {
                continue;
            };
            self.flip(next);
            let mut there = failed.get(&self.happened).into_iter().flatten();
            if let Some((_, keys)) = there.find(|(failed, _)| *failed == state) {
                step.keys |= keys;
                self.flip(next);
                continue;
            }
            taken += 1;
            if taken > STEPS_MAX {
                return Outcome::Undecided;
            }
            order.push(next);
            steps.push(self.step(state));
        }
        Outcome::Order(order)
    }

    /// Nothing is left to try in the last step. Goes back to the last call that shares keys with what was tried in
    /// vain: another call in the place of others would not help.
    fn go_back(&mut self, steps: &mut Vec<Step<O::State>>, order: &mut Vec<usize>, failed: &mut Failed<O::State>) {
        let Some(keys) = steps.last().map(|step| step.keys) else {
            return;
        };
        while let Some(step) = steps.pop() {
            let there = failed.entry(self.happened.clone()).or_default();
            there.push((step.state, keys));
            let Some(call) = order.pop() else {
                return;
            };
            self.flip(call);
            if self.keys[call] & keys != 0 {
                let before = steps.last_mut().expect("a step before each call");
                before.keys |= keys;
                return;
            }
        }
    }

    /// A call happens, or did not happen after all.
    fn flip(&mut self, call: usize) {
        if self.by_itself[call] {
            return;
        }
        self.happened.flip(call);
        if self.calls[call].ended != PENDING {
            match self.happened.has(call) {
                true => self.left -= 1,
                false => self.left += 1,
            }
        }
    }

    /// The state after a call, if the call has its reply there. A pending call that changes nothing explains nothing,
    /// unless others wait for it.
    fn state_after(&self, state: &O::State, index: usize) -> Option<O::State> {
        let call = &self.calls[index];
        let mut after = state.clone();
        let reply = call.operation.apply(&mut after);
        let explains = match &call.reply {
            Some(expected) => reply == *expected,
            None => self.has_next[index] || after != *state,
        };
        explains.then_some(after)
    }

    /// The calls that can be next in `state`, as far as they matter.
    fn step(&self, state: O::State) -> Step<O::State> {
        let mut first_end = PENDING;
        let mut open = Vec::new();
        for index in self.happened.missing() {
            match self.calls.get(index) {
                Some(call) if call.begun < first_end => {
                    if self.by_itself[index] && call.operation.by_itself(&state) != Some(true) {
                        continue;
                    }
                    first_end = first_end.min(call.ended);
                    open.push(index);
                }
                _ => break,
            }
        }
        open.sort_by_key(|&index| (self.calls[index].ended, index));
        let mut choices = self.that_matter(open);
        let keys = choices.iter().fold(0, |set, &index| set | self.keys[index]);
        choices.retain(|&index| {
            let has_happened = |&before: &usize| self.happened.has(before);
            self.calls[index].begun < first_end && self.before[index].iter().all(has_happened)
        });
        choices.reverse();
        Step { state, choices, keys }
    }

    /// Of calls in the order of their ends, those that matter to the first: it, those that share keys with one that
    /// matters, and those that must happen before one that matters. The others can as well happen after the first.
    fn that_matter(&self, open: Vec<usize>) -> Vec<usize> {
        let mut others = open;
        let mut matter: Vec<usize> = others.drain(..others.len().min(1)).collect();
        let mut looked = 0;
        while looked < matter.len() {
            let one = matter[looked];
            let shares = |other: usize| self.keys[one] & self.keys[other] != 0 || self.before[one].contains(&other);
            matter.extend(others.iter().filter(|&&other| shares(other)));
            others.retain(|&other| !shares(other));
            looked += 1;
        }
        matter.sort_by_key(|&index| (self.calls[index].ended, index));
        matter
    }
}

/// The keys of a call. Keys that fall on the same bit count as one, which costs time and changes nothing else.
fn keys<O: Operation>(call: &Call<O>) -> u64 {
    let keys = call.operation.keys().into_iter();
    keys.fold(0, |set, key| set | 1 << (key % 64))
}

fn is_by_itself<O: Operation>(call: &Call<O>) -> bool {
    call.operation.by_itself(&O::State::default()).is_some()
}

/// For each call, the places of the calls of the request before it on its connection, as far as it waits for them.
fn requests_before<O: Operation>(calls: &[Call<O>]) -> Vec<Vec<usize>> {
    let mut by_session: Vec<usize> = (0..calls.len()).collect();
    by_session.sort_by_key(|&index| (calls[index].session, calls[index].sequence));
    let mut before = vec![Vec::new(); calls.len()];
    let same_request = |&one: &usize, &other: &usize| {
        (calls[one].session, calls[one].sequence) == (calls[other].session, calls[other].sequence)
    };
    let requests: Vec<&[usize]> = by_session.chunk_by(same_request).collect();
    for pair in requests.windows(2) {
        if calls[pair[0][0]].session == calls[pair[1][0]].session {
            let certain = pair[0].iter().filter(|&&index| !may_be_passed_over(&calls[index]));
            let certain: Vec<usize> = certain.copied().collect();
            for &index in pair[1] {
                before[index].clone_from(&certain);
            }
        }
    }
    before
}

/// Whether later requests of its connection need not wait for a call.
fn may_be_passed_over<O: Operation>(call: &Call<O>) -> bool {
    call.ended == PENDING && call.operation.may_be_passed_over()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{Keyspace, Reply, Request, Side};
    use crate::recorder::Draw;
    use crate::testing::{call, is_accepted};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    const K: u32 = 0;

    fn set(value: &str) -> Request {
        Request::Set(K, value.into())
    }

    fn text(value: &str) -> Reply {
        Reply::Text(value.into())
    }

    fn pop() -> Request {
        Request::Pop(Side::Left, K)
    }

    #[test]
    fn overlapping_calls_may_happen_in_any_order() {
        let seen = |value| {
            vec![
                call(0, 10, set("1"), Reply::Ok),
                call(1, 9, set("2"), Reply::Ok),
                call(2, 8, Request::Get(K), text(value)),
                call(11, 12, Request::Get(K), text("1")),
            ]
        };
        assert!(is_accepted(seen("1")) && is_accepted(seen("2")));
        assert!(!is_accepted(seen("3")));
    }

    #[test]
    fn a_stale_read_is_refused() {
        let calls = |begun| {
            vec![
                call(0, 1, set("old"), Reply::Ok),
                call(2, 4, set("new"), Reply::Ok),
                call(begun, begun + 4, Request::Get(K), text("old")),
            ]
        };
        assert!(is_accepted(calls(3)), "the read overlaps the write");
        assert!(!is_accepted(calls(5)), "the read follows the write");
    }

    #[test]
    fn reads_do_not_go_back_in_time() {
        assert!(!is_accepted(vec![
            call(0, 1, set("old"), Reply::Ok),
            call(2, 20, set("new"), Reply::Ok),
            call(3, 4, Request::Get(K), text("new")),
            call(5, 6, Request::Get(K), text("old")),
        ]));
    }

    #[test]
    fn a_lost_update_is_refused() {
        let calls = |second| {
            vec![
                call(0, 1, set("0"), Reply::Ok),
                call(2, 6, Request::IncrBy(K, 5), Reply::Number(5)),
                call(3, 5, Request::IncrBy(K, 7), Reply::Number(second)),
                call(7, 8, Request::Get(K), text("12")),
            ]
        };
        assert!(is_accepted(calls(12)));
        assert!(!is_accepted(calls(7)));
    }

    #[test]
    fn a_duplicated_pop_is_refused() {
        let push = Request::Push(Side::Right, K, vec!["a".into(), "b".into()]);
        let calls = |second| {
            vec![
                call(0, 1, push.clone(), Reply::Number(2)),
                call(2, 6, pop(), text("a")),
                call(3, 5, pop(), text(second)),
            ]
        };
        assert!(is_accepted(calls("b")));
        assert!(!is_accepted(calls("a")));
    }

    #[test]
    fn a_rename_is_one_step() {
        let calls = |read| {
            vec![
                call(0, 1, set("x"), Reply::Ok),
                call(2, 9, Request::Rename(K, 1), Reply::Ok),
                call(3, 4, Request::Get(1), text("x")),
                call(5, 6, Request::Get(K), read),
            ]
        };
        assert!(is_accepted(calls(Reply::Nil)));
        assert!(!is_accepted(calls(text("x"))), "both keys at once");
    }

    #[test]
    fn a_pending_call_may_have_happened() {
        for (read, expected) in [(text("new"), true), (text("old"), true), (Reply::Nil, false)] {
            let calls = vec![
                call(0, 1, set("old"), Reply::Ok),
                call(2, PENDING, set("new"), None),
                call(100, 101, Request::Get(K), read.clone()),
            ];
            assert_eq!(is_accepted(calls), expected, "{read:?}");
        }
        assert!(!is_accepted(vec![
            call(0, 1, set("old"), Reply::Ok),
            call(2, PENDING, set("new"), None),
            call(3, 4, Request::Get(K), text("new")),
            call(5, 6, Request::Get(K), text("old")),
        ]));
    }

    #[test]
    fn requests_of_a_connection_happen_in_their_order() {
        let pipelined = |session| {
            let mut calls = vec![call(0, 7, set("1"), Reply::Ok), call(0, 8, Request::Get(K), Reply::Nil)];
            calls[1].session = session;
            calls[1].sequence = 1;
            calls
        };
        assert!(is_accepted(pipelined(1)), "connections are independent");
        assert!(!is_accepted(pipelined(0)), "a request sees those before it");
    }

    #[test]
    fn a_pending_request_that_changes_nothing_does_not_hold_up_the_next() {
        let mut calls = vec![
            call(0, 1, set("1"), Reply::Ok),
            call(2, PENDING, pop(), None),
            call(2, PENDING, Request::Del(K), None),
            call(3, 4, Request::Get(K), Reply::Nil),
        ];
        calls[2].sequence = 1;
        assert!(is_accepted(calls));
    }

    /// Whether some order of all calls explains them, found without any choice of the next call.
    fn is_explained(calls: &[Call<Request>], left: &mut Vec<usize>, state: &Keyspace) -> bool {
        let ended = |&index: &usize| calls[index].ended != PENDING;
        if !left.iter().any(ended) {
            return true;
        }
        (0..left.len()).any(|place| {
            let index = left.remove(place);
            let call = &calls[index];
            let is_next = left.iter().all(|&other| {
                let other = &calls[other];
                other.ended >= call.begun
                    && (other.session != call.session || other.sequence >= call.sequence || may_be_passed_over(other))
            });
            let mut after = state.clone();
            let reply = call.operation.apply(&mut after);
            let fits = call.reply.as_ref().is_none_or(|seen| *seen == reply);
            let explained = is_next && fits && is_explained(calls, left, &after);
            left.insert(place, index);
            explained
        })
    }

    /// Six calls of overlapping sessions with replies of some order; sometimes one reply is another's.
    fn some_calls(random: &mut StdRng) -> Vec<Call<Request>> {
        let mut calls = Vec::new();
        let mut state = Keyspace::default();
        for place in 0..6 {
            let draw = Draw { random: &mut *random, first_key: 0, number: place };
            let operation = Request::draw(draw);
            let reply = operation.apply(&mut state);
            calls.extend(operation.parts(Some(reply)).into_iter().map(|part| (place, part)));
        }
        if random.random_ratio(1, 2) {
            let [one, other] = [(); 2].map(|()| random.random_range(0..calls.len()));
            // What happens by itself has no reply.
            if calls[one].1.1.is_some() {
                calls[one].1.1 = calls[other].1.1.clone();
            }
        }
        let mut times: Vec<(u64, u64)> = Vec::new();
        for place in 0..6 {
            let begun = 10 * place - random.random_range(0..20).min(10 * place);
            let ended = 10 * place + random.random_range(1..40);
            times.push((2 * begun, 2 * ended + 1));
        }
        let pending = random.random_range(0..12);
        let mut calls: Vec<Call<Request>> = calls
            .into_iter()
            .map(|(place, (operation, reply))| {
                let is_pending = place == pending;
                let (begun, ended) = times[place as usize];
                Call {
                    // The last two are a pipeline.
                    session: place.min(4),
                    sequence: place,
                    begun: if place == 5 { times[4].0 } else { begun },
                    ended: match reply {
                        Some(_) if !is_pending => ended,
                        _ => PENDING,
                    },
                    operation,
                    reply: reply.filter(|_| !is_pending),
                }
            })
            .collect();
        calls.sort_by_key(|call| (call.begun, call.sequence));
        calls
    }

    #[test]
    fn the_search_agrees_with_one_that_tries_every_order() {
        let random = &mut StdRng::seed_from_u64(1);
        let mut accepted = 0;
        const CASES: usize = 5_000;
        for _ in 0..CASES {
            // More have too many orders.
            let calls = std::iter::repeat_with(|| some_calls(random));
            let calls = { calls }.find(|calls| calls.len() <= 8).expect("one");
            let all = &mut (0..calls.len()).collect();
            let expected = is_explained(&calls, all, &Keyspace::default());
            assert_eq!(is_accepted(calls.clone()), expected, "{calls:#?}");
            accepted += usize::from(expected);
        }
        assert!((CASES / 4..CASES * 9 / 10).contains(&accepted), "{accepted}");
    }

    #[test]
    fn the_shortest_history_that_nothing_explains_is_shown() {
        let mut calls = vec![call(0, 1, set("0"), Reply::Ok)];
        for n in 1..=100 {
            calls.push(call(10 * n, 10 * n + 1, set(&n.to_string()), Reply::Ok));
            let read = if n == 40 { 39 } else { n };
            calls.push(call(10 * n + 2, 10 * n + 3, Request::Get(K), text(&read.to_string())));
        }
        let Err(Failure::Violation(violation)) = check(&calls) else {
            panic!("accepted");
        };
        let shown = violation.to_string();
        assert_eq!(violation.unexplained.begun, 402);
        assert!(shown.contains(r#"Get(0) -> Text("39")"#), "{shown}");
        assert!(shown.lines().count() < 30, "{shown}");
    }
}
