//! The signal: sending it, and its handler.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{mem, ptr};

use super::{trampoline, xstate};
use crate::fiber::thread_state::{self, Interruption};

/// Number of the signal, from `SIGRTMIN`.
const SIGNAL_OFFSET: c_int = 3;

pub(super) fn signal() -> c_int {
    libc::SIGRTMIN() + SIGNAL_OFFSET
}

/// A thread that can be signalled, once it has registered.
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
        // SAFETY: `tgkill` takes numbers and touches no memory. It fails harmlessly if the thread has ended. A
        // new thread of the same number has no request to preempt, and its handler does nothing.
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
            return Err(format!("signal needs signal {}, for which the program has a handler already", signal()));
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

/// Unblocks the signal for the calling thread, whatever its parent had blocked, and records the signals that
/// the thread blocks from now on.
pub(crate) fn prepare_thread() {
    // SAFETY: the set is plain data, is initialised by `sigemptyset`, and lives until the calls return.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, ptr::null(), &raw mut set);
        thread_state::set_signal_mask(kernel_mask(&raw const set));
    }
}

/// The signals of a set as the kernel has them: 64 bits, with which every C library's set begins.
///
/// # Safety
/// At least the first 64 bits of `set` are initialised. The kernel writes no more of them into a signal's frame.
unsafe fn kernel_mask(set: *const libc::sigset_t) -> u64 {
    // SAFETY: as the caller says; a set is at least as aligned as its first word.
    unsafe { set.cast::<u64>().read() }
}

/// Runs on the alternate stack. Calls nothing that is not async-signal-safe, and leaves `errno` alone.
extern "C" fn on_signal(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: with SA_SIGINFO the third argument points to the `ucontext_t` of the interrupted code, which
    // is ours until the handler returns. The kernel has written the first 64 bits of its mask.
    let (registers, mask) = unsafe {
        let mask = kernel_mask(&raw const (*context).uc_sigmask);
        (&mut (*context).uc_mcontext, mask)
    };
    // SAFETY: `fpregs` is what the kernel wrote for this signal.
    let has_tiles = unsafe { xstate::has_tiles(registers.fpregs.cast_const().cast()) };
    if has_tiles {
        return;
    }
    let rsp = registers.gregs[libc::REG_RSP as usize] as usize;
    match thread_state::interrupt(rsp, trampoline::room_bytes(), mask) {
        Interruption::None => {}
        // SAFETY: `interrupt` has checked the stack, its room and that the code may be preempted, and has
        // entered the thread's state.
        Interruption::Yield => unsafe { trampoline::redirect(&mut registers.gregs) },
        // SAFETY: the mask is the frame's, as above: the kernel reads it when this handler returns.
        Interruption::AfterHandler => unsafe {
            let mask = (&raw mut (*context).uc_sigmask).cast::<u64>();
            mask.write(mask.read() | 1 << (signal() - 1));
            signal_again();
        },
    }
}

/// Sends the signal to the calling thread, which blocks it: the thread gets it when it restores its mask.
fn signal_again() {
    // SAFETY: `__errno_location` answers with the address of this thread's `errno`; the calls take numbers, touch
    // no other memory, and are async-signal-safe.
    unsafe {
        let errno = libc::__errno_location();
        let kept = errno.read();
        let thread = libc::syscall(libc::SYS_gettid);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal());
        errno.write(kept);
    }
}
