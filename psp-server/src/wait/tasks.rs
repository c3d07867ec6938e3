//! Tasks of a request: futures that go on beside each other.
//!
//! ```text
//!   a task's waker, from any thread ──► woken: its number ──► the request's waker
//!                                          │
//!   the request polls Tasks::join_next ◄───┘ polls the tasks that were woken, and no others
//! ```
//!
//! A poll goes on while tasks wake each other, up to a limit: a signal from one to another needs no decision of the
//! policy. A task that wakes itself has its next turn after that decision.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::fiber::no_preempt;

/// How many tasks that wake each other are polled before the policy decides again.
const POLLS_MAX: usize = 64;

/// The tasks of a request: it asks several servers, and takes their answers as they come.
///
/// ```no_run
/// # use std::time::Duration;
/// # use psp_server::protocols::Sink;
/// # use psp_server::{Reply, Request, task, wait};
/// # async fn ask(_: u16) -> Vec<u8> { Vec::new() }
/// /// The first two answers of three.
/// fn handle(_: Request<'_, ()>, reply: &mut Reply<'_>) {
///     let mut asked = task::Tasks::new(3);
///     for server in [7001, 7002, 7003] {
///         asked.spawn(ask(server)).expect("there is room for three");
///     }
///     for _ in 0..2 {
///         match wait(asked.join_next()) {
///             Some((_, Ok(answer))) => reply.put(&answer),
///             Some((_, Err(panicked))) => return reply.fail(panicked),
///             None => return,
///         }
///     }
///     // The third is cancelled here.
/// }
/// ```
///
/// A task is a future. It has no stack of its own: it goes on while its request waits in [`join_next`](Self::join_next)
/// or [`join_all`](Self::join_all), on the request's context. So tasks wait at the same time, and compute one after the
/// other. They may borrow from the handler, and need not be `Send`. A [`wait`](crate::wait()) within a task stops the
/// request's other tasks meanwhile: use `.await` there.
///
/// Tasks that are left when this is dropped are cancelled: their futures are dropped. So they end with their request.
pub struct Tasks<'a, T> {
    tasks_max: usize,
    places: Vec<Place<'a, T>>,
    /// Places of tasks that have ended.
    free: Vec<usize>,
    /// The number of the next task.
    next: usize,
    wakes: Arc<Mutex<Wakes>>,
}

type Task<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

struct Place<'a, T> {
    /// The number of the task, and its future. `None` if it has ended.
    task: Option<(usize, Task<'a, T>)>,
    waker: Waker,
}

/// Which tasks were woken.
#[derive(Default)]
struct Wakes {
    /// Places, in the order of the wakes. Each is once in it or in `again`.
    woken: VecDeque<usize>,
    is_woken: Vec<bool>,
    /// Places of tasks that woke themselves in the present poll of the request.
    again: Vec<usize>,
    request: Stage,
}

/// What the request does.
#[derive(Default)]
enum Stage {
    /// Something else.
    #[default]
    Away,
    /// It polls the task at this place, and then looks which others were woken.
    Polling(usize),
    /// It waits for a wake.
    Waiting(Waker),
}

struct TaskWaker {
    place: usize,
    wakes: Arc<Mutex<Wakes>>,
}

/// There are as many tasks as there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request has {0} tasks, the most that it may have")]
pub struct TooManyTasks(usize);

/// A task panicked.
pub struct TaskPanicked(Box<dyn Any + Send>);

impl TaskPanicked {
    /// What the task panicked with, for [`resume_unwind`](std::panic::resume_unwind).
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.0
    }
}

impl fmt::Debug for TaskPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPanicked").finish_non_exhaustive()
    }
}

impl fmt::Display for TaskPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task of the request panicked")
    }
}

impl std::error::Error for TaskPanicked {}

/// How a task ended: with the future's output, or with a panic.
pub type Joined<T> = Result<T, TaskPanicked>;

impl<'a, T> Tasks<'a, T> {
    /// No tasks yet, and at most `tasks_max` at once.
    #[must_use]
    pub fn new(tasks_max: usize) -> Self {
        Self {
            tasks_max,
            places: Vec::new(),
            free: Vec::new(),
            next: 0,
            wakes: Arc::default(),
        }
    }

