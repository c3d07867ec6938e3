//! Permits, and who waits for them in order.
//!
//! ```text
//!   enter ─► first, and enough permits? ── yes ──► granted ── consume ──► kept by the caller
//!                 │ no                                ▲  │
//!                 ▼                                   │  └ dropped ──► give: to the next
//!               queue ── give, when it is the first ──┘
//!                 └ dropped ──► leaves; the next may be first now
//! ```
//!
//! A permit that is given passes to the place that has waited longest, under one lock. No other place overtakes it, and
//! a permit is never both free and waited for. Wakers are called without the lock. Checked by loom.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use std::collections::VecDeque;
use std::fmt;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

use crate::fiber::no_preempt;

/// Those who are woken after the lock is released.
type Granted = SmallVec<[Waker; 4]>;

/// See the [module](self).
pub(super) struct WaitList {
    /// Whether permits are kept that no request waits for.
    keeps: bool,
    state: Mutex<State>,
}

struct State {
    permits: usize,
    /// The ticket of the next place.
    next: u64,
    /// By ticket.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    ticket: u64,
    wanted: usize,
    waker: Waker,
}

/// Someone who waits, or has permits and has not consumed them.
pub(super) struct Place<'a> {
    list: &'a WaitList,
    wanted: usize,
    stage: Stage,
}

enum Stage {
    /// It waits under this ticket, or was granted its permits since.
    Waiting(u64),
    Granted,
    Consumed,
}

impl State {
    /// Takes so many permits if there are as many and no request waits.
    fn try_take(&mut self, wanted: usize) -> bool {
        let may_take = self.waiting.is_empty() && wanted <= self.permits;
        if may_take {
            self.permits -= wanted;
        }
        may_take
    }

    /// Grants permits to those who wait, as far as there are enough for the first.
    fn grant(&mut self, keeps: bool) -> Granted {
        let mut granted = Granted::new();
        while let Some(first) = self.waiting.front()
            && first.wanted <= self.permits
        {
            self.permits -= first.wanted;
            granted.extend(self.waiting.pop_front().map(|first| first.waker));
        }
        if !keeps && self.waiting.is_empty() {
            self.permits = 0;
        }
        granted
    }

    fn find(&self, ticket: u64) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&ticket, |waiting| waiting.ticket)
    }
}

impl WaitList {
    /// Of `permits`. Those that no request waits for are kept.
    pub(super) fn new(permits: usize) -> Self {
        Self::with(permits, true)
    }

    /// Without permits. Those that are given are for the places that wait at that moment.
    pub(super) fn keeping_none() -> Self {
        Self::with(0, false)
    }

    fn with(permits: usize, keeps: bool) -> Self {
        Self {
            keeps,
            state: Mutex::new(State { permits, next: 0, waiting: VecDeque::new() }),
        }
    }

    /// Takes so many permits if there are as many and no request waits.
    pub(super) fn try_take(&self, wanted: usize) -> bool {
        self.with_state(|state| state.try_take(wanted))
    }

