//! Whether the peer of a connection takes the output that waits for it.

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Uptake {
    /// The peer has taken some, or all was sent, since the net worker looked last.
    has_moved: bool,
    moved_ns: u64,
    /// It has taken nothing for a while, and seems to write more before it reads: requests run on all the same.
    is_stalled: bool,
}

impl Default for Uptake {
    fn default() -> Self {
        Self { has_moved: true, moved_ns: 0, is_stalled: false }
    }
}

impl Uptake {
    /// The socket has taken output, or there is none left.
    #[inline]
    pub(crate) fn moves(&mut self) {
        self.has_moved = true;
    }

    /// The net worker looks. Returns when the peer last took something, as far as the net worker knows.
    pub(crate) fn look(&mut self, now_ns: u64) -> u64 {
        if std::mem::take(&mut self.has_moved) {
            (self.moved_ns, self.is_stalled) = (now_ns, false);
        }
        self.moved_ns
    }

    /// When the peer last took something.
    pub(crate) fn moved_ns(&self, now_ns: u64) -> u64 {
        if self.has_moved { now_ns } else { self.moved_ns }
    }

    pub(crate) fn stall(&mut self) {
        self.is_stalled = true;
    }

    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_ends_when_something_moves() {
        let mut uptake = Uptake::default();
        assert_eq!([uptake.look(5), uptake.look(9)], [5, 5]);
        uptake.stall();
        assert_eq!((uptake.look(10), uptake.is_stalled()), (5, true));
        uptake.moves();
        assert_eq!((uptake.look(11), uptake.is_stalled()), (11, false));
    }
}
