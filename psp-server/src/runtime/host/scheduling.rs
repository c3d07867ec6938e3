//! How threads share their cores: scheduling classes, slices and pinning, as the kernel is told.
//!
//! ```text
//!   net thread   the shortest slice: on waking it runs before the running thread, even a spinning client
//!   workers      a longer slice at the same weight: what a thread of another program gets, they get
//!   net workers  the net thread's slice; that of a worker as long as they run a long request
//!   preempted    SCHED_IDLE: they lose their core at once to any other thread that wakes there
//! ```
//!
//! None of these needs a privilege. Only leaving SCHED_IDLE does, and taking a lower nice value back
//! ([`can_be_raised`], [`at_own_priority`]). The kernel also tells how long a thread has run ([`ThreadClock`]).
//! `unsafe` is for `sched_setattr`, `sched_getattr` and the clocks of other threads, which no safe library offers.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

thread_local! {
    static LOWERED: RefCell<Lowered> = const { RefCell::new(Lowered::Not) };
}

/// The priority that the calling thread has given up.
#[derive(Debug)]
enum Lowered {
    Not,
    /// For good.
    From(Standing),
    /// For the time of a long request.
    Meanwhile(GivenUp),
}

/// Tells the kernel that the calling thread runs for at most about `slice_us` at a time, from 100 to 100 000. A
/// thread with a shorter slice than the running thread's may preempt that on waking (Linux 6.12 and later;
/// earlier kernels ignore it). A real-time thread keeps its settings.
///
/// The net thread of a server calls this by itself ([`Config::net_slice_us`](crate::Config::net_slice_us)). A
/// client on the same machine, which would wait for the workers' slices to end, may call it, too.
pub fn shorten_slice(slice_us: u64) {
    if slice_us > 0
        && let Err(error) = system::set_slice(slice_us)
    {
        tracing::debug!(slice_us, %error, "cannot shorten the thread's slice");
    }
}

/// Tells the kernel not to delay the calling thread's timeouts. Otherwise it joins timeouts of several threads
/// to within 50 us.
pub(crate) fn sharpen_timers() {
    if let Err(error) = system::set_timer_slack() {
        tracing::debug!(%error, "timeouts of the net thread may be late");
    }
}

/// How a thread stands that runs long requests on a core which it shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Background {
    /// Its nice value, unless its own is higher. `None` if it stays as it is.
    pub(crate) nice: Option<i32>,
    /// 0 is the system's.
    pub(crate) slice_us: u64,
}

impl Background {
    /// With the settings [`background_nice`](crate::Config::background_nice) and
    /// [`background_slice_us`](crate::Config::background_slice_us).
    pub(crate) const fn new(nice: i32, slice_us: u64) -> Self {
        Self { nice: Some(nice), slice_us }
    }

    /// The same for a thread that cannot take its own nice value back.
    pub(crate) fn without_nice(self) -> Self {
        Self { nice: None, ..self }
    }
}

/// Has the calling thread stand as one that runs long requests, for good.
pub(crate) fn lower_priority(background: Background) {
    let lowered = Standing::of_this_thread().and_then(|own| {
        let lower = own.attributes.background(background);
        let lower = lower.ok_or(io::ErrorKind::PermissionDenied)?;
        system::set_attributes(own.thread, lower)?;
        if lower.nice > own.attributes.nice {
            LOWERED.set(Lowered::From(own));
        }
        Ok(())
    });
    if let Err(error) = lowered {
        tracing::warn!(?background, %error, "cannot set the thread's priority");
    }
}

/// Runs `body`, which must not yield, with the priority that the calling thread has given up, if it may take that back.
/// A thread that has given it up for a long request keeps it afterwards.
pub(crate) fn at_own_priority<T>(body: impl FnOnce() -> T) -> T {
    /// Takes a thread back to where it was.
    struct Raised(Option<Standing>);

    impl Drop for Raised {
        fn drop(&mut self) {
            // Lowering needs no privilege.
            let _ = self.0.map_or(Ok(()), |lowered| lowered.restore());
        }
    }

    let _raised = Raised(LOWERED.with_borrow(Lowered::raise));
    body()
}

