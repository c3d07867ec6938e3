//! Sorted sets: members with scores, ordered by score and then by member.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

use crate::form::Form;
use crate::hashed::{Entry, Hashed, HashedMap, Scan, merge};
use crate::tree::{Item, Iter, Tree};
use crate::{Element, Set};

/// A sorted set; a clone is O(1), access by member, rank or score O(log n).
///
/// It consists of two persistent trees. One maps members to scores, in hash order. The other
/// holds (score, member) in that order, with ranks.
#[derive(Clone, Default)]
pub struct SortedSet {
    scores: HashedMap<f64>,
    order: Tree<ScoredMember>,
    pub(crate) form: Form,
}

/// A member with its score, which is never NaN.
#[derive(Clone, Debug)]
pub struct ScoredMember {
    /// The score.
    pub score: f64,
    /// The member.
    pub member: Element,
}

/// The error for a score that is NaN: it has no place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("score is not a number (NaN)")]
pub struct NotANumber;

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score at the end; may be infinite, not NaN.
    pub score: f64,
    /// Whether the range excludes the score itself.
    pub exclusive: bool,
}

/// One end of a range of members of equal score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member.
    Lowest,
    /// After every member.
    Highest,
    /// Up to or from this member, inclusive.
    Inclusive(&'a [u8]),
    /// Up to or from this member, exclusive.
    Exclusive(&'a [u8]),
}

impl ScoredMember {
    fn cmp_with(&self, score: f64, member: &[u8]) -> Ordering {
        // Scores are never NaN, and both zeros are equal.
        let by_score = self.score.partial_cmp(&score).unwrap_or(Ordering::Equal);
        by_score.then_with(|| self.member.as_slice().cmp(member))
    }
}

impl Item for ScoredMember {
    type Key = Self;

    fn key(&self) -> &Self {
        self
    }
}

impl LexBound<'_> {
    /// Whether `member` lies before a range that starts at this bound.
    fn starts_after(&self, member: &[u8]) -> bool {
        match self {
            Self::Lowest => false,
            Self::Highest => true,
            Self::Inclusive(bound) => member < *bound,
            Self::Exclusive(bound) => member <= *bound,
        }
    }

    /// Whether `member` lies before the end of a range that ends at this bound.
    fn ends_after(&self, member: &[u8]) -> bool {
        match self {
            Self::Lowest => false,
            Self::Highest => true,
            Self::Inclusive(bound) => member <= *bound,
            Self::Exclusive(bound) => member < *bound,
        }
    }
}

fn pair(entry: &Entry<f64>) -> (&Element, f64) {
    (&entry.key.name, entry.value)
}

