//! Leases of ports: who drives an event queue and its connections, of several workers.
//!
//! ```text
//!              leave                       take, or take_back by the owner
//!   Driven ──────────────────► Free(port) ────────────────────────────────► Driven
//!     │ take_back: the owner waits, the driver is woken
//!     ▼          leave                      the owner wakes up
//!   Wanted ──────────────────► Handed(port) ───────────────────────────────► Driven, by its owner
//!     └── the owner waits no longer ──► Driven
//! ```
//!
//! A port belongs to its *owner*, who drives it as long as its requests are short. Before a long request the owner
//! leaves all ports that it drives, and a worker that sleeps is woken, which drives them meanwhile. After the request
//! the owner takes its own port back: at once if no worker drives it, and otherwise when the driver has ended its turn
//! and sees that the port [is wanted](Leases::is_wanted). An owner that has something else to do may give up waiting,
//! and ask later.
//!
//! Who drives a port has it: what two threads do to it, they do one after the other. Nothing here is on the way of a
//! short request, except for a look at how many ports are free and whether one is wanted.
//!
//! No worker sleeps beside a free port: a worker announces its sleep and then looks
//! ([`any_free`](Leases::any_free), [`is_wanted`](Leases::is_wanted)), and who leaves or wants a port looks for
//! sleepers afterwards ([`SleepFlag`](crate::runtime::channel::sleep_flag::SleepFlag)). Checked by loom, see the tests.

#[cfg(loom)]
use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::sync::{Arc, PoisonError};
#[cfg(not(loom))]
use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::time::{Duration, Instant};

use crate::runtime::channel::doorbell::Doorbell;
use crate::transport::request_key::PortNumber;

/// A thread that may sleep, or several of which one sleeps.
pub(crate) trait Sleeper {
    /// Wakes it if it sleeps, or is about to. Returns whether it was woken by this call.
    fn wake(&self) -> bool;
}

impl Sleeper for Doorbell {
    fn wake(&self) -> bool {
        self.wake()
    }
}

/// See the [module](self). The leases of all ports `P` of a server.
pub(crate) struct Leases<P, S> {
    leases: Box<[Lease<P>]>,
    /// Wake those who drive the ports.
    sleepers: Box<[Arc<S>]>,
    /// How many ports are free.
    free: AtomicUsize,
    /// Called when a port was left and no worker sleeps that would drive it.
    alert: Option<Box<dyn Fn() + Send + Sync>>,
}

/// The lease of one port. The words of different ports are on different cache lines.
#[repr(align(128))]
struct Lease<P> {
    state: Mutex<State<P>>,
    handed: Condvar,
    /// Whether the state is [`State::Wanted`].
    is_wanted: AtomicBool,
    /// Whether another worker than its owner drives the port.
    is_elsewhere: AtomicBool,
}

enum State<P> {
    /// A worker has the port.
    Driven,
    /// A worker has the port, and its owner waits for it.
    Wanted,
    /// No worker drives the port.
    Free(P),
    /// The owner is about to take the port.
    Handed(P),
}