impl Lowered {
    /// Raises the thread. Returns what it has to go back to.
    fn raise(&self) -> Option<Standing> {
        /// The process may not.
        static IS_REFUSED: AtomicBool = AtomicBool::new(false);

        if IS_REFUSED.load(Ordering::Relaxed) {
            return None;
        }
        let (raised, back) = match self {
            Self::Not => return None,
            Self::From(own) => {
                let lowered = Standing::of_this_thread().ok()?;
                if lowered.attributes.is_idle() {
                    // It is suspended.
                    return None;
                }
                (own.restore(), Some(lowered))
            }
            Self::Meanwhile(given_up) => (given_up.give_back(), None),
        };
        if raised.is_err() {
            IS_REFUSED.store(true, Ordering::Relaxed);
            return None;
        }
        back
    }
}

/// A thread's number, and its standing among the threads of its core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    thread: i32,
    attributes: system::Attributes,
}

impl Standing {
    /// The calling thread's present standing.
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        Ok(Self {
            thread: system::this_thread(),
            attributes: system::attributes()?,
        })
    }

    /// Takes the standing away: from here on every thread that wakes on its core runs before it, and it has the
    /// core only while no other thread wants it. Any thread may call this.
    pub(crate) fn suspend(&self) -> io::Result<()> {
        system::set_attributes(self.thread, self.attributes.idle())
    }

    /// Gives the standing back. Any thread may call this.
    ///
    /// # Errors
    ///
    /// The kernel's error, without the privilege.
    pub(crate) fn restore(&self) -> io::Result<()> {
        system::set_attributes(self.thread, self.attributes)
    }
}

/// The standing that a thread has given up, as long as it has.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenUp(Arc<Mutex<Option<Standing>>>);

impl GivenUp {
    fn lock(&self) -> MutexGuard<'_, Option<Standing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the standing back, if the thread does not have it. Any thread may call this: others wait for that one.
    ///
    /// # Errors
    /// The kernel's error, without the privilege.
    pub(crate) fn give_back(&self) -> io::Result<()> {
        self.lock().take().map_or(Ok(()), |own| own.restore())
    }
}

/// Takes the standing of background work for the time of a long request, and gives the thread its own back.
#[derive(Debug)]
pub(crate) struct Demotion {
    background: Background,
    given_up: GivenUp,
    has_begun: bool,
    is_refused: bool,
    /// `None` before the first time, and if the kernel does not say how long threads wait for processors.
    delays: Option<File>,
    /// What it said before the request.
    delayed_ns: u64,
}

impl Demotion {
    /// With a nice value only if the thread [may leave it again](can_be_raised).
    pub(crate) fn new(background: Background) -> Self {
        Self {
            background,
            given_up: GivenUp::default(),
            has_begun: false,
            is_refused: false,
            delays: None,
            delayed_ns: 0,
        }
    }

    /// What the thread gives up, for threads that may give it back earlier.
    pub(crate) fn given_up(&self) -> GivenUp {
        self.given_up.clone()
    }

    /// The calling thread is about to run a long request. It must hold no lock that short requests need.
    #[cold]
    pub(crate) fn begin(&mut self) {
        if self.has_begun || self.is_refused {
            return;
        }
        if self.delays.is_none() {
            self.delays = File::open("/proc/thread-self/schedstat").ok();
        }
        self.has_begun = self.step_back();
        if self.has_begun {
            LOWERED.set(Lowered::Meanwhile(self.given_up()));
        }
        // Behind the call, which lets others have the core at once.
        self.delayed_ns = self.delays_ns();
    }

    /// Takes the lower standing. Returns whether the thread could. It holds no lock meanwhile: who gives its own
    /// standing back must not wait for a thread that no core runs.
    fn step_back(&self) -> bool {
        let Ok(own) = Standing::of_this_thread() else {
            return false;
        };
        let Some(lower) = own.attributes.background(self.background) else {
            return false;
        };
        *self.given_up.lock() = Some(own);
        if system::set_attributes(own.thread, lower).is_err() {
            *self.given_up.lock() = None;
            return false;
        }
        if self.given_up.lock().is_none() {
            // Another thread gave it back before it was taken away.
            let _ = own.restore();
        }
        true
    }

    /// The request is over. Returns for how long the thread could have run meanwhile and had no processor, because
    /// of its standing: that says nothing about the request.
    #[cold]
    pub(crate) fn end(&mut self) -> u64 {
        if !std::mem::take(&mut self.has_begun) {
            return 0;
        }
        LOWERED.set(Lowered::Not);
        let delayed_ns = self.delays_ns();
        if let Err(error) = self.given_up.give_back() {
            self.is_refused = true;
            tracing::warn!(%error, "a worker cannot raise its priority again after a long request");
        }
        delayed_ns.saturating_sub(self.delayed_ns)
    }

