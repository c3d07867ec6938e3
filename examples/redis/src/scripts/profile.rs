//! How long scripts take, by digest: what makes each script a request type of its own.
//!
//! ```text
//!   a run ends ─► record ─► [ tag | runs, mean ] ◄─ kind_of ◄─ classifier, on the net thread
//! ```
//!
//! The net thread knows EVALSHA by its digest, EVAL by a keyed hash of its body, and FCALL by one of the function's
//! name, whose measure goes when another library brings the name. The table has a fixed size, and each number has four
//! places in it. Readers and writers take no lock: two of them at once may lose a run, or give a script the measure of
//! another one for some runs. Both cost a wrong type for a moment and nothing else.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use psp_server::{CpuTimer, feedback};

use super::digest::Digest;
use crate::size_class;

/// Runs after which the mean counts.
const RUNS_MIN: u32 = 8;
/// A script of up to this mean counts as a write.
const WRITE_NS_MAX: u32 = 10_000;
/// A script of up to this mean counts as a range; a single run beyond it makes the script long.
const RANGE_NS_MAX: u32 = 500_000;
/// The weight of a run in the mean is 1 in this number.
const WEIGHT: u32 = 8;

/// How many times as long a short script takes in an unoptimised build. The bounds are those of an optimised one.
const BUILD_SLOWDOWN: u32 = if cfg!(debug_assertions) { 8 } else { 1 };

/// Number of places.
const PLACES: usize = 1 << 13;
/// Places that a tag may have.
const WAYS: usize = 4;
/// Longest body of which the classifier makes a hash.
const BODY_LEN_MAX: usize = 16 * 1024;

/// Longest name of a function of which the classifier makes a hash.
const NAME_LEN_MAX: usize = 64;

/// What a script's runs are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As short as a write.
    Write,
    /// As short as a range.
    Range,
    /// Long, or not measured often enough.
    Long,
}

/// Names a script in the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(u64);

/// Runs `run`, and returns what it returned and for how long it would have computed in an optimised build. What others
/// do on the core meanwhile does not count: on a busy machine, a worker of low priority may be without its core for
/// milliseconds at a time.
pub(crate) fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let timer = CpuTimer::start();
    let result = run();
    let busy = timer.elapsed() / BUILD_SLOWDOWN;
    if busy > Duration::from_nanos(RANGE_NS_MAX.into()) {
        turns_out_long();
    }
    (result, busy)
}

/// The request in hand runs a long script, whatever the classifier took it for: its time is that of a long request, and
/// not of a write.
pub(crate) fn turns_out_long() {
    if let Some(long) = size_class::of_long() {
        feedback::of_type(long);
    }
}

/// The service times of scripts.
#[derive(Debug)]
pub struct Profile {
    places: Box<[Place]>,
    keys: hashbrown::DefaultHashBuilder,
}

#[derive(Debug, Default)]
struct Place {
    tag: AtomicU64,
    /// Runs in the upper half, their mean in nanoseconds in the lower one.
    measure: AtomicU64,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| Place::default()).collect(),
            keys: hashbrown::DefaultHashBuilder::default(),
        }
    }
}

impl Profile {
    /// The tag of a script that is called by its digest.
    #[must_use]
    pub fn tag_of_digest(&self, digest: &Digest) -> Tag {
        Tag(self.keys.hash_one(digest.number()) | 1)
    }

    /// The tag of a script that is called by its body; `None` if it is too long.
    #[must_use]
    pub fn tag_of_body(&self, body: &[u8]) -> Option<Tag> {
        (body.len() <= BODY_LEN_MAX).then(|| Tag(self.keys.hash_one(body) | 1))
    }

