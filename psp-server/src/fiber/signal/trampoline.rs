//! Where interrupted code goes on: the trampoline saves its registers, yields, and restores them.

#![allow(unsafe_code)]

use std::arch::naked_asm;
use std::sync::atomic::Ordering;

use super::xstate::{AREA_BYTES, MASK};
use crate::fiber::thread_state;

/// Bytes below its stack pointer that the System V ABI lets a function use.
const RED_ZONE_BYTES: usize = 128;
/// General registers, flags and the return address.
const REGISTERS_BYTES: usize = 17 * 8;
/// The extended state is aligned to this.
const AREA_ALIGNMENT: usize = 64;
/// For the frames of `yield_here` and its callees, down to the switch.
const FRAMES_BYTES: usize = 16 * 1024;

/// Control and status of SSE at a program's start: round to nearest, no exceptions.
static MXCSR_DEFAULT: u32 = 0x1f80;

/// Stack that has to be free below the interrupted code's stack pointer.
pub(super) fn room_bytes() -> usize {
    RED_ZONE_BYTES + REGISTERS_BYTES + AREA_BYTES.load(Ordering::Relaxed) + AREA_ALIGNMENT + FRAMES_BYTES
}

/// Changes where a signal's context goes on: to the trampoline, and from there back to where it was.
///
/// # Safety
/// `registers` are those of code that was interrupted on a context's stack, with [`room_bytes`] free below its
/// stack pointer. The code may be preempted there: the thread's state was entered for it.
pub(super) unsafe fn redirect(registers: &mut [libc::greg_t; 23]) {
    let rip = registers[libc::REG_RIP as usize];
    let rsp = registers[libc::REG_RSP as usize] as usize - RED_ZONE_BYTES - size_of::<usize>();
    // SAFETY: the caller guarantees the room. The red zone, which the interrupted code may use, lies above.
    unsafe { std::ptr::with_exposed_provenance_mut::<i64>(rsp).write_unaligned(rip) };
    registers[libc::REG_RSP as usize] = rsp as i64;
    registers[libc::REG_RIP as usize] = trampoline as *const () as i64;
}

/// The return address is at the top of the stack, and the red zone above it.
///
/// The interrupted code may be anywhere: between two instructions of a loop, with its flags, its x87 stack and
/// half of its vector registers in use. The trampoline restores all of them. Code that runs meanwhile finds the
/// direction flag, x87 and MXCSR as the ABI has them at the start of a program.
#[unsafe(naked)]
unsafe extern "C" fn trampoline() {
    naked_asm!(
        "pushfq",
        "push rax",
        "push rcx",
        "push rdx",
        "push rbx",
        "push rbp",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "cld",
        "mov rbp, rsp",
        // An area of the standard format, whose header has to be clear.
        "sub rsp, qword ptr [rip + {area_bytes}]",
        "and rsp, -{alignment}",
        "xor eax, eax",
        "mov qword ptr [rsp + 512], rax",
        "mov qword ptr [rsp + 520], rax",
        "mov qword ptr [rsp + 528], rax",
        "mov qword ptr [rsp + 536], rax",
        "mov qword ptr [rsp + 544], rax",
        "mov qword ptr [rsp + 552], rax",
        "mov qword ptr [rsp + 560], rax",
        "mov qword ptr [rsp + 568], rax",
        "mov eax, dword ptr [rip + {mask}]",
        "mov edx, dword ptr [rip + {mask} + 4]",
        "xsave64 [rsp]",
        "fninit",
        "ldmxcsr dword ptr [rip + {mxcsr}]",
        "call {yield_here}",
        "mov eax, dword ptr [rip + {mask}]",
        "mov edx, dword ptr [rip + {mask} + 4]",
        "xrstor64 [rsp]",
        "mov rsp, rbp",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rbp",
        "pop rbx",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "popfq",
        // Back, and over the red zone.
        "ret {red_zone}",
        area_bytes = sym AREA_BYTES,
        mask = sym MASK,
        mxcsr = sym MXCSR_DEFAULT,
        yield_here = sym yield_here,
        alignment = const AREA_ALIGNMENT,
        red_zone = const RED_ZONE_BYTES,
    )
}

/// Yields. Keeps `errno`, which belongs to the interrupted code.
extern "C" fn yield_here() {
    // SAFETY: `__errno_location` returns the address of this thread's `errno`, which is valid as long as the
    // thread, and a context stays on its thread. It is read and written through the pointer, because libc and
    // other contexts write it meanwhile.
    unsafe {
        let errno = libc::__errno_location();
        let kept = errno.read();
        thread_state::yield_interrupted();
        errno.write(kept);
    }
}
