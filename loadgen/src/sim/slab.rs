//! Numbered places that are used again.

/// Numbered places that are used again. It grows to the most that were in it at once.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Copy> Slab<T> {
    /// Puts something in; its number.
    #[inline]
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = value;
            place
        } else {
            let place = u32::try_from(self.places.len()).expect("queues are bounded");
            self.places.push(value);
            place
        }
    }

    /// What has that number.
    #[inline]
    pub(super) fn get(&self, place: u32) -> &T {
        &self.places[place as usize]
    }

    /// What has that number.
    #[inline]
    pub(super) fn get_mut(&mut self, place: u32) -> &mut T {
        &mut self.places[place as usize]
    }

    /// Takes out what has that number, which may be given to something else then.
    #[inline]
    pub(super) fn remove(&mut self, place: u32) -> T {
        self.free.push(place);
        self.places[place as usize]
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
        assert_eq!(slab.places.len(), 2);
    }
}
