//! DPDK's environment, of which a process has one, and the threads that use it.
//!
//! A separate thread initialises the environment, because that pins its caller, and threads started later
//! inherit the pinning. A thread is registered when it first uses a port. Then it has a cache of mbufs.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dpdk_sys as sys;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::error::DpdkError;

/// The bus of virtual devices.
const VIRTUAL: &CStr = c"vdev";

/// Options that say on which cores DPDK runs.
const CORE_OPTIONS: [&str; 4] = ["-l", "-c", "--lcores", "-S"];

/// How long a round of DPDK's interrupt thread may take on a busy machine.
const ROUND_TIMEOUT: Duration = Duration::from_secs(10);

/// The state of the process' environment.
enum State {
    Untried,
    Running(Vec<String>),
    Failed(DpdkError),
}

static STATE: Mutex<State> = Mutex::new(State::Untried);

/// Proof that the environment is initialised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Eal(());

impl Eal {
    /// Initialises the environment with `arguments`, or finds it initialised with the same.
    ///
    /// # Errors
    /// When DPDK refuses the arguments, or has others already. After a failure it cannot be tried again.
    pub(crate) fn init(arguments: &[String]) -> Result<Self, DpdkError> {
        let mut state = STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*state {
            State::Running(running) if running == arguments => return Ok(Self(())),
            State::Running(running) => {
                return Err(DpdkError::OtherArguments { running: running.join(" ") });
            }
            State::Failed(error) => return Err(error.clone()),
            State::Untried => {}
        }
        let words = command_line(arguments)?;
        let started = std::thread::Builder::new()
            .name("psp-eal".to_owned())
            .spawn(move || init(words))
            .map_err(|error| DpdkError::Eal(error.to_string()))
            .and_then(|thread| {
                let panicked = |_| DpdkError::Eal("panicked".to_owned());
                thread.join().map_err(panicked)?
            });
        *state = match &started {
            Ok(()) => State::Running(arguments.to_vec()),
            Err(error) => State::Failed(error.clone()),
        };
        started.map(|()| Self(()))
    }

    /// Makes a virtual device: `name` with `arguments`, as after `--vdev`.
    ///
    /// # Errors
    /// When its driver refuses.
    pub(super) fn plug(self, name: &str, arguments: &str) -> Result<VirtualDevice, DpdkError> {
        let name = c_string(name)?;
        let arguments = c_string(arguments)?;
        // SAFETY: the environment is initialised, and the three are strings that outlive the call.
        let status = unsafe { sys::rte_eal_hotplug_add(VIRTUAL.as_ptr(), name.as_ptr(), arguments.as_ptr()) };
        check("plug", status)?;
        Ok(VirtualDevice { name })
    }
}

/// Waits for a round of DPDK's interrupt thread, which handles ready events in batches. Each call sees the
/// start of a new round: between two calls a round has ended.
pub(super) fn await_round(_: Eal) {
    let rang = Arc::new(AtomicBool::new(false));
    let argument: *mut c_void = Arc::into_raw(rang.clone()).cast_mut().cast();
    // SAFETY: the environment is initialised. The callback is called once, if at all, and owns the
    // reference behind `argument`.
    if unsafe { sys::rte_eal_alarm_set(1, ring, argument) } < 0 {
        // It may ring nevertheless, and keeps its reference.
        tracing::warn!("DPDK has no alarm");
        return;
    }
    let deadline = Instant::now() + ROUND_TIMEOUT;
    while !rang.load(Ordering::Acquire) {
        if Instant::now() > deadline {
            tracing::warn!("DPDK's interrupt thread does not run");
            return;
        }
        std::thread::yield_now();
    }
    // The alarm is still in the list that the thread walks: the next one, set now, might ring in the same
    // round. This returns when it has left the list.
    // SAFETY: as above; the alarm has rung, so that its reference is gone, and the address, which is only
    // compared, is still that of `rang`.
    unsafe { sys::rte_eal_alarm_cancel(ring, argument) };
}

extern "C" fn ring(argument: *mut c_void) {
    // SAFETY: `await_round` made it of such an `Arc`, and this is called once for each.
    let rang = unsafe { Arc::from_raw(argument.cast_const().cast::<AtomicBool>()) };
    rang.store(true, Ordering::Release);
}

/// A device that [`Eal::plug`] made. Dropping this removes it.
#[derive(Debug)]
pub(super) struct VirtualDevice {
    name: CString,
}

impl Drop for VirtualDevice {
    fn drop(&mut self) {
        // SAFETY: the environment is initialised, or there would be no device. This closes the device's port,
        // if it is open; `Port` drops the device after its queues.
        let status = unsafe { sys::rte_eal_hotplug_remove(VIRTUAL.as_ptr(), self.name.as_ptr()) };
        if let Err(error) = check("unplug", status) {
            tracing::warn!(%error, device = ?self.name, "a virtual device stays");
        }
    }
}

