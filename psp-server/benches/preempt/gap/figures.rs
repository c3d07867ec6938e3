//! Measured times, and their rows in a table.

/// Room for so many times.
const FIGURES_MAX: usize = 1 << 17;

/// Times in nanoseconds. Memory is reserved and touched beforehand; further times are dropped.
pub(crate) struct Figures(Vec<u64>);

impl Figures {
    pub(crate) fn new() -> Self {
        let mut figures = vec![u64::MAX; FIGURES_MAX];
        figures.clear();
        Self(figures)
    }

    pub(crate) fn push(&mut self, ns: u64) {
        if self.0.len() < FIGURES_MAX {
            self.0.push(ns);
        }
    }

    /// These and others.
    pub(crate) fn add(&mut self, others: Self) {
        others.0.into_iter().for_each(|ns| self.push(ns));
    }

    /// A row: the mechanism, what was measured, three percentiles in microseconds, and of how many.
    pub(crate) fn print(mut self, mechanism: impl std::fmt::Display, what: &str) {
        self.0.sort_unstable();
        let percentiles = [0.5, 0.99, 0.999].map(|quantile| {
            let at = (self.0.len() as f64 * quantile) as usize;
            let ns = self.0.get(at);
            ns.map_or_else(String::new, |&ns| format!("{:.2}", ns as f64 / 1000.0))
        });
        let (percentiles, of) = (percentiles.join(" | "), self.0.len());
        println!("| `{mechanism}` | {what} | {percentiles} | {of} |");
    }
}
