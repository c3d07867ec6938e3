//! What servers and simulators have to know of a policy before they run it.

/// Which threads assign requests to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assigns {
    /// A dispatcher.
    Dispatcher,
    /// Each worker takes its next request from queues.
    Workers,
}

/// What tells requests apart for a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoesBy {
    /// When and where they arrived, whatever their types.
    Arrival,
    /// Their types, whatever the lengths of these.
    Type,
    /// The lengths of their types, hinted or measured, or what follows from them: groups, SLOs, charges.
    Length,
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
