//! Sorted sets: members with scores, ordered by score and then by member.

use std::cmp::Ordering;
use std::ops::Range;
use std::{fmt, vec};

use triomphe::Arc;

use crate::form::{Form, PackingLimit, PackingLimits};
use crate::hashed::{Entries, Entry, Hashed, HashedMap, Scan, Spot, merge};
use crate::packed::{Cell, Content, Packed, Placed, cell, number_cell};
use crate::repr::{Formed, Repr};
use crate::tree::{Item, Iter, Target, Tree, Way};
use crate::{Element, ElementRef, Set};

/// A sorted set; a clone is O(1), access by member, rank or score O(log n). A small one is packed.
#[derive(Clone, Default)]
pub struct SortedSet(Repr<ScoreTree>);

/// Two persistent trees. One maps members to scores, in hash order. The other holds (score, member) in that order, with
/// ranks.
#[derive(Clone, Default)]
struct ScoreTree {
    scores: HashedMap<f64>,
    order: Tree<Vec<ScoredMember>>,
    form: Form,
}

/// A member of a sorted set with its score, which is never NaN.
#[derive(Clone, Copy, Debug)]
pub struct Scored<'s> {
    /// The score.
    pub score: f64,
    /// The member.
    pub member: ElementRef<'s>,
}

/// A member of its own with its score, which is never NaN.
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
    /// The member as it is in a sorted set.
    #[must_use]
    pub fn scored(&self) -> Scored<'_> {
        Scored { score: self.score, member: (&self.member).into() }
    }

    fn cmp_with(&self, score: f64, member: &[u8]) -> Ordering {
        compare((self.score, &self.member), (score, member))
    }
}

impl Scored<'_> {
    /// The member as one of its own.
    #[must_use]
    pub fn to_member(&self) -> ScoredMember {
        ScoredMember { score: self.score, member: self.member.to_element() }
    }
}

/// The order of members in a sorted set.
fn compare(left: (f64, &[u8]), right: (f64, &[u8])) -> Ordering {
    // Scores are never NaN, and both zeros are equal.
    let by_score = left.0.partial_cmp(&right.0).unwrap_or(Ordering::Equal);
    by_score.then_with(|| left.1.cmp(right.1))
}

/// The score as it is stored.
fn number(score: f64) -> Result<f64, NotANumber> {
    // Zero has no sign.
    if score.is_nan() {
        Err(NotANumber)
    } else {
        Ok(score + 0.0)
    }
}

/// Members of a packed set with their places.
type Records<'s> = Vec<(Scored<'s>, Range<usize>)>;

/// Whole numbers are stored as such up to here.
const WHOLE_MAX: f64 = (1_u64 << 53) as f64;

fn score_cell(score: f64) -> Cell {
    if score.fract() == 0.0 && score.abs() <= WHOLE_MAX {
        return number_cell(score as i64);
    }
    let bits = score.to_bits().to_le_bytes();
    let mut cell = Cell::from_slice(&[bits.len() as u8]);
    cell.extend_from_slice(&bits);
    cell
}

fn score_of(cell: &Placed<'_>) -> f64 {
    match cell.content() {
        Content::Number(number) => number as f64,
        Content::Text(bits) => bits.first_chunk().map_or(0.0, |bits| f64::from_le_bytes(*bits)),
    }
}

/// The next member with its place.
fn scored<'s>(walk: &mut impl Iterator<Item = Placed<'s>>) -> Option<(Scored<'s>, Range<usize>)> {
    let (member, score) = (walk.next()?, walk.next()?);
    let scored = Scored { score: score_of(&score), member: member.element() };
    Some((scored, member.start..score.end()))
}

fn records(cells: &Packed) -> Records<'_> {
    let mut walk = cells.cells();
    std::iter::from_fn(|| scored(&mut walk)).collect()
}

/// The cells of a member and of its score.
fn find<'s>(cells: &'s Packed, name: &Cell) -> Option<[Placed<'s>; 2]> {
    let mut walk = cells.cells();
    while let (Some(member), Some(score)) = (walk.next(), walk.next()) {
        if member.bytes == &**name {
            return Some([member, score]);
        }
    }
    None
}

/// A member that is looked for in the order of a sorted set.
struct Wanted<'m> {
    score: f64,
    member: &'m [u8],
}

