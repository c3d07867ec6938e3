//! A simulated operating system for one thread: its clock, its sockets and its event queue. In tests only.
//!
//! ```text
//!   runtime (net worker, dispatcher, executors)          the simulation (clients, workers' turns)
//!      │ Clock::now_ns        │ Socket::read, write          │ client_send, client_read, reset
//!      │ EventQueue::wait     │ Alarm::set                   │
//!      ▼                      ▼                              ▼
//!   ┌─ virtual time ──────── sockets ──────── events ──────────┐
//!   └──────────────────────────────────────────────────────────┘
//! ```
//!
//! A thread has a simulated system between [`begin`] and the drop of what that returns. Then the runtime's clock, event
//! queue, alarm and doorbell on this thread are the simulated ones. Other threads notice nothing. Live builds contain
//! nothing of this.
//!
//! Time passes by what the runtime does: each reading of the clock and each system call takes some nanoseconds. At
//! these points, and while the runtime waits for events, what happens elsewhere at that time happens: the
//! [`begin`]ner's function is called.
//!
//! | file | job |
//! | --- | --- |
//! | `network.rs` | sockets, and the listener |
//! | `random.rs` | seeded random numbers |

mod network;
pub(crate) mod random;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use mio::Token;

pub(crate) use self::network::{ClientEnd, Found, Limits, ListenerEnd, Network, ServerEnd, SocketId};
use crate::runtime::host::event::{Event, SocketEvent};

/// What a reading of the clock takes.
const READING_NS: u64 = 25;
/// What a system call takes.
const CALL_NS: u64 = 400;

/// What else happens: called with the time up to which.
pub(crate) type Elsewhere = fn(u64);

thread_local! {
    static SYSTEM: System = const { System {
        now_ns: Cell::new(0),
        due_ns: Cell::new(u64::MAX),
        own_ns: Cell::new(None),
        elsewhere: Cell::new(None),
        is_elsewhere: Cell::new(false),
        is_rung: Cell::new(false),
        alarm_ns: Cell::new(u64::MAX),
        alarm: Cell::new(None),
        is_broken: Cell::new(false),
        network: RefCell::new(Network::new()),
    } };
}

/// See the [module](self).
struct System {
    now_ns: Cell<u64>,
    /// When something happens elsewhere.
    due_ns: Cell<u64>,
    /// The clock of a simulated worker, while that runs a request.
    own_ns: Cell<Option<u64>>,
    /// `None` without a simulation.
    elsewhere: Cell<Option<Elsewhere>>,
    /// The thread does what happens elsewhere, or a handler runs.
    is_elsewhere: Cell<bool>,
    /// The net worker was woken.
    is_rung: Cell<bool>,
    alarm_ns: Cell<u64>,
    /// Its event's token.
    alarm: Cell<Option<Token>>,
    /// The simulation has failed: the runtime is to end.
    is_broken: Cell<bool>,
    network: RefCell<Network>,
}

/// A simulated system, until it is dropped.
#[must_use]
pub(crate) struct Begun(());

/// The calling thread has a simulated system from here on, whose time begins at `now_ns`. `alarm` is the token of the
/// alarm's event.
pub(crate) fn begin(now_ns: u64, alarm: Token, limits: Limits, elsewhere: Elsewhere) -> Begun {
    SYSTEM.with(|system| {
        system.now_ns.set(now_ns);
        system.due_ns.set(now_ns);
        system.own_ns.set(None);
        system.elsewhere.set(Some(elsewhere));
        system.is_elsewhere.set(false);
        system.is_rung.set(false);
        system.alarm_ns.set(u64::MAX);
        system.alarm.set(Some(alarm));
        system.is_broken.set(false);
        system.network.borrow_mut().start(limits);
    });
    Begun(())
}

impl Drop for Begun {
    fn drop(&mut self) {
        SYSTEM.with(|system| {
            system.elsewhere.set(None);
            *system.network.borrow_mut() = Network::new();
        });
    }
}

/// The time, if the thread has a simulated system. It takes some.
#[inline]
pub(crate) fn clock() -> Option<u64> {
    SYSTEM.with(|system| {
        system.elsewhere.get()?;
        if let Some(own_ns) = system.own_ns.get() {
            system.own_ns.set(Some(own_ns + READING_NS));
            return Some(own_ns + READING_NS);
        }
        system.pass(READING_NS);
        Some(system.now_ns.get())
    })
}

/// The time, without taking any: that of the worker whose request runs, or of what happens.
pub(crate) fn now_ns() -> u64 {
    SYSTEM.with(|system| system.own_ns.get().unwrap_or(system.now_ns.get()))
}

/// The handler that runs takes so long.
pub(crate) fn spend(ns: u64) {
    SYSTEM.with(|system| match system.own_ns.get() {
        Some(own_ns) => system.own_ns.set(Some(own_ns + ns)),
        None => system.now_ns.set(system.now_ns.get() + ns),
    });
}

