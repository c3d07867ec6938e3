//! What others may look at and change while a script runs: since when it runs, and whether it must stop.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use parking_lot::Mutex;
use psp_protocols::Sink;
use psp_protocols::resp::{Encoder, Version};
use psp_server::{ServerHandle, checkpoint, is_abandoned};

use super::profile::{self, Profile, Tag};
use crate::acl::Account;

/// Bytes of the stack that nested calls of Lua and Rust may take. Beyond it, a script gets an error.
const STACK_BYTES_MAX: usize = 768 * 1024;

/// Stack that a request which runs scripts needs: [`STACK_BYTES_MAX`], the deepest pattern, and a command.
pub(crate) const STACK_BYTES_MIN: usize = 2 << 20;

/// No script runs.
const IDLE: u64 = u64::MAX;

/// Checkpoints that a library may pass while it is loaded: about half a second.
const LOADING_CHECKPOINTS: u32 = 25_000;

/// After so many counts of instructions, about a millisecond of Lua, a script is long, whatever its runs were like
/// before.
const COUNTS_OF_LONG: u32 = 50;

/// Arguments that FUNCTION STATS shows of a call, and bytes of each.
const SHOWN_ARGS_MAX: usize = 32;
const SHOWN_BYTES_MAX: usize = 128;

/// What an interpreter does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task<'a> {
    /// EVAL and its like.
    Script,
    /// FCALL, with these arguments.
    Function(&'a [&'a [u8]]),
    /// FUNCTION LOAD.
    Load,
}

/// Who may be stopped by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Form {
    /// Scripts stop at SCRIPT KILL.
    Script,
    /// Functions stop at FUNCTION KILL.
    Function,
    /// A library that is loaded stops by itself.
    Load,
}

/// A function that runs, for FUNCTION STATS.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running {
    /// Its name, as it was called.
    pub(crate) name: Vec<u8>,
    /// The request, as an array in RESP.
    pub(crate) command: Vec<u8>,
}

/// For how long a task may run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    /// In any case; 0 for any time.
    pub(crate) limit_ms: u64,
    /// If the server drains.
    pub(crate) drain_ms: u64,
    /// The server; none in tests.
    pub(crate) runtime: Option<ServerHandle>,
}

impl Bounds {
    /// Why a task stops that has run for so long.
    fn exceeded_by(&self, running_ms: impl Fn() -> u64) -> Option<Stop> {
        let drains = || self.runtime.as_ref().is_some_and(ServerHandle::is_stopping);
        if self.limit_ms > 0 && running_ms() > self.limit_ms {
            Some(Stop::TooLong)
        } else if drains() && running_ms() >= self.drain_ms {
            Some(Stop::Drained)
        } else {
            None
        }
    }
}

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
    /// The server is to end.
    #[error("ERR Script stopped: the server shuts down.")]
    Drained,
    /// FUNCTION KILL.
    #[error("ERR Script killed by user with FUNCTION KILL.")]
    FunctionKilled,
    /// A library did not come to its end.
    #[error("ERR FUNCTION LOAD timeout")]
    LoadTooLong,
}

/// The names of a script in the profile: by its digest or function, and by its body.
pub(crate) type Tags = [Option<Tag>; 2];

