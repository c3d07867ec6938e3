//! A connection's input buffer, and the pool it comes from.
//!
//! A request of up to 64 KiB is read into a buffer that doubles. A longer one, which is called a body, gets a buffer
//! for all that is announced once so much of it has come. It is read into place, and a handler may keep parts of it
//! without a copy.

use std::io;

use bytes::Bytes;

use super::budget::EXEMPT_BYTES;
use super::spare::Receive;

/// Bytes of a pooled buffer: a read takes at most this much at once.
pub(crate) const POOLED_LEN: usize = 16 * 1024;
/// Incomplete input up to this length moves to a buffer of its own size while it waits.
const WAITING_LEN_MAX: usize = 2 * 1024;
/// Bytes in one system call, which a kernel without preemption runs to its end.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Pooled buffers that are kept when no connection needs them.
const POOL_KEEP: usize = 256;
/// Requests from this length on are bodies.
pub(crate) const BODY_LEN_MIN: usize = EXEMPT_BYTES;
/// Room behind a body that takes long to move, for what a TLS record has of the next request.
const BODY_SLACK: usize = 2 * POOLED_LEN;
/// Bodies from this length on take long to move.
const ROOMY_BODY_LEN_MIN: usize = 1 << 20;
/// The part of a buffer that may be unused if handlers keep parts of it.
const WASTE_DIVISOR: usize = 8;

/// Bytes received and not yet consumed. An idle connection holds no memory.
#[derive(Debug, Default)]
pub(crate) struct InputBuffer {
    /// A body has capacity beyond the length, which nothing has touched.
    bytes: Vec<u8>,
    /// In place of `bytes`: a body that handlers may keep.
    shared: Option<Bytes>,
    start: usize,
    end: usize,
    /// Bytes still to come that are dropped on arrival. The buffer holds no bytes while there are any.
    discard_left: u64,
}

/// How a [`InputBuffer::read_from`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Bytes came in; `drained` says that the socket held no more.
    Read {
        /// How many, including dropped bytes.
        count: usize,
        /// The read came back short.
        drained: bool,
    },
    /// The socket has nothing for now.
    Blocked,
    /// The peer sends no more.
    End,
    /// The peer broke the protocol of its session (TLS).
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS has sessions"))]
    Broken,
}

impl InputBuffer {
    #[inline]
    pub(crate) fn data(&self) -> &[u8] {
        let bytes = self.shared.as_deref().unwrap_or(&self.bytes);
        &bytes[self.start..self.end]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes of memory held.
    pub(crate) fn held_bytes(&self) -> usize {
        let shared = self.shared.as_ref();
        shared.map_or(self.bytes.capacity(), Bytes::len)
    }

    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        if self.shared.is_some() && self.end - self.start <= BODY_SLACK {
            self.unshare();
        }
    }

    /// Moves the next `len` bytes to `other`, which is empty. A body is moved with its buffer, and what follows it is
    /// copied.
    pub(crate) fn detach(&mut self, len: usize, other: &mut Self) {
        debug_assert!(other.is_empty() && len <= self.end - self.start);
        let behind = self.start + len;
        if len >= BODY_LEN_MIN && self.end - behind <= BODY_SLACK {
            let rest = self.data()[len..].to_vec();
            (other.start, other.end) = (self.start, behind);
            other.bytes = std::mem::take(&mut self.bytes);
            other.shared = self.shared.take();
            (self.start, self.end) = (0, rest.len());
            self.bytes = rest;
        } else {
            other.bytes.clear();
            other.bytes.extend_from_slice(&self.data()[..len]);
            (other.start, other.end) = (0, len);
            self.consume(len);
        }
    }

