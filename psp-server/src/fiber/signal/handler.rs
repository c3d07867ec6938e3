//! The signal: who gets it, and what its handler does.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{mem, ptr};

use super::{trampoline, xstate};
use crate::fiber::place;

/// Which of the real-time signals, from `SIGRTMIN`.
const SIGNAL_OFFSET: c_int = 3;

pub(super) fn signal() -> c_int {
    libc::SIGRTMIN() + SIGNAL_OFFSET
}

/// A thread that can be signalled. Names none until the thread says that it is ready.
#[derive(Debug, Default)]
pub(crate) struct Target(AtomicI32);

impl Target {
    /// The calling thread is ready from now on.
    pub(crate) fn register(&self) {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        self.0.store(id, Ordering::Release);
    }

    /// The thread ends.
    pub(crate) fn retire(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Interrupts the thread, if it is ready.
    pub(crate) fn signal(&self) {
        let thread = self.0.load(Ordering::Acquire);
        if thread == 0 {
            return;
        }
        let process = rustix::process::getpid().as_raw_nonzero().get();
        // SAFETY: `tgkill` takes numbers and touches no memory. A thread that has ended meanwhile is an
        // error, of which nothing is to be said; one that got its number has no request to preempt.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal()) };
    }
}

/// Installs the signal's handler, once for the process.
///
/// # Errors
/// Where the processor has no `XSAVE`, or the program has another use for the signal.
pub(crate) fn prepare_process() -> Result<(), String> {
    static PREPARED: OnceLock<Result<(), String>> = OnceLock::new();
    PREPARED.get_or_init(install).clone()
}

fn install() -> Result<(), String> {
    if !xstate::detect() {
        return Err("signal needs a processor and a system with XSAVE".to_owned());
    }
    // SAFETY: both structures are plain data, for which zeroes are valid, and live until the calls
    // return. `on_signal` has the signature that SA_SIGINFO asks for.
    let result = unsafe {
        let mut old: libc::sigaction = mem::zeroed();
        libc::sigaction(signal(), ptr::null(), &raw mut old);
        if old.sa_sigaction != libc::SIG_DFL {
            return Err(format!(
                "signal needs signal {}, for which the program has a handler already",
                signal()
            ));
        }
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(signal(), &raw const action, ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error().to_string())
    }
}

/// Lets the calling thread have the signal, whatever its parent had blocked.
pub(crate) fn prepare_thread() {
    // SAFETY: the set is plain data, is initialised by `sigemptyset`, and lives until the calls return.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}

/// Runs on the alternate stack. Calls nothing that is not async-signal-safe, and leaves `errno` alone
/// because it calls nothing that sets it.
extern "C" fn on_signal(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the third argument points to the `ucontext_t` of the interrupted code, which
    // is ours until the handler returns.
    let context = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    let rsp = context.gregs[libc::REG_RSP as usize] as usize;
    // SAFETY: `fpregs` is what the kernel wrote for this signal.
    let has_tiles = unsafe { xstate::has_tiles(context.fpregs.cast_const().cast()) };
    if !has_tiles && place::interrupt(rsp, trampoline::room_bytes()) {
        // SAFETY: `interrupt` has checked the stack, its room and that the code may be preempted, and has
        // entered the place.
        unsafe { trampoline::redirect(&mut context.gregs) };
    }
}