/// The program's name and the arguments, and one core unless the arguments name cores: DPDK's own threads have
/// little to do.
fn command_line(arguments: &[String]) -> Result<Vec<CString>, DpdkError> {
    let mut words = vec![c_string("psp")?];
    let names_cores = |word: &String| {
        CORE_OPTIONS.iter().any(|option| match word.strip_prefix(option) {
            Some("") => true,
            Some(rest) => !option.starts_with("--") || rest.starts_with('='),
            None => false,
        })
    };
    if !arguments.iter().any(names_cores) {
        let core = sched_getaffinity(None)
            .ok()
            .and_then(|set| (0..CpuSet::MAX_CPU).find(|&core| set.is_set(core)));
        words.push(c_string(&format!("--lcores=0@{}", core.unwrap_or(0)))?);
    }
    for argument in arguments {
        words.push(c_string(argument)?);
    }
    Ok(words)
}

fn init(words: Vec<CString>) -> Result<(), DpdkError> {
    let count = c_int::try_from(words.len()).map_err(|_| DpdkError::Text)?;
    // The environment may keep them: they live as long as the process.
    let mut words: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    words.push(std::ptr::null_mut());
    let words = words.leak();
    // SAFETY: `words` are `count` strings and a null pointer, writable, never freed. Two threads at
    // once would break this; the caller holds the lock of `STATE`, and calls it once.
    let status = unsafe { sys::rte_eal_init(count, words.as_mut_ptr()) };
    if status < 0 {
        return Err(DpdkError::Eal(last_error()));
    }
    Ok(())
}

thread_local! {
    /// Whether this thread was registered, or that was tried.
    static REGISTERED: RefCell<Option<Registered>> = const { RefCell::new(None) };
}

/// A thread's registration. It ends with the thread.
struct Registered {
    succeeded: bool,
    /// Not `Send`: the registration belongs to this thread.
    marker: PhantomData<*mut ()>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.succeeded {
            // SAFETY: this thread was registered and is still running. From here on it frees mbufs to the pool
            // without its cache.
            unsafe { sys::rte_thread_unregister() };
        }
    }
}

/// Registers the calling thread, once. It gets a cache in each pool, with which taking and freeing an mbuf is
/// several times as fast.
pub(super) fn register_thread(_: Eal) {
    // A thread that is ending is not registered.
    let _ = REGISTERED.try_with(|registered| {
        let Ok(mut registered) = registered.try_borrow_mut() else {
            return;
        };
        registered.get_or_insert_with(|| {
            // SAFETY: the environment is initialised.
            let succeeded = unsafe { sys::rte_thread_register() } == 0;
            if !succeeded {
                tracing::warn!(error = last_error(), "a thread is not registered with DPDK: mbufs cost it more");
            }
            Registered { succeeded, marker: PhantomData }
        });
    });
}

/// The version of DPDK that the process runs with.
pub(crate) fn version() -> String {
    // SAFETY: the call returns a string that lives as long as the process, whether the environment is
    // initialised or not.
    let version = unsafe { CStr::from_ptr(sys::rte_version()) };
    version.to_string_lossy().into_owned()
}

/// The error of this thread's last call.
pub(super) fn last_error() -> String {
    // SAFETY: it reads a variable of this thread.
    error_text(unsafe { sys::psp_dpdk_errno() })
}

fn error_text(errno: c_int) -> String {
    // SAFETY: it returns a string that is valid until this thread's next call of it.
    let text = unsafe { CStr::from_ptr(sys::rte_strerror(errno)) };
    text.to_string_lossy().into_owned()
}

/// An error for a negative errno.
pub(super) fn check(what: &'static str, status: c_int) -> Result<(), DpdkError> {
    if status < 0 {
        let reason = error_text(-status);
        return Err(DpdkError::Port { what, reason });
    }
    Ok(())
}

pub(super) fn c_string(text: &str) -> Result<CString, DpdkError> {
    CString::new(text).map_err(|_| DpdkError::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(arguments: &[&str]) -> Vec<String> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let words = command_line(&arguments).unwrap();
        words.iter().map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn one_core_unless_told_otherwise() {
        assert!(words(&["--no-huge"])[1].starts_with("--lcores=0@"));
        assert!(words(&["--log-level=8", "--legacy-mem"])[1].starts_with("--lcores=0@"));
        for cores in [&["-l", "0-1"][..], &["-l0-1"], &["--lcores", "0@1"], &["--lcores=0@1"], &["-c3"]] {
            assert_eq!(words(cores)[1..], *cores);
        }
        assert!(command_line(&["a\0b".to_owned()]).is_err());
    }
}
