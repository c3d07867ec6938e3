//! Which keys go when memory is short.
//!
//! As Redis does, an eviction looks at a few random keys, and keeps the best candidates of all samples so far. So it
//! costs a microsecond or two whatever the number of keys, and comes close to the exact order.
//!
//! ```text
//!   random keys ──► candidates, 16, by rank ──► the highest, if it still has its rank: removed
//! ```

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::cache_line::fetch;
use crate::databases::Databases;
use crate::entry::Entry;
use crate::hashed::position_of;
use crate::keyspace::Keyspace;

/// Candidates that are remembered from earlier samples.
const CANDIDATES_MAX: usize = 16;
/// Neighbours that are looked at together.
const NEIGHBOURS: usize = 16;
/// Longest key that a candidate holds without an allocation.
const USUAL_KEY_LEN_MAX: usize = 32;

/// Which keys may be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// Those that expire.
    Volatile,
}

/// Which key is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The one that was not used for the longest time.
    Lru,
    /// The one that is used least.
    Lfu,
    /// The one that expires first.
    Ttl,
    Random,
}

/// Which keys are evicted, in the words of Redis's `maxmemory-policy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// None.
    #[default]
    NoEviction,
    /// Those that were not used for the longest time.
    AllKeysLru,
    /// Those that are used least.
    AllKeysLfu,
    /// Any.
    AllKeysRandom,
    /// Of those that expire, the ones that were not used for the longest time.
    VolatileLru,
    /// Of those that expire, the ones that are used least.
    VolatileLfu,
    /// Any of those that expire.
    VolatileRandom,
    /// Those that expire first.
    VolatileTtl,
}

impl EvictionPolicy {
    /// All policies, with their names.
    pub const ALL: [(&str, Self); 8] = [
        ("volatile-lru", Self::VolatileLru),
        ("volatile-lfu", Self::VolatileLfu),
        ("volatile-random", Self::VolatileRandom),
        ("volatile-ttl", Self::VolatileTtl),
        ("allkeys-lru", Self::AllKeysLru),
        ("allkeys-lfu", Self::AllKeysLfu),
        ("allkeys-random", Self::AllKeysRandom),
        ("noeviction", Self::NoEviction),
    ];

    const fn rule(self) -> Option<(Scope, Order)> {
        Some(match self {
            Self::NoEviction => return None,
            Self::AllKeysLru => (Scope::All, Order::Lru),
            Self::AllKeysLfu => (Scope::All, Order::Lfu),
            Self::AllKeysRandom => (Scope::All, Order::Random),
            Self::VolatileLru => (Scope::Volatile, Order::Lru),
            Self::VolatileLfu => (Scope::Volatile, Order::Lfu),
            Self::VolatileRandom => (Scope::Volatile, Order::Random),
            Self::VolatileTtl => (Scope::Volatile, Order::Ttl),
        })
    }

    /// Whether the policy goes by how often keys are used.
    #[must_use]
    pub const fn is_lfu(self) -> bool {
        matches!(self.rule(), Some((_, Order::Lfu)))
    }

    /// Whether the policy goes by when keys were used last.
    #[must_use]
    pub const fn is_lru(self) -> bool {
        matches!(self.rule(), Some((_, Order::Lru)))
    }

    /// The name in Redis's configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, policy)| *policy == self);
        found.map_or("", |(name, _)| name)
    }
}

impl fmt::Display for EvictionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No eviction policy has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "argument must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, \
     allkeys-lfu, allkeys-random, noeviction"
)]
pub struct UnknownEvictionPolicy;

impl FromStr for EvictionPolicy {
    type Err = UnknownEvictionPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownEvictionPolicy> {
        let mut all = Self::ALL.iter();
        let found = all.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, policy)| *policy).ok_or(UnknownEvictionPolicy)
    }
}