    /// Takes so many permits, or a place in the queue.
    pub(super) fn enter(&self, wanted: usize) -> Place<'_> {
        let stage = self.with_state(|state| {
            if state.try_take(wanted) {
                return Stage::Granted;
            }
            let ticket = state.next;
            state.next += 1;
            state.waiting.push_back(Waiting { ticket, wanted, waker: Waker::noop().clone() });
            Stage::Waiting(ticket)
        });
        Place { list: self, wanted, stage }
    }

    /// Gives so many permits.
    pub(super) fn give(&self, permits: usize) {
        self.give_those(|_| permits);
    }

    /// Gives a permit to each of those who wait, if each wants one.
    pub(super) fn give_all(&self) {
        self.give_those(|state| state.waiting.len());
    }

    /// How many permits there are, and how many wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.with_state(|state| (state.permits, state.waiting.len()))
    }

    fn give_those(&self, permits: impl FnOnce(&State) -> usize) {
        let granted = self.with_state(|state| {
            let permits = permits(state);
            state.permits = state.permits.saturating_add(permits);
            state.grant(self.keeps)
        });
        granted.into_iter().for_each(Waker::wake);
    }

    /// A request that yields while it has the lock would be waited for.
    fn with_state<T>(&self, use_state: impl FnOnce(&mut State) -> T) -> T {
        no_preempt(|| use_state(&mut self.lock()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Whether the permits were granted. If not, the waker is called when they are.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Stage::Waiting(ticket) = self.stage else {
            return Poll::Ready(());
        };
        let mut replaced = None;
        let is_granted = self.list.with_state(|state| match state.find(ticket) {
            Ok(at) => {
                let waker = &mut state.waiting[at].waker;
                if !waker.will_wake(context.waker()) {
                    // A foreign waker is dropped without the lock.
                    replaced = Some(std::mem::replace(waker, context.waker().clone()));
                }
                false
            }
            Err(_) => true,
        });
        drop(replaced);
        if !is_granted {
            return Poll::Pending;
        }
        self.stage = Stage::Granted;
        Poll::Ready(())
    }

    /// Keeps the permits, which were granted: the caller gives them back.
    pub(super) fn consume(mut self) {
        debug_assert!(matches!(self.stage, Stage::Granted), "they were granted");
        self.stage = Stage::Consumed;
    }

    /// Leaves the queue. Returns `false` if the permits were granted before.
    fn leave(&self, ticket: u64) -> bool {
        let left = self.list.with_state(|state| {
            let at = state.find(ticket).ok()?;
            let left = state.waiting.remove(at);
            Some((left, state.grant(self.list.keeps)))
        });
        // Foreign wakers are dropped and called without the lock.
        let is_left = left.is_some();
        if let Some((_, granted)) = left {
            granted.into_iter().for_each(Waker::wake);
        }
        is_left
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let is_granted = match self.stage {
            Stage::Waiting(ticket) => !self.leave(ticket),
            Stage::Granted => true,
            Stage::Consumed => false,
        };
        if is_granted {
            self.list.give(self.wanted);
        }
    }
}

impl fmt::Debug for WaitList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (permits, waiting) = self.counts();
        f.debug_struct("WaitList").field("permits", &permits).field("waiting", &waiting).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Those who entered, with their wakes.
    struct Entered<'a>(Place<'a>, Arc<Wakes>);

    impl<'a> Entered<'a> {
        fn new(list: &'a WaitList, wanted: usize) -> Self {
            let mut entered = Self(list.enter(wanted), Arc::default());
            entered.is_granted();
            entered
        }

        fn is_granted(&mut self) -> bool {
            let waker = Waker::from(self.1.clone());
            self.0.poll(&mut Context::from_waker(&waker)).is_ready()
        }

        fn wakes(&self) -> usize {
            self.1.0.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn those_who_wait_are_granted_in_order_and_nobody_overtakes() {
        let list = WaitList::new(1);
        let mut held = Entered::new(&list, 1);
        assert!(held.is_granted());
        let mut many = Entered::new(&list, 2);
        let mut few = Entered::new(&list, 1);
        drop(held);
        assert_eq!(list.counts(), (1, 2));
        assert!(!few.is_granted() && !list.try_take(1), "the first wants more");
        list.give(1);
        assert_eq!((many.wakes(), few.wakes()), (1, 0));
        assert!(many.is_granted() && !few.is_granted());
        many.0.consume();
        list.give(1);
        assert!(few.is_granted());
        drop(few);
        assert!(list.try_take(1));
        assert_eq!(list.counts(), (0, 0));
    }

    #[test]
    fn who_leaves_lets_the_next_have_its_turn() {
        let list = WaitList::new(1);
        let many = Entered::new(&list, 2);
        let mut few = Entered::new(&list, 1);
        assert!(!few.is_granted());
        drop(many);
        assert_eq!(few.wakes(), 1);
        let mut next = Entered::new(&list, 1);
        assert!(few.is_granted() && !next.is_granted());
        drop(few);
        assert_eq!(next.wakes(), 1);
        drop(next);
        assert_eq!(list.counts(), (1, 0));
    }

    #[test]
    fn a_list_that_keeps_none_gives_to_those_who_wait_then() {
        let list = WaitList::keeping_none();
        list.give(1);
        list.give_all();
        let (first, mut second) = (Entered::new(&list, 1), Entered::new(&list, 1));
        list.give(1);
        assert!(!second.is_granted());
        drop(first);
        assert!(second.is_granted());
        drop(second);
        let mut both = [Entered::new(&list, 1), Entered::new(&list, 1)];
        list.give_all();
        let mut later = Entered::new(&list, 1);
        assert!(both.iter_mut().all(Entered::is_granted) && !later.is_granted());
        both.into_iter().for_each(|entered| entered.0.consume());
        assert!(!later.is_granted());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Enter(usize),
        /// The one at this place of those who entered leaves, or gives its permits back.
        Drop(usize),
        Give(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1..4_usize).prop_map(Step::Enter),
            3 => (0..8_usize).prop_map(Step::Drop),
            1 => (0..3_usize).prop_map(Step::Give),
        ]
    }

    proptest! {
        /// The granted places are the first of those that entered and have not left.
        /// No permit is lost, and none is made.
        #[test]
        fn permits_go_to_the_first(steps in prop::collection::vec(step(), 0..80)) {
            let list = WaitList::new(2);
            let mut permits = 2;
            let mut entered: Vec<(usize, Entered<'_>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Enter(wanted) => entered.push((wanted, Entered::new(&list, wanted))),
                    Step::Drop(at) if at < entered.len() => drop(entered.remove(at)),
                    Step::Drop(_) => {}
                    Step::Give(given) => {
                        permits += given;
                        list.give(given);
                    }
                }
                let mut left = permits;
                let mut is_open = true;
                let mut waiting = 0;
                for (wanted, entered) in &mut entered {
                    let is_granted = entered.is_granted();
                    prop_assert!(is_open || !is_granted, "overtaken");
                    is_open = is_granted;
                    waiting += usize::from(!is_granted);
                    if is_granted {
                        prop_assert!(*wanted <= left, "more than there are");
                        left -= *wanted;
                    } else if waiting == 1 {
                        prop_assert!(*wanted > left, "the first waits although there are enough");
                    }
                }
                prop_assert_eq!(list.counts(), (left, waiting));
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;
    use std::task::Wake;

    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    /// A thread that waits for its permits until it was woken.
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            // Not a store: loom lets swaps that are not ordered with it overlook it for ever.
            self.0.swap(true, Ordering::AcqRel);
        }
    }

    fn granted(list: &WaitList) -> Place<'_> {
        until_granted(list.enter(1))
    }

    fn until_granted(mut place: Place<'_>) -> Place<'_> {
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        while place.poll(&mut Context::from_waker(&waker)).is_pending() {
            while !woken.0.swap(false, Ordering::AcqRel) {
                thread::yield_now();
            }
        }
        place
    }

    /// Enters and polls once, and gives up whatever it has.
    fn give_up(list: &WaitList) {
        let mut place = list.enter(1);
        let _ = place.poll(&mut Context::from_waker(Waker::noop()));
    }

    fn model(body: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(body);
    }

    #[test]
    fn one_at_a_time_has_the_permit_and_no_wake_is_lost() {
        model(|| {
            let list = loom::sync::Arc::new(WaitList::new(1));
            let holders = loom::sync::Arc::new(AtomicUsize::new(0));
            let hold = |list: &WaitList, holders: &AtomicUsize| {
                granted(list).consume();
                assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0);
                holders.fetch_sub(1, Ordering::Relaxed);
                list.give(1);
            };
            let other = {
                let (list, holders) = (list.clone(), holders.clone());
                thread::spawn(move || hold(&list, &holders))
            };
            hold(&list, &holders);
            other.join().unwrap();
            assert_eq!(list.counts(), (1, 0));
        });
    }

    #[test]
    fn who_gives_up_while_it_is_granted_passes_the_permit_on() {
        model(|| {
            let list = loom::sync::Arc::new(WaitList::new(0));
            let spawn = |body: fn(&WaitList)| {
                let list = list.clone();
                thread::spawn(move || body(&list))
            };
            let threads = [spawn(give_up), spawn(|list| granted(list).consume())];
            list.give(1);
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(list.counts(), (0, 0));
        });
    }

    #[test]
    fn a_notification_of_who_gives_up_reaches_the_next() {
        model(|| {
            let list = loom::sync::Arc::new(WaitList::keeping_none());
            let (first, second) = (list.enter(1), list.enter(1));
            let notifier = {
                let list = list.clone();
                thread::spawn(move || list.give(1))
            };
            drop(first);
            until_granted(second).consume();
            notifier.join().unwrap();
            assert_eq!(list.counts(), (0, 0));
        });
    }
}