impl Target<ScoredMember> for Wanted<'_> {
    #[inline]
    fn is_behind(&self, other: &ScoredMember) -> bool {
        other.score < self.score || (other.score == self.score && *other.member < *self.member)
    }

    /// Most scores lie evenly between near ones.
    #[inline]
    fn guess(&self, low: Option<&ScoredMember>, high: &ScoredMember, len: usize) -> Option<usize> {
        let low = low?.score;
        (low < high.score).then(|| ((self.score - low) / (high.score - low) * len as f64) as usize)
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

fn pair(entry: &Entry<f64>) -> Scored<'_> {
    Scored { score: entry.value, member: (&entry.key.name).into() }
}

impl ScoreTree {
    fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let (spot, old) = self.scores.seek(member);
        let old = old.copied();
        self.set_at(&spot, (member, score), old);
        old
    }

    /// Sets the score of a member at its place among the scores, which has the `old` one.
    fn set_at(&mut self, spot: &Spot, (member, score): (&[u8], f64), old: Option<f64>) {
        self.form.note_len(member.len());
        let element = match old {
            Some(old) if old.to_bits() == score.to_bits() => return,
            Some(old) => {
                self.scores.set_at(spot, score);
                self.take_from_order(old, member)
            }
            None => {
                let element = Element::from(member);
                self.scores.insert_at(spot, element.clone(), score, 0);
                element
            }
        };
        let way = self.way_to(score, member);
        self.order.insert_at(&way, ScoredMember { score, member: element });
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.scores.remove(member)?;
        self.take_from_order(score, member);
        Some(score)
    }

    /// Takes a member that is there.
    fn take_from_order(&mut self, score: f64, member: &[u8]) -> Element {
        self.order.remove_at(&self.way_to(score, member)).member
    }

    fn way_to(&self, score: f64, member: &[u8]) -> Way {
        self.order.seek_way(Wanted { score, member }).0
    }
}

impl Formed for ScoreTree {
    type Value = f64;

    fn names(&self) -> &HashedMap<f64> {
        &self.scores
    }

    fn form(&self) -> Form {
        self.form
    }

