//! Tells of turns that have not yielded.

/// There is at most one warning in this time, for all workers together.
const WARN_INTERVAL_NS: u64 = 1_000_000_000;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct LateLog {
    warn_again_ns: u64,
}

impl LateLog {
    /// The request of this type on `worker` has not yielded for `for_ns`. `has_begun` says that it was asked: before
    /// that, its worker has not begun it.
    pub(crate) fn warn(&mut self, now_ns: u64, worker: usize, type_name: &str, for_ns: u64, has_begun: bool) {
        if now_ns < self.warn_again_ns {
            return;
        }
        self.warn_again_ns = now_ns.saturating_add(WARN_INTERVAL_NS);
        let for_ms = for_ns / 1_000_000;
        let reason = if has_begun {
            "blocks, reaches no checkpoint, or runs in no_preempt"
        } else {
            "has not begun, because its worker gets no processor"
        };
        tracing::warn!("worker {worker} has not yielded for {for_ms} ms: {type_name} {reason}");
    }
}