/// A key that may be evicted.
#[derive(Debug)]
struct Candidate {
    /// The key of the highest rank goes first.
    rank: u64,
    /// The number of its database.
    database: usize,
    /// Of the key. Candidates with other positions are other keys.
    position: u64,
    key: SmallVec<[u8; USUAL_KEY_LEN_MAX]>,
}

/// The best candidates so far, the best one last.
#[derive(Debug, Default)]
struct Candidates {
    /// The order in which the ranks are.
    order: Option<Order>,
    best: Vec<Candidate>,
}

impl Candidates {
    /// Forgets what was ranked in another order.
    fn order_by(&mut self, order: Order) {
        if self.order != Some(order) {
            self.order = Some(order);
            self.best.clear();
        }
    }

    fn offer(&mut self, rank: u64, database: usize, entry: &Entry) {
        let is_full = self.best.len() == CANDIDATES_MAX;
        if is_full && self.best[0].rank >= rank {
            return;
        }
        let key = entry.key();
        let position = position_of(key);
        let is_known = |candidate: &Candidate| {
            candidate.position == position && candidate.database == database && *candidate.key == *key
        };
        if self.best.iter().any(is_known) {
            return;
        }
        if is_full {
            self.best.remove(0);
        }
        let place = self.best.partition_point(|other| other.rank <= rank);
        let candidate = Candidate { rank, database, position, key: SmallVec::from_slice(key) };
        self.best.insert(place, candidate);
        // The candidate's value is freed soon. The entry, which says where it is, is in the caches now.
        entry.bytes_address().into_iter().for_each(fetch);
    }
}

/// Evicts keys of all databases.
#[derive(Debug, Default)]
pub struct Evictor {
    candidates: Mutex<Candidates>,
    /// Where the next random key comes from.
    next_database: AtomicUsize,
    evicted_keys: AtomicU64,
}

/// What an eviction came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Approximately so many bytes are free, or will be soon.
    Freed(usize),
    /// No key may be evicted.
    Nothing,
}

impl Evictor {
    /// Keys that were evicted.
    #[must_use]
    pub fn evicted_keys(&self) -> u64 {
        self.evicted_keys.load(Ordering::Relaxed)
    }

    /// Evicts keys until `bytes` are free, at most `keys_max`, and calls `evicted` with the number of the database and
    /// the key. Looks at `samples` keys of each database for each, on average.
    ///
    /// One thread at a time uses the candidates of earlier calls. Others do without them rather than wait: the thread
    /// may have lost its core.
    pub fn evict(
        &self,
        databases: &Databases,
        policy: EvictionPolicy,
        samples: usize,
        (bytes, keys_max): (usize, usize),
        mut evicted: impl FnMut(usize, &[u8]),
    ) -> Eviction {
        let Some((scope, order)) = policy.rule() else {
            return Eviction::Nothing;
        };
        let (mut shared, mut own) = (self.candidates.try_lock(), Candidates::default());
        let candidates = shared.as_deref_mut().unwrap_or(&mut own);
        candidates.order_by(order);
        let (mut freed, mut keys, mut looks) = (0, 0, 0);
        while freed < bytes.max(1) && keys < keys_max {
            let one = self.evict_one(databases, candidates, (scope, order), samples, &mut looks);
            let Some((candidate, bytes)) = one else {
                break;
            };
            evicted(candidate.database, &candidate.key);
            freed += bytes;
            keys += 1;
        }
        self.evicted_keys.fetch_add(keys as u64, Ordering::Relaxed);
        match keys {
            0 => Eviction::Nothing,
            _ => Eviction::Freed(freed),
        }
    }

