//! Preemption as users choose it: the mechanism, and what handlers have to know about it.
//!
//! A policy that shares time decides *when* a request gives its worker away; the mechanism decides
//! *how*. `docs/preemption.md` compares the mechanisms.

use crate::error::BuildError;
use crate::fiber;

pub use psp_policy::PreemptPolicy;

pub use crate::fiber::{CpuTimer, Pace, Platform, PreemptSafeAlloc, checkpoint, is_abandoned, load_level, no_preempt};
pub use crate::signal_preemptible::SignalPreemptible;

/// Refuses a mechanism that this platform or this handler does not support. `vouched` says that the
/// handler's author signed [`SignalPreemptible`].
pub(crate) fn validate(preempt: PreemptPolicy, vouched: bool) -> Result<(), BuildError> {
    let prepared = match preempt {
        PreemptPolicy::None | PreemptPolicy::Cooperative => Ok(()),
        PreemptPolicy::KernelThread if cfg!(target_os = "linux") => Ok(()),
        PreemptPolicy::KernelThread => Err("it needs Linux".to_owned()),
        PreemptPolicy::Signal if !vouched => {
            Err("it needs a handler that is SignalPreemptible, and signal_preemption() in the builder".to_owned())
        }
        PreemptPolicy::Signal => fiber::prepare_process(),
        _ => Err("this server does not have it".to_owned()),
    };
    prepared.map_err(|reason| BuildError::Preempt { preempt, reason })
}