/// The control of one interpreter.
#[derive(Debug)]
pub struct Control {
    /// Milliseconds since the first use of the clock; [`IDLE`] if no script runs.
    started_ms: AtomicU64,
    bounds: Mutex<Bounds>,
    killed: AtomicBool,
    /// Cleared by writes that cannot be taken back.
    stoppable: AtomicBool,
    resp: AtomicU8,
    stack_base: AtomicUsize,
    form: AtomicU8,
    /// Checkpoints that a library may still pass.
    loading_left: AtomicU32,
    /// How often the hook has counted instructions of this task.
    counts: AtomicU32,
    /// Where the script that runs is measured, and under which tags.
    measured: Mutex<Option<(Arc<Profile>, Tags)>>,
    running: Mutex<Running>,
    /// Who runs the script.
    caller: Mutex<Option<Arc<Account>>>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            started_ms: AtomicU64::new(IDLE),
            bounds: Mutex::default(),
            killed: AtomicBool::new(false),
            stoppable: AtomicBool::new(true),
            resp: AtomicU8::new(2),
            stack_base: AtomicUsize::new(0),
            form: AtomicU8::new(Form::Script as u8),
            loading_left: AtomicU32::new(0),
            counts: AtomicU32::new(0),
            measured: Mutex::default(),
            running: Mutex::default(),
            caller: Mutex::default(),
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
    /// A task begins.
    pub(crate) fn begin(&self, task: Task<'_>, bounds: Bounds) {
        let form = match task {
            Task::Script => Form::Script,
            Task::Function(args) => {
                self.running.lock().set(args);
                Form::Function
            }
            Task::Load => Form::Load,
        };
        self.form.store(form as u8, Ordering::Relaxed);
        self.counts.store(0, Ordering::Relaxed);
        *self.measured.lock() = None;
        self.restart();
        self.killed.store(false, Ordering::Relaxed);
        *self.bounds.lock() = bounds;
        self.stack_base.store(stack_address(), Ordering::Relaxed);
        self.started_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// The script begins again, on another fork.
    pub(crate) fn restart(&self) {
        self.stoppable.store(true, Ordering::Relaxed);
        self.set_version(Version::Resp2);
    }

    /// The script runs for this client.
    pub(crate) fn set_caller(&self, caller: &Arc<Account>) {
        *self.caller.lock() = Some(Arc::clone(caller));
    }

    /// For whom the script runs.
    pub(crate) fn caller(&self) -> Option<Arc<Account>> {
        self.caller.lock().clone()
    }

    /// The script has these tags. If it turns out to be long, the classifier knows that before it ends: it may never.
    pub(crate) fn measure(&self, profile: &Arc<Profile>, tags: Tags) {
        *self.measured.lock() = Some((Arc::clone(profile), tags));
    }

    /// A library is run next.
    pub(crate) fn begin_library(&self) {
        self.loading_left.store(LOADING_CHECKPOINTS, Ordering::Relaxed);
    }

    /// Whether the interpreter does something of this form.
    pub(crate) fn is(&self, form: Form) -> bool {
        self.form.load(Ordering::Relaxed) == form as u8
    }

    /// The function that runs.
    pub(crate) fn running(&self) -> Running {
        self.running.lock().clone()
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

    /// The hook has counted instructions. As [`pause`](Self::pause).
    pub(crate) fn count(&self) -> Result<(), Stop> {
        let counts = self.counts.load(Ordering::Relaxed).saturating_add(1);
        self.counts.store(counts, Ordering::Relaxed);
        if counts == COUNTS_OF_LONG
            && let Some((profile, tags)) = &*self.measured.lock()
        {
            tags.iter().flatten().for_each(|tag| profile.note_long(*tag));
            profile::turns_out_long();
        }
        self.pause()
    }

    /// Lets other requests run. An error if the script must stop.
    pub(crate) fn pause(&self) -> Result<(), Stop> {
        checkpoint();
        if !self.is_stoppable() {
            return Ok(());
        }
        if self.is(Form::Load) {
            return self.pause_of_library();
        }
        if self.killed.load(Ordering::Relaxed) {
            Err(match self.is(Form::Function) {
                true => Stop::FunctionKilled,
                false => Stop::Killed,
            })
        } else if is_abandoned() {
            Err(Stop::Abandoned)
        } else {
            let running_ms = || self.running_ms().unwrap_or_default();
            let stop = self.bounds.lock().exceeded_by(running_ms);
            stop.map_or(Ok(()), Err)
        }
    }

    fn pause_of_library(&self) -> Result<(), Stop> {
        let left = self.loading_left.load(Ordering::Relaxed);
        self.loading_left.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 0 {
            Err(Stop::LoadTooLong)
        } else if is_abandoned() {
            Err(Stop::Abandoned)
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

impl Running {
    /// Notes the arguments of FCALL, the long ones shortened as SLOWLOG shortens them.
    fn set(&mut self, args: &[&[u8]]) {
        self.name.clear();
        self.name.extend_from_slice(args.get(1).copied().unwrap_or_default());
        self.command.clear();
        let is_long = args.len() > SHOWN_ARGS_MAX;
        let shown = if is_long { SHOWN_ARGS_MAX - 1 } else { args.len() };
        let out: &mut dyn Sink = &mut self.command;
        let mut out = Encoder::new(out, Version::Resp2);
        out.array(shown + usize::from(is_long));
        for arg in &args[..shown] {
            match arg.split_at_checked(SHOWN_BYTES_MAX) {
                Some((start, rest)) if !rest.is_empty() => {
                    let more = format!("... ({} more bytes)", rest.len());
                    out.bulk(&[start, more.as_bytes()].concat());
                }
                _ => out.bulk(arg),
            }
        }
        if is_long {
            let more = args.len() - shown;
            out.bulk(format!("... ({more} more arguments)").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_calls_are_shown_in_part() {
        let mut running = Running::default();
        running.set(&[b"FCALL", b"f", b"0"]);
        assert_eq!(running.name, b"f");
        assert_eq!(running.command, b"*3\r\n$5\r\nFCALL\r\n$1\r\nf\r\n$1\r\n0\r\n");
        let long = [b'x'; 200];
        let args: Vec<&[u8]> = vec![&long; 40];
        running.set(&args);
        let command = String::from_utf8(running.command).unwrap();
        assert!(command.starts_with("*32\r\n"), "{command}");
        assert!(command.contains("xx... (72 more bytes)\r\n"), "{command}");
        assert!(command.ends_with("... (9 more arguments)\r\n"), "{command}");
    }

    #[test]
    fn a_library_stops_after_its_checkpoints() {
        let control = Control::default();
        control.begin(Task::Load, Bounds::default());
        control.begin_library();
        for _ in 0..LOADING_CHECKPOINTS {
            assert_eq!(control.pause(), Ok(()));
        }
        assert_eq!(control.pause(), Err(Stop::LoadTooLong));
        control.begin(Task::Script, Bounds::default());
        assert_eq!(control.pause(), Ok(()));
    }
}
