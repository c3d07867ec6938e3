//! How often other programs have the core of the net thread.

/// When other programs have the core of the net thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    /// Once in about this time; 0 for never.
    pub(super) every_ns: u64,
    /// And in one piece of its requests in so many; 0 for none.
    pub(super) pieces: u64,
    /// For as long as this.
    pub(super) ns_max: u64,
}
