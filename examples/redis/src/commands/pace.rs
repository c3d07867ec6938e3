//! Checkpoints of commands that walk many elements: where the server may have another request go
//! first.
//!
//! A walk calls one for every element, and each 64th is a [`checkpoint`]. None may be called with a
//! key's lock held: another request of the same worker would wait for it for ever. Reads and big
//! replies walk snapshots, so they have them; changes do not.

use std::cell::Cell;

use psp_server::checkpoint;

/// Elements between two checkpoints.
const ELEMENTS: u32 = 64;

/// Counts elements.
pub(super) struct Pace(Cell<u32>);

impl Pace {
    pub(super) const fn new() -> Self {
        Self(Cell::new(0))
    }

    /// One element more.
    #[inline]
    pub(super) fn step(&self) {
        let elements = self.0.get() + 1;
        if elements == ELEMENTS {
            self.0.set(0);
            checkpoint();
        } else {
            self.0.set(elements);
        }
    }
}