impl<P> Lease<P> {
    fn new() -> Self {
        Self {
            state: Mutex::new(State::Driven),
            handed: Condvar::new(),
            is_wanted: AtomicBool::new(false),
            is_elsewhere: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P, S: Sleeper> Leases<P, S> {
    /// Each port is driven by its owner. `sleepers` wake those who drive the ports.
    pub(crate) fn new(sleepers: impl IntoIterator<Item = Arc<S>>) -> Self {
        let sleepers: Box<[Arc<S>]> = sleepers.into_iter().collect();
        Self {
            leases: sleepers.iter().map(|_| Lease::new()).collect(),
            sleepers,
            free: AtomicUsize::new(0),
            alert: None,
        }
    }

    /// As this. `alert` is called when a port was left and no worker sleeps that would drive it.
    pub(crate) fn alerting(self, alert: impl Fn() + Send + Sync + 'static) -> Self {
        let alert = Some(Box::new(alert) as _);
        Self { alert, ..self }
    }

    /// Whether no worker drives the port.
    pub(crate) fn is_free(&self, port: PortNumber) -> bool {
        self.any_free() && matches!(*self.leases[port.index()].lock(), State::Free(_))
    }

    /// Whether a port is free. It may be taken when this returns.
    #[inline]
    pub(crate) fn any_free(&self) -> bool {
        self.free.load(Ordering::Relaxed) > 0
    }

    /// Whether the owner of a port waits for the caller, who drives it.
    #[inline]
    pub(crate) fn is_wanted(&self, port: PortNumber) -> bool {
        self.leases[port.index()].is_wanted.load(Ordering::Relaxed)
    }

    /// Whether a worker drives the port that is not its owner.
    pub(crate) fn is_served_elsewhere(&self, port: PortNumber) -> bool {
        self.leases[port.index()].is_elsewhere.load(Ordering::Relaxed)
    }

    /// The caller drives a port no longer. If its owner does not wait for it, [wake](Self::wake_one) somebody.
    pub(crate) fn leave(&self, number: PortNumber, port: P) {
        let lease = &self.leases[number.index()];
        let mut state = lease.lock();
        lease.is_elsewhere.store(false, Ordering::Relaxed);
        if matches!(*state, State::Wanted) {
            *state = State::Handed(port);
            lease.is_wanted.store(false, Ordering::Relaxed);
            lease.handed.notify_one();
        } else {
            *state = State::Free(port);
            self.free.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Wakes a worker other than `me` that sleeps, if there is one, for the ports that are free.
    pub(crate) fn wake_one(&self, me: PortNumber) {
        if self.any_free() {
            let others = { self.sleepers.iter().enumerate() }.filter(|(at, _)| *at != me.index());
            let is_woken = { others }.any(|(_, sleeper)| sleeper.wake());
            if let Some(alert) = self.alert.as_ref().filter(|_| !is_woken) {
                alert();
            }
        }
    }

    /// Takes a port that no worker drives and that is not wanted, if there is one.
    pub(crate) fn take(&self) -> Option<(PortNumber, P)> {
        if !self.any_free() {
            return None;
        }
        let numbers = (0..self.leases.len()).map(PortNumber::new);
        { numbers }.find_map(|number| {
            let lease = &self.leases[number.index()];
            let port = self.take_free(&mut lease.lock())?;
            lease.is_elsewhere.store(true, Ordering::Relaxed);
            Some((number, port))
        })
    }

    fn take_free(&self, state: &mut State<P>) -> Option<P> {
        if !matches!(state, State::Free(_)) {
            return None;
        }
        let State::Free(port) = std::mem::replace(state, State::Driven) else {
            return None;
        };
        self.free.fetch_sub(1, Ordering::Relaxed);
        Some(port)
    }

    /// The owner, who left its port, takes it back. Waits until its driver has left it, and gives up after `patience`:
    /// then the driver goes on.
    pub(crate) fn take_back(&self, number: PortNumber, patience: Duration) -> Option<P> {
        let lease = &self.leases[number.index()];
        let mut state = lease.lock();
        if let Some(port) = self.take_free(&mut state) {
            return Some(port);
        }
        *state = State::Wanted;
        lease.is_wanted.store(true, Ordering::Relaxed);
        drop(state);
        self.sleepers[number.index()].wake();
        let since = Instant::now();
        let mut state = lease.lock();
        while let Some(left) = patience.checked_sub(since.elapsed())
            && !left.is_zero()
            && matches!(*state, State::Wanted)
        {
            let waited = lease.handed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        lease.is_wanted.store(false, Ordering::Relaxed);
        match std::mem::replace(&mut *state, State::Driven) {
            State::Handed(port) => Some(port),
            _ => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Awake, all the time.
    struct Awake;

    impl Sleeper for Awake {
        fn wake(&self) -> bool {
            false
        }
    }

    fn leases() -> Leases<&'static str, Awake> {
        Leases::new([(); 3].map(|()| Arc::new(Awake)))
    }

    const PORTS: [&str; 3] = ["first", "second", "third"];

    #[test]
    fn a_port_that_was_left_is_taken_once() {
        let leases = leases();
        assert!(leases.take().is_none() && !leases.any_free());
        for at in [2, 0] {
            leases.leave(PortNumber::new(at), PORTS[at]);
        }
        assert!(leases.any_free());
        let number = PortNumber::new;
        let elsewhere = || [0, 1, 2].map(|at| leases.is_served_elsewhere(number(at)));
        assert_eq!(elsewhere(), [false; 3]);
        let taken = [(); 3].map(|()| leases.take());
        assert_eq!(elsewhere(), [true, false, true]);
        assert_eq!(taken, [Some((number(0), "first")), Some((number(2), "third")), None]);
        assert!(!leases.any_free());
        leases.leave(number(2), "third");
        assert_eq!(elsewhere(), [true, false, false]);
    }

    #[test]
    fn an_owner_takes_a_free_port_back_at_once_and_waits_for_one_that_is_driven() {
        let leases = leases();
        let owner = PortNumber::new(1);
        leases.leave(owner, "second");
        assert_eq!(leases.take_back(owner, Duration::ZERO), Some("second"));
        assert!(!leases.any_free() && !leases.is_wanted(owner));
        leases.leave(owner, "second");
        let (number, port) = leases.take().unwrap();
        assert_eq!(leases.take_back(owner, Duration::from_millis(1)), None);
        assert!(!leases.is_wanted(owner), "it has given up");
        std::thread::scope(|scope| {
            let back = scope.spawn(|| leases.take_back(owner, Duration::MAX));
            while !leases.is_wanted(number) {
                std::thread::yield_now();
            }
            leases.leave(number, port);
            assert!(leases.take().is_none(), "it is its owner's");
            assert_eq!(back.join().unwrap(), Some("second"));
        });
        assert!(!leases.any_free() && !leases.is_wanted(owner));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::time::Duration;

    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::sync::{Arc, Notify};
    use loom::thread;

    use super::{Leases, Sleeper};
    use crate::runtime::channel::sleep_flag::SleepFlag;
    use crate::transport::request_key::PortNumber;

    /// A thread that sleeps as the event queue does: until it is woken.
    #[derive(Default)]
    struct Bed {
        flag: SleepFlag,
        woken: Notify,
    }

    impl Sleeper for Bed {
        fn wake(&self) -> bool {
            let wakes = self.flag.take();
            if wakes {
                self.woken.notify();
            }
            wakes
        }
    }

    impl Bed {
        /// Sleeps, unless `has_work` says otherwise behind the announcement.
        fn sleep_unless(&self, has_work: impl Fn() -> bool) {
            self.flag.announce();
            if !has_work() {
                self.woken.wait();
            }
            self.flag.clear();
        }
    }

    const OWNER: usize = 0;

    fn number(index: usize) -> PortNumber {
        PortNumber::new(index)
    }

    fn leases() -> Arc<Leases<Box<usize>, Bed>> {
        let beds = [(); 2].map(|()| std::sync::Arc::new(Bed::default()));
        Arc::new(Leases::new(beds))
    }

    #[test]
    fn no_worker_sleeps_beside_a_free_port() {
        loom::model(|| {
            let leases = leases();
            let idle = thread::spawn({
                let leases = leases.clone();
                move || {
                    loop {
                        leases.sleepers[1].sleep_unless(|| leases.any_free());
                        if let Some((_, port)) = leases.take() {
                            return *port;
                        }
                    }
                }
            });
            leases.leave(number(OWNER), Box::new(7));
            leases.wake_one(number(OWNER));
            assert_eq!(idle.join().unwrap(), 7);
        });
    }

    #[test]
    fn an_owner_gets_its_port_from_a_driver_that_sleeps() {
        loom::model(|| {
            let leases = leases();
            leases.leave(number(OWNER), Box::new(7));
            let (taken, port) = leases.take().unwrap();
            let driver = thread::spawn({
                let leases = leases.clone();
                move || {
                    // In the event queue of the port, where the owner's bell rings, too.
                    let bed = &leases.sleepers[taken.index()];
                    while !leases.is_wanted(taken) {
                        bed.sleep_unless(|| leases.is_wanted(taken));
                    }
                    leases.leave(taken, port);
                }
            });
            let back = leases.take_back(number(OWNER), Duration::MAX);
            assert_eq!(back.as_deref(), Some(&7));
            driver.join().unwrap();
            assert!(!leases.any_free() && !leases.is_wanted(number(OWNER)));
        });
    }

    #[test]
    fn of_an_owner_and_another_one_drives_the_port() {
        loom::model(|| {
            let leases = leases();
            let drivers = Arc::new(AtomicUsize::new(0));
            leases.leave(number(OWNER), Box::new(0));
            let other = thread::spawn({
                let (leases, drivers) = (leases.clone(), drivers.clone());
                move || {
                    let Some((taken, mut port)) = leases.take() else {
                        return 0;
                    };
                    assert_eq!(drivers.fetch_add(1, Ordering::Relaxed), 0);
                    *port += 1;
                    drivers.fetch_sub(1, Ordering::Relaxed);
                    leases.leave(taken, port);
                    1
                }
            });
            let port = leases.take_back(number(OWNER), Duration::MAX);
            let port = port.expect("it waits");
            assert_eq!(drivers.fetch_add(1, Ordering::Relaxed), 0);
            assert_eq!(*port, other.join().unwrap(), "the other is done with it");
            assert!(!leases.any_free() && !leases.is_wanted(number(OWNER)));
        });
    }

    #[test]
    fn an_owner_that_gives_up_leaves_the_port_to_its_driver() {
        loom::model(|| {
            let leases = leases();
            leases.leave(number(OWNER), Box::new(7));
            let (taken, port) = leases.take().unwrap();
            let driver = thread::spawn({
                let leases = leases.clone();
                move || leases.leave(taken, port)
            });
            let back = leases.take_back(number(OWNER), Duration::ZERO);
            driver.join().unwrap();
            let back = back.or_else(|| leases.take().map(|(_, port)| port));
            assert_eq!(back.as_deref(), Some(&7));
            assert!(!leases.any_free() && !leases.is_wanted(number(OWNER)));
        });
    }
}
