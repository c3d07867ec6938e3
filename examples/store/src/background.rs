//! What the store's own threads have in common.

/// Nice value of background threads: they run when nothing else wants to.
const NICE: i32 = 19;

/// Gives the calling thread the lowest weight. Failure to do so costs latency, nothing else.
pub(crate) fn lower_priority() {
    // On Linux the calling thread alone is meant, not its process.
    let _kept_priority = rustix::process::setpriority_process(None, NICE);
}