    /// Forgets all bytes. A small buffer stays.
    pub(crate) fn empty(&mut self) {
        self.shared = None;
        (self.start, self.end, self.discard_left) = (0, 0, 0);
        if self.bytes.capacity() > WAITING_LEN_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Drops the next `count` bytes, including bytes that have not come yet.
    pub(crate) fn discard(&mut self, count: u64) {
        let count = self.discard_left + count;
        let held = self.end - self.start;
        let now = usize::try_from(count).map_or(held, |count| count.min(held));
        self.start += now;
        self.discard_left = count - now as u64;
    }

    /// The length of the buffer that a body of `len_min` bytes needs, if it is time to [reserve](Self::reserve) that.
    pub(crate) fn wants_body(&self, len_min: usize) -> Option<usize> {
        let held = self.end - self.start;
        let is_full = self.end == self.held_bytes();
        (is_full && held >= BODY_LEN_MIN && is_announced(len_min, held)).then(|| match len_min >= ROOMY_BODY_LEN_MIN {
            true => len_min.saturating_add(BODY_SLACK),
            false => len_min,
        })
    }

    /// Gets a buffer of `len` bytes. Its memory is touched as bytes come. Returns `false` if the system refuses it.
    pub(crate) fn reserve(&mut self, len: usize) -> bool {
        let mut body = Vec::new();
        let is_reserved = body.try_reserve_exact(len).is_ok();
        if is_reserved {
            body.extend_from_slice(self.data());
            (self.start, self.end) = (0, body.len());
            (self.bytes, self.shared) = (body, None);
        }
        is_reserved
    }

    /// From now on handlers may keep parts of what was received, unless they would keep much unused memory with it.
    pub(crate) fn share(&mut self) {
        let capacity = self.bytes.capacity();
        if self.shared.is_none() && capacity - self.end <= capacity / WASTE_DIVISOR {
            let mut bytes = std::mem::take(&mut self.bytes);
            bytes.truncate(self.end);
            self.shared = Some(Bytes::from(bytes));
        }
    }

    /// The buffer, if it is [shared](Self::share).
    #[inline]
    pub(crate) const fn shared(&self) -> Option<&Bytes> {
        self.shared.as_ref()
    }

    /// Leaves a shared buffer to those who share it. What it has left is copied.
    fn unshare(&mut self) {
        if let Some(shared) = self.shared.take() {
            self.bytes = shared[self.start..self.end].to_vec();
            (self.start, self.end) = (0, self.bytes.len());
        }
    }

    /// Makes room for a frame of which `len_min` bytes are announced. Unless it is a body whose buffer was reserved,
    /// the buffer is at most twice as long as the received input, whatever the peer announces.
    pub(crate) fn make_room(&mut self, len_min: usize, pool: &mut BufferPool) {
        self.unshare();
        let capacity = self.bytes.capacity();
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            if capacity < POOLED_LEN {
                self.bytes = pool.take();
            }
            return;
        }
        if self.end < capacity {
            return;
        }
        let held = self.end - self.start;
        if held * 2 > capacity {
            let doubled = capacity * 2;
            let mut grown = if capacity < POOLED_LEN {
                pool.take()
            } else if is_announced(len_min, held) {
                vec![0; len_min.min(doubled)]
            } else {
                // A frame of unknown length: growing only by the announced bytes would take many steps.
                vec![0; doubled]
            };
            grown[..held].copy_from_slice(&self.bytes[self.start..self.end]);
            pool.give(std::mem::replace(&mut self.bytes, grown));
        } else {
            self.bytes.copy_within(self.start..self.end, 0);
        }
        (self.start, self.end) = (0, held);
    }