    fn form_mut(&mut self) -> &mut Form {
        &mut self.form
    }
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
        match &self.0 {
            Repr::Packed { cells, .. } => cells.len() / 2,
            Repr::Tree(tree) => tree.order.len(),
        }
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether Redis would keep it packed, as a listpack. This changes once, when an update ends.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.0.form().is_packed()
    }

    /// Gives the set the form that it has after an update.
    pub(crate) fn settle(&mut self, limits: &PackingLimits) {
        let len = self.len();
        self.0
            .settle(len, limits.get(PackingLimit::SortedSetEntries), limits.get(PackingLimit::SortedSetBytes));
    }

    /// Bytes of a packed set; `None` for another.
    pub(crate) fn packed_bytes(&self) -> Option<usize> {
        self.0.packed_bytes()
    }

    /// The scores of the members as a tree.
    fn to_map(&self) -> HashedMap<f64> {
        match &self.0 {
            Repr::Packed { cells, .. } => {
                let mut map = HashedMap::default();
                for (scored, _) in records(cells) {
                    map.insert(&scored.member, scored.score);
                }
                map
            }
            Repr::Tree(tree) => tree.scores.clone(),
        }
    }

    /// The score of `member`.
    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Repr::Packed { cells, .. } => {
                let [_, score] = find(cells, &cell(member)?)?;
                Some(score_of(&score))
            }
            Repr::Tree(tree) => tree.scores.get(member).copied(),
        }
    }

    /// Sets the score of `member` and returns the one it replaces.
    ///
    /// # Errors
    /// [`NotANumber`] for NaN; the set is unchanged.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Result<Option<f64>, NotANumber> {
        self.set(member, |_| Some(score))
    }

    /// Sets the score of `member` to what `choose` makes of the old one, if to anything, and returns the old one.
    ///
    /// # Errors
    /// [`NotANumber`] for NaN; the set is unchanged.
    pub fn set(
        &mut self,
        member: &[u8],
        choose: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Result<Option<f64>, NotANumber> {
        let Repr::Tree(tree) = &mut self.0 else {
            let old = self.score(member);
            return choose(old).map_or(Ok(old), |score| self.insert_packed(member, number(score)?));
        };
        let (spot, old) = tree.scores.seek(member);
        let old = old.copied();
        if let Some(score) = choose(old) {
            Arc::make_mut(tree).set_at(&spot, (member, number(score)?), old);
        }
        Ok(old)
    }

    /// [`insert`](Self::insert) of a set that is packed so far.
    fn insert_packed(&mut self, member: &[u8], score: f64) -> Result<Option<f64>, NotANumber> {
        let (cells, form) = match &mut self.0 {
            Repr::Tree(tree) => return Ok(Arc::make_mut(tree).insert(member, score)),
            Repr::Packed { cells, form } => (cells, form),
        };
        form.note_len(member.len());
        let new = [cell(member), Some(score_cell(score))];
        if let [Some(name), Some(new_score)] = &new
            && cells.has_room_for(&[name, new_score])
        {
            let old = find(cells, name).map(|[member, score]| (score_of(&score), member.start..score.end()));
            let replaced = old.as_ref().map(|(old, _)| *old);
            if replaced.map(f64::to_bits) == Some(score.to_bits()) {
                return Ok(replaced);
            }
            let is_behind = |(other, _): &(Scored<'_>, Range<usize>)| {
                compare((other.score, &other.member), (score, member)) == Ordering::Greater
            };
            let behind = records(cells).into_iter().find(is_behind);
            let mut place = behind.map_or(cells.end(), |(_, place)| place.start);
            match old {
                // Its place stays the same.
                Some((_, old)) if place == old.start || place == old.end => {
                    cells.replace(old, 2, &[name, new_score]);
                }
                old => {
                    if let Some((_, old)) = old {
                        if old.end <= place {
                            place -= old.len();
                        }
                        cells.remove(old, 2);
                    }
                    cells.replace(place..place, 0, &[name, new_score]);
                }
            }
            return Ok(replaced);
        }
        let mut tree = ScoreTree {
            scores: HashedMap::default(),
            order: Tree::default(),
            form: *form,
        };
        for (scored, _) in records(cells) {
            tree.insert(&scored.member, scored.score);
        }
        let replaced = tree.insert(member, score);
        self.0 = Repr::Tree(Arc::new(tree));
        Ok(replaced)
    }

    /// Removes `member` and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Repr::Packed { cells, .. } => {
                let [member, score] = find(cells, &cell(member)?)?;
                let (removed, place) = (score_of(&score), member.start..score.end());
                cells.remove(place, 2);
                Some(removed)
            }
            Repr::Tree(tree) => Arc::make_mut(tree).remove(member),
        }
    }

    /// How many members in the order of the set satisfy `below`, which holds for the first of them.
    fn count(&self, below: impl Fn(Scored<'_>) -> bool) -> usize {
        match &self.0 {
            Repr::Packed { cells, .. } => records(cells).partition_point(|(scored, _)| below(*scored)),
            Repr::Tree(tree) => tree.order.seek(|member: &ScoredMember| below(member.scored())).0,
        }
    }

    /// The score of `member`, and how many members are ordered before it.
    #[must_use]
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        let is_before = |other: Scored<'_>| compare((other.score, &other.member), (score, member)) == Ordering::Less;
        Some((self.count(is_before), score))
    }

    /// The member of the given rank; a random rank is a uniform choice.
    #[must_use]
    pub fn at(&self, rank: usize) -> Option<Scored<'_>> {
        match &self.0 {
            Repr::Packed { cells, .. } => {
                let mut behind = cells.cells().skip(2 * rank);
                scored(&mut behind).map(|(scored, _)| scored)
            }
            Repr::Tree(tree) => tree.order.get(rank).map(ScoredMember::scored),
        }
    }

    /// Removes and returns the member of the given rank.
    pub fn remove_at(&mut self, rank: usize) -> Option<ScoredMember> {
        match &mut self.0 {
            Repr::Packed { cells, .. } => {
                let (scored, place) = scored(&mut cells.cells().skip(2 * rank))?;
                let member = scored.to_member();
                cells.remove(place, 2);
                Some(member)
            }
            Repr::Tree(tree) => {
                let ScoreTree { scores, order, .. } = Arc::make_mut(tree);
                let member = order.remove(rank)?;
                scores.remove(&member.member);
                Some(member)
            }
        }
    }

    /// All members from the lowest score on.
    #[must_use]
    pub fn iter(&self) -> ScoredMembers<'_> {
        self.range(0..self.len())
    }

    /// The members whose ranks are in `ranks`.
    ///
    /// # Panics
    /// If `ranks` does not lie within the set.
    #[must_use]
    pub fn range(&self, ranks: Range<usize>) -> ScoredMembers<'_> {
        ScoredMembers(match &self.0 {
            Repr::Packed { cells, .. } => {
                let mut records = records(cells);
                records.truncate(ranks.end);
                records.drain(..ranks.start);
                Walk::Packed(records.into_iter())
            }
            Repr::Tree(tree) => Walk::Tree(tree.order.range(ranks)),
        })
    }

    /// A sorted set of the members whose ranks are in `ranks`. Calls `visit` for each, more than once.
    ///
    /// # Panics
    /// If `ranks` does not lie within the set.
    #[must_use]
    pub fn slice(&self, ranks: Range<usize>, visit: &dyn Fn()) -> Self {
        let members = self.range(ranks).inspect(|_| visit());
        let sorted = members.map(|scored| scored.to_member()).collect();
        let scores = |sorted: &[ScoredMember]| {
            let mut scores = HashedMap::default();
            for scored in sorted {
                visit();
                scores.insert(&scored.member, scored.score);
            }
            scores
        };
        Self::of(sorted, scores, visit)
    }

    /// A sorted set of the members of `scores`. Calls `visit` for each, more than once.
    fn of_scores(scores: HashedMap<f64>, visit: &dyn Fn()) -> Self {
        let entries = scores.iter().inspect(|_| visit());
        let mut sorted: Vec<ScoredMember> = entries.map(|entry| pair(entry).to_member()).collect();
        sorted.sort_unstable_by(|left, right| {
            visit();
            left.cmp_with(right.score, &right.member)
        });
        Self::of(sorted, |_| scores, visit)
    }

    /// A sorted set of these members, which are in their order. `scores` makes their map, if it needs one.
    fn of(sorted: Vec<ScoredMember>, scores: impl FnOnce(&[ScoredMember]) -> HashedMap<f64>, visit: &dyn Fn()) -> Self {
        let form = Form::of_lens(sorted.iter().map(|scored| scored.member.len()));
        let mut cells = Vec::new();
        let packable = sorted.iter().take(Packed::CELLS_MAX / 2 + 1);
        let all_fit = packable.into_iter().all(|scored| {
            let name = cell(&scored.member);
            let fits = name.is_some();
            cells.extend(name.map(|name| [name, score_cell(scored.score)]).into_iter().flatten());
            fits
        });
        if let Some(cells) = all_fit.then(|| Packed::of(&cells)).flatten() {
            return Self(Repr::Packed { cells, form });
        }
        Self(Repr::Tree(Arc::new(ScoreTree {
            scores: scores(&sorted),
            order: sorted.into_iter().inspect(|_| visit()).collect(),
            form,
        })))
    }

    /// The ranks of the members with scores from `min` to `max`; empty if there are none.
    #[must_use]
    pub fn ranks_by_score(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let below =
            |bound: ScoreBound, score: f64, counted: bool| score < bound.score || (counted && score == bound.score);
        let start = self.count(|scored| below(min, scored.score, min.exclusive));
        let end = self.count(|scored| below(max, scored.score, !max.exclusive));
        start..end.max(start)
    }

    /// The ranks of the members from `min` to `max` in a set whose scores are all equal. For other
    /// sets the result is an unspecified range.
    #[must_use]
    pub fn ranks_by_lex(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let start = self.count(|scored| min.starts_after(&scored.member));
        let end = self.count(|scored| max.ends_after(&scored.member));
        start..end.max(start)
    }

    /// Removes the members whose ranks are in `ranks`. Calls `visit` for each.
    ///
    /// # Panics
    /// If `ranks` does not lie within the set.
    pub fn remove_range(&mut self, ranks: Range<usize>, visit: &dyn Fn()) {
        match &mut self.0 {
            Repr::Packed { cells, .. } => {
                let records = records(cells);
                if let [first, .., last] | [first @ last] = &records[ranks.clone()] {
                    let place = first.1.start..last.1.end;
                    drop(records);
                    cells.remove(place, 2 * ranks.len());
                }
            }
            Repr::Tree(tree) => {
                let ScoreTree { scores, order, .. } = Arc::make_mut(tree);
                for scored in order.range(ranks.clone()) {
                    visit();
                    scores.remove(&scored.member);
                }
                order.remove_range(ranks);
            }
        }
    }

    /// The next `count` members of a scan at `cursor`; 0 starts a scan. The scan returns a member
    /// that is present throughout exactly once. A small set is returned in one step, as Redis does.
    #[must_use]
    pub fn scan(&self, cursor: u64, count: usize) -> Scan<ScoredMembers<'_>> {
        let some = |entries| ScoredMembers(Walk::Hashed(entries));
        self.0.scan(cursor, count, || self.iter(), some)
    }
}

