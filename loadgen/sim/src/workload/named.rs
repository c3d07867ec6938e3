//! Workloads of the literature, by name: the tables of `workloads.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::definition::Workload;
use super::error::WorkloadError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    workload: Vec<Workload>,
    /// Mixes of single figures, which `all` leaves out.
    of_a_figure: Vec<Workload>,
}

static NAMED: LazyLock<Named> =
    LazyLock::new(|| toml::from_str(include_str!("../../workloads.toml")).expect("the tables are right"));

impl Workload {
    /// The workload called `name`.
    ///
    /// # Errors
    /// [`WorkloadError::Unknown`].
    pub fn named(name: &str) -> Result<Self, WorkloadError> {
        let mut workloads = NAMED.workload.iter().chain(&NAMED.of_a_figure);
        let found = workloads.find(|workload| workload.name == name);
        found.cloned().ok_or_else(|| WorkloadError::Unknown {
            name: name.to_owned(),
            known: Self::names().collect::<Vec<_>>().join(", "),
        })
    }

    /// The names that [`named`](Self::named) knows, without mixes of single figures.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.workload.iter().map(|workload| workload.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Distribution;

    #[test]
    fn every_named_workload_is_valid() {
        for name in Workload::names() {
            let workload = Workload::named(name).unwrap();
            workload.validate().unwrap();
            let total: f64 = workload.types.iter().map(|ty| ty.share).sum();
            assert!((total - 1.0).abs() < 1e-9, "{name}: {total}");
        }
    }

    #[test]
    fn the_lognormal_varies_by_ten_times_its_mean() {
        let workload = Workload::named("lognormal").unwrap();
        let Distribution::Lognormal { sigma } = workload.types[0].distribution else {
            panic!("another distribution");
        };
        assert!(((sigma * sigma).exp() - 101.0).abs() < 1e-9);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = Workload::named("tpc-x").unwrap_err().to_string();
        assert!(error.contains("high-bimodal, extreme-bimodal, tpcc"), "{error}");
    }
}
