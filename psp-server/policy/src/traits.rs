//! What servers and simulators have to know of a policy before they run it.

/// Which threads assign requests to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assigns {
    /// A dispatcher.
    Dispatcher,
    /// Each worker takes its next request from queues.
    Workers,
}

/// Whether a policy preempts requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreemptionUse {
    /// It runs every request to completion.
    Never,
    /// It preempts where that is possible, and does without where it is not.
    WherePossible,
    /// It needs preemption to work as published.
    Needed,
}
