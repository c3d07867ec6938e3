//! A list that any thread adds to, and one thread empties.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// See the [module](self). Who adds to it has to wake the thread that empties it.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    /// The list may have something.
    has_some: AtomicBool,
    list: Mutex<Vec<T>>,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self { has_some: AtomicBool::new(false), list: Mutex::default() }
    }
}

impl<T> Mailbox<T> {
    /// Adds one to the end.
    pub(crate) fn put(&self, item: T) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(item);
        self.has_some.store(true, Ordering::Release);
    }

    /// Adds all of `items` to the end.
    pub(crate) fn append(&self, items: &mut Vec<T>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.append(items);
        self.has_some.store(true, Ordering::Release);
    }

    /// Adds one to the end, unless `len_max` are there already. Gives it back then.
    pub(crate) fn put_within(&self, len_max: usize, item: T) -> Result<(), T> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() >= len_max {
            return Err(item);
        }
        list.push(item);
        self.has_some.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether the list may have something.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Relaxed)
    }

    /// Moves all into `into`, in their order. Returns how many there are. Costs a load if there is none.
    #[inline]
    pub(crate) fn take(&self, into: &mut impl Extend<T>) -> usize {
        if !self.has_some() {
            return 0;
        }
        self.has_some.store(false, Ordering::Relaxed);
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let count = list.len();
        into.extend(list.drain(..));
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken_once_and_in_order() {
        let mailbox = Mailbox::default();
        let mut taken = Vec::new();
        mailbox.take(&mut taken);
        assert!(taken.is_empty());
        mailbox.put(1);
        mailbox.put(2);
        assert_eq!(mailbox.take(&mut taken), 2);
        mailbox.put(3);
        mailbox.append(&mut vec![4, 5]);
        assert_eq!([(); 2].map(|()| mailbox.take(&mut taken)), [3, 0]);
        assert_eq!(taken, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_full_mailbox_gives_back_what_is_put() {
        let mailbox = Mailbox::default();
        assert_eq!([1, 2, 3].map(|item| mailbox.put_within(2, item)), [Ok(()), Ok(()), Err(3)]);
        let mut taken = Vec::new();
        mailbox.take(&mut taken);
        assert_eq!((taken, mailbox.put_within(2, 4)), (vec![1, 2], Ok(())));
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        const EACH: usize = 1000;
        let mailbox = Mailbox::default();
        let mut taken = Vec::new();
        std::thread::scope(|scope| {
            for first in [0, EACH] {
                let mailbox = &mailbox;
                scope.spawn(move || (first..first + EACH).for_each(|item| mailbox.put(item)));
            }
            while taken.len() < 2 * EACH {
                mailbox.take(&mut taken);
                std::thread::yield_now();
            }
        });
        let of_first = taken.iter().filter(|&&item| item < EACH);
        assert!(of_first.is_sorted(), "each thread's in its order");
        taken.sort_unstable();
        assert!(taken.iter().copied().eq(0..2 * EACH));
    }
}
