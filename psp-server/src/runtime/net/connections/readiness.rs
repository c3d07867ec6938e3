//! What is known of a connection's socket.

/// A small set of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Readiness(u8);

/// A condition of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Condition {
    /// The socket may have input.
    Readable = 1,
    /// The peer closed its half. Input that it sent before is still served.
    PeerClosed = 1 << 1,
    /// The last read found the end of the input.
    InputEnded = 1 << 2,
    /// The socket took no more output when the net worker or a worker last tried.
    Blocked = 1 << 3,
    /// A worker's queue had no room for the rest of the output: the net worker sends it.
    FlushRefused = 1 << 4,
}

impl Readiness {
    /// The set of these conditions.
    pub(super) fn of(conditions: &[Condition]) -> Self {
        let mut set = Self::default();
        for &condition in conditions {
            set.set(condition, true);
        }
        set
    }

    #[inline]
    pub(super) fn has(self, condition: Condition) -> bool {
        self.0 & condition as u8 != 0
    }

    #[inline]
    pub(super) fn set(&mut self, condition: Condition, holds: bool) {
        if holds {
            self.0 |= condition as u8;
        } else {
            self.0 &= !(condition as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_do_not_touch_each_other() {
        let all = [
            Condition::Readable,
            Condition::PeerClosed,
            Condition::InputEnded,
            Condition::Blocked,
            Condition::FlushRefused,
        ];
        for condition in all {
            let mut set = Readiness::of(&all);
            set.set(condition, false);
            for other in all {
                assert_eq!(set.has(other), other != condition);
            }
        }
    }
}