impl SortedSet {
    /// An empty sorted set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether Redis would keep it packed, as a listpack. This changes once, when an update ends.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.form.is_packed()
    }

    /// The score of `member`.
    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Sets the score of `member` and returns the one it replaces.
    ///
    /// # Errors
    /// [`NotANumber`] for NaN; the set is unchanged.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Result<Option<f64>, NotANumber> {
        if score.is_nan() {
            return Err(NotANumber);
        }
        // Zero has no sign.
        let score = score + 0.0;
        self.form.note_len(member.len());
        let replaced = self.scores.insert(member, score);
        let element = match replaced {
            Some(old) if old.to_bits() == score.to_bits() => return Ok(replaced),
            Some(old) => self
                .take_from_order(old, member)
                .map_or_else(|| member.into(), |old| old.member),
            None => Element::from(member),
        };
        let rank = self.rank_of(score, member);
        self.order.insert(
            rank,
            ScoredMember {
                score,
                member: element,
            },
        );
        Ok(replaced)
    }

    /// Removes `member` and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.scores.remove(member)?;
        self.take_from_order(score, member);
        Some(score)
    }

    fn take_from_order(&mut self, score: f64, member: &[u8]) -> Option<ScoredMember> {
        self.order.remove(self.rank_of(score, member))
    }

    fn rank_of(&self, score: f64, member: &[u8]) -> usize {
        self.order
            .seek(|scored| scored.cmp_with(score, member) == Ordering::Less)
            .0
    }

    /// The score of `member`, and how many members are ordered before it.
    #[must_use]
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        Some((self.rank_of(score, member), score))
    }

    /// The member of the given rank; a random rank is a uniform choice.
    #[must_use]
    pub fn at(&self, rank: usize) -> Option<&ScoredMember> {
        self.order.get(rank)
    }

    /// All members from the lowest score on.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ScoredMember> + ExactSizeIterator {
        self.order.iter()
    }

    /// The members whose ranks are in `ranks`.
    ///
    /// # Panics
    /// If `ranks` does not lie within the set.
    pub fn range(
        &self,
        ranks: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &ScoredMember> + ExactSizeIterator {
        self.order.range(ranks)
    }

    /// A sorted set of the members whose ranks are in `ranks`.
    ///
    /// # Panics
    /// If `ranks` does not lie within the set.
    #[must_use]
    pub fn slice(&self, ranks: Range<usize>) -> Self {
        let mut scores = HashedMap::default();
        let mut form = Form::default();
        for scored in self.order.range(ranks.clone()) {
            form.note_len(scored.member.len());
            scores.insert(&scored.member, scored.score);
        }
        Self {
            scores,
            order: self.order.range(ranks).cloned().collect(),
            form,
        }
    }

    /// The ranks of the members with scores from `min` to `max`; empty if there are none.
    #[must_use]
    pub fn ranks_by_score(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let below = |bound: ScoreBound, score: f64, counted: bool| {
            score < bound.score || (counted && score == bound.score)
        };
        let start = self
            .order
            .seek(|scored| below(min, scored.score, min.exclusive))
            .0;
        let end = self
            .order
            .seek(|scored| below(max, scored.score, !max.exclusive))
            .0;
        start..end.max(start)
    }

    /// The ranks of the members from `min` to `max` in a set whose scores are all equal. For other
    /// sets the result is an unspecified range.
    #[must_use]
    pub fn ranks_by_lex(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let start = self.order.seek(|scored| min.starts_after(&scored.member)).0;
        let end = self.order.seek(|scored| max.ends_after(&scored.member)).0;
        start..end.max(start)
    }

    /// Removes the members whose ranks are in `ranks`.
    ///
    /// # Panics
    /// If `ranks` does not lie within the set.
    pub fn remove_range(&mut self, ranks: Range<usize>) {
        for scored in self.order.range(ranks.clone()) {
            self.scores.remove(&scored.member);
        }
        self.order.remove_range(ranks);
    }

    /// The next `count` members of a scan at `cursor`; 0 starts a scan. The scan returns a member
    /// that is present throughout exactly once.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
    ) -> Scan<impl ExactSizeIterator<Item = (&Element, f64)>> {
        let Scan { cursor, entries } = self.scores.scan(cursor, count);
        Scan {
            cursor,
            entries: entries.map(pair),
        }
    }
}

impl From<HashedMap<f64>> for SortedSet {
    fn from(scores: HashedMap<f64>) -> Self {
        let mut sorted: Vec<ScoredMember> = scores
            .iter()
            .map(|entry| ScoredMember {
                score: entry.value,
                member: entry.key.name.clone(),
            })
            .collect();
        let form = Form::of_lens(sorted.iter().map(|scored| scored.member.len()));
        sorted.sort_unstable_by(|left, right| left.cmp_with(right.score, &right.member));
        Self {
            scores,
            order: sorted.into_iter().collect(),
            form,
        }
    }
}

/// An operand of an operation on sorted sets. Members of plain sets have score 1.
#[derive(Clone)]
pub enum Operand {
    /// A plain set.
    Set(Set),
    /// A sorted set.
    SortedSet(SortedSet),
}

/// How to combine the scores of a member in several operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// Their sum; of infinities with opposite signs 0.
    #[default]
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

impl Aggregate {
    fn combine(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Sum => zero_if_nan(left + right),
            Self::Min => left.min(right),
            Self::Max => left.max(right),
        }
    }
}