    /// Adds a task, and returns its number: they are counted from 0. It begins when the request next waits for its
    /// tasks.
    ///
    /// # Errors
    /// There are as many tasks as there may be. One that is joined makes room.
    pub fn spawn(&mut self, future: impl Future<Output = T> + 'a) -> Result<usize, TooManyTasks> {
        if self.len() == self.tasks_max {
            return Err(TooManyTasks(self.tasks_max));
        }
        let at = self.free.pop().unwrap_or_else(|| {
            let (place, wakes) = (self.places.len(), self.wakes.clone());
            let waker = Waker::from(Arc::new(TaskWaker { place, wakes }));
            self.places.push(Place { task: None, waker });
            place
        });
        let number = self.next;
        self.next += 1;
        let place = &mut self.places[at];
        place.task = Some((number, Box::pin(future)));
        place.waker.wake_by_ref();
        Ok(number)
    }

    /// How many tasks there are that were not joined.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether all tasks were joined.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a task ends, and returns its number and how it ended; `None` if there is none. Nothing is lost if
    /// the wait is given up.
    pub async fn join_next(&mut self) -> Option<(usize, Joined<T>)> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Waits until all tasks have ended, and returns how they ended, in the order in which they were spawned. If the
    /// wait is given up, those that have ended are lost.
    pub async fn join_all(&mut self) -> Vec<Joined<T>> {
        let mut all = Vec::with_capacity(self.len());
        while let Some(ended) = self.join_next().await {
            all.push(ended);
        }
        all.sort_unstable_by_key(|&(number, _)| number);
        all.into_iter().map(|(_, ended)| ended).collect()
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Joined<T>)>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        let mut left = no_preempt(|| lock(&self.wakes).woken.len()).max(POLLS_MAX);
        let mut ended = None;
        while left > 0
            && ended.is_none()
            && let Some(at) = take_woken(&self.wakes)
        {
            left -= 1;
            ended = self.poll_task(at);
        }
        let waits = ended.is_none().then(|| context.waker());
        if end_poll(&self.wakes, waits) && waits.is_some() {
            context.waker().wake_by_ref();
        }
        ended.map_or(Poll::Pending, |ended| Poll::Ready(Some(ended)))
    }

    /// Polls the task at a place. Returns its number and how it ended, if it has.
    fn poll_task(&mut self, at: usize) -> Option<(usize, Joined<T>)> {
        let place = &mut self.places[at];
        // A waker of an earlier task of the place may have been late.
        let (number, future) = place.task.as_mut()?;
        let number = *number;
        let mut context = Context::from_waker(&place.waker);
        let poll = || future.as_mut().poll(&mut context);
        let ended = match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => return None,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(TaskPanicked(payload)),
        };
        let task = place.task.take();
        self.free.push(at);
        match catch_unwind(AssertUnwindSafe(|| drop(task))) {
            Ok(()) => Some((number, ended)),
            Err(payload) => Some((number, Err(TaskPanicked(payload)))),
        }
    }
}

impl<T> fmt::Debug for Tasks<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("len", &self.len())
            .field("tasks_max", &self.tasks_max)
            .finish_non_exhaustive()
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let request = no_preempt(|| {
            let mut wakes = lock(&self.wakes);
            if wakes.is_woken.len() <= self.place {
                wakes.is_woken.resize(self.place + 1, false);
            }
            if std::mem::replace(&mut wakes.is_woken[self.place], true) {
                return None;
            }
            match wakes.request {
                Stage::Polling(place) if place == self.place => wakes.again.push(place),
                _ => wakes.woken.push_back(self.place),
            }
            match &wakes.request {
                Stage::Waiting(_) => Some(std::mem::take(&mut wakes.request)),
                Stage::Away | Stage::Polling(_) => None,
            }
        });
        if let Some(Stage::Waiting(request)) = request {
            request.wake();
        }
    }
}

/// The place that was woken first, which the request polls now.
fn take_woken(wakes: &Mutex<Wakes>) -> Option<usize> {
    let (place, replaced) = no_preempt(|| {
        let mut wakes = lock(wakes);
        let place = wakes.woken.pop_front()?;
        wakes.is_woken[place] = false;
        let replaced = std::mem::replace(&mut wakes.request, Stage::Polling(place));
        Some((place, replaced))
    })?;
    drop(replaced);
    Some(place)
}

