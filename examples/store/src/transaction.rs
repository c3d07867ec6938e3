//! Transactions: work on several keys that takes effect at one instant, or not at all.
//!
//! A transaction runs on [forks](crate::fork) without any lock, however long it takes, and locks its keys for the
//! commit alone; a large one [prepares](crate::prepared) its shards before. If another request changed one of them
//! meanwhile, it runs again. After some conflicts a long one waits for its [turn](crate::Databases::take_turns_by), and
//! after more it holds the locks of the shards that it needed before, so it ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use crate::clock::unix_time_ms;
use crate::commit::Commit;
use crate::databases::{Databases, Forks};
use crate::keyspace::{LONG_IN_VAIN, OPTIMISTIC_ATTEMPTS, SHARDS, TURN_ATTEMPTS};
use crate::locks::{Place, ShardLocks};
use crate::pace::Pace;
use crate::prepared::Prepared;
use crate::reaper::Garbage;
use crate::watched::Watched;

/// A commit to so many shards holds their locks for long enough to [say so](Databases::hold_locks_by).
const MANY_SHARDS: usize = 32;

/// The databases have changed, or need to be locked. These shards were needed.
struct Conflict {
    places: BTreeSet<Place>,
}

impl Databases {
    /// Runs `body` on a fork of the databases, and stores what it changed there, at one instant. If another request
    /// changed a key meanwhile that `body` read or changed, or such a key has expired meanwhile, `body` runs again; so
    /// it must have no other effects than such that may happen twice, and only its last result counts. `None` if one of
    /// `watched` has changed since [`watch`](crate::Keyspace::watch).
    ///
    /// While [`is_locked`](Self::is_locked) says so of the fork, `body` must neither wait for anything nor yield to
    /// other requests, and must not touch the databases themselves.
    pub fn transact<R>(self: &Arc<Self>, watched: &[Watched], mut body: impl FnMut(&Self) -> R) -> Option<R> {
        let began = Instant::now();
        let mut needed = BTreeSet::new();
        let mut attempt = |locks: bool| self.attempt(watched, &mut needed, locks, &mut body);
        if let Some(result) = (0..OPTIMISTIC_ATTEMPTS).find_map(|_| attempt(false)) {
            return result;
        }
        let locked = |attempt: &mut dyn FnMut(bool) -> Option<Option<R>>| {
            self.get(0).count_contended();
            // What the last attempt needed is locked for the next one.
            let done = std::iter::repeat_with(|| attempt(true)).flatten().next();
            done.expect("the attempts do not end before one succeeds")
        };
        if began.elapsed() < LONG_IN_VAIN {
            return locked(&mut attempt);
        }
        self.shared().in_turn(|| {
            let result = (0..TURN_ATTEMPTS).find_map(|_| attempt(false));
            result.unwrap_or_else(|| locked(&mut attempt))
        })
    }

    /// One attempt of [`transact`](Self::transact), which holds the locks of all that was `needed` before if it
    /// `locks`. `None` if it was in vain.
    fn attempt<R>(
        self: &Arc<Self>,
        watched: &[Watched],
        needed: &mut BTreeSet<Place>,
        locks: bool,
        body: &mut impl FnMut(&Self) -> R,
    ) -> Option<Option<R>> {
        let locks = locks.then(|| self.lock(needed));
        let fork = self.fork(locks.as_ref());
        let mut watched = watched.iter();
        if !watched.all(|key| fork.get(key.database()).found_unchanged(key)) {
            drop(locks);
            fork.dismantle();
            return Some(None);
        }
        let result = body(&fork);
        let committed = self.commit(&fork, locks);
        fork.dismantle();
        match committed {
            Ok(()) => Some(Some(result)),
            Err(conflict) => {
                needed.extend(conflict.places);
                None
            }
        }
    }

