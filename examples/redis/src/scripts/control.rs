//! What others may look at and change while a script runs: since when it runs, and whether it must stop.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use psp_protocols::resp::Version;
use psp_server::{checkpoint, is_abandoned};

/// Bytes of the stack that nested calls of Lua and Rust may take. Beyond it, a script gets an error.
const STACK_BYTES_MAX: usize = 768 * 1024;

/// Stack that a request which runs scripts needs: [`STACK_BYTES_MAX`], the deepest pattern, and a command.
pub(crate) const STACK_BYTES_MIN: usize = 2 << 20;

/// No script runs.
const IDLE: u64 = u64::MAX;

/// Why a script stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// SCRIPT KILL.
    #[error("ERR Script killed by user with SCRIPT KILL.")]
    Killed,
    /// The client has gone.
    #[error("ERR Script stopped: its client has gone.")]
    Abandoned,
    /// The script ran longer than `script-time-limit-ms`.
    #[error("ERR Script stopped: it ran longer than script-time-limit-ms.")]
    TooLong,
}

/// The control of one interpreter.
#[derive(Debug)]
pub struct Control {
    /// Milliseconds since the first use of the clock; [`IDLE`] if no script runs.
    started_ms: AtomicU64,
    limit_ms: AtomicU64,
    killed: AtomicBool,
    /// Cleared by writes that cannot be taken back.
    stoppable: AtomicBool,
    resp: AtomicU8,
    stack_base: AtomicUsize,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            started_ms: AtomicU64::new(IDLE),
            limit_ms: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            stoppable: AtomicBool::new(true),
            resp: AtomicU8::new(2),
            stack_base: AtomicUsize::new(0),
        }
    }
}

fn now_ms() -> u64 {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(ORIGIN.elapsed().as_millis()).unwrap_or(0)
}

/// An address on this thread's stack.
#[inline(never)]
fn stack_address() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

impl Control {
    /// A script begins, which may run for `limit_ms`; 0 for any time.
    pub(crate) fn begin(&self, limit_ms: u64) {
        self.killed.store(false, Ordering::Relaxed);
        self.limit_ms.store(limit_ms, Ordering::Relaxed);
        self.stack_base.store(stack_address(), Ordering::Relaxed);
        self.started_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// The script begins again, on another fork.
    pub(crate) fn restart(&self) {
        self.stoppable.store(true, Ordering::Relaxed);
        self.set_version(Version::Resp2);
    }

    /// The script has ended.
    pub(crate) fn end(&self) {
        self.started_ms.store(IDLE, Ordering::Relaxed);
    }

    /// How long the script has been running.
    pub(crate) fn running_ms(&self) -> Option<u64> {
        let started_ms = self.started_ms.load(Ordering::Relaxed);
        (started_ms != IDLE).then(|| now_ms().saturating_sub(started_ms))
    }

    /// The script has written, and it cannot be taken back.
    pub(crate) fn forbid_stop(&self) {
        self.stoppable.store(false, Ordering::Relaxed);
    }

    /// Whether the script can stop.
    pub(crate) fn is_stoppable(&self) -> bool {
        self.stoppable.load(Ordering::Relaxed)
    }

    /// Asks the script to stop.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    /// Lets other requests run. An error if the script must stop.
    pub(crate) fn pause(&self) -> Result<(), Stop> {
        checkpoint();
        if !self.is_stoppable() {
            return Ok(());
        }
        let limit_ms = self.limit_ms.load(Ordering::Relaxed);
        if self.killed.load(Ordering::Relaxed) {
            Err(Stop::Killed)
        } else if is_abandoned() {
            Err(Stop::Abandoned)
        } else if limit_ms > 0 && self.running_ms().is_some_and(|ms| ms > limit_ms) {
            Err(Stop::TooLong)
        } else {
            Ok(())
        }
    }

    /// Whether nested calls have used up the stack.
    pub(crate) fn is_deep(&self) -> bool {
        let base = self.stack_base.load(Ordering::Relaxed);
        base.saturating_sub(stack_address()) > STACK_BYTES_MAX
    }

    /// The protocol in which the script sees replies.
    pub(crate) fn version(&self) -> Version {
        match self.resp.load(Ordering::Relaxed) {
            3 => Version::Resp3,
            _ => Version::Resp2,
        }
    }

    /// `redis.setresp`.
    pub(crate) fn set_version(&self, version: Version) {
        let number = crate::client::version_number(version);
        self.resp.store(number, Ordering::Relaxed);
    }
}