/// Walks members of a [`SortedSet`].
pub struct ScoredMembers<'s>(Walk<'s>);

enum Walk<'s> {
    Packed(vec::IntoIter<(Scored<'s>, Range<usize>)>),
    Tree(Iter<'s, Vec<ScoredMember>>),
    Hashed(Entries<'s, f64>),
}

impl<'s> Iterator for ScoredMembers<'s> {
    type Item = Scored<'s>;

    fn next(&mut self) -> Option<Scored<'s>> {
        match &mut self.0 {
            Walk::Packed(records) => records.next().map(|(scored, _)| scored),
            Walk::Tree(members) => members.next().map(ScoredMember::scored),
            Walk::Hashed(entries) => entries.next().map(pair),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Walk::Packed(records) => records.size_hint(),
            Walk::Tree(members) => members.size_hint(),
            Walk::Hashed(entries) => entries.size_hint(),
        }
    }

    fn fold<B, F: FnMut(B, Scored<'s>) -> B>(self, init: B, mut visit: F) -> B {
        match self.0 {
            Walk::Packed(records) => records.fold(init, |folded, (scored, _)| visit(folded, scored)),
            Walk::Tree(members) => members.fold(init, |folded, member| visit(folded, member.scored())),
            Walk::Hashed(entries) => entries.fold(init, |folded, entry| visit(folded, pair(entry))),
        }
    }
}

impl DoubleEndedIterator for ScoredMembers<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Walk::Packed(records) => records.next_back().map(|(scored, _)| scored),
            Walk::Tree(members) => members.next_back().map(ScoredMember::scored),
            Walk::Hashed(entries) => entries.next_back().map(pair),
        }
    }
}

