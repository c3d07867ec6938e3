//! Runs by the names of their targets.

use crate::report::Report;

/// One run and the name of its target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured<'a> {
    pub(crate) name: &'a str,
    pub(crate) report: &'a Report,
    /// Whether it kept the objective of a sweep. A run outside of sweeps has none to miss.
    pub(crate) is_kept: bool,
}

/// The names of the targets in order.
pub(crate) fn names<'a>(measured: &[Measured<'a>]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for run in measured {
        if !names.contains(&run.name) {
            names.push(run.name);
        }
    }
    names
}
