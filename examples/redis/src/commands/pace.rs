//! Checkpoints of commands that walk many elements: where the server may have another request go
//! first.
//!
//! A walk calls one for every element, and each 64th is a [`checkpoint`]. None may be called with a
//! key's lock held: another request of the same worker would wait for it for ever. Reads and big
//! replies walk snapshots; changes of many elements are made to one, and only when others keep
//! changing the same key at last under its lock, where their pace is silent.

use std::cell::Cell;

use psp_server::checkpoint;
use psp_store::Slot;

/// Elements between two checkpoints.
const ELEMENTS: u32 = 64;

/// Counts elements.
pub(super) struct Pace {
    elements: Cell<u32>,
    silent: bool,
}

impl Pace {
    pub(super) const fn new() -> Self {
        Self {
            elements: Cell::new(0),
            silent: false,
        }
    }

    /// For a change of `slot`.
    pub(super) fn of(slot: &Slot<'_>) -> Self {
        Self {
            silent: slot.is_locked(),
            ..Self::new()
        }
    }

    /// One element more.
    #[inline]
    pub(super) fn step(&self) {
        let elements = self.elements.get() + 1;
        if elements < ELEMENTS {
            self.elements.set(elements);
            return;
        }
        self.elements.set(0);
        if !self.silent {
            checkpoint();
        }
    }
}