/// The request polls no more. With a waker it waits, if no task was woken. Returns whether any was.
fn end_poll(wakes: &Mutex<Wakes>, waits: Option<&Waker>) -> bool {
    let (is_woken, replaced) = no_preempt(|| {
        let wakes = &mut *lock(wakes);
        wakes.woken.extend(wakes.again.drain(..));
        let is_woken = !wakes.woken.is_empty();
        let stage = match waits {
            Some(request) if !is_woken => Stage::Waiting(request.clone()),
            _ => Stage::Away,
        };
        (is_woken, std::mem::replace(&mut wakes.request, stage))
    });
    drop(replaced);
    is_woken
}

fn lock(wakes: &Mutex<Wakes>) -> MutexGuard<'_, Wakes> {
    wakes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::{pending, ready};
    use std::rc::Rc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::sync::Semaphore;
    use crate::wait::sleep::{sleep, timeout};
    use crate::wait::wait;
    use crate::wait::yielding::yield_now;

    /// Counts polls, and is ready when it is told.
    #[derive(Default)]
    struct Told {
        polls: Cell<usize>,
        is_ready: Cell<bool>,
        waker: RefCell<Option<Waker>>,
    }

    impl Told {
        async fn wait(self: Rc<Self>) -> usize {
            poll_fn(|context| {
                self.polls.set(self.polls.get() + 1);
                *self.waker.borrow_mut() = Some(context.waker().clone());
                match self.is_ready.get() {
                    true => Poll::Ready(self.polls.get()),
                    false => Poll::Pending,
                }
            })
            .await
        }

        fn tell(&self) {
            self.is_ready.set(true);
            self.waker.borrow().as_ref().unwrap().wake_by_ref();
        }
    }

    fn ended<T>((number, joined): (usize, Joined<T>)) -> (usize, T) {
        (number, joined.unwrap())
    }

    #[test]
    fn only_those_that_were_woken_are_polled_and_they_end_in_that_order() {
        let told: Vec<_> = (0..4).map(|_| Rc::<Told>::default()).collect();
        let mut tasks = Tasks::new(4);
        for told in &told {
            tasks.spawn(told.clone().wait()).unwrap();
        }
        let mut context = Context::from_waker(Waker::noop());
        assert!(tasks.poll_next(&mut context).is_pending());
        told[2].tell();
        told[0].tell();
        told[2].tell();
        assert_eq!(wait(tasks.join_next()).map(ended), Some((2, 2)));
        assert_eq!(wait(tasks.join_next()).map(ended), Some((0, 2)));
        assert!(tasks.poll_next(&mut context).is_pending());
        let polls: Vec<_> = told.iter().map(|told| told.polls.get()).collect();
        assert_eq!(polls, [2, 1, 2, 1]);
        // A late waker does nothing to the task that has its place now.
        assert_eq!(tasks.spawn(pending()), Ok(4));
        assert!(tasks.poll_next(&mut context).is_pending());
        told[0].tell();
        assert!(tasks.poll_next(&mut context).is_pending());
        assert_eq!((told[0].polls.get(), tasks.len()), (2, 3));
    }

    #[test]
    fn tasks_wait_beside_each_other_and_are_gathered_in_their_order() {
        let mut tasks = Tasks::new(8);
        for ms in [5, 0, 3, 1] {
            let nap = async move {
                sleep(Duration::from_millis(ms)).await;
                yield_now().await;
                ms
            };
            tasks.spawn(nap).unwrap();
        }
        let all: Vec<_> = wait(tasks.join_all()).into_iter().map(Joined::unwrap).collect();
        assert_eq!(all, [5, 0, 3, 1]);
        assert!(tasks.is_empty() && wait(tasks.join_next()).is_none());
    }

    #[test]
    fn there_are_no_more_than_may_be() {
        let mut tasks = Tasks::new(2);
        assert_eq!((tasks.spawn(ready(7)), tasks.spawn(ready(8))), (Ok(0), Ok(1)));
        assert_eq!(tasks.spawn(ready(9)), Err(TooManyTasks(2)));
        assert_eq!(wait(tasks.join_next()).map(ended), Some((0, 7)));
        assert_eq!(tasks.spawn(ready(9)), Ok(2));
        assert_eq!(wait(tasks.join_all()).len(), 2);
    }

    async fn fails() -> i32 {
        panic!("the test asked for it")
    }

    #[test]
    fn a_panic_is_an_error_of_its_task_alone() {
        let mut tasks = Tasks::new(3);
        tasks.spawn(fails()).unwrap();
        tasks.spawn(ready(1)).unwrap();
        let all = wait(tasks.join_all());
        assert_eq!(*all[1].as_ref().unwrap(), 1);
        let payload = all.into_iter().next().unwrap().unwrap_err().into_payload();
        assert_eq!(payload.downcast_ref(), Some(&"the test asked for it"));
    }

    #[test]
    fn those_that_are_left_are_cancelled_and_a_wait_that_is_given_up_loses_none() {
        let (dropped, count) = (Rc::new(()), 3);
        let mut tasks = Tasks::new(count);
        for _ in 1..count {
            let held = dropped.clone();
            let waits = async move {
                pending::<()>().await;
                drop(held);
            };
            tasks.spawn(waits).unwrap();
        }
        let told = Rc::<Told>::default();
        let last = told.clone();
        tasks
            .spawn(async {
                last.wait().await;
            })
            .unwrap();
        assert!(wait(timeout(Duration::from_millis(1), tasks.join_next())).is_err());
        told.tell();
        assert_eq!(wait(tasks.join_next()).map(ended), Some((2, ())));
        assert_eq!(Rc::strong_count(&dropped), count);
        drop(tasks);
        assert_eq!(Rc::strong_count(&dropped), 1);
    }

    /// Polls `tasks` once, none of which ends. Returns how often they woke the request.
    fn poll_once<T>(tasks: &mut Tasks<'_, T>) -> usize {
        #[derive(Default)]
        struct Count(AtomicUsize);

        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }

        let count = Arc::<Count>::default();
        let waker = Waker::from(count.clone());
        let polled = tasks.poll_next(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        count.0.load(Ordering::Relaxed)
    }

    #[test]
    fn tasks_that_signal_each_other_take_one_poll_of_the_request_and_a_yield_takes_another() {
        const ROUNDS: usize = POLLS_MAX / 4;
        let (there, back, rounds) = (Semaphore::new(0), Semaphore::new(0), Cell::new(0));
        let mut tasks = Tasks::new(2);
        tasks
            .spawn(async {
                while rounds.get() < ROUNDS {
                    there.add_permits(1);
                    back.acquire().await.forget();
                    rounds.update(|rounds| rounds + 1);
                }
                yield_now().await;
            })
            .unwrap();
        tasks
            .spawn(async {
                loop {
                    there.acquire().await.forget();
                    back.add_permits(1);
                }
            })
            .unwrap();
        assert_eq!(poll_once(&mut tasks), 1);
        assert_eq!(rounds.get(), ROUNDS);
        let Some((0, Ok(()))) = wait(tasks.join_next()) else {
            panic!("the first task has ended");
        };
        assert_eq!(poll_once(&mut tasks), 0);
    }

    #[test]
    fn tasks_that_signal_each_other_for_ever_let_the_request_go_on() {
        let signals = [(); 2].map(|()| Semaphore::new(0));
        let mut tasks = Tasks::new(2);
        for player in 0..2 {
            let (here, there) = (&signals[player], &signals[1 - player]);
            tasks
                .spawn(async move {
                    loop {
                        there.add_permits(1);
                        here.acquire().await.forget();
                    }
                })
                .unwrap();
        }
        for _ in 0..3 {
            assert_eq!(poll_once(&mut tasks), 1);
        }
    }

    /// It would never return if one poll went on for as long as a task is woken.
    #[test]
    fn a_task_that_always_wakes_itself_lets_the_request_go_on() {
        let mut tasks = Tasks::new(1);
        tasks
            .spawn(async {
                loop {
                    yield_now().await;
                }
            })
            .unwrap();
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut Box::pin(tasks.join_next())).poll(&mut context).is_pending());
        assert!(wait(timeout(Duration::from_millis(1), tasks.join_next())).is_err());
    }
}
