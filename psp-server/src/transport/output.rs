//! A connection's output: small replies in one buffer, large ones as shared segments.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

use bytes::Bytes;
use psp_protocols::Sink;

/// Shared payloads below this length are copied: a segment costs about as much.
const SHARE_LEN_MIN: usize = 8 * 1024;
/// A tail of this length becomes a segment, so that a long reply never moves while it grows.
const SEGMENT_LEN: usize = 64 * 1024;
/// A tail up to this length is copied when it becomes a segment, so that the tail keeps its buffer. So is a tail that
/// fills less than half of its buffer, so that the segment holds no more than twice its length.
const TAIL_COPY_LEN_MAX: usize = 4 * 1024;
/// Bytes in one system call. A kernel without preemption runs a system call to its end, and the net
/// thread, woken on the same core, waits for it.
pub(super) const CALL_BYTES_MAX: usize = 64 * 1024;
/// Segments in one `writev`.
const SLICES_MAX: usize = 16;

/// Bytes on their way to a peer, in order.
#[derive(Debug, Default)]
pub(crate) struct OutputQueue {
    segments: VecDeque<Segment>,
    /// Bytes of memory that the segments hold.
    segments_held: usize,
    tail: Vec<u8>,
    /// Bytes of the first segment (of the tail, if there is none) that are already sent.
    sent: usize,
    len: usize,
}

/// Bytes in front of the tail.
#[derive(Debug)]
struct Segment {
    bytes: Bytes,
    /// Bytes of memory that it holds, to its end.
    held: usize,
}

/// How a [`OutputQueue::write_to`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Everything is sent.
    Empty,
    /// The socket takes no more for now.
    Blocked,
    /// The budget is used up; the socket may take more.
    Budget,
}

impl OutputQueue {
    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory held by the queue, shared segments included.
    pub(crate) fn held_bytes(&self) -> usize {
        self.segments_held + self.tail.capacity()
    }

    /// Takes a buffer from `spare` for the tail if it has none.
    pub(crate) fn lend_buffer(&mut self, spare: &mut Vec<Vec<u8>>) {
        if self.tail.capacity() == 0
            && let Some(buffer) = spare.pop()
        {
            self.tail = buffer;
        }
    }

    /// Gives the tail's buffer back once everything is sent: an idle connection holds none.
    pub(crate) fn return_buffer(&mut self, spare: &mut Vec<Vec<u8>>) {
        if self.is_empty() && self.tail.capacity() > 0 {
            let buffer = std::mem::take(&mut self.tail);
            self.sent = 0;
            if spare.len() < spare.capacity() && buffer.capacity() <= SEGMENT_LEN {
                spare.push(buffer);
            }
        }
    }

    /// Removes the last bytes until `len` are left. They must not have been sent.
    pub(crate) fn truncate(&mut self, len: usize) {
        while self.len > len {
            let surplus = self.len - len;
            if !self.tail.is_empty() {
                let cut = surplus.min(self.tail.len());
                self.tail.truncate(self.tail.len() - cut);
                self.len -= cut;
            } else {
                let Some(mut last) = self.segments.pop_back() else {
                    break;
                };
                let cut = surplus.min(last.bytes.len());
                last.bytes.truncate(last.bytes.len() - cut);
                self.len -= cut;
                if last.bytes.is_empty() {
                    self.segments_held -= last.held;
                } else {
                    self.segments.push_back(last);
                }
            }
        }
    }

    /// Appends bytes whose memory counts elsewhere.
    pub(crate) fn put_counted(&mut self, bytes: Bytes) {
        self.seal();
        self.len += bytes.len();
        self.push_segment(bytes, 0);
    }

    /// Appends what `other` holds, of which nothing was sent. It may keep its buffer.
    pub(crate) fn absorb(&mut self, other: &mut Self) {
        if self.is_empty() {
            return std::mem::swap(self, other);
        }
        for Segment { bytes, held } in other.segments.drain(..) {
            self.seal();
            self.len += bytes.len();
            self.push_segment(bytes, held);
        }
        self.put(&other.tail);
        other.tail.clear();
        (other.len, other.segments_held) = (0, 0);
    }

    /// Moves all bytes to the start of `room`, which is as long or longer. Returns how many.
    pub(crate) fn copy_to(&mut self, mut room: &mut [u8]) -> usize {
        let before = self.len;
        // A slice takes all that it has room for.
        let _ = self.write_to(&mut room, usize::MAX);
        before - self.len
    }

