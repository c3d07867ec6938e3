//! Workloads of the literature, by name.

use super::definition::{Workload, WorkloadType};
use super::error::WorkloadError;
use super::service_time::Distribution;
use Distribution::{Exponential, Fixed, Lognormal};

/// One named workload.
struct Row {
    name: &'static str,
    /// Name, share, mean service time in nanoseconds, distribution.
    types: &'static [(&'static str, f64, u64, Distribution)],
}

const NAMED: &[Row] = &[
    // Perséphone (SOSP '21), table 3.
    Row {
        name: "high-bimodal",
        types: &[("short", 0.5, 1_000, Fixed), ("long", 0.5, 100_000, Fixed)],
    },
    // Perséphone, table 3.
    Row {
        name: "extreme-bimodal",
        types: &[("short", 0.995, 500, Fixed), ("long", 0.005, 500_000, Fixed)],
    },
    // Perséphone, table 4.
    Row {
        name: "tpcc",
        types: &[
            ("Payment", 0.44, 5_700, Fixed),
            ("OrderStatus", 0.04, 6_000, Fixed),
            ("NewOrder", 0.44, 20_000, Fixed),
            ("Delivery", 0.04, 88_000, Fixed),
            ("StockLevel", 0.04, 100_000, Fixed),
        ],
    },
    // Perséphone 5.4.4.
    Row {
        name: "rocksdb",
        types: &[("GET", 0.5, 1_500, Fixed), ("SCAN", 0.5, 635_000, Fixed)],
    },
    // Synergy (2025), table II.
    Row {
        name: "zippydb",
        types: &[
            ("short1", 0.78, 500, Fixed),
            ("short2", 0.19, 2_500, Fixed),
            ("long", 0.03, 500_000, Fixed),
        ],
    },
    // Synergy, table II.
    Row {
        name: "leveldb",
        types: &[("GET", 0.5, 920, Fixed), ("SCAN", 0.5, 94_000, Fixed)],
    },
    // Shinjuku (NSDI '19), figure 6b: Trimodal(33-1, 33-10, 33-100).
    Row {
        name: "trimodal",
        types: &[
            ("short", 1.0 / 3.0, 1_000, Fixed),
            ("medium", 1.0 / 3.0, 10_000, Fixed),
            ("long", 1.0 / 3.0, 100_000, Fixed),
        ],
    },
    // Shinjuku, figures 1c and 5c: Bimodal(99.5-0.5, 0.5-500). Perséphone calls the same mix
    // Extreme Bimodal, Synergy Extreme.
    Row {
        name: "bimodal-995-500",
        types: &[("short", 0.995, 500, Fixed), ("long", 0.005, 500_000, Fixed)],
    },
    // Shinjuku, figure 5a.
    Row { name: "fixed", types: &[("request", 1.0, 1_000, Fixed)] },
    // Shinjuku, figures 1a and 5b.
    Row {
        name: "exponential",
        types: &[("request", 1.0, 1_000, Exponential)],
    },
    // Shinjuku, figure 1b: mean 1 us, standard deviation 10 us, so sigma^2 = ln(1 + 10^2).
    Row {
        name: "lognormal",
        types: &[("request", 1.0, 1_000, Lognormal { sigma: 2.148_283_155_648_457_4 })],
    },
];

/// Mixes of single figures, which `all` leaves out.
const OF_FIGURES: &[Row] = &[
    // Shinjuku 4.4, figure 8a: 0.5 % of SCAN(1000).
    Row {
        name: "shinjuku-8a",
        types: &[("GET", 0.995, 6_000, Fixed), ("SCAN", 0.005, 240_000, Fixed)],
    },
    // Figures 8b and c: half SCAN(5000).
    Row {
        name: "shinjuku-8b",
        types: &[("GET", 0.5, 6_000, Fixed), ("SCAN", 0.5, 1_200_000, Fixed)],
    },
];

impl Workload {
    /// The workload called `name`.
    ///
    /// # Errors
    /// [`WorkloadError::Unknown`].
    pub fn named(name: &str) -> Result<Self, WorkloadError> {
        let mut rows = NAMED.iter().chain(OF_FIGURES);
        let row = rows.find(|row| row.name == name);
        row.map(|row| {
            let types = row.types.iter();
            let types = types.map(|&(name, share, service_ns, distribution)| WorkloadType {
                name: name.to_owned(),
                share,
                service_ns,
                distribution,
                wait_ns: 0,
                slo_ns: None,
                weight: None,
            });
            Self::of_types(row.name, types.collect())
        })
        .ok_or_else(|| WorkloadError::Unknown {
            name: name.to_owned(),
            known: Self::names().collect::<Vec<_>>().join(", "),
        })
    }

    /// The names that [`named`](Self::named) knows, without mixes of single figures.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|row| row.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let Lognormal { sigma } = workload.types[0].distribution else {
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