    /// The tag of a function, whose name may be in either case; `None` if it is too long.
    #[must_use]
    pub fn tag_of_function(&self, name: &[u8]) -> Option<Tag> {
        let mut lower = [0; NAME_LEN_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        // Hashed with a word, lest a body of this text have the same tag.
        Some(Tag(self.keys.hash_one(("function", &*lower)) | 1))
    }

    /// Forgets the runs of `tag`: it is another function's now.
    pub fn forget(&self, tag: Tag) {
        for place in self.places_of(tag) {
            if place.tag.load(Ordering::Relaxed) == tag.0 {
                place.measure.store(0, Ordering::Relaxed);
            }
        }
    }

    fn places_of(&self, tag: Tag) -> &[Place] {
        let set = (tag.0 >> 1) as usize % (PLACES / WAYS);
        &self.places[set * WAYS..][..WAYS]
    }

    /// What the runs of `tag` were like.
    #[must_use]
    pub fn kind_of(&self, tag: Tag) -> Kind {
        let mut places = self.places_of(tag).iter();
        let place = places.find(|place| place.tag.load(Ordering::Relaxed) == tag.0);
        let measure = place.map_or(0, |place| place.measure.load(Ordering::Relaxed));
        let (runs, mean_ns) = parts(measure);
        if runs < RUNS_MIN || mean_ns > RANGE_NS_MAX {
            Kind::Long
        } else if mean_ns > WRITE_NS_MAX {
            Kind::Range
        } else {
            Kind::Write
        }
    }

    /// A run, which has not ended, takes long.
    pub(crate) fn note_long(&self, tag: Tag) {
        self.record(tag, Duration::MAX);
    }

    /// Counts a run.
    pub fn record(&self, tag: Tag, busy: Duration) {
        let busy_ns = u32::try_from(busy.as_nanos()).unwrap_or(u32::MAX);
        let places = self.places_of(tag);
        let known = places.iter().find(|place| place.tag.load(Ordering::Relaxed) == tag.0);
        let place = known.unwrap_or_else(|| {
            let least = |place: &&Place| place.measure.load(Ordering::Relaxed);
            let place = places.iter().min_by_key(least).unwrap_or(&places[0]);
            place.measure.store(0, Ordering::Relaxed);
            place.tag.store(tag.0, Ordering::Relaxed);
            place
        });
        let measure = after(place.measure.load(Ordering::Relaxed), busy_ns);
        place.measure.store(measure, Ordering::Relaxed);
    }
}

const fn parts(measure: u64) -> (u32, u32) {
    ((measure >> 32) as u32, measure as u32)
}

/// The measure after one more run.
fn after(measure: u64, busy_ns: u32) -> u64 {
    let (runs, mean_ns) = parts(measure);
    // A long run is measured anew: it takes as many short ones as at the beginning to make up for it.
    let (runs, mean_ns) = if busy_ns > RANGE_NS_MAX || runs == 0 {
        (u32::from(busy_ns <= RANGE_NS_MAX), busy_ns)
    } else {
        let runs = runs.saturating_add(1);
        let weight = i64::from(runs.min(WEIGHT));
        let mean_ns = i64::from(mean_ns);
        let mean_ns = mean_ns + (i64::from(busy_ns) - mean_ns) / weight;
        (runs, u32::try_from(mean_ns).unwrap_or(0))
    };
    u64::from(runs) << 32 | u64::from(mean_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(5);
    const MIDDLE: Duration = Duration::from_micros(100);
    const LONG: Duration = Duration::from_millis(5);

    #[test]
    fn a_script_is_long_until_it_was_measured_often_enough() {
        let profile = Profile::default();
        let tag = profile.tag_of_digest(&Digest::of(b"a"));
        for (busy, kind) in [(SHORT, Kind::Write), (MIDDLE, Kind::Range)] {
            profile.record(tag, LONG);
            for _ in 1..RUNS_MIN {
                profile.record(tag, busy);
                assert_eq!(profile.kind_of(tag), Kind::Long);
            }
            profile.record(tag, busy);
            assert_eq!(profile.kind_of(tag), kind);
        }
        profile.record(tag, LONG);
        assert_eq!(profile.kind_of(tag), Kind::Long, "one long run is enough");
        for _ in 0..RUNS_MIN {
            profile.record(tag, SHORT);
        }
        assert_eq!(profile.kind_of(tag), Kind::Write);
        profile.note_long(tag);
        assert_eq!(profile.kind_of(tag), Kind::Long, "and need not have ended");
        profile.record(tag, SHORT);
        assert_eq!(profile.kind_of(tag), Kind::Long, "it was not that long");
    }

    #[test]
    fn a_function_is_measured_by_its_name_until_it_is_another_one() {
        let profile = Profile::default();
        let tag = profile.tag_of_function(b"Sum").unwrap();
        assert_eq!(profile.tag_of_function(b"sUM"), Some(tag));
        assert_ne!(profile.tag_of_body(b"sum"), Some(tag));
        assert_eq!(profile.tag_of_function(&[b'x'; NAME_LEN_MAX + 1]), None);
        for _ in 0..RUNS_MIN {
            profile.record(tag, SHORT);
        }
        assert_eq!(profile.kind_of(tag), Kind::Write);
        profile.forget(tag);
        assert_eq!(profile.kind_of(tag), Kind::Long);
        for _ in 1..RUNS_MIN {
            profile.record(tag, SHORT);
            assert_eq!(profile.kind_of(tag), Kind::Long);
        }
    }

    #[test]
    fn the_mean_follows_the_runs() {
        let profile = Profile::default();
        let tag = profile.tag_of_body(b"return 1").unwrap();
        for (busy, kind) in [(SHORT, Kind::Write), (MIDDLE, Kind::Range), (SHORT, Kind::Write)] {
            for _ in 0..100 {
                profile.record(tag, busy);
            }
            assert_eq!(profile.kind_of(tag), kind);
        }
    }

    #[test]
    fn scripts_beyond_the_table_replace_others() {
        let profile = Profile::default();
        let tags = (0..PLACES * 4).map(|n| profile.tag_of_body(n.to_string().as_bytes()).unwrap());
        for tag in tags.clone() {
            for _ in 0..RUNS_MIN {
                profile.record(tag, SHORT);
            }
            assert_eq!(profile.kind_of(tag), Kind::Write);
        }
        let known = tags.filter(|tag| profile.kind_of(*tag) == Kind::Write);
        assert!(known.count() <= PLACES);
        assert_eq!(profile.tag_of_body(&[0; BODY_LEN_MAX + 1]), None);
    }
}
