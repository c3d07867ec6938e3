//! The prefixes of clients that track in broadcasting mode.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use imbl::OrdMap;
use parking_lot::Mutex;
use psp_server::no_preempt;

use crate::client::ClientInfo;
use crate::error::{CommandError, quotable};
use crate::parse::Result;

/// Most prefixes of one client. Each is compared with each of the others.
const OF_ONE_MAX: usize = 256;
/// What the prefixes of all clients may take, in bytes.
const HELD_BYTES_MAX: usize = 64 << 20;
/// What a prefix of one client takes beside its text, about.
const PREFIX_BYTES: usize = 192;

/// The clients of one prefix, by their ids. A copy is O(1).
pub(super) type Clients = OrdMap<u64, Arc<ClientInfo>>;

/// All prefixes and their clients.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    /// Persistent, so that changes of keys walk snapshots.
    by_prefix: Mutex<OrdMap<Arc<[u8]>, Clients>>,
    len: AtomicUsize,
    bytes: AtomicUsize,
}

impl Prefixes {
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether a client may have these prefixes beside its own.
    ///
    /// # Errors
    /// Two of them overlap, or there are too many.
    pub(super) fn check(&self, client: &ClientInfo, wanted: &[&[u8]]) -> Result<()> {
        let own = client.tracking.prefixes();
        if own.len() + wanted.len() > OF_ONE_MAX {
            return Err(CommandError::line("ERR too many prefixes"));
        }
        let bytes = wanted.iter().map(|prefix| prefix.len() + PREFIX_BYTES);
        let bytes = bytes.sum::<usize>() + self.bytes.load(Ordering::Relaxed);
        if bytes > HELD_BYTES_MAX {
            return Err(CommandError::line("BUSY clients track too many prefixes"));
        }
        for (index, prefix) in wanted.iter().enumerate() {
            if let Some(other) = own.iter().find(|other| overlap(prefix, other)) {
                return Err(overlaps(prefix, "an existing", other));
            }
            let mut others = wanted[index + 1..].iter();
            if let Some(other) = others.find(|other| overlap(prefix, other)) {
                return Err(overlaps(prefix, "another provided", other));
            }
        }
        Ok(())
    }

    pub(super) fn add(&self, client: &Arc<ClientInfo>, prefix: &[u8]) {
        let prefix: Arc<[u8]> = prefix.into();
        if !client.tracking.add_prefix(&prefix) {
            return;
        }
        let bytes = prefix.len() + PREFIX_BYTES;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.change(|by_prefix| {
            let clients = by_prefix.entry(prefix).or_default();
            clients.insert(client.id, Arc::clone(client));
        });
    }

    pub(super) fn remove(&self, client: &ClientInfo, prefix: &[u8]) {
        let bytes = prefix.len() + PREFIX_BYTES;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.change(|by_prefix| {
            if let Some(clients) = by_prefix.get_mut(prefix) {
                clients.remove(&client.id);
                if clients.is_empty() {
                    by_prefix.remove(prefix);
                }
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut OrdMap<Arc<[u8]>, Clients>)) {
        no_preempt(|| {
            let mut by_prefix = self.by_prefix.lock();
            change(&mut by_prefix);
            self.len.store(by_prefix.len(), Ordering::Relaxed);
        });
    }

    /// The clients of all prefixes of a key.
    pub(super) fn clients(&self, key: &[u8]) -> usize {
        let mut count = 0;
        if self.len() > 0 {
            let by_prefix = no_preempt(|| self.by_prefix.lock().clone());
            for_each_prefix(&by_prefix, key, |_, clients| count += clients.len());
        }
        count
    }

    /// For each prefix of one of the keys: its clients, and those keys.
    pub(super) fn matching<'k>(&self, keys: &[&'k [u8]]) -> Vec<(Clients, Vec<&'k [u8]>)> {
        if self.len() == 0 {
            return Vec::new();
        }
        let by_prefix = no_preempt(|| self.by_prefix.lock().clone());
        let mut found = BTreeMap::<&[u8], (Clients, Vec<&[u8]>)>::new();
        for key in keys {
            for_each_prefix(&by_prefix, key, |prefix, clients| {
                let (_, keys) = found.entry(prefix).or_insert_with(|| (clients.clone(), Vec::new()));
                if keys.last() != Some(key) {
                    keys.push(key);
                }
            });
        }
        found.into_values().collect()
    }
}

/// Calls `visit` for all prefixes of `key`, the longest first.
fn for_each_prefix<'p>(
    by_prefix: &'p OrdMap<Arc<[u8]>, Clients>,
    key: &[u8],
    mut visit: impl FnMut(&'p [u8], &'p Clients),
) {
    // All prefixes of the key that are not visited yet are at most so long, and so not behind this in the order.
    let mut most = key;
    loop {
        let range = (Bound::Unbounded, Bound::Included(most));
        let Some((prefix, clients)) = by_prefix.range::<_, [u8]>(range).next_back() else {
            return;
        };
        let common = prefix.iter().zip(most).take_while(|(one, other)| one == other);
        let mut len = common.count();
        if len == prefix.len() {
            visit(prefix, clients);
            let Some(shorter) = len.checked_sub(1) else {
                return;
            };
            len = shorter;
        }
        most = &most[..len];
    }
}

fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn overlaps(prefix: &[u8], which: &str, other: &[u8]) -> CommandError {
    let (prefix, other) = (quotable(prefix), quotable(other));
    let line = format!(
        "ERR Prefix '{prefix}' overlaps with {which} prefix '{other}'. Prefixes for a single client must not overlap."
    );
    CommandError::Other(line.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_prefixes_of_a_key_are_found() {
        let prefixes = ["", "a", "ab", "abd", "abcd", "abcdx", "b", "user:", "user:1"];
        let all = prefixes.map(|prefix| (Arc::<[u8]>::from(prefix.as_bytes()), Clients::new()));
        let all: OrdMap<Arc<[u8]>, Clients> = all.into_iter().collect();
        for key in ["", "a", "abc", "abcd", "abcde", "b1", "c", "user:12", "user"] {
            let mut found = Vec::new();
            for_each_prefix(&all, key.as_bytes(), |prefix, _| {
                found.push(String::from_utf8_lossy(prefix).into_owned());
            });
            let mut expected: Vec<_> = prefixes.into_iter().filter(|it| key.starts_with(it)).collect();
            expected.sort_by_key(|prefix| usize::MAX - prefix.len());
            assert_eq!(found, expected, "of {key:?}");
        }
    }
}