    /// For how long the thread has waited for a processor since its start; 0 if the kernel does not say.
    fn delays_ns(&self) -> u64 {
        let mut text = [0; 64];
        let delays = self.delays.as_ref();
        let read = delays.and_then(|delays| delays.read_at(&mut text, 0).ok());
        let text = std::str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or("");
        // Time on a processor, time of waiting for one, time slices.
        let waited = text.split(' ').nth(1);
        waited.and_then(|ns| ns.parse().ok()).unwrap_or(0)
    }
}

/// How long a thread has run on a processor. Any thread may read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadClock(std::num::NonZeroI32);

impl ThreadClock {
    /// The clock of the calling thread, if the kernel has one.
    pub(crate) fn of_this_thread() -> Option<Self> {
        std::num::NonZeroI32::new(system::clock_of_this_thread()?).map(Self)
    }

    /// In nanoseconds. `None` if the thread has ended.
    pub(crate) fn now_ns(self) -> Option<u64> {
        system::clock_ns(self.0.get())
    }

    /// As a number that is not 0.
    pub(crate) fn to_bits(self) -> u64 {
        self.0.get().cast_unsigned().into()
    }

    /// From [`to_bits`](Self::to_bits); `None` from 0.
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        let id = u32::try_from(bits).ok()?.cast_signed();
        std::num::NonZeroI32::new(id).map(Self)
    }
}

/// Whether a thread may leave SCHED_IDLE, or a higher nice value, again: the process has CAP_SYS_NICE, or a limit
/// RLIMIT_NICE that allows its own nice value. Tries it on a new thread.
pub(crate) fn can_be_raised() -> bool {
    let attempt = || {
        let standing = Standing::of_this_thread()?;
        standing.suspend()?;
        standing.restore()
    };
    std::thread::spawn(attempt).join().is_ok_and(|raised| raised.is_ok())
}