    /// Writes until the queue is empty, `budget_bytes` are sent, or the socket would block.
    ///
    /// # Errors
    /// The socket's errors, except `WouldBlock` and `Interrupted`.
    pub(crate) fn write_to(&mut self, socket: &mut impl Write, budget_bytes: usize) -> io::Result<Flush> {
        let mut left = budget_bytes;
        while !self.is_empty() {
            if left == 0 {
                return Ok(Flush::Budget);
            }
            let call_bytes = left.min(CALL_BYTES_MAX);
            let result = if self.segments.is_empty() {
                let end = self.tail.len().min(self.sent + call_bytes);
                socket.write(&self.tail[self.sent..end])
            } else {
                self.write_segments(socket, call_bytes)
            };
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.advance(count);
                    left = left.saturating_sub(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Flush::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Flush::Empty)
    }

    fn write_segments(&self, socket: &mut impl Write, budget_bytes: usize) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut left = budget_bytes;
        let mut skip = self.sent;
        let parts = self.segments.iter().map(|segment| segment.bytes.as_ref()).chain([self.tail.as_slice()]);
        for part in parts.take(SLICES_MAX) {
            let part = &part[skip..];
            skip = 0;
            let part = &part[..part.len().min(left)];
            left -= part.len();
            slices[count] = IoSlice::new(part);
            count += 1;
            if left == 0 {
                break;
            }
        }
        socket.write_vectored(&slices[..count])
    }

    fn advance(&mut self, mut count: usize) {
        self.len -= count;
        while let Some(first) = self.segments.front() {
            let rest = first.bytes.len() - self.sent;
            if count < rest {
                self.sent += count;
                return;
            }
            count -= rest;
            self.sent = 0;
            self.segments_held -= first.held;
            self.segments.pop_front();
        }
        self.sent += count;
        if self.sent == self.tail.len() {
            self.tail.clear();
            self.sent = 0;
        }
    }

    /// Turns the tail into a segment.
    fn seal(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        let unsent = if self.segments.is_empty() {
            std::mem::take(&mut self.sent)
        } else {
            0
        };
        let mut held = self.tail.len() - unsent;
        let is_small = self.tail.len() <= TAIL_COPY_LEN_MAX;
        let bytes = if is_small || 2 * self.tail.len() < self.tail.capacity() {
            let copy = Bytes::copy_from_slice(&self.tail[unsent..]);
            self.tail.clear();
            copy
        } else {
            held = self.tail.capacity();
            Bytes::from(std::mem::take(&mut self.tail)).split_off(unsent)
        };
        self.push_segment(bytes, held);
    }

    fn push_segment(&mut self, bytes: Bytes, held: usize) {
        if !bytes.is_empty() {
            self.segments_held += held;
            self.segments.push_back(Segment { bytes, held });
        }
    }

    /// Appends bytes that the tail's buffer has no room for. A tail grows to the length of a segment. It may be longer
    /// if its buffer had more room: TLS returns such buffers.
    #[cold]
    fn put_growing(&mut self, mut bytes: &[u8]) {
        if self.tail.len() >= SEGMENT_LEN {
            self.seal();
        }
        while !bytes.is_empty() {
            let room = SEGMENT_LEN - self.tail.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            let needed = self.tail.len() + now.len();
            if needed > self.tail.capacity() {
                let doubled = (2 * self.tail.capacity()).max(needed).min(SEGMENT_LEN);
                self.tail.reserve_exact(doubled - self.tail.len());
            }
            self.tail.extend_from_slice(now);
            if self.tail.len() == SEGMENT_LEN {
                self.seal();
            }
            bytes = later;
        }
    }
}

impl Sink for OutputQueue {
    fn put(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        if bytes.len() < self.tail.capacity() - self.tail.len() {
            self.tail.extend_from_slice(bytes);
        } else {
            self.put_growing(bytes);
        }
    }

    fn put_pieces(&mut self, pieces: [&[u8]; 3]) {
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if len < self.tail.capacity() - self.tail.len() {
            self.len += len;
            pieces.iter().for_each(|piece| self.tail.extend_from_slice(piece));
        } else {
            pieces.iter().for_each(|piece| self.put(piece));
        }
    }