fn zero_if_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

impl Operand {
    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Set(set) => set.len(),
            Self::SortedSet(sorted_set) => sorted_set.len(),
        }
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get_hashed(&self, member: &Hashed) -> Option<f64> {
        match self {
            Self::Set(set) => set.contains_hashed(member).then_some(1.0),
            Self::SortedSet(sorted_set) => sorted_set.scores.get_hashed(member).copied(),
        }
    }

    fn entries(&self) -> OperandEntries<'_> {
        match self {
            Self::Set(set) => OperandEntries::Set(set.entries()),
            Self::SortedSet(sorted_set) => OperandEntries::SortedSet(sorted_set.scores.iter()),
        }
    }
}

enum OperandEntries<'a> {
    Set(Iter<'a, Entry<()>>),
    SortedSet(Iter<'a, Entry<f64>>),
}

impl<'a> Iterator for OperandEntries<'a> {
    type Item = (&'a Hashed, f64);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Set(entries) => entries.next().map(|entry| (&entry.key, 1.0)),
            Self::SortedSet(entries) => entries.next().map(|entry| (&entry.key, entry.value)),
        }
    }
}

/// An operand with the factor that multiplies its scores.
#[derive(Clone)]
pub struct Weighted {
    /// The members and scores.
    pub operand: Operand,
    /// The factor.
    pub weight: f64,
}

impl Weighted {
    fn scaled(&self, score: f64) -> f64 {
        // Zero has no sign.
        zero_if_nan(score * self.weight) + 0.0
    }
}

fn entry((key, value): (&Hashed, f64)) -> Entry<f64> {
    Entry {
        key: key.clone(),
        value,
    }
}

impl SortedSet {
    /// The members of any of `sources`, with their scores aggregated. Calls `visit` for each member
    /// that it examines.
    #[must_use]
    pub fn union(sources: &[Weighted], aggregate: Aggregate, visit: &dyn Fn()) -> Self {
        let entries = sources
            .iter()
            .map(|source| source.operand.entries().inspect(|_| visit()))
            .collect();
        let merged = merge(entries, |folded, index, score| {
            let score = sources[index].scaled(score);
            folded.map_or(score, |folded| aggregate.combine(folded, score))
        });
        Self::from(merged.map(entry).collect::<HashedMap<f64>>())
    }

    /// The members of all of `sources`, with their scores aggregated. Calls `visit` for each member
    /// that it examines.
    #[must_use]
    pub fn intersection(sources: &[Weighted], aggregate: Aggregate, visit: &dyn Fn()) -> Self {
        let shared = shared(sources, visit).map(|(key, _)| {
            let scores = sources
                .iter()
                .filter_map(|source| Some(source.scaled(source.operand.get_hashed(key)?)));
            entry((
                key,
                scores
                    .reduce(|left, right| aggregate.combine(left, right))
                    .unwrap_or(0.0),
            ))
        });
        Self::from(shared.collect::<HashedMap<f64>>())
    }

    /// The members of the first of `sources` that are in no other, with their scores in the first.
    /// Calls `visit` for each member of the first.
    #[must_use]
    pub fn difference(sources: &[Weighted], visit: &dyn Fn()) -> Self {
        let Some((first, others)) = sources.split_first() else {
            return Self::new();
        };
        let entries = first.operand.entries().inspect(|_| visit());
        let left = entries.filter(|(key, _)| {
            !others
                .iter()
                .any(|other| other.operand.get_hashed(key).is_some())
        });
        Self::from(left.map(entry).collect::<HashedMap<f64>>())
    }

    /// How many members all of `sources` share, counted up to `limit`. Calls `visit` for each member
    /// that it examines.
    #[must_use]
    pub fn intersection_len(sources: &[Weighted], limit: usize, visit: &dyn Fn()) -> usize {
        shared(sources, visit).take(limit).count()
    }
}

