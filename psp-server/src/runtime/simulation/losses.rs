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

impl Losses {
    /// What a piece of a request loses on average.
    pub(super) fn of_piece_ns(&self) -> u64 {
        (self.ns_max / 2).checked_div(self.pieces).unwrap_or(0)
    }
}