    /// Evicts one key. Returns it with its bytes. `looks` counts the keys that were looked at and are left for others.
    fn evict_one(
        &self,
        databases: &Databases,
        candidates: &mut Candidates,
        (scope, order): (Scope, Order),
        samples: usize,
        looks: &mut usize,
    ) -> Option<(Candidate, usize)> {
        let is_volatile = scope == Scope::Volatile;
        // Other clients may remove each of them first.
        for _ in 0..CANDIDATES_MAX {
            if *looks < samples || candidates.best.is_empty() {
                *looks += self.find_candidates(databases, candidates, (scope, order), samples);
            }
            while let Some(candidate) = candidates.best.pop() {
                let keyspace = databases.get(candidate.database);
                let next = candidates.best.last().map_or(0, |next| next.rank);
                // What was used meanwhile is no longer the best.
                let is_best = |entry: &Entry| {
                    let rank = rank(keyspace, order, entry);
                    (!is_volatile || entry.expire_at_ms().is_some())
                        && (order == Order::Random || rank >= candidate.rank.min(next))
                };
                if let Some(bytes) = keyspace.evict(candidate.position, &candidate.key, is_best) {
                    *looks = looks.saturating_sub(samples);
                    return Some((candidate, bytes));
                }
            }
        }
        None
    }

    /// Looks at some keys of each database; at one key of one database if any key will do. Returns at how many of each.
    fn find_candidates(
        &self,
        databases: &Databases,
        candidates: &mut Candidates,
        (scope, order): (Scope, Order),
        samples: usize,
    ) -> usize {
        let used: SmallVec<[&Keyspace; 16]> = databases.used().collect();
        let (first, samples) = match (order, scope) {
            (Order::Random, _) => (self.next_database.fetch_add(1, Ordering::Relaxed), 1),
            (Order::Ttl, _) | (_, Scope::Volatile) => (0, samples),
            (_, Scope::All) => (0, samples.max(NEIGHBOURS)),
        };
        for turn in 0..used.len() {
            let keyspace = used[(first + turn) % used.len()];
            let mut found = 0;
            while found < samples {
                let mut offer = |entry: &Entry| {
                    candidates.offer(rank(keyspace, order, entry), keyspace.number(), entry);
                };
                let more = match (order, scope) {
                    (Order::Ttl, _) => keyspace.sample_due(&mut offer),
                    (_, Scope::Volatile) => keyspace.sample_volatile(&mut offer),
                    (_, Scope::All) => keyspace.sample(samples - found, &mut offer),
                };
                if more == 0 {
                    break;
                }
                found += more;
            }
            if found > 0 && order == Order::Random {
                break;
            }
        }
        samples
    }
}

