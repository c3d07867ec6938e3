//! Workloads by name: request types, their shares and their service times.

/// One named workload of the literature.
struct Row {
    name: &'static str,
    /// Name, share, service time in nanoseconds.
    types: &'static [(&'static str, f64, u64)],
}

/// Perséphone (SOSP '21) tables 3 and 4.
const NAMED: &[Row] = &[
    Row {
        name: "high-bimodal",
        types: &[("short", 0.5, 1_000), ("long", 0.5, 100_000)],
    },
    Row {
        name: "extreme-bimodal",
        types: &[("short", 0.995, 500), ("long", 0.005, 500_000)],
    },
    Row {
        name: "tpcc",
        types: &[
            ("Payment", 0.44, 5_700),
            ("OrderStatus", 0.04, 6_000),
            ("NewOrder", 0.44, 20_000),
            ("Delivery", 0.04, 88_000),
            ("StockLevel", 0.04, 100_000),
        ],
    },
];

/// Request types with their shares and service times. A type's place in [`types`](Self::types) is
/// its number in the psp header.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its types; their shares add up to 1.
    pub types: Vec<WorkloadType>,
}

/// One request type of a [`Workload`].
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadType {
    /// Its name.
    pub name: String,
    /// Its share of all requests, 0 to 1.
    pub share: f64,
    /// How long a server works on it, in nanoseconds.
    pub service_ns: u64,
}

/// Why there is no such workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("unknown workload `{name}`; there are {}", Workload::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// A dilated service time does not fit the header's 32 bits of nanoseconds.
    #[error(
        "type `{type_name}` at {service_ns} ns dilated by {factor} exceeds the header's limit of \
         4.29 s; the largest dilation of this workload is {factor_max}"
    )]
    Dilation {
        /// The type.
        type_name: String,
        /// Its service time, not dilated, in nanoseconds.
        service_ns: u64,
        /// The dilation asked for.
        factor: u32,
        /// The largest that fits.
        factor_max: u64,
    },
    /// A dilation by 0.
    #[error("a dilation is at least 1")]
    DilationZero,
}

impl Workload {
    /// The workload called `name`.
    ///
    /// # Errors
    /// [`WorkloadError::Unknown`].
    pub fn named(name: &str) -> Result<Self, WorkloadError> {
        let row = NAMED.iter().find(|row| row.name == name);
        row.map(|row| Self {
            name: row.name.to_owned(),
            types: row
                .types
                .iter()
                .map(|&(name, share, service_ns)| WorkloadType {
                    name: name.to_owned(),
                    share,
                    service_ns,
                })
                .collect(),
        })
        .ok_or_else(|| WorkloadError::Unknown {
            name: name.to_owned(),
        })
    }

    /// The names that [`named`](Self::named) knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|row| row.name)
    }

    /// Mean service time over all requests, in nanoseconds.
    #[must_use]
    pub fn service_ns_mean(&self) -> f64 {
        self.types
            .iter()
            .map(|ty| ty.share * ty.service_ns as f64)
            .sum()
    }

    /// Requests per second that keep `workers` workers busy for the fraction `load` of the time.
    #[must_use]
    pub fn rate_rps(&self, load: f64, workers: usize) -> f64 {
        load * workers as f64 * 1e9 / self.service_ns_mean()
    }

    /// The same workload with all service times multiplied by `factor`.
    ///
    /// # Errors
    /// [`WorkloadError::DilationZero`], or [`WorkloadError::Dilation`] when a service time would
    /// exceed the 32 bits that the psp header has for it.
    pub fn dilated(&self, factor: u32) -> Result<Self, WorkloadError> {
        if factor == 0 {
            return Err(WorkloadError::DilationZero);
        }
        let longest = self.types.iter().max_by_key(|ty| ty.service_ns);
        let fits = |ty: &&WorkloadType| {
            ty.service_ns.saturating_mul(u64::from(factor)) <= u64::from(u32::MAX)
        };
        if let Some(ty) = longest.filter(|ty| !fits(ty)) {
            return Err(WorkloadError::Dilation {
                type_name: ty.name.clone(),
                service_ns: ty.service_ns,
                factor,
                factor_max: u64::from(u32::MAX) / ty.service_ns,
            });
        }
        let mut dilated = self.clone();
        for ty in &mut dilated.types {
            ty.service_ns *= u64::from(factor);
        }
        Ok(dilated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_every_named_workload_add_up() {
        for name in Workload::names() {
            let workload = Workload::named(name).unwrap();
            let total: f64 = workload.types.iter().map(|ty| ty.share).sum();
            assert!((total - 1.0).abs() < 1e-9, "{name}: {total}");
        }
    }

    #[test]
    fn rates_follow_from_load() {
        // Perséphone section 2: Extreme Bimodal peaks at 5.3 Mrps on 16 workers.
        let extreme = Workload::named("extreme-bimodal").unwrap();
        let peak_rps = extreme.rate_rps(1.0, 16);
        assert!((peak_rps / 5.34e6 - 1.0).abs() < 0.01, "{peak_rps}");
        assert!((extreme.rate_rps(0.5, 16) / peak_rps - 0.5).abs() < 1e-9);
    }

    #[test]
    fn dilation_multiplies_service_times_and_refuses_overflow() {
        let extreme = Workload::named("extreme-bimodal").unwrap();
        let dilated = extreme.dilated(1_000).unwrap();
        assert_eq!(dilated.types[0].service_ns, 500_000);
        assert!((extreme.rate_rps(0.8, 14) / dilated.rate_rps(0.8, 14) - 1e3).abs() < 1e-6);
        let WorkloadError::Dilation { factor_max, .. } = extreme.dilated(10_000).unwrap_err()
        else {
            panic!("another error");
        };
        let factor_max = u32::try_from(factor_max).unwrap();
        extreme.dilated(factor_max).unwrap();
        extreme.dilated(factor_max + 1).unwrap_err();
        assert_eq!(extreme.dilated(0), Err(WorkloadError::DilationZero));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = Workload::named("tpc-x").unwrap_err().to_string();
        assert!(
            error.contains("high-bimodal, extreme-bimodal, tpcc"),
            "{error}"
        );
    }
}