impl ExactSizeIterator for ScoredMembers<'_> {}

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

    fn to_map(&self) -> OperandMap {
        match self {
            Self::Set(set) => OperandMap::Set(set.to_map()),
            Self::SortedSet(set) => OperandMap::SortedSet(set.to_map()),
        }
    }
}

/// The members of an operand as a tree.
enum OperandMap {
    Set(HashedMap<()>),
    SortedSet(HashedMap<f64>),
}

impl OperandMap {
    fn len(&self) -> usize {
        match self {
            Self::Set(map) => map.len(),
            Self::SortedSet(map) => map.len(),
        }
    }

    fn get(&self, member: &Hashed) -> Option<f64> {
        match self {
            Self::Set(map) => map.get_hashed(member).map(|()| 1.0),
            Self::SortedSet(map) => map.get_hashed(member).copied(),
        }
    }

    fn entries(&self) -> OperandEntries<'_> {
        match self {
            Self::Set(map) => OperandEntries::Set(map.iter()),
            Self::SortedSet(map) => OperandEntries::SortedSet(map.iter()),
        }
    }
}

enum OperandEntries<'a> {
    Set(Entries<'a, ()>),
    SortedSet(Entries<'a, f64>),
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

/// A source of an operation while it runs.
struct Source {
    map: OperandMap,
    weight: f64,
}

impl Source {
    fn all(sources: &[Weighted]) -> Vec<Self> {
        let source = |source: &Weighted| Self { map: source.operand.to_map(), weight: source.weight };
        sources.iter().map(source).collect()
    }

    fn scaled(&self, score: f64) -> f64 {
        // Zero has no sign.
        zero_if_nan(score * self.weight) + 0.0
    }
}

fn entry((key, value): (&Hashed, f64)) -> Entry<f64> {
    Entry { key: key.clone(), value }
}

impl SortedSet {
    /// The members of any of `sources`, with their scores aggregated. Calls `visit` for each member
    /// that it examines, and as it orders the result.
    #[must_use]
    pub fn union(sources: &[Weighted], aggregate: Aggregate, visit: &dyn Fn()) -> Self {
        let sources = Source::all(sources);
        let entries = sources.iter().map(|source| source.map.entries().inspect(|_| visit())).collect();
        let merged = merge(entries, |folded, index, score| {
            let score = sources[index].scaled(score);
            folded.map_or(score, |folded| aggregate.combine(folded, score))
        });
        Self::of_scores(merged.map(entry).collect(), visit)
    }

    /// The members of all of `sources`, with their scores aggregated. Calls `visit` for each member
    /// that it examines, and as it orders the result.
    #[must_use]
    pub fn intersection(sources: &[Weighted], aggregate: Aggregate, visit: &dyn Fn()) -> Self {
        let sources = Source::all(sources);
        let shared = shared(&sources, visit).map(|(key, _)| {
            let scores = sources.iter().filter_map(|source| Some(source.scaled(source.map.get(key)?)));
            entry((key, scores.reduce(|left, right| aggregate.combine(left, right)).unwrap_or(0.0)))
        });
        Self::of_scores(shared.collect(), visit)
    }

    /// The members of the first of `sources` that are in no other, with their scores in the first.
    /// Calls `visit` for each member of the first, and as it orders the result.
    #[must_use]
    pub fn difference(sources: &[Weighted], visit: &dyn Fn()) -> Self {
        let sources = Source::all(sources);
        let Some((first, others)) = sources.split_first() else {
            return Self::new();
        };
        let entries = first.map.entries().inspect(|_| visit());
        let left = entries.filter(|(key, _)| !others.iter().any(|other| other.map.get(key).is_some()));
        Self::of_scores(left.map(entry).collect(), visit)
    }

    /// How many members all of `sources` share, counted up to `limit`. Calls `visit` for each member
    /// that it examines.
    #[must_use]
    pub fn intersection_len(sources: &[Weighted], limit: usize, visit: &dyn Fn()) -> usize {
        shared(&Source::all(sources), visit).take(limit).count()
    }
}

/// The members that all sources share, with their scores in the smallest source.
fn shared<'s>(sources: &'s [Source], visit: &'s dyn Fn()) -> impl Iterator<Item = (&'s Hashed, f64)> {
    let smallest = sources.iter().min_by_key(|source| source.map.len());
    smallest.into_iter().flat_map(|smallest| {
        let entries = smallest.map.entries().inspect(|_| visit());
        entries.filter(|(key, _)| sources.iter().all(|source| source.map.get(key).is_some()))
    })
}

impl fmt::Debug for SortedSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.iter().map(|scored| (scored.member, scored.score));
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
        set.iter().map(|scored| (scored.score, scored.member[0])).collect()
    }

    fn sorted(model: &Model) -> Vec<(f64, u8)> {
        let mut pairs: Vec<_> = model.iter().map(|(member, score)| (*score, *member)).collect();
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

    #[test]
    fn whole_scores_take_few_bytes_and_ranks_begin_at_the_lowest() {
        for (score, len) in [(1.0, 2), (1.5, 9), (WHOLE_MAX, 8), (2.0 * WHOLE_MAX, 9)] {
            let cells = Packed::of(&[score_cell(score)]).expect("there is room");
            assert_eq!(score_cell(score).len(), len, "{score}");
            assert_eq!(cells.cells().next().map(|cell| score_of(&cell)), Some(score));
        }
        let mut set = SortedSet::new();
        for (member, score) in [(b"b", 2.0), (b"a", 1.0), (b"c", 3.0)] {
            set.insert(member, score).expect("a number");
        }
        let names = [0, 1, 2, 3].map(|rank| set.at(rank).map(|scored| scored.member[0]));
        assert_eq!(names, [Some(b'a'), Some(b'b'), Some(b'c'), None]);
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
            let slice = set.slice(a.min(b)..a.max(b), &|| ());
            let drained: Vec<_> = expected.drain(a.min(b)..a.max(b)).collect();
            prop_assert_eq!(pairs(&slice), &*drained);
            for (rank, (score, member)) in drained.iter().enumerate() {
                prop_assert_eq!(slice.rank(&[*member]), Some((rank, *score)));
            }
            set.remove_range(a.min(b)..a.max(b), &|| ());
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
            Weighted { operand: Operand::Set(plain), weight: 2.0 },
            Weighted {
                operand: Operand::SortedSet(set_of(&[(b'a', 5.0)].into())),
                weight: 1.0,
            },
        ];
        assert_eq!(pairs(&SortedSet::union(&sources, Aggregate::Sum, &|| ())), [(7.0, b'a')]);
        assert_eq!(pairs(&SortedSet::intersection(&sources, Aggregate::Max, &|| ())), [(5.0, b'a')]);
    }

    #[test]
    fn a_snapshot_keeps_its_order_while_another_thread_moves_members() {
        let mut set = set_of(&(0..=255).map(|member| (member, f64::from(member))).collect());
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
        assert!(pairs(&set).into_iter().map(|(_, member)| member).eq((0..=255).rev()));
    }
}
