//! Puts the parts of a reply in order.
//!
//! ```text
//!   2 of 4 ─┐
//!   0 of 4 ─┼─► Reassembly ─► 0 ─► 1 ─► 2 ─► the bytes of the reply
//!   1 of 4 ─┘     └ keeps 2 until 1 has arrived
//! ```

use std::collections::BTreeMap;

use super::Header;

/// The parts of one reply.
///
/// A part that arrives in its turn is passed on at once, without a copy.
///
/// ```
/// use psp_protocols::memcached::udp::{Header, Reassembly};
///
/// let part = |sequence| Header { sequence, count: 2, ..Header::request(7) };
/// let (mut reassembly, mut reply) = (Reassembly::default(), Vec::new());
/// assert!(!reassembly.push(part(1), b"\r\n", 1024, |bytes| reply.extend_from_slice(bytes)));
/// assert!(reassembly.push(part(0), b"END", 1024, |bytes| reply.extend_from_slice(bytes)));
/// assert_eq!(reply, b"END\r\n");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reassembly {
    /// Number of parts of the reply; 0 before the first part arrives.
    count: u16,
    /// Number of the next part to pass on.
    next: u16,
    early: BTreeMap<u16, Box<[u8]>>,
    early_bytes: usize,
}

impl Reassembly {
    /// Adds the part behind `header`, and calls `take` with each part whose turn has come. Returns whether
    /// the reply is complete.
    ///
    /// Ignores a part that arrived before, and a part that disagrees with the first about the number of
    /// parts. Keeps a part that arrives before its turn if all kept parts fit into `room_bytes`, and
    /// drops it otherwise. Does not check the id.
    pub fn push(&mut self, header: Header, part: &[u8], room_bytes: usize, mut take: impl FnMut(&[u8])) -> bool {
        let Header { sequence, count, .. } = header;
        let is_of_reply = sequence < count && (self.count == 0 || self.count == count);
        if !is_of_reply || sequence < self.next {
            return false;
        }
        self.count = count;
        if sequence > self.next {
            let is_new = !self.early.contains_key(&sequence);
            if is_new && self.early_bytes + part.len() <= room_bytes {
                self.early_bytes += part.len();
                self.early.insert(sequence, part.into());
            }
            return false;
        }
        take(part);
        self.next += 1;
        while let Some(part) = self.early.remove(&self.next) {
            self.early_bytes -= part.len();
            take(&part);
            self.next += 1;
        }
        self.next == self.count
    }

    /// Number of bytes in kept parts.
    #[must_use]
    pub const fn early_bytes(&self) -> usize {
        self.early_bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(sequence: u16, count: u16) -> Header {
        Header { sequence, count, ..Header::request(1) }
    }

    #[test]
    fn parts_that_do_not_belong_to_the_reply_are_ignored() {
        let mut reassembly = Reassembly::default();
        let mut reply = Vec::new();
        for (sequence, count, part, is_last) in [
            (0, 0, "none of none", false),
            (3, 3, "beyond the last", false),
            (2, 3, "c", false),
            (2, 3, "c again", false),
            (0, 2, "of two", false),
            (0, 3, "a", false),
            (0, 3, "a again", false),
            (1, 3, "b", true),
            (1, 3, "b again", false),
        ] {
            let last = reassembly.push(header(sequence, count), part.as_bytes(), 100, |bytes| {
                reply.extend_from_slice(bytes);
            });
            assert_eq!(last, is_last, "{part}");
        }
        assert_eq!(reply, b"abc");
    }

    #[test]
    fn a_part_without_room_is_dropped_until_it_is_sent_again() {
        let mut reassembly = Reassembly::default();
        let mut reply = Vec::new();
        let mut push = |sequence, room_bytes| {
            let take = |bytes: &[u8]| reply.extend_from_slice(bytes);
            let is_last = reassembly.push(header(sequence, 4), b"xyz", room_bytes, take);
            (is_last, reassembly.early_bytes())
        };
        assert_eq!(push(2, 5), (false, 3));
        assert_eq!(push(3, 5), (false, 3));
        assert_eq!(push(0, 0), (false, 3));
        assert_eq!(push(1, 0), (false, 0));
        assert_eq!(push(3, 0), (true, 0));
        assert_eq!(reply, b"xyz".repeat(4));
    }

    /// Parts of a reply, and the order in which they arrive, each at least once.
    fn parts_in_disorder() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<usize>)> {
        let parts = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 1..12);
        parts.prop_flat_map(|parts| {
            let again = prop::collection::vec(0..parts.len(), 0..12);
            let order = again.prop_map({
                let all = 0..parts.len();
                move |again| all.clone().chain(again).collect::<Vec<_>>()
            });
            (Just(parts), order.prop_shuffle())
        })
    }

    proptest! {
        #[test]
        fn parts_in_any_order_make_the_reply((parts, order) in parts_in_disorder()) {
            let mut reassembly = Reassembly::default();
            let mut reply = Vec::new();
            let mut ends = 0;
            let count = u16::try_from(parts.len()).unwrap();
            for &place in &order {
                let header = header(u16::try_from(place).unwrap(), count);
                let take = |bytes: &[u8]| reply.extend_from_slice(bytes);
                ends += u32::from(reassembly.push(header, &parts[place], usize::MAX, take));
            }
            prop_assert_eq!(reply, parts.concat());
            prop_assert_eq!((ends, reassembly.early_bytes()), (1, 0));
        }

        #[test]
        fn without_one_part_or_room_only_a_prefix_is_passed_on(
            (parts, order) in parts_in_disorder(),
            lost in any::<prop::sample::Index>(),
            room_bytes in 0..60_usize,
        ) {
            let lost = lost.index(parts.len());
            let mut reassembly = Reassembly::default();
            let mut reply = Vec::new();
            let count = u16::try_from(parts.len()).unwrap();
            for &place in order.iter().filter(|place| **place != lost) {
                let header = header(u16::try_from(place).unwrap(), count);
                let take = |bytes: &[u8]| reply.extend_from_slice(bytes);
                prop_assert!(!reassembly.push(header, &parts[place], room_bytes, take));
                prop_assert!(reassembly.early_bytes() <= room_bytes);
            }
            prop_assert!(parts[..lost].concat().starts_with(&reply));
        }
    }
}