fn rank(keyspace: &Keyspace, order: Order, entry: &Entry) -> u64 {
    match order {
        Order::Lru => keyspace.idle_ticks(entry).into(),
        // Many keys are used equally seldom. Of these the one goes first that was not used for longer.
        Order::Lfu => {
            let rareness = u64::from(u8::MAX - keyspace.frequency(entry));
            rareness << u32::BITS | u64::from(keyspace.idle_ticks(entry))
        }
        Order::Ttl => entry.expire_at_ms().map_or(0, |expire_at_ms| u64::MAX - expire_at_ms),
        Order::Random => rand::random(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};
    use std::time::Duration;

    use rand::rngs::SmallRng;
    use rand::{RngExt as _, SeedableRng as _};

    use crate::databases::testing::Store;
    use crate::value::Value;

    use super::*;

    const SAMPLES: usize = 5;

    fn filled(keys: usize) -> Store {
        let keyspace = Store::new();
        for key in 0..keys {
            keyspace.insert(format!("k{key}").as_bytes(), Value::string(b"value"));
        }
        keyspace
    }

    fn set(keyspace: &Keyspace, key: usize, change: impl FnOnce(&mut crate::Slot<'_>)) {
        keyspace.update(format!("k{key}").as_bytes(), change);
    }

    fn has(keyspace: &Keyspace, key: usize) -> bool {
        keyspace.peek(format!("k{key}").as_bytes(), |entry| entry.is_some())
    }

    #[test]
    fn a_key_is_one_candidate_in_one_order() {
        let mut candidates = Candidates::default();
        let entries = [b"a", b"b"].map(|key| Entry::new(key, Value::string(b"v")));
        candidates.order_by(Order::Lru);
        for (len, (database, entry)) in [(0, 0), (0, 0), (1, 0), (0, 1), (1, 1), (0, 0), (1, 1)].into_iter().enumerate()
        {
            candidates.offer(5, database, &entries[entry]);
            candidates.order_by(Order::Lru);
            assert_eq!(candidates.best.len(), [1, 1, 2, 3, 4, 4, 4][len]);
        }
        candidates.order_by(Order::Lfu);
        assert!(candidates.best.is_empty());
    }

    #[test]
    fn a_candidate_that_has_changed_meanwhile_stays() {
        type Change = fn(&mut crate::Slot<'_>);
        const FAR_MS: u64 = 1 << 42;
        for (policy, change) in [
            (EvictionPolicy::AllKeysLru, (|slot| slot.set_idle_s(0)) as Change),
            (EvictionPolicy::VolatileLru, |slot| slot.set_expire_at_ms(None)),
            (EvictionPolicy::AllKeysLfu, |slot| slot.set_frequency(255)),
            (EvictionPolicy::VolatileTtl, |slot| slot.set_expire_at_ms(Some(FAR_MS + 100))),
        ] {
            let (store, evictor) = (filled(10), Evictor::default());
            for key in 0..10 {
                set(&store, key, |slot| {
                    slot.set_expire_at_ms(Some(FAR_MS + key as u64));
                    slot.set_frequency(200 + key as u8);
                    // Only what is used equally often goes by this.
                    slot.set_idle_s(if policy.is_lfu() { key } else { 100 - key } as u32);
                });
            }
            // A key whose shard follows that of another key is found once in a thousand looks.
            let evict_one = || {
                let mut evicted = Vec::new();
                evictor.evict(&store.all, policy, 10_000, (1, 1), |_, key| evicted = key.to_vec());
                evicted
            };
            assert_eq!(evict_one(), b"k0", "{policy}");
            set(&store, 1, change);
            assert_eq!(evict_one(), b"k2", "{policy}");
        }
    }

    #[test]
    fn what_is_wanted_is_enough() {
        let store = Store::new();
        (10..20).for_each(|key| store.insert(format!("k{key}").as_bytes(), Value::string(b"value")));
        let bytes = store.peek(b"k10", |entry| entry.map(Entry::memory_bytes)).expect("a key");
        let policy = EvictionPolicy::AllKeysRandom;
        Evictor::default().evict(&store.all, policy, SAMPLES, (2 * bytes, 10), |_, _| {});
        assert_eq!(store.len(), 8);
    }

    fn evict(store: &Store, policy: EvictionPolicy, keys: usize) -> Eviction {
        Evictor::default().evict(&store.all, policy, SAMPLES, (usize::MAX, keys), |_, _| {})
    }

    #[test]
    fn names_are_those_of_redis() {
        for (name, policy) in EvictionPolicy::ALL {
            assert_eq!(name.parse(), Ok(policy));
            assert_eq!(policy.to_string(), name);
            assert_eq!(policy.is_lfu(), name.ends_with("lfu"));
            assert_eq!(policy.is_lru(), name.ends_with("lru"));
        }
        assert_eq!("ALLKEYS-LRU".parse(), Ok(EvictionPolicy::AllKeysLru));
        assert_eq!("lru".parse::<EvictionPolicy>(), Err(UnknownEvictionPolicy));
    }

    #[test]
    fn keys_without_a_use_go_first() {
        let keyspace = filled(1000);
        // Every second key was not used for a while.
        for key in (0..1000).step_by(2) {
            set(&keyspace, key, |slot| slot.set_idle_s(100 + key as u32));
        }
        let evicted = evict(&keyspace, EvictionPolicy::AllKeysLru, 250);
        assert!(matches!(evicted, Eviction::Freed(_)));
        let left = |keys: std::ops::Range<usize>, odd: usize| {
            let keys = keys.skip(odd).step_by(2);
            keys.filter(|key| has(&keyspace, *key)).count()
        };
        let (used, idle) = (left(0..1000, 1), left(0..1000, 0));
        assert_eq!(used + idle, 750);
        assert!(used >= 490, "{used} of 500 used keys are left");
        let (shortest, longest) = (left(0..250, 0), left(750..1000, 0));
        assert!(longest < shortest, "{longest} and {shortest} are left");
    }

    #[test]
    fn keys_that_are_seldom_used_go_first() {
        let keyspace = filled(1000);
        for key in (0..1000).step_by(2) {
            set(&keyspace, key, |slot| slot.set_frequency(100));
        }
        evict(&keyspace, EvictionPolicy::AllKeysLfu, 250);
        let often = (0..1000).step_by(2).filter(|key| has(&keyspace, *key));
        assert!(often.count() >= 490);
    }

    #[test]
    fn volatile_policies_evict_nothing_else() {
        for (_, policy) in EvictionPolicy::ALL {
            let keyspace = filled(400);
            for key in 0..100 {
                let at_ms = crate::unix_time_ms() + 1_000_000 * (1 + key as u64);
                set(&keyspace, key, |slot| slot.set_expire_at_ms(Some(at_ms)));
            }
            let lasting = || (100..400).filter(|key| has(&keyspace, *key)).count();
            match policy.rule() {
                None => {
                    assert_eq!(evict(&keyspace, policy, 1), Eviction::Nothing);
                    assert_eq!(keyspace.len(), 400);
                }
                Some((Scope::Volatile, order)) => {
                    assert!(matches!(evict(&keyspace, policy, 50), Eviction::Freed(_)));
                    assert_eq!((lasting(), keyspace.len()), (300, 350), "{policy}");
                    if order == Order::Ttl {
                        let first = (0..50).filter(|key| has(&keyspace, *key)).count();
                        assert!(first < 20, "{first} of the 50 that expire first are left");
                    }
                    assert!(matches!(evict(&keyspace, policy, 1000), Eviction::Freed(_)));
                    assert_eq!((lasting(), keyspace.len()), (300, 300), "{policy}");
                    assert_eq!(evict(&keyspace, policy, 1), Eviction::Nothing);
                }
                Some((Scope::All, _)) => {
                    assert!(matches!(evict(&keyspace, policy, 1000), Eviction::Freed(_)));
                    assert!(keyspace.is_empty(), "{policy}");
                    assert_eq!(evict(&keyspace, policy, 1), Eviction::Nothing);
                }
            }
        }
    }

    #[test]
    fn keys_of_all_databases_go_by_one_order() {
        for (_, policy) in EvictionPolicy::ALL {
            let Some((_, order)) = policy.rule() else {
                continue;
            };
            let store = Store::new();
            for database in [1, 3] {
                for key in 0..100 {
                    let name = format!("k{key}");
                    let keyspace = store.all.get(database);
                    keyspace.insert(name.as_bytes(), Value::string(b"value"));
                    // The keys of database 3 are the first to go.
                    keyspace.update(name.as_bytes(), |slot| {
                        let later_s = if database == 1 { 9_000_000 } else { 1000 };
                        slot.set_expire_at_ms(Some(crate::unix_time_ms() + 1000 * later_s));
                        slot.set_idle_s(if database == 1 { 1 } else { 500 });
                        slot.set_frequency(if database == 1 { 200 } else { 5 });
                    });
                }
            }
            let mut evicted = [0; 4];
            let bounds = (usize::MAX, 100);
            Evictor::default().evict(&store.all, policy, SAMPLES, bounds, |database, _| {
                evicted[database] += 1;
            });
            let left = [1, 3].map(|database| store.all.get(database).len());
            assert_eq!(left, [100 - evicted[1], 100 - evicted[3]], "{policy}");
            match order {
                Order::Random => assert_eq!(left, [50, 50], "{policy}: in turn"),
                _ => assert!(evicted[3] >= 90, "{policy}: {evicted:?}"),
            }
        }
    }

    /// Keys with the popularity of Zipf's law, of which one in four has room.
    const TRACE_KEYS: usize = 2000;
    const HELD_KEYS: usize = TRACE_KEYS / 4;

    fn trace() -> Vec<usize> {
        let mut sum = 0.0;
        let mut add = |rank: usize| {
            sum += 1.0 / rank as f64;
            sum
        };
        let sums: Vec<f64> = (1..=TRACE_KEYS).map(&mut add).collect();
        let mut random = SmallRng::seed_from_u64(1);
        let mut draw = |_| {
            let place = random.random_range(0.0..sum);
            sums.partition_point(|sum| *sum < place)
        };
        (0..100_000).map(&mut draw).collect()
    }

    /// How many of the keys are there when they are wanted a millisecond apart. Those that are not there are stored.
    fn hits(policy: EvictionPolicy, trace: &[usize]) -> usize {
        let (store, evictor) = (Store::new(), Evictor::default());
        store.all.count_accesses(policy.is_lfu());
        let mut hits = 0;
        for (at_ms, key) in trace.iter().enumerate() {
            store.shared.clock.advance_to(Duration::from_millis(at_ms as u64));
            let key = format!("k{key}");
            if store.contains(key.as_bytes()) {
                hits += 1;
                continue;
            }
            store.insert(key.as_bytes(), Value::string(b"value"));
            if store.len() > HELD_KEYS {
                evictor.evict(&store.all, policy, SAMPLES, (1, 1), |_, _| {});
            }
        }
        hits
    }

    /// The hits of a cache that always drops the key that was used last of all.
    fn hits_in_exact_order(trace: &[usize]) -> usize {
        let (mut used_at, mut by_time, mut hits) = (HashMap::new(), BTreeMap::new(), 0);
        for (now, key) in trace.iter().enumerate() {
            if let Some(before) = used_at.insert(key, now) {
                by_time.remove(&before);
                hits += 1;
            }
            by_time.insert(now, key);
            if by_time.len() > HELD_KEYS
                && let Some((_, key)) = by_time.pop_first()
            {
                used_at.remove(key);
            }
        }
        hits
    }

    #[test]
    fn hits_are_nearly_those_of_the_exact_orders() {
        let trace = trace();
        let (lru, exact) = (hits(EvictionPolicy::AllKeysLru, &trace), hits_in_exact_order(&trace));
        // No order is better than to hold the keys that are wanted most.
        let lfu = hits(EvictionPolicy::AllKeysLfu, &trace);
        let most = trace.iter().filter(|key| **key < HELD_KEYS).count();
        assert!(lru * 100 >= exact * 98, "{lru} of {exact}");
        assert!(lfu * 100 >= most * 95, "{lfu} of {most}");
    }

    #[test]
    fn eviction_stops_when_enough_is_free() {
        let keyspace = filled(100);
        let evictor = Evictor::default();
        let policy = EvictionPolicy::AllKeysRandom;
        let Eviction::Freed(bytes) = evictor.evict(&keyspace.all, policy, SAMPLES, (1, 100), |_, _| {}) else {
            panic!("nothing was evicted");
        };
        assert_eq!((keyspace.len(), evictor.evicted_keys()), (99, 1));
        assert!(bytes >= b"value".len());
        let mut evicted = Vec::new();
        evictor.evict(&keyspace.all, policy, SAMPLES, (3 * bytes, 100), |_, key| {
            evicted.push(key.to_vec());
        });
        assert!((2..=4).contains(&evicted.len()));
        assert!((95..=97).contains(&keyspace.len()));
        assert_eq!(evictor.evicted_keys(), 1 + evicted.len() as u64);
    }
}