/// Whether preempted threads can have the [lowest standing](Standing::suspend), as they can have their own again. Says
/// so if not.
pub(crate) fn can_lower_preempted() -> bool {
    let can_be_raised = can_be_raised();
    if !can_be_raised {
        tracing::warn!(
            "without CAP_SYS_NICE or an RLIMIT_NICE for their nice value, preempted requests share \
             their core with the requests that preempt them"
        );
    }
    can_be_raised
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod system {
    use std::io;

    use super::Background;

    /// The kernel's settings for a thread.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Attributes {
        pub(super) policy: i32,
        pub(super) nice: i32,
        /// Of a real-time thread; 0 for others.
        pub(super) priority: u32,
        /// 0 is the system's default.
        pub(super) slice_ns: u64,
    }

    impl Attributes {
        /// The attributes of a thread that runs only when no other wants its core. The nice value stays: it has
        /// no effect then, and could not be lowered again.
        pub(super) fn idle(self) -> Self {
            Self { policy: libc::SCHED_IDLE, priority: 0, ..self }
        }

        /// Whether they are those of a thread that runs only when no other wants its core.
        pub(super) fn is_idle(self) -> bool {
            self.policy == libc::SCHED_IDLE
        }

        fn is_real_time(self) -> bool {
            let others = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
            !others.contains(&self.policy)
        }

        /// The attributes of a thread that runs long requests. `None` if those are of a real-time thread that shall be
        /// able to leave them again.
        pub(super) fn background(self, background: Background) -> Option<Self> {
            let is_real_time = self.is_real_time();
            (background.nice.is_some() || !is_real_time).then(|| Self {
                policy: match is_real_time {
                    true => libc::SCHED_OTHER,
                    false => self.policy,
                },
                nice: background.nice.map_or(self.nice, |nice| nice.max(self.nice)),
                priority: 0,
                slice_ns: background.slice_us * 1000,
            })
        }
    }

    pub(super) fn set_slice(slice_us: u64) -> io::Result<()> {
        // SAFETY: `sched_getscheduler` takes a number and touches no memory; 0 is this thread.
        let policy = unsafe { libc::sched_getscheduler(0) };
        if policy != libc::SCHED_OTHER {
            return Ok(());
        }
        let nice = rustix::process::getpriority_process(None)?;
        let attributes = Attributes { policy, nice, priority: 0, slice_ns: slice_us * 1000 };
        set_attributes(THIS_THREAD, attributes)
    }

    pub(super) fn set_timer_slack() -> io::Result<()> {
        Ok(rustix::thread::set_current_timer_slack(std::num::NonZero::new(1))?)
    }

    pub(super) fn this_thread() -> i32 {
        rustix::thread::gettid().as_raw_nonzero().get()
    }

    /// Those of the calling thread.
    pub(super) fn attributes() -> io::Result<Attributes> {
        let mut attributes = ZEROED;
        let size = size_of::<libc::sched_attr>();
        // SAFETY: the kernel writes at most `size` bytes into `attributes`, which is that long.
        let result = unsafe { libc::syscall(libc::SYS_sched_getattr, THIS_THREAD, &raw mut attributes, size, 0) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Attributes {
            policy: attributes.sched_policy as i32,
            nice: attributes.sched_nice,
            priority: attributes.sched_priority,
            slice_ns: attributes.sched_runtime,
        })
    }

    pub(super) fn set_attributes(thread: i32, attributes: Attributes) -> io::Result<()> {
        let attributes = libc::sched_attr {
            sched_policy: attributes.policy as u32,
            sched_nice: attributes.nice,
            sched_priority: attributes.priority,
            sched_runtime: attributes.slice_ns,
            ..ZEROED
        };
        // SAFETY: the kernel reads `size` bytes of `attributes`, which lives until the call returns
        // and is as long as it says, and writes nothing. A thread that is gone is an error. No flags.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    pub(super) fn clock_of_this_thread() -> Option<i32> {
        let mut clock = 0;
        // SAFETY: the thread that is named is the caller, which runs; the result is written to a local
        // variable.
        let result = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        (result == 0).then_some(clock)
    }

    pub(super) fn clock_ns(clock: i32) -> Option<u64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes a `timespec`, which is a local variable. The clock of a thread that has
        // ended is an error, or by then another thread's: a wrong time, but no wrong memory.
        let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
        if result != 0 {
            return None;
        }
        Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    const THIS_THREAD: i32 = 0;

    const ZEROED: libc::sched_attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };

    #[cfg(test)]
    mod tests {
        use super::super::{Demotion, Standing, at_own_priority, can_be_raised, lower_priority};
        use super::*;

        const NICEST: Background = Background { nice: Some(19), slice_us: 700 };
        const SLICED: Background = Background { nice: None, ..NICEST };

        fn on_a_thread<T: Send + 'static>(body: impl FnOnce() -> io::Result<T> + Send + 'static) -> T {
            std::thread::spawn(body).join().unwrap().unwrap()
        }

        #[test]
        fn the_kernel_takes_what_it_is_told() {
            let before = on_a_thread(attributes);
            let sliced = on_a_thread(|| {
                set_slice(100)?;
                attributes()
            });
            assert_eq!((sliced.policy, sliced.nice), (before.policy, before.nice));
            // Kernels before 6.12 have no slices for single threads and report none.
            let slice_ns = sliced.slice_ns;
            assert!(slice_ns == 100_000 || slice_ns == before.slice_ns, "{slice_ns}");
            let lowered = on_a_thread(|| {
                lower_priority(NICEST);
                attributes()
            });
            assert_eq!((lowered.policy, lowered.nice), (before.policy, 19));
            let slice_ns = lowered.slice_ns;
            assert!(slice_ns == 700_000 || slice_ns == before.slice_ns, "{slice_ns}");
        }

        #[test]
        fn a_thread_is_suspended_and_restored_where_that_is_allowed() {
            let (before, suspended) = on_a_thread(|| {
                let standing = Standing::of_this_thread()?;
                standing.suspend()?;
                Ok((standing.attributes, attributes()?))
            });
            assert_eq!(suspended.policy, libc::SCHED_IDLE);
            assert_eq!(suspended.nice, before.nice);
            if !can_be_raised() {
                return psp_skip::skip("no right to leave SCHED_IDLE again (CAP_SYS_NICE)");
            }
            let (before, after) = on_a_thread(|| {
                lower_priority(NICEST);
                let standing = Standing::of_this_thread()?;
                standing.suspend()?;
                standing.restore()?;
                Ok((standing.attributes, attributes()?))
            });
            assert_eq!(after, before);
        }

        #[test]
        fn another_thread_gives_a_standing_back_during_a_long_request() {
            let (own, back, after) = on_a_thread(|| {
                set_slice(200)?;
                let mut demotion = Demotion::new(SLICED);
                let own = attributes()?;
                demotion.begin();
                let given_up = demotion.given_up();
                std::thread::spawn(move || given_up.give_back()).join().unwrap()?;
                let back = attributes()?;
                demotion.end();
                demotion.given_up().give_back()?;
                Ok((own, back, attributes()?))
            });
            assert_eq!((back, after), (own, own));
        }

        #[test]
        fn a_thread_of_low_priority_has_its_own_for_a_while() {
            if !can_be_raised() {
                return psp_skip::skip("no right to raise a priority again (CAP_SYS_NICE)");
            }
            let [own, during, after] = on_a_thread(|| {
                let own = attributes()?;
                lower_priority(NICEST);
                let during = at_own_priority(attributes)?;
                Ok([own, during, attributes()?])
            });
            assert_eq!(during, own);
            assert_eq!((after.policy, after.nice), (own.policy, 19));

            let [own, during, after] = on_a_thread(|| {
                let own = attributes()?;
                let mut demotion = Demotion::new(NICEST);
                demotion.begin();
                let during = at_own_priority(attributes)?;
                demotion.end();
                let after = at_own_priority(attributes)?;
                Ok([own, during, after])
            });
            assert_eq!([during, after], [own; 2]);
        }

        /// Its own standing, and those during a long request and after it.
        fn demoted(background: Background) -> [Attributes; 3] {
            let attributes = || attributes().unwrap();
            let thread = std::thread::spawn(move || {
                set_slice(200).unwrap();
                let mut demotion = Demotion::new(background);
                let own = attributes();
                demotion.begin();
                demotion.begin();
                let during = attributes();
                demotion.end();
                demotion.end();
                [own, during, attributes()]
            });
            thread.join().unwrap()
        }

        #[test]
        fn a_thread_steps_back_for_a_long_request_and_has_its_standing_again_afterwards() {
            let [own, during, after] = demoted(SLICED);
            assert_eq!((during.policy, during.nice), (own.policy, own.nice));
            assert!(during.slice_ns == 700_000 || during == own, "{during:?}");
            assert_eq!(after, own);
            if !can_be_raised() {
                return psp_skip::skip("no right to raise a priority again (CAP_SYS_NICE)");
            }
            let [own, during, after] = demoted(NICEST);
            assert_eq!((during.policy, during.nice), (own.policy, 19));
            assert_eq!(after, own);
        }

        #[test]
        fn a_real_time_thread_steps_back_where_it_may_return() {
            let demoted = |background: Background| {
                on_a_thread(move || {
                    let attributes_of = |policy, priority| Attributes { policy, priority, nice: 0, slice_ns: 0 };
                    if set_attributes(THIS_THREAD, attributes_of(libc::SCHED_RR, 1)).is_err() {
                        return Ok(None);
                    }
                    let mut demotion = Demotion::new(background);
                    demotion.begin();
                    let during = attributes()?;
                    demotion.end();
                    Ok(Some([during, attributes()?]))
                })
            };
            let Some([during, after]) = demoted(NICEST) else {
                return psp_skip::skip("no right to real-time priority (CAP_SYS_NICE)");
            };
            assert_eq!((during.policy, during.nice), (libc::SCHED_OTHER, 19));
            assert_eq!((after.policy, after.priority), (libc::SCHED_RR, 1));
            let [during, after] = demoted(SLICED).expect("it had the right before");
            assert_eq!([during.policy, after.policy], [libc::SCHED_RR; 2]);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    use super::Background;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Attributes {
        pub(super) nice: i32,
    }

    impl Attributes {
        pub(super) fn idle(self) -> Self {
            self
        }

        pub(super) fn is_idle(self) -> bool {
            false
        }

        pub(super) fn background(self, _background: Background) -> Option<Self> {
            None
        }
    }

    pub(super) fn set_slice(_slice_us: u64) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn this_thread() -> i32 {
        0
    }

    pub(super) fn attributes() -> io::Result<Attributes> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn set_attributes(_thread: i32, _attributes: Attributes) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn set_timer_slack() -> io::Result<()> {
        Ok(())
    }

    pub(super) fn clock_of_this_thread() -> Option<i32> {
        None
    }

    pub(super) fn clock_ns(_clock: i32) -> Option<u64> {
        None
    }
}