/// Runs `body`, a part of a simulated worker's life, whose clock shows `own_ns` at its start. Returns what it shows at
/// the end, too.
pub(crate) fn at_own_time<T>(own_ns: u64, body: impl FnOnce() -> T) -> (T, u64) {
    SYSTEM.with(|system| system.own_ns.set(Some(own_ns)));
    let out = body();
    let end_ns = SYSTEM.with(|system| system.own_ns.take());
    (out, end_ns.unwrap_or(own_ns))
}

/// Whether a part of a simulated worker's life runs.
pub(crate) fn is_at_own_time() -> bool {
    SYSTEM.with(|system| system.own_ns.get().is_some())
}

/// While this is held, nothing happens elsewhere: a handler of the net thread runs.
#[must_use]
pub(crate) struct Undisturbed(bool);

/// See [`Undisturbed`].
pub(crate) fn undisturbed() -> Undisturbed {
    Undisturbed(SYSTEM.with(|system| system.is_elsewhere.replace(true)))
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        SYSTEM.with(|system| system.is_elsewhere.set(self.0));
    }
}

/// Something happens elsewhere at `at_ns`, or earlier.
#[inline]
pub(crate) fn due(at_ns: u64) {
    SYSTEM.with(|system| system.due_ns.set(system.due_ns.get().min(at_ns)));
}

/// Nothing happens elsewhere before `at_ns`.
pub(crate) fn not_due_before(at_ns: u64) {
    SYSTEM.with(|system| system.due_ns.set(at_ns));
}

/// The clock jumps ahead.
pub(crate) fn jump(ns: u64) {
    SYSTEM.with(|system| system.now_ns.set(system.now_ns.get() + ns));
}

/// The runtime ends with an error at its next wait.
pub(crate) fn stop() {
    SYSTEM.with(|system| system.is_broken.set(true));
}

/// Wakes the net worker, if the thread has a simulated system.
pub(crate) fn ring() -> bool {
    SYSTEM.with(|system| {
        let is_simulated = system.elsewhere.get().is_some();
        system.is_rung.set(is_simulated);
        is_simulated
    })
}

/// Has the alarm ring in so many nanoseconds, if the thread has a simulated system.
pub(crate) fn set_alarm(in_ns: u64) -> bool {
    SYSTEM.with(|system| {
        let is_simulated = system.elsewhere.get().is_some();
        if is_simulated {
            system.pass(CALL_NS);
            system.alarm_ns.set(system.now_ns.get().saturating_add(in_ns));
        }
        is_simulated
    })
}

/// Waits for events, if the thread has a simulated system, and puts them into `events`.
///
/// # Errors
/// When the simulation has failed.
pub(crate) fn wait(timeout: Duration, events: &mut Vec<Event>) -> Option<io::Result<()>> {
    SYSTEM.with(|system| {
        system.elsewhere.get()?;
        events.clear();
        Some(system.wait(timeout, events))
    })
}

/// Bytes that the socket of this descriptor has for the server, if it is a simulated one.
pub(crate) fn unread(descriptor: RawFd) -> Option<usize> {
    let id = SocketId::of_descriptor(descriptor)?;
    Some(with_network(|network| network.unread(id)))
}

/// Calls `body` with the network of the thread's system.
pub(crate) fn with_network<T>(body: impl FnOnce(&mut Network) -> T) -> T {
    SYSTEM.with(|system| body(&mut system.network.borrow_mut()))
}

/// A system call of the runtime takes its time.
fn call() {
    SYSTEM.with(|system| match system.own_ns.get() {
        Some(own_ns) => system.own_ns.set(Some(own_ns + CALL_NS)),
        None => system.now_ns.set(system.now_ns.get() + CALL_NS),
    });
}

impl System {
    /// Time passes on the net thread, and what is due by then happens.
    #[inline]
    fn pass(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
        if self.due_ns.get() <= self.now_ns.get() {
            self.happen();
        }
    }

    #[cold]
    fn happen(&self) {
        if let Some(elsewhere) = self.elsewhere.get()
            && !self.is_elsewhere.replace(true)
        {
            elsewhere(self.now_ns.get());
            self.is_elsewhere.set(false);
        }
    }

    fn wait(&self, timeout: Duration, events: &mut Vec<Event>) -> io::Result<()> {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = self.now_ns.get().saturating_add(timeout_ns);
        self.now_ns.set(self.now_ns.get() + CALL_NS);
        // A handler that paused is not running.
        self.is_elsewhere.set(false);
        // Whatever the runtime has sent to workers since the last wait is seen now.
        self.due_ns.set(0);
        loop {
            if self.due_ns.get() <= self.now_ns.get() {
                self.happen();
            }
            if self.is_broken.get() {
                return Err(io::Error::other("the simulation has failed"));
            }
            self.network.borrow_mut().take_events(events);
            if self.alarm_ns.get() <= self.now_ns.get() {
                self.alarm_ns.set(u64::MAX);
                events.extend(self.alarm.get().map(|token| Event { token, about: SocketEvent::default() }));
            }
            if self.is_rung.take() || !events.is_empty() || self.now_ns.get() >= until_ns {
                return Ok(());
            }
            let next_ns = self.due_ns.get().min(self.alarm_ns.get()).min(until_ns);
            self.now_ns.set(next_ns.max(self.now_ns.get()));
        }
    }
}
