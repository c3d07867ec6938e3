//! Tells the user which request used up its stack, before the process dies of it.
//!
//! The page below a context's stack cannot be touched. Code that runs into it gets SIGSEGV. The signal's
//! handler, on the worker's alternate stack, recognises the address, says which request it was and lets the
//! signal take its default course. All other faults go to the handler that was installed before: in Rust
//! programs, that of std.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ffi::c_void;
use std::fmt::Write;
use std::sync::OnceLock;
use std::{mem, ptr};

use super::thread_state;

/// The signals that systems send for a stack overflow.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The former action of each of [`SIGNALS`].
static BEFORE: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

type Handler = extern "C" fn(c_int);
type InfoHandler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs the handler, once for the process.
pub(crate) fn report_overflows() {
    BEFORE.get_or_init(|| SIGNALS.map(install));
}

fn install(signal: c_int) -> libc::sigaction {
    // SAFETY: both structures are plain data, for which zeroes are valid, and live until the call returns.
    // `on_fault` has the signature that SA_SIGINFO asks for. A fault between this and the end of
    // `get_or_init` takes its default course.
    unsafe {
        let mut before: libc::sigaction = mem::zeroed();
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, &raw mut before);
        before
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the second argument points to the kernel's information on the signal.
    let address = unsafe { (*info).si_addr() } as usize;
    let stack = thread_state::stack();
    if (stack.guard..stack.limit).contains(&address) {
        let mut message = Message::new();
        // Text that does not fit is cut off.
        let _ = write!(message, "\npsp-server: stack overflow on ");
        let _ = thread_state::describe(&mut message);
        let bytes = stack.base - stack.limit;
        let _ = writeln!(message, ": all {bytes} bytes are used; raise Config::stack_bytes");
        message.print();
        take_default(signal);
        return;
    }
    let index = usize::from(signal == SIGNALS[1]);
    let before = BEFORE.get().map(|before| &before[index]);
    match before {
        // The kernel does not ignore faults either, whatever the program asked for.
        Some(before) if ![libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction) => {
            // SAFETY: `sigaction` returned this as the installed handler; the flags tell its type.
            unsafe {
                if before.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: InfoHandler = mem::transmute(before.sa_sigaction);
                    handler(signal, info, context);
                } else {
                    let handler: Handler = mem::transmute(before.sa_sigaction);
                    handler(signal);
                }
            }
        }
        _ => take_default(signal),
    }
}

/// Restores the default action. Once the handler has returned, the same instruction faults again and ends the
/// process.
fn take_default(signal: c_int) {
    // SAFETY: the structure is plain data, for which zeroes are valid: no flags, an empty mask.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// Text made without allocation.
struct Message {
    bytes: [u8; 512],
    len: usize,
}

impl Message {
    fn new() -> Self {
        Self { bytes: [0; 512], len: 0 }
    }

    fn print(&self) {
        // SAFETY: the first `len` bytes are initialised. `write` is async-signal-safe. If it writes less, the
        // message is shorter.
        unsafe { libc::write(libc::STDERR_FILENO, self.bytes.as_ptr().cast(), self.len) };
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}
