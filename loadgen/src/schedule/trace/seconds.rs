//! Times of logs that tell only seconds. The requests of a second are spread evenly over it.

/// How many requests each second has.
#[derive(Debug, Clone, Default)]
pub(super) struct Seconds {
    /// The seconds that have some, in order. Times are bounded, hence their number.
    counts: Vec<u32>,
    last_s: f64,
}

/// A place in the requests that [`Seconds`] has counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Cursor {
    /// Seconds that have begun.
    begun: usize,
    second_s: f64,
    /// Requests of the second before the next one.
    taken: u32,
}

impl Seconds {
    /// Counts a request. Times never go back.
    pub(super) fn push(&mut self, at_s: f64) {
        if self.counts.is_empty() || at_s > self.last_s {
            self.counts.push(0);
            self.last_s = at_s;
        }
        if let Some(count) = self.counts.last_mut() {
            *count = count.saturating_add(1);
        }
    }

    /// When the next request is sent, which is of the second `at_s`. `None` if it was not counted.
    pub(super) fn place(&self, cursor: &mut Cursor, at_s: f64) -> Option<f64> {
        if cursor.begun == 0 || at_s > cursor.second_s {
            *cursor = Cursor { begun: cursor.begun + 1, second_s: at_s, taken: 0 };
        }
        let count = *self.counts.get(cursor.begun - 1)?;
        let taken = cursor.taken;
        cursor.taken += 1;
        (taken < count).then(|| at_s + f64::from(taken) / f64::from(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spread_over_their_second() {
        let mut seconds = Seconds::default();
        let times = [0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 4.0];
        times.iter().for_each(|&at_s| seconds.push(at_s));
        let mut cursor = Cursor::default();
        let placed = times.map(|at_s| seconds.place(&mut cursor, at_s));
        assert_eq!(placed, [0.0, 0.25, 0.5, 0.75, 3.0, 4.0, 4.5].map(Some));
        assert_eq!(seconds.place(&mut cursor, 4.0), None);
        assert_eq!(seconds.place(&mut cursor, 5.0), None);
    }
}