    fn put_shared(&mut self, bytes: Bytes) {
        if bytes.len() < SHARE_LEN_MIN {
            self.put(&bytes);
        } else {
            self.seal();
            self.len += bytes.len();
            let held = bytes.len();
            self.push_segment(bytes, held);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes at most `step` bytes a call and blocks on every third.
    struct Narrow {
        taken: Vec<u8>,
        step: usize,
        calls: usize,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(3) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(self.step);
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_buffer_with_more_room_than_a_segment_is_used() {
        let mut queue = OutputQueue::default();
        queue.lend_buffer(&mut vec![Vec::with_capacity(2 * SEGMENT_LEN)]);
        let sent: Vec<u8> = (0..SEGMENT_LEN + 50_000).map(|at| at as u8).collect();
        queue.put(&sent[..SEGMENT_LEN + 10]);
        queue.put(&sent[SEGMENT_LEN + 10..]);
        queue.put(&sent);
        queue.truncate(sent.len() + 3);
        let mut taken = Vec::new();
        assert_eq!(queue.write_to(&mut taken, usize::MAX).unwrap(), Flush::Empty);
        assert_eq!(taken, [&sent[..], &sent[..3]].concat());
        assert_eq!(queue.len(), 0);
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Put(usize),
        PutShared(usize),
        Flush(usize),
        PutAndTruncate(usize),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let len = prop_oneof![0..100usize, 4000..9000usize, 60_000..70_000usize];
        prop_oneof![
            len.clone().prop_map(Operation::Put),
            len.clone().prop_map(Operation::PutShared),
            len.clone().prop_map(Operation::Flush),
            len.prop_map(Operation::PutAndTruncate),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn bytes_leave_in_the_order_they_came(
            operations in prop::collection::vec(operation(), 1..40),
            step in prop_oneof![1..50usize, 1000..100_000usize],
        ) {
            let step = step.max(64);
            let mut queue = OutputQueue::default();
            let mut socket = Narrow { taken: Vec::new(), step, calls: 0 };
            let mut expected = Vec::new();
            let mut stamp = 0u8;
            let mut payload = |len: usize| {
                stamp = stamp.wrapping_add(1);
                (0..len).map(|i| stamp.wrapping_mul(31).wrapping_add(i as u8)).collect::<Vec<u8>>()
            };
            for operation in operations {
                match operation {
                    Operation::Put(len) => {
                        let bytes = payload(len);
                        queue.put(&bytes);
                        expected.extend(bytes);
                    }
                    Operation::PutShared(len) => {
                        let bytes = payload(len);
                        queue.put_shared(Bytes::from(bytes.clone()));
                        expected.extend(bytes);
                    }
                    Operation::Flush(budget) => {
                        let before = queue.len();
                        let flush = queue.write_to(&mut socket, budget).unwrap();
                        prop_assert_eq!(flush == Flush::Empty, queue.is_empty());
                        prop_assert!(before - queue.len() <= budget);
                    }
                    Operation::PutAndTruncate(len) => {
                        let mark = queue.len();
                        queue.put(&payload(len));
                        queue.put_shared(Bytes::from(payload(len)));
                        queue.truncate(mark);
                        prop_assert_eq!(queue.len(), mark);
                    }
                }
                prop_assert_eq!(queue.len(), expected.len() - socket.taken.len());
            }
            while queue.write_to(&mut socket, usize::MAX).unwrap() != Flush::Empty {}
            prop_assert_eq!(socket.taken, expected);
        }
    }

    #[test]
    fn a_long_reply_holds_little_more_than_its_bytes() {
        for len in [1, 1000, 40_000, 70_000, 1 << 20] {
            let mut queue = OutputQueue::default();
            let piece = vec![7; len];
            while queue.len() < 4 << 20 {
                queue.put(&piece);
                let most = queue.len() + SEGMENT_LEN;
                assert!(queue.held_bytes() <= most, "{} of {most}", queue.held_bytes());
            }
            let mut taken = Vec::new();
            queue.write_to(&mut taken, 1 << 20).unwrap();
            assert!(queue.held_bytes() <= queue.len() + 2 * SEGMENT_LEN);
            queue.write_to(&mut taken, usize::MAX).unwrap();
            assert!(queue.held_bytes() <= SEGMENT_LEN, "one buffer");
            assert!(taken.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn a_segment_holds_no_more_than_twice_its_length() {
        let mut queue = OutputQueue::default();
        for _ in 0..100 {
            queue.put(&[7; 5000]);
            queue.put_shared(Bytes::from(vec![8; SHARE_LEN_MIN]));
        }
        assert!(queue.held_bytes() <= 2 * queue.len() + SEGMENT_LEN);
        queue.truncate(0);
        assert!(queue.held_bytes() <= SEGMENT_LEN, "discarded bytes hold nothing");
    }

    #[test]
    fn a_buffer_comes_back_only_when_all_is_sent() {
        let mut spare = Vec::with_capacity(4);
        spare.push(Vec::with_capacity(1024));
        let mut queue = OutputQueue::default();
        queue.lend_buffer(&mut spare);
        assert!(spare.is_empty());
        queue.put(b"reply");
        queue.return_buffer(&mut spare);
        assert!(spare.is_empty(), "the reply still waits in it");
        let mut taken = Vec::new();
        assert_eq!(queue.write_to(&mut taken, usize::MAX).unwrap(), Flush::Empty);
        queue.return_buffer(&mut spare);
        assert!(spare[0].capacity() >= 1024);
        assert_eq!(queue.held_bytes(), 0);
    }
}
