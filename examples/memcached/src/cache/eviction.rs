//! Which item leaves when the memory is full.
//!
//! An eviction surveys the ends of the lists of some shards, which stand for all:
//!
//! ```text
//!   a list exceeds its share of their bytes   its oldest item moves to cold, or to warm if it was used again
//!   the oldest item of cold was used again    it moves to warm, and the next oldest is looked at
//!   else                                      it leaves; the oldest of hot or warm if cold is empty
//! ```
//!
//! Shards of many items keep the shares by themselves, and a few of them are enough. Of shards with few items the
//! survey covers more, all if need be: with items of half a megabyte one shard in ten has one.

use std::sync::atomic::Ordering;

use super::budget::{OutOfMemory, Reservation, Stamp};
use super::{ATTEMPTS_MAX, Cache, SHARDS, Segment, Shard};

/// Fewest shards that an eviction compares. The number is odd, so that in the next round each shard is
/// compared with different ones.
const SHARDS_COMPARED: usize = 5;

/// Fewest items of the shards that an eviction compares, if there are so many.
const ITEMS_COMPARED: usize = 64;

/// Most items that one eviction spares because they were used again.
const SPARED_MAX: usize = 64;

/// The lists of the shards that an eviction compares.
struct Survey<'a> {
    bytes: [usize; Segment::ALL.len()],
    /// Of each list the oldest item: its age, and its shard.
    oldest: [Option<(u32, &'a Shard)>; Segment::ALL.len()],
    items: usize,
    shards: usize,
}

impl Survey<'_> {
    /// Whether a list has more than its share, and an item that came there before the present store.
    fn has_excess(&self, segment: Segment) -> bool {
        let is_old = self.oldest[segment as usize].is_some_and(|(age, _)| age > 0);
        let share = segment.share_of(self.bytes.iter().sum(), self.items);
        is_old && self.bytes[segment as usize] > share
    }
}

impl Cache {
    /// Evicts items until `reserved` holds `bytes` more.
    pub(super) fn make_room<'a>(&'a self, reserved: &mut Reservation<'a>, bytes: usize) -> Result<(), OutOfMemory> {
        if bytes > self.budget.allowance_bytes() {
            return Err(OutOfMemory);
        }
        let mut fruitless = 0;
        loop {
            match self.budget.reserve(bytes) {
                Ok(more) => {
                    reserved.absorb(more);
                    return Ok(());
                }
                Err(OutOfMemory) if self.evict && fruitless < ATTEMPTS_MAX => {}
                Err(error) => return Err(error),
            }
            match self.evict_one() {
                true => fruitless = 0,
                false => fruitless += 1,
            }
        }
    }

    /// Evicts one item. Returns whether there is one.
    pub(super) fn evict_one(&self) -> bool {
        let stamp = self.budget.now();
        let hand = self.hand.load(Ordering::Relaxed);
        for spared in 0..=SPARED_MAX {
            let mut survey = self.survey(hand, stamp);
            for segment in [Segment::Hot, Segment::Warm] {
                if survey.has_excess(segment)
                    && let Some((_, shard)) = survey.oldest[segment as usize]
                {
                    shard.demote(segment, stamp);
                    // Else the oldest item of cold leaves, which is not the one that has moved.
                    if survey.oldest[Segment::Cold as usize].is_none() {
                        survey = self.survey(hand, stamp);
                    }
                }
            }
            let oldest = |segment| Some((segment, survey.oldest[segment as usize]?.1));
            let Some((segment, shard)) = Segment::OF_EVICTION.into_iter().find_map(oldest) else {
                return false;
            };
            if let Some(dead) = shard.evict(segment, &self.now(), stamp, spared < SPARED_MAX) {
                self.hand.fetch_add(survey.shards, Ordering::Relaxed);
                self.free(Some(dead));
                return true;
            }
        }
        false
    }

    /// Looks at shards from `hand` on, until they have enough items to compare.
    fn survey(&self, hand: usize, now: Stamp) -> Survey<'_> {
        let mut survey = Survey {
            bytes: Default::default(),
            oldest: Default::default(),
            items: 0,
            shards: 0,
        };
        while survey.shards < SHARDS && (survey.shards < SHARDS_COMPARED || survey.items < ITEMS_COMPARED) {
            let shard = &self.shards[hand.wrapping_add(survey.shards) % SHARDS];
            survey.shards += 1;
            survey.items += shard.len();
            for segment in Segment::ALL.into_iter().filter(|_| shard.len() > 0) {
                survey.bytes[segment as usize] += shard.bytes_of(segment);
                let oldest = &mut survey.oldest[segment as usize];
                if let Some(age) = shard.age_of(segment, now)
                    && oldest.is_none_or(|(other, _)| age > other)
                {
                    *oldest = Some((age, shard));
                }
            }
        }
        survey
    }
}
