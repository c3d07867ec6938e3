//! What the processor and the system offer to preemption.

#![allow(unsafe_code)]

/// Features of this machine that could make preemption cheaper. psp needs none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    /// Signals can preempt: x86-64 Linux with `XSAVE`.
    pub signal: bool,
    /// Programs may set the base of thread-local storage (`wrfsbase`): a context could have
    /// thread-local variables of its own.
    pub fsgsbase: bool,
    /// The processor has user interrupts (UINTR), which would reach a worker without the kernel. The kernel
    /// must support them too; no released kernel does.
    pub user_interrupts: bool,
}

impl Platform {
    /// Looks at this machine.
    #[must_use]
    pub fn detect() -> Self {
        imp::detect()
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = |has| if has { "yes" } else { "no" };
        let Self { signal, fsgsbase, user_interrupts } = *self;
        write!(
            f,
            "signal={} fsgsbase={} user-interrupts={}",
            word(signal),
            word(fsgsbase),
            word(user_interrupts)
        )
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod imp {
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    use super::Platform;

    /// `HWCAP2_FSGSBASE`: the kernel lets programs use the instructions.
    const HWCAP2_FSGSBASE: u64 = 1 << 1;
    /// CPUID leaf 1, ECX: the system has enabled `XSAVE`.
    const OSXSAVE: u32 = 1 << 27;
    /// CPUID leaf 7, EDX.
    const UINTR: u32 = 1 << 5;

    pub(super) fn detect() -> Platform {
        // SAFETY: every x86-64 processor has CPUID, which touches no memory; an unknown leaf is never
        // asked for because leaf 0 says which there are. `getauxval` takes a number.
        #[allow(unused_unsafe)]
        unsafe {
            let leaves = __cpuid(0).eax;
            Platform {
                signal: __cpuid(1).ecx & OSXSAVE != 0,
                fsgsbase: libc::getauxval(libc::AT_HWCAP2) & HWCAP2_FSGSBASE != 0,
                user_interrupts: leaves >= 7 && __cpuid_count(7, 0).edx & UINTR != 0,
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod imp {
    use super::Platform;

    pub(super) fn detect() -> Platform {
        Platform { signal: false, fsgsbase: false, user_interrupts: false }
    }
}
