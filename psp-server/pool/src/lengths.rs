//! How long tasks of a type take, and how much they differ.

/// See the [module](self).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Lengths {
    tasks: f64,
    sum_ns: f64,
    squares: f64,
}

impl Lengths {
    /// A task has ended.
    pub(crate) fn add(&mut self, service_ns: u64) {
        let ns = service_ns as f64;
        self.tasks += 1.0;
        self.sum_ns += ns;
        self.squares += ns * ns;
    }

    /// What a task takes that is one of the short ones if tasks differ, in nanoseconds: the mean, divided by one and
    /// the squared coefficient of variation. 0 before the first has ended.
    pub(crate) fn short_ns(&self) -> u64 {
        if self.squares == 0.0 {
            return 0;
        }
        let mean_ns = self.sum_ns / self.tasks;
        (mean_ns * (self.sum_ns * mean_ns / self.squares)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_are_alike_have_their_mean_and_others_less() {
        let short_us = |lengths: &[u64]| {
            let mut all = Lengths::default();
            lengths.iter().for_each(|us| all.add(us * 1000));
            all.short_ns() / 1000
        };
        assert_eq!(short_us(&[]), 0);
        assert_eq!(short_us(&[0, 0]), 0);
        assert_eq!(short_us(&[40_000; 3]), 40_000);
        assert_eq!(short_us(&[36_000, 44_000]), 39_603);
        let mixed = [vec![1_000; 20], vec![40_000]].concat();
        assert!((200..400).contains(&short_us(&mixed)), "{}", short_us(&mixed));
    }
}
