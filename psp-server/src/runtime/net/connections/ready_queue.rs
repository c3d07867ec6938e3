//! Connections that have something to do, in order.

use std::collections::VecDeque;

use crate::transport::request_key::ConnectionIndex;

/// Connections that have their turn before one that was put off.
const BEFORE_PUT_OFF_MAX: u32 = 64;

/// A queue that has each connection at most once. Those whose turns take long are put off behind the others.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    order: VecDeque<ConnectionIndex>,
    put_off: VecDeque<ConnectionIndex>,
    /// How many had their turn since the last one that was put off.
    before_put_off: u32,
    /// What is known of the connection of an index.
    marks: Vec<Marks>,
    /// How many are marked as answered.
    answered: usize,
    /// Replies were sent since [`ReadyQueue::take_has_sent`].
    has_sent: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    is_queued: bool,
    /// The connection has a reply to send.
    is_answered: bool,
}

impl ReadyQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.put_off.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len() + self.put_off.len()
    }

    /// How many were not put off.
    pub(super) fn in_order(&self) -> usize {
        self.order.len()
    }

    /// In order.
    pub(super) fn iter(&self) -> impl Iterator<Item = ConnectionIndex> + use<'_> {
        self.order.iter().chain(&self.put_off).copied()
    }

    pub(super) fn push(&mut self, index: ConnectionIndex) {
        if self.mark(index) {
            self.order.push_back(index);
        }
    }

    /// The same of a connection whose turn takes long.
    pub(super) fn put_off(&mut self, index: ConnectionIndex) {
        if self.mark(index) {
            self.put_off.push_back(index);
        }
    }

    /// Returns whether the connection was not in the queue.
    fn mark(&mut self, index: ConnectionIndex) -> bool {
        if self.marks.len() <= index.get() {
            self.marks.resize(index.get() + 1, Marks::default());
        }
        !std::mem::replace(&mut self.marks[index.get()].is_queued, true)
    }

    /// The same of a connection that has a reply to send. It is not put off any more.
    pub(super) fn push_answered(&mut self, index: ConnectionIndex) {
        self.forget_put_off(index);
        self.push(index);
        let is_answered = &mut self.marks[index.get()].is_answered;
        self.answered += usize::from(!std::mem::replace(is_answered, true));
    }

    /// The next one that was not put off.
    pub(super) fn pop(&mut self) -> Option<ConnectionIndex> {
        let index = self.order.pop_front()?;
        if !self.put_off.is_empty() {
            self.before_put_off += 1;
        }
        self.unmark(index);
        Some(index)
    }

    /// Whether those that were put off have waited for long enough.
    pub(super) fn is_time_for_put_off(&self) -> bool {
        let is_time = self.order.is_empty() || self.before_put_off >= BEFORE_PUT_OFF_MAX;
        is_time && !self.put_off.is_empty()
    }

    /// Takes a connection out that was put off, if it was.
    pub(super) fn forget_put_off(&mut self, index: ConnectionIndex) {
        let is_queued = self.marks.get(index.get()).is_some_and(|it| it.is_queued);
        if !is_queued || self.put_off.is_empty() {
            return;
        }
        let place = self.put_off.iter().position(|&other| other == index);
        if let Some(place) = place {
            self.put_off.remove(place);
            self.unmark(index);
        }
    }

    /// The next one that was put off.
    pub(super) fn pop_put_off(&mut self) -> Option<ConnectionIndex> {
        self.before_put_off = 0;
        let index = self.put_off.pop_front()?;
        self.unmark(index);
        Some(index)
    }

    fn unmark(&mut self, index: ConnectionIndex) {
        let marks = std::mem::take(&mut self.marks[index.get()]);
        self.answered -= usize::from(marks.is_answered);
    }

    /// Calls `send` with each connection that was pushed as answered, the last one first, and once. They stay in the
    /// queue. None of them is put off.
    pub(super) fn send_answered(&mut self, mut send: impl FnMut(ConnectionIndex)) {
        self.has_sent |= self.answered > 0;
        for &index in self.order.iter().rev() {
            if self.answered == 0 {
                return;
            }
            if std::mem::take(&mut self.marks[index.get()].is_answered) {
                self.answered -= 1;
                send(index);
            }
        }
    }

    pub(super) fn note_sent(&mut self) {
        self.has_sent = true;
    }

    /// Whether replies were sent since the last call.
    pub(super) fn take_has_sent(&mut self) -> bool {
        std::mem::take(&mut self.has_sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_queued_once() {
        let index = |index| ConnectionIndex::new(index).unwrap();
        let mut queue = ReadyQueue::default();
        for number in [3, 1, 3] {
            queue.push(index(number));
        }
        assert_eq!(queue.pop(), Some(index(3)));
        queue.push(index(3));
        assert_eq!([queue.pop(), queue.pop()], [1, 3].map(|n| Some(index(n))));
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    fn those_that_are_put_off_come_last_and_have_their_turns() {
        let index = |index| ConnectionIndex::new(index).unwrap();
        let mut queue = ReadyQueue::default();
        queue.put_off(index(7));
        queue.push(index(7));
        assert_eq!((queue.len(), queue.pop()), (1, None), "it is there once");
        for _ in 0..BEFORE_PUT_OFF_MAX {
            (1..=2).for_each(|number| queue.push(index(number)));
            assert!(!queue.is_time_for_put_off());
            assert!(queue.pop().is_some());
        }
        assert!(queue.is_time_for_put_off());
        assert_eq!(queue.pop_put_off(), Some(index(7)));
        assert!(!queue.is_time_for_put_off() && queue.pop_put_off().is_none());
        while queue.pop().is_some() {}
        assert!(queue.is_empty());
        (7..=9).for_each(|number| queue.put_off(index(number)));
        queue.push_answered(index(8));
        queue.forget_put_off(index(9));
        queue.push(index(9));
        assert_eq!([queue.pop(), queue.pop()], [8, 9].map(|n| Some(index(n))));
        assert_eq!((queue.pop(), queue.pop_put_off()), (None, Some(index(7))));
        assert!(queue.is_empty());
    }

    #[test]
    fn who_was_answered_is_sent_to_once_and_stays() {
        let index = |index| ConnectionIndex::new(index).unwrap();
        let mut queue = ReadyQueue::default();
        let sent = |queue: &mut ReadyQueue| {
            let mut sent = Vec::new();
            queue.send_answered(|index| sent.push(index.get()));
            sent
        };
        queue.push(index(0));
        for number in [4, 2, 4, 1] {
            queue.push_answered(index(number));
        }
        queue.push(index(2));
        assert_eq!(queue.pop(), Some(index(0)));
        assert_eq!(queue.pop(), Some(index(4)));
        assert_eq!(sent(&mut queue), [1, 2], "4 has its turn");
        assert!(sent(&mut queue).is_empty(), "once");
        queue.push_answered(index(2));
        assert_eq!(sent(&mut queue), [2]);
        assert_eq!([queue.pop(), queue.pop()], [2, 1].map(|n| Some(index(n))));
        assert!(queue.is_empty());
    }

    #[test]
    fn sent_replies_are_told_once() {
        let mut queue = ReadyQueue::default();
        assert!(!queue.take_has_sent());
        queue.send_answered(|_| {});
        assert!(!queue.take_has_sent(), "none was answered");
        queue.push_answered(ConnectionIndex::new(3).unwrap());
        queue.send_answered(|_| {});
        assert!(queue.take_has_sent() && !queue.take_has_sent());
        queue.note_sent();
        assert!(queue.take_has_sent());
    }
}
