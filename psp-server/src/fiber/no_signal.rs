//! Platforms on which requests are not preempted by signals.

/// Nothing can be signalled.
#[derive(Debug, Default)]
pub(crate) struct Target;

impl Target {
    pub(crate) fn register(&self) {}

    pub(crate) fn retire(&self) {}

    pub(crate) fn signal(&self) {}
}

/// # Errors
/// Always.
pub(crate) fn prepare_process() -> Result<(), String> {
    Err("signal needs Linux on x86-64".to_owned())
}

pub(crate) fn prepare_thread() {}
