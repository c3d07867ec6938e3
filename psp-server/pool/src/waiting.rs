//! How many tasks wait for a worker, by type.

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Waiting {
    all: usize,
    /// Per type slot.
    of_slot: Box<[usize]>,
    /// A type waits of which none did at the last look.
    has_new_type: bool,
}

impl Waiting {
    /// Nothing waits of so many slots.
    pub(crate) fn new(slots: usize) -> Self {
        Self { all: 0, of_slot: vec![0; slots].into(), has_new_type: false }
    }

    /// One more task waits.
    pub(crate) fn comes(&mut self, slot: usize) {
        self.all += 1;
        self.of_slot[slot] += 1;
        self.has_new_type |= self.of_slot[slot] == 1;
    }

    /// A task waits no longer.
    pub(crate) fn goes(&mut self, slot: usize) {
        self.all -= 1;
        self.of_slot[slot] -= 1;
    }

    /// Whether a type has begun to wait since the last call.
    pub(crate) fn take_new_type(&mut self) -> bool {
        std::mem::take(&mut self.has_new_type)
    }

    pub(crate) const fn any(&self) -> bool {
        self.all > 0
    }

    /// The slots of which tasks wait.
    pub(crate) fn slots(&self) -> impl Iterator<Item = usize> {
        let waiting = self.of_slot.iter().enumerate().filter(|(_, waiting)| **waiting > 0);
        waiting.map(|(slot, _)| slot)
    }
}