    fn lock(&self, places: &BTreeSet<Place>) -> ShardLocks<'_> {
        ShardLocks::take(places, |number| self.get(number))
    }

    /// Stores what `fork` changed, if everything that it touched is as it was. `locks` are those of
    /// [`fork`](Self::fork).
    fn commit(&self, fork: &Self, locks: Option<ShardLocks<'_>>) -> Result<(), Conflict> {
        let Some(forks) = fork.forks().filter(|forks| !forks.is_rolled_back()) else {
            return Ok(());
        };
        let pace = match locks {
            Some(_) => Pace::silent(),
            None => Pace::of(self.shared()),
        };
        let commits: Vec<Commit<'_>> = forks.made().filter_map(Commit::of).collect();
        let moves = forks.moves();
        let moved = moves.iter().flat_map(|(database, _)| (0..SHARDS).map(|index| (*database, index)));
        let steps: Vec<_> = commits.iter().map(|commit| commit.steps(&pace)).collect();
        let with_steps = commits.iter().zip(&steps);
        let places: BTreeSet<Place> = { with_steps.clone() }
            .flat_map(|(commit, steps)| commit.places(steps))
            .chain(moved)
            .collect();
        if locks.as_ref().is_some_and(|locks| !locks.hold(&places)) {
            return Err(Conflict { places });
        }
        // No request finds a key dead that has been locked since before the instant of the fork.
        let dies_at_ms = match locks {
            Some(_) => None,
            None => { with_steps.clone() }.filter_map(|(commit, steps)| commit.dies_at_ms(steps)).min(),
        };
        let is_large = places.len() >= MANY_SHARDS;
        let prepares = is_large && locks.is_none() && moves.is_empty() && !commits.iter().any(Commit::clears);
        let prepare = |(commit, steps): (&Commit<'_>, &Vec<_>)| match prepares {
            true => commit.prepare(steps, &pace),
            false => Some(Vec::new()),
        };
        let prepared: Option<Vec<_>> = with_steps.clone().map(prepare).collect();
        let Some(mut prepared) = prepared else {
            return Err(Conflict { places });
        };
        let changes: Vec<_> = { with_steps.clone() }.map(|(commit, steps)| commit.changes(steps, &pace)).collect();
        let releases = commits.len() == 1 && moves.is_empty();
        let store = || {
            let mut locks = locks.unwrap_or_else(|| self.lock(&places));
            if dies_at_ms.is_some_and(|at_ms| at_ms <= unix_time_ms()) {
                return None;
            }
            let mut all = steps.iter().zip(&prepared);
            if !all.all(|(steps, prepared)| Commit::is_valid(steps, prepared, &locks)) {
                return None;
            }
            if !self.record_commit(forks, &moves) {
                return None;
            }
            let all = with_steps.zip(&mut prepared);
            let garbage = all.map(|((commit, steps), prepared)| commit.store(steps, prepared, &mut locks, releases));
            let garbage: Vec<_> = garbage.collect();
            for [one, other] in Forks::swaps_for(&moves) {
                self.get(one).swap_locked(self.get(other), &mut locks);
            }
            Some(garbage)
        };
        let stored = match is_large {
            true => self.shared().hold(store),
            false => store(),
        };
        let Some(garbage) = stored else {
            return Err(Conflict { places });
        };
        let pace = Pace::of(self.shared());
        let settled = commits.iter().zip(changes).zip(prepared).zip(garbage);
        for (((commit, changes), prepared), mut garbage) in settled {
            let replaced = prepared.into_iter().flat_map(Prepared::into_replaced);
            garbage.extend(replaced.map(Garbage::Entry));
            commit.settle(changes, garbage, &pace);
        }
        for (database, _) in moves {
            self.get(database).awaited.note_all();
        }
        Ok(())
    }

    /// Records what a fork did, all of whose locks are held. `false` if the journal has begun meanwhile.
    fn record_commit(&self, forks: &Forks, moves: &[(usize, usize)]) -> bool {
        match &forks.records {
            _ if !self.journal().is_on() => true,
            Some(records) => {
                self.journal().record_commit(records, Forks::swaps_for(moves));
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;

    use super::*;
    use crate::databases::testing::Store;
    use crate::hashed::position_of;
    use crate::value::Value;
    use crate::{Element, Keyspace};

    fn keyspace() -> Store {
        Store::new()
    }

    fn text(value: &str) -> Value {
        Value::String(Element::from(value.as_bytes()))
    }

    fn number(keyspace: &Keyspace, key: &[u8]) -> u64 {
        keyspace.with(key, |value| match value {
            Some(Value::String(text)) => std::str::from_utf8(text).unwrap().parse().unwrap(),
            _ => 0,
        })
    }

    fn set_number(keyspace: &Keyspace, key: &[u8], value: u64) {
        keyspace.insert(key, text(&value.to_string()));
    }

    fn keys(keyspace: &Keyspace) -> Vec<String> {
        let mut keys = Vec::new();
        keyspace.for_each(|entry| keys.push(String::from_utf8(entry.key().to_vec()).unwrap()));
        keys.sort();
        keys
    }

    #[test]
    fn nobody_sees_a_transaction_before_its_commit() {
        let store = keyspace();
        set_number(&store, b"a", 1);
        set_number(&store, b"b", 2);
        let seen = store.transact(&[], |fork| {
            set_number(fork, b"a", 10);
            fork.remove(b"b");
            set_number(fork, b"c", 30);
            assert_eq!((number(&store, b"a"), number(&store, b"b"), store.len()), (1, 2, 2));
            (number(fork, b"a"), fork.contains(b"b"), fork.len(), keys(fork))
        });
        let names = ["a", "c"].map(String::from).to_vec();
        assert_eq!(seen, Some((10, false, 2, names.clone())));
        assert_eq!((keys(&store), store.len()), (names, 2));
        assert_eq!((number(&store, b"a"), number(&store, b"c")), (10, 30));
    }

    #[test]
    fn a_conflict_runs_it_again() {
        let store = keyspace();
        let mut runs = 0;
        let result = store.transact(&[], |fork| {
            runs += 1;
            let read = number(fork, b"a");
            if runs == 1 {
                set_number(&store, b"a", 5);
            }
            set_number(fork, b"b", read + 1);
            read
        });
        assert_eq!((result, runs, number(&store, b"b")), (Some(5), 2, 6));
    }

    #[test]
    fn a_fork_that_is_rolled_back_stores_nothing() {
        let store = keyspace();
        set_number(&store, b"a", 1);
        let mut runs = 0;
        let result = store.all.transact(&[], |fork| {
            runs += 1;
            set_number(fork.get(0), b"a", 2);
            fork.clear();
            set_number(&store, b"a", 5);
            fork.roll_back();
            "stopped"
        });
        assert_eq!((result, runs), (Some("stopped"), 1));
        assert_eq!(number(&store, b"a"), 5);
    }

    #[test]
    fn the_last_attempts_hold_locks_and_extend_them() {
        let store = keyspace();
        let shard_of = |key: &[u8]| store.shard_index(position_of(key));
        let others = (0..).map(|n| format!("other{n}").into_bytes());
        let other = { others }.find(|key| shard_of(key) != shard_of(b"a")).unwrap();
        set_number(&store, &other, 7);
        let mut runs = 0;
        let result = store.transact(&[], |fork| {
            runs += 1;
            if !fork.is_locked() {
                number(fork, b"a");
                store.update(b"a", |slot| slot.insert(text("1")));
                return 0;
            }
            // This key is new to it.
            number(fork, &other)
        });
        assert_eq!(result, Some(7));
        assert_eq!(runs, OPTIMISTIC_ATTEMPTS + 2, "one more for the new key");
        let cleared = store.transact(&[], |fork| {
            if !fork.is_locked() {
                number(fork, b"a");
                store.update(b"a", |slot| slot.insert(text("1")));
                return Vec::new();
            }
            let before = keys(fork);
            fork.clear();
            set_number(fork, b"new", 1);
            before
        });
        assert_eq!(cleared, Some(vec!["a".to_owned(), String::from_utf8(other).unwrap()]));
        assert_eq!(keys(&store), ["new"]);
    }

    thread_local! {
        /// Turns that were taken.
        static TURNS: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn a_long_one_takes_its_turn_before_it_holds_locks() {
        let store = keyspace();
        store.all.take_turns_by(|section| {
            TURNS.set(TURNS.get() + 1);
            section();
        });
        for (vain, expected_turns) in [(OPTIMISTIC_ATTEMPTS - 1, 0), (OPTIMISTIC_ATTEMPTS + 1, 1)] {
            TURNS.set(0);
            let mut runs = 0;
            let was_locked = store.transact(&[], |fork| {
                runs += 1;
                number(fork, b"a");
                if runs <= vain {
                    thread::sleep(LONG_IN_VAIN);
                    set_number(&store, b"a", runs as u64);
                }
                fork.is_locked()
            });
            assert_eq!((was_locked, runs), (Some(false), vain + 1));
            assert_eq!(TURNS.get(), expected_turns, "{vain} in vain");
        }
        assert_eq!(store.stats().contended_updates, 0);
    }

    #[test]
    fn watched_keys_must_not_have_changed() {
        let store = keyspace();
        set_number(&store, b"a", 1);
        let watch = || [store.watch(b"a"), store.watch(b"none")];
        let watched = watch();
        assert_eq!(store.transact(&watched, |fork| set_number(fork, b"b", 1)), Some(()));
        for change in [
            (|store| set_number(store, b"a", 1)) as fn(&Keyspace),
            |store| store.update(b"a", |slot| slot.set_expire_at_ms(Some(u64::MAX - 1))),
            |store| store.insert(b"none", text("x")),
            |store| {
                store.insert(b"none", text("x"));
                store.remove(b"none");
            },
            |store| {
                store.insert_all([(b"none".as_slice(), text("x"))]);
                store.remove(b"none");
            },
            |store| {
                store.remove(b"a");
            },
            |store| store.clear(),
        ] {
            let watched = watch();
            change(&store);
            assert_eq!(store.transact(&watched, |_| unreachable!()), None::<()>);
            set_number(&store, b"a", 1);
            store.remove(b"none");
        }
    }

    #[test]
    fn a_watched_key_that_came_by_a_swap_has_changed_even_if_it_is_gone() {
        let store = keyspace();
        for comes in [true, false] {
            let watched = [store.watch(b"k")];
            if comes {
                store.all.get(1).insert(b"k", text("v"));
            }
            store.all.swap(0, 1);
            store.remove(b"k");
            assert_eq!(store.transact(&watched, |_| ()).is_some(), !comes);
        }
    }

    #[test]
    fn who_no_longer_watches_a_key_that_does_not_exist_leaves_nothing_behind() {
        let store = keyspace();
        let is_clean = || {
            let mut shards = store.shards.iter();
            shards.all(|shard| shard.state.lock().absences.is_empty())
        };
        let [one, other] = [store.watch(b"none"), store.watch(b"none")];
        drop(one);
        assert!(!is_clean(), "the other still looks");
        store.insert(b"none", text("x"));
        store.remove(b"none");
        let third = [store.watch(b"none")];
        assert_eq!(store.transact(&[other], |_| unreachable!()), None::<()>);
        assert_eq!(store.transact(&third, |_| ()), Some(()), "it came before");
        drop(third);
        assert!(is_clean());
    }

    #[test]
    fn a_key_that_expires_has_changed() {
        let store = keyspace();
        set_number(&store, b"a", 1);
        let at_ms = crate::unix_time_ms() + 30;
        store.update(b"a", |slot| slot.set_expire_at_ms(Some(at_ms)));
        let watched = [store.watch(b"a")];
        while crate::unix_time_ms() <= at_ms {
            thread::yield_now();
        }
        assert_eq!(store.transact(&watched, |_| unreachable!()), None::<()>);
        assert_eq!(store.transact(&[], |fork| fork.contains(b"a")), Some(false));
        assert_eq!(store.len(), 0, "the transaction removed it");
    }

    /// Lets the key expire in some milliseconds, and waits until it has.
    fn expire(store: &Keyspace, key: &[u8], waits: impl FnOnce()) {
        let at_ms = crate::unix_time_ms() + 20;
        store.update(key, |slot| slot.set_expire_at_ms(Some(at_ms)));
        waits();
        while crate::unix_time_ms() <= at_ms {
            thread::yield_now();
        }
    }

    #[test]
    fn a_key_lives_as_long_as_the_transaction_and_if_that_is_too_long_it_runs_again() {
        let store = keyspace();
        set_number(&store, b"a", 1);
        let mut runs = 0;
        let seen = store.transact(&[], |fork| {
            runs += 1;
            if runs == 1 {
                expire(&store, b"a", || assert!(fork.contains(b"a")));
            }
            set_number(fork, b"b", runs);
            fork.contains(b"a")
        });
        assert_eq!((seen, runs), (Some(false), 2));
        assert_eq!(number(&store, b"b"), 2, "nothing is left of the first run");
        let seen = store.transact(&[], |fork| {
            set_number(fork, b"a", 1);
            expire(fork, b"a", || ());
            fork.contains(b"a")
        });
        assert_eq!(seen, Some(true), "only it has seen the key");
        assert!(!store.contains(b"a"));
    }

    #[test]
    fn a_key_that_is_locked_does_not_expire_meanwhile() {
        let is_in_time = |margin_ms: u64| {
            let store = keyspace();
            let (mut runs, mut in_time) = (0, true);
            let seen = store.transact(&[], |fork| {
                runs += 1;
                if fork.is_locked() {
                    let at_ms = fork.peek(b"a", |entry| entry.and_then(crate::Entry::expire_at_ms));
                    in_time = at_ms.is_some();
                    while at_ms.is_some_and(|at_ms| crate::unix_time_ms() <= at_ms) {
                        thread::yield_now();
                    }
                } else {
                    number(fork, b"a");
                    set_number(&store, b"a", 1);
                    let at_ms = crate::unix_time_ms() + margin_ms;
                    store.update(b"a", |slot| slot.set_expire_at_ms(Some(at_ms)));
                }
                fork.contains(b"a")
            });
            assert_eq!((seen, runs), (Some(in_time), OPTIMISTIC_ATTEMPTS + 1));
            assert!(!store.contains(b"a"));
            in_time
        };
        // On a busy machine the key may die before it is locked.
        assert!([50, 500, 5_000].into_iter().any(is_in_time));
    }

    #[test]
    fn a_scan_visits_the_keys_of_a_fork_and_of_its_origin_in_their_order() {
        let store = keyspace();
        let key = |number: u32| number.to_string().into_bytes();
        (0..3_000).step_by(2).for_each(|number| store.insert(&key(number), text("origin")));
        store.transact(&[], |fork| {
            (1..3_000).step_by(2).for_each(|number| fork.insert(&key(number), text("fork")));
            let (mut cursor, mut positions) = (0, Vec::new());
            loop {
                let before = positions.len();
                cursor = fork.scan(cursor, 50, |entry| positions.push(position_of(entry.key())));
                assert!(positions.len() <= before + 50);
                if cursor == 0 {
                    break;
                }
                assert_eq!(positions.len(), before + 50);
            }
            assert_eq!(positions.len(), 3_000);
            assert!(positions.is_sorted());
        });
    }

    #[test]
    fn clearing_forgets_everything_and_keeps_what_follows() {
        let store = keyspace();
        for key in [b"a", b"b", b"c"] {
            set_number(&store, key, 1);
        }
        store.transact(&[], |fork| {
            number(fork, b"a");
            fork.clear();
            assert_eq!((fork.len(), keys(fork).len(), fork.contains(b"b")), (0, 0, false));
            set_number(fork, b"b", 2);
        });
        assert_eq!((keys(&store), number(&store, b"b")), (vec!["b".to_owned()], 2));
    }

    thread_local! {
        /// What happens right before a large commit takes its locks.
        static MEANWHILE: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    }

    /// Many keys, of which some expire, and a transaction that adds 1 to each but removes some and makes others.
    fn large() -> (Arc<Store>, Vec<Vec<u8>>) {
        let store = Arc::new(keyspace());
        store.all.hold_locks_by(|section| {
            MEANWHILE.take().into_iter().for_each(|happens| happens());
            section();
        });
        let keys: Vec<_> = (0..400).map(|n| format!("key{n}").into_bytes()).collect();
        for (n, key) in (0..300).zip(&keys) {
            set_number(&store, key, n);
            let expiry = (n % 3 == 0).then_some(u64::MAX - n);
            store.update(key, |slot| slot.set_expire_at_ms(expiry));
        }
        (store, keys)
    }

    /// Runs it. Returns how often it ran.
    fn add_to_all(store: &Store, keys: &[Vec<u8>]) -> u32 {
        let mut runs = 0;
        let done = store.transact(&[], |fork| {
            runs += 1;
            for (n, key) in keys.iter().enumerate() {
                match n % 5 {
                    0 => drop(fork.remove(key)),
                    _ => set_number(fork, key, number(fork, key) + 1),
                }
            }
        });
        assert_eq!(done, Some(()));
        runs
    }

    fn assert_added(store: &Store, keys: &[Vec<u8>]) {
        for (n, key) in keys.iter().enumerate() {
            let before = if n < 300 { n as u64 } else { 0 };
            let after = if n % 5 == 0 { 0 } else { before + 1 };
            assert_eq!(number(store, key), after, "key {n}");
        }
        assert_eq!(store.volatile_len(), 0, "to store a value ends its expiry");
    }

    #[test]
    fn a_large_transaction_exchanges_whole_shards() {
        let (store, keys) = large();
        let absent = [store.watch(&keys[301]), store.watch(&keys[399])];
        let snapshot: Vec<_> = keys.iter().map(|key| store.get(key)).collect();
        assert_eq!(add_to_all(&store, &keys), 1);
        assert_added(&store, &keys);
        assert_eq!(store.len(), 320);
        assert_eq!(store.transact(&absent, |_| ()), None, "both have come");
        assert!(snapshot[1].is_some(), "no request changes what others hold");
    }

    #[test]
    fn shards_that_changed_before_the_locks_keep_what_is_new() {
        let (store, keys) = large();
        let (inside, others) = (store.clone(), 2000);
        MEANWHILE.set(Some(Box::new(move || {
            (0..others).for_each(|n| set_number(&inside, format!("other{n}").as_bytes(), n));
        })));
        assert_eq!(add_to_all(&store, &keys), 1, "its own keys are as they were");
        assert_added(&store, &keys);
        for n in 0..others {
            assert_eq!(number(&store, format!("other{n}").as_bytes()), n);
        }
        assert_eq!(store.len(), 320 + others as usize);
    }

    #[test]
    fn a_large_transaction_whose_key_changed_before_the_locks_runs_again() {
        let (store, keys) = large();
        let (inside, key) = (store.clone(), keys[7].clone());
        MEANWHILE.set(Some(Box::new(move || set_number(&inside, &key, 700))));
        assert_eq!(add_to_all(&store, &keys), 2);
        assert_eq!(number(&store, &keys[7]), 701);
        set_number(&store, &keys[7], 8);
        assert_added(&store, &keys);
    }

    #[test]
    fn sums_stay_whole_under_contention() {
        const THREADS: u64 = 4;
        const MOVES: u64 = 2000;
        let store = keyspace();
        let accounts: Vec<Vec<u8>> = (0..4).map(|n| format!("account{n}").into_bytes()).collect();
        for account in &accounts {
            set_number(&store, account, 1_000_000);
        }
        let done = AtomicBool::new(false);
        let sums = AtomicU64::new(0);
        thread::scope(|scope| {
            let movers: Vec<_> = (0..THREADS)
                .map(|seed| {
                    let (store, accounts) = (&store, &accounts);
                    scope.spawn(move || {
                        for step in 0..MOVES {
                            let from = &accounts[((seed + step) % 4) as usize];
                            let to = &accounts[((seed + step * 7 + 1) % 4) as usize];
                            store.transact(&[], |fork| {
                                set_number(fork, from, number(fork, from) - 1);
                                set_number(fork, to, number(fork, to) + 1);
                            });
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let sum = store.transact(&[], |fork| accounts.iter().map(|key| number(fork, key)).sum::<u64>());
                    assert_eq!(sum, Some(4_000_000));
                    sums.fetch_add(1, Ordering::Relaxed);
                }
            });
            for mover in movers {
                mover.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let total: u64 = accounts.iter().map(|key| number(&store, key)).sum();
        assert_eq!(total, 4_000_000);
        assert!(sums.load(Ordering::Relaxed) > 0);
    }
}