    /// One read into the free room, which must not be empty.
    ///
    /// # Errors
    /// The socket's errors, except `WouldBlock` and `Interrupted`.
    pub(crate) fn read_from(&mut self, socket: &mut impl Receive) -> io::Result<Fill> {
        let is_body = self.bytes.len() == self.end;
        let room = match is_body {
            true => self.bytes.capacity() - self.end,
            false => self.bytes.len() - self.end,
        };
        let room = room.min(READ_BYTES_MAX);
        debug_assert!(room > 0);
        loop {
            let received = match is_body {
                true => socket.receive_spare(&mut self.bytes, room),
                false => socket.read(&mut self.bytes[self.end..self.end + room]),
            };
            match received {
                Ok(0) => return Ok(Fill::End),
                Ok(count) => {
                    let drained = count < room;
                    self.end += count;
                    self.discard(0);
                    return Ok(Fill::Read { count, drained });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Fill::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives back memory that the connection does not need while it waits for its peer.
    pub(crate) fn return_buffer(&mut self, pool: &mut BufferPool) {
        self.unshare();
        if self.is_empty() {
            pool.give(std::mem::take(&mut self.bytes));
            (self.start, self.end) = (0, 0);
        } else if self.bytes.len() >= POOLED_LEN && self.end - self.start <= WAITING_LEN_MAX {
            let held = self.data().to_vec();
            self.end -= self.start;
            self.start = 0;
            pool.give(std::mem::replace(&mut self.bytes, held));
        }
    }
}

/// Whether the peer has announced clearly more than the `held` bytes.
const fn is_announced(len_min: usize, held: usize) -> bool {
    len_min > held + held / 4
}

/// Free input buffers of [`POOLED_LEN`] bytes. Few are in use at one time: a connection returns its buffer as
/// soon as its input is consumed.
#[derive(Debug)]
pub(crate) struct BufferPool {
    free: Vec<Vec<u8>>,
}

impl BufferPool {
    pub(crate) fn new() -> Self {
        Self { free: Vec::with_capacity(POOL_KEEP) }
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_else(|| vec![0; POOLED_LEN])
    }

    pub(crate) fn give(&mut self, buffer: Vec<u8>) {
        if buffer.len() == POOLED_LEN && self.free.len() < POOL_KEEP {
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(input: &mut InputBuffer, pool: &mut BufferPool, mut bytes: &[u8], len_min: usize) {
        while !bytes.is_empty() {
            input.make_room(len_min, pool);
            assert!(matches!(input.read_from(&mut bytes).unwrap(), Fill::Read { .. }));
        }
    }

    #[test]
    fn an_announced_length_reserves_no_memory() {
        let mut pool = BufferPool::new();
        let mut input = InputBuffer::default();
        fill(&mut input, &mut pool, &[7; 100], 1 << 30);
        assert_eq!(input.held_bytes(), POOLED_LEN);
        fill(&mut input, &mut pool, &[7; POOLED_LEN], 1 << 30);
        assert_eq!(input.held_bytes(), 2 * POOLED_LEN);
    }

    #[test]
    fn a_body_is_received_into_place_and_kept_without_a_copy() {
        const LEN: usize = 1 << 20;
        let mut pool = BufferPool::new();
        let mut input = InputBuffer::default();
        fill(&mut input, &mut pool, &[7; BODY_LEN_MIN - 1], LEN);
        assert_eq!(input.wants_body(LEN), None, "there is room");
        fill(&mut input, &mut pool, &[7], LEN);
        let reserved = input.wants_body(LEN).expect("it is full");
        assert_eq!(input.wants_body(BODY_LEN_MIN + 1), None, "not announced");
        assert!(input.reserve(reserved));
        let place = input.data().as_ptr();
        assert_eq!(input.held_bytes(), reserved);
        fill(&mut input, &mut pool, &[7; LEN - BODY_LEN_MIN], LEN);
        fill(&mut input, &mut pool, b"next", 1);
        input.share();
        let kept = input.shared().map(|shared| shared.slice(..LEN)).unwrap();
        assert_eq!(kept.as_ptr(), place);
        input.consume(LEN);
        assert_eq!((input.data(), input.held_bytes()), (&b"next"[..], 4));
        assert_eq!(kept, [7; LEN].as_slice());
        fill(&mut input, &mut pool, b"!", 1);
        assert_eq!(input.data(), b"next!");
    }

    #[test]
    fn a_shared_buffer_that_is_not_consumed_goes_on() {
        let mut pool = BufferPool::new();
        let mut input = InputBuffer::default();
        fill(&mut input, &mut pool, &[7; BODY_LEN_MIN + 1], 1);
        input.share();
        assert!(input.shared().is_none(), "half of it is unused");
        fill(&mut input, &mut pool, &[7; 2 * BODY_LEN_MIN - 1], 1);
        assert!(input.reserve(3 * BODY_LEN_MIN));
        input.share();
        input.consume(BODY_LEN_MIN);
        assert!(input.shared().is_some());
        assert_eq!(input.data(), [7; 2 * BODY_LEN_MIN]);
        fill(&mut input, &mut pool, &[8; 10], 1);
        assert_eq!(input.data()[2 * BODY_LEN_MIN - 1..][..3], [7, 8, 8]);
    }

    #[test]
    fn a_large_buffer_does_not_wait_for_a_small_rest() {
        let mut pool = BufferPool::new();
        let mut input = InputBuffer::default();
        fill(&mut input, &mut pool, &[7; 1 << 20], 1 << 20);
        input.consume((1 << 20) - 1);
        input.return_buffer(&mut pool);
        assert_eq!((input.data(), input.held_bytes()), (&[7][..], 1));
        input.consume(1);
        input.make_room(1, &mut pool);
        assert_eq!(input.held_bytes(), POOLED_LEN, "no reads of one byte");
    }

    #[test]
    fn input_of_unknown_length_doubles_its_buffer() {
        let mut pool = BufferPool::new();
        let mut input = InputBuffer::default();
        let mut lengths = vec![];
        let mut bytes: &[u8] = &[7; 1 << 20];
        while !bytes.is_empty() {
            input.make_room(input.data().len() + 1, &mut pool);
            input.read_from(&mut bytes).unwrap();
            lengths.push(input.held_bytes());
        }
        lengths.dedup();
        assert!(lengths.len() < 10, "{lengths:?}");
    }

    #[test]
    fn grows_moves_and_shrinks_without_losing_bytes() {
        let mut pool = BufferPool::new();
        let mut input = InputBuffer::default();
        let bytes: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let mut fed = 0;
        let mut consumed = 0;
        for (feed, eat) in [(10, 3), (20_000, 19_000), (100_000, 10), (5, 100_000), (40_000, 1)] {
            fill(&mut input, &mut pool, &bytes[fed..fed + feed], 1);
            fed += feed;
            input.consume(eat);
            consumed += eat;
            assert_eq!(input.data(), &bytes[consumed..fed]);
            input.return_buffer(&mut pool);
            assert_eq!(input.data(), &bytes[consumed..fed]);
        }
    }

    #[test]
    fn discarded_bytes_are_dropped_as_they_come() {
        let mut pool = BufferPool::new();
        let mut input = InputBuffer::default();
        fill(&mut input, &mut pool, b"frame and some", 1);
        input.consume(5);
        input.discard(100_000);
        let mut stream: &[u8] = &[b"x".repeat(100_000 - 9), b"next".to_vec()].concat();
        let mut received = 0;
        while !stream.is_empty() {
            assert!(input.is_empty());
            input.make_room(1, &mut pool);
            match input.read_from(&mut stream).unwrap() {
                Fill::Read { count, .. } => received += count,
                other => panic!("{other:?}"),
            }
            assert!(input.held_bytes() <= POOLED_LEN);
        }
        assert_eq!((received, input.data()), (99_995, &b"next"[..]));
    }

    #[test]
    fn idle_input_holds_nothing_and_waiting_input_little() {
        let mut pool = BufferPool::new();
        let mut input = InputBuffer::default();
        fill(&mut input, &mut pool, b"*2\r\n", 16);
        input.return_buffer(&mut pool);
        assert_eq!(input.held_bytes(), 4);
        input.consume(4);
        input.return_buffer(&mut pool);
        assert_eq!(input.held_bytes(), 0);
    }
}
