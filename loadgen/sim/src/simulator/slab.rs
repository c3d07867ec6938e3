//! Numbered slots that are reused.

/// Numbered slots that are reused. It grows to the largest number of values that it held at once.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T: Copy> Slab<T> {
    /// Inserts a value. Returns its number.
    #[inline]
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = value;
            slot
        } else {
            let slot = u32::try_from(self.slots.len()).expect("queues are bounded");
            self.slots.push(value);
            slot
        }
    }

    /// The value of that number.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> &T {
        &self.slots[slot as usize]
    }

    /// The value of that number.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }

    /// Two values change their numbers.
    pub(super) fn swap(&mut self, one: u32, other: u32) {
        self.slots.swap(one as usize, other as usize);
    }

    /// Removes the value of that number. Another value may get the number.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> T {
        self.free.push(slot);
        self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut slab = Slab::default();
        let [first, second] = ["a", "b"].map(|value| slab.insert(value));
        assert_eq!(slab.remove(first), "a");
        assert_eq!(slab.insert("c"), first);
        assert_eq!((*slab.get(first), *slab.get(second)), ("c", "b"));
        assert_eq!(slab.slots.len(), 2);
    }
}