/// The members that all sources share, with their scores in the smallest source.
fn shared<'s>(
    sources: &'s [Weighted],
    visit: &'s dyn Fn(),
) -> impl Iterator<Item = (&'s Hashed, f64)> {
    let smallest = sources.iter().min_by_key(|source| source.operand.len());
    smallest.into_iter().flat_map(|smallest| {
        let entries = smallest.operand.entries().inspect(|_| visit());
        entries.filter(|(key, _)| {
            sources
                .iter()
                .all(|source| source.operand.get_hashed(key).is_some())
        })
    })
}

impl fmt::Debug for SortedSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.iter().map(|scored| (&scored.member, scored.score));
        formatter.debug_map().entries(pairs).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Model = BTreeMap<u8, f64>;

    fn set_of(model: &Model) -> SortedSet {
        let mut set = SortedSet::new();
        for (member, score) in model {
            set.insert(&[*member], *score).unwrap();
        }
        set
    }

    fn pairs(set: &SortedSet) -> Vec<(f64, u8)> {
        set.iter()
            .map(|scored| (scored.score, scored.member[0]))
            .collect()
    }

    fn sorted(model: &Model) -> Vec<(f64, u8)> {
        let mut pairs: Vec<_> = model
            .iter()
            .map(|(member, score)| (*score, *member))
            .collect();
        pairs.sort_by(|left, right| left.partial_cmp(right).unwrap());
        pairs
    }

    fn score() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => (-5_i32..5).prop_map(f64::from),
            1 => Just(f64::INFINITY),
            1 => Just(f64::NEG_INFINITY),
        ]
    }

    fn model() -> impl Strategy<Value = Model> {
        proptest::collection::btree_map(0_u8..40, score(), 0..40)
    }

    proptest! {
        #[test]
        fn behaves_as_a_map_and_its_sorted_pairs(
            operations in proptest::collection::vec((0_u8..40, proptest::option::of(score())), 0..200),
        ) {
            let mut set = SortedSet::new();
            let mut model = Model::new();
            for (member, score) in operations {
                match score {
                    Some(score) => {
                        prop_assert_eq!(set.insert(&[member], score), Ok(model.insert(member, score)));
                    }
                    None => prop_assert_eq!(set.remove(&[member]), model.remove(&member)),
                }
                prop_assert_eq!(pairs(&set), sorted(&model));
            }
            for (rank, (score, member)) in sorted(&model).into_iter().enumerate() {
                prop_assert_eq!(set.rank(&[member]), Some((rank, score)));
            }
        }

        #[test]
        fn score_ranges_are_those_of_the_model(
            model in model(), min in score(), max in score(), exclusive: (bool, bool),
        ) {
            let set = set_of(&model);
            let ranks = set.ranks_by_score(
                ScoreBound { score: min, exclusive: exclusive.0 },
                ScoreBound { score: max, exclusive: exclusive.1 },
            );
            let found: Vec<f64> = set.range(ranks).map(|scored| scored.score).collect();
            let inside = |score: &f64| {
                (if exclusive.0 { *score > min } else { *score >= min })
                    && (if exclusive.1 { *score < max } else { *score <= max })
            };
            let expected: Vec<f64> =
                sorted(&model).into_iter().map(|(score, _)| score).filter(inside).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn removing_ranks_removes_the_members(model in model(), a: usize, b: usize) {
            let mut set = set_of(&model);
            let (a, b) = (a % (model.len() + 1), b % (model.len() + 1));
            let mut expected = sorted(&model);
            let slice = set.slice(a.min(b)..a.max(b));
            let drained: Vec<_> = expected.drain(a.min(b)..a.max(b)).collect();
            prop_assert_eq!(pairs(&slice), &*drained);
            for (rank, (score, member)) in drained.iter().enumerate() {
                prop_assert_eq!(slice.rank(&[*member]), Some((rank, *score)));
            }
            set.remove_range(a.min(b)..a.max(b));
            prop_assert_eq!(pairs(&set), &*expected);
            for member in model.keys() {
                let left = expected.iter().find(|(_, left)| left == member);
                prop_assert_eq!(set.score(&[*member]), left.map(|(score, _)| *score));
            }
        }

        #[test]
        fn operations_are_those_of_the_model(left in model(), right in model(), weight in -3_i8..3) {
            let weight = f64::from(weight);
            let sources = [
                Weighted { operand: Operand::SortedSet(set_of(&left)), weight },
                Weighted { operand: Operand::SortedSet(set_of(&right)), weight: 1.0 },
            ];
            let scaled: Model = left
                .iter()
                .map(|(member, score)| (*member, zero_if_nan(score * weight)))
                .collect();
            let mut union = scaled.clone();
            for (member, score) in &right {
                union.entry(*member).and_modify(|sum| *sum = zero_if_nan(*sum + score)).or_insert(*score);
            }
            prop_assert_eq!(pairs(&SortedSet::union(&sources, Aggregate::Sum, &|| ())), sorted(&union));
            let both: Model = scaled
                .iter()
                .filter_map(|(member, score)| Some((*member, score.min(*right.get(member)?))))
                .collect();
            prop_assert_eq!(pairs(&SortedSet::intersection(&sources, Aggregate::Min, &|| ())), sorted(&both));
            prop_assert_eq!(SortedSet::intersection_len(&sources, 3, &|| ()), both.len().min(3));
            let mut only = left.clone();
            only.retain(|member, _| !right.contains_key(member));
            prop_assert_eq!(pairs(&SortedSet::difference(&sources, &|| ())), sorted(&only));
        }
    }

    #[test]
    fn lex_ranges_of_equal_scores() {
        let set = set_of(&(b'a'..=b'g').map(|member| (member, 0.0)).collect());
        use LexBound::{Exclusive, Highest, Inclusive, Lowest};
        for (min, max, expected) in [
            (Lowest, Highest, 0..7),
            (Lowest, Inclusive(b"c"), 0..3),
            (Lowest, Exclusive(b"c"), 0..2),
            (Inclusive(b"b"), Highest, 1..7),
            (Exclusive(b"b"), Highest, 2..7),
            (Inclusive(b"aa"), Exclusive(b"g"), 1..6),
            (Highest, Lowest, 7..7),
            (Inclusive(b"f"), Inclusive(b"b"), 5..5),
        ] {
            assert_eq!(set.ranks_by_lex(min, max), expected, "{min:?} to {max:?}");
        }
    }

    #[test]
    fn nan_is_refused_and_changes_nothing() {
        let mut set = SortedSet::new();
        set.insert(b"member", 1.0).unwrap();
        assert_eq!(set.insert(b"member", f64::NAN), Err(NotANumber));
        assert_eq!(set.insert(b"other", f64::NAN), Err(NotANumber));
        assert_eq!(pairs(&set), [(1.0, b'm')]);
    }

    #[test]
    fn members_of_plain_sets_count_one() {
        let mut plain = Set::new();
        plain.insert(b"a");
        let sources = [
            Weighted {
                operand: Operand::Set(plain),
                weight: 2.0,
            },
            Weighted {
                operand: Operand::SortedSet(set_of(&[(b'a', 5.0)].into())),
                weight: 1.0,
            },
        ];
        assert_eq!(
            pairs(&SortedSet::union(&sources, Aggregate::Sum, &|| ())),
            [(7.0, b'a')]
        );
        assert_eq!(
            pairs(&SortedSet::intersection(&sources, Aggregate::Max, &|| ())),
            [(5.0, b'a')]
        );
    }

    #[test]
    fn a_snapshot_keeps_its_order_while_another_thread_moves_members() {
        let mut set = set_of(
            &(0..=255)
                .map(|member| (member, f64::from(member)))
                .collect(),
        );
        let snapshot = set.clone();
        let before = pairs(&snapshot);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for member in 0..=255 {
                    set.insert(&[member], -f64::from(member)).unwrap();
                }
            });
            for _ in 0..50 {
                assert_eq!(pairs(&snapshot), before);
            }
        });
        assert!(
            pairs(&set)
                .into_iter()
                .map(|(_, member)| member)
                .eq((0..=255).rev())
        );
    }
}
