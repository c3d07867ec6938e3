//! Workloads: request types, their shares and service times, and how requests arrive.
//!
use super::arrivals::ArrivalProcess;
use super::clients::Clients;
use super::error::WorkloadError;
use super::service_time::Distribution;

/// Types that a workload may have at most.
const TYPES_MAX: usize = 256;

/// How far the sum of rounded shares may be from 1.
const SHARES_ROUNDING_MAX: f64 = 0.0101;

/// Request types with their shares and service times. The index of a type in [`types`](Self::types)
/// is its number in the psp header.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its types; their shares add up to 1.
    pub types: Vec<WorkloadType>,
    /// How the workload changes over time, phase after phase. The last phase lasts to the end.
    /// Empty for a workload that does not change.
    pub phases: Vec<Phase>,
    /// How arrivals are spaced. In a live run each type has arrivals of its own, and options may
    /// override this.
    pub arrivals: ArrivalProcess,
    /// Who sends the requests of a simulation. Live clients behave as their options say.
    pub clients: Clients,
}

/// One request type of a [`Workload`].
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadType {
    /// Its name.
    pub name: String,
    /// Its share of all requests, 0 to 1.
    pub share: f64,
    /// Mean service time in nanoseconds.
    pub service_ns: u64,
    /// How service times are distributed around their mean.
    pub distribution: Distribution,
    /// For how long a request waits without its worker when it has had half its service time, rounded
    /// down, in nanoseconds; 0 if it does not wait. Then it gets a worker again for the rest.
    pub wait_ns: u64,
    /// Target for the time from arrival to completion in nanoseconds. Some policies weigh types by
    /// it.
    pub slo_ns: Option<u64>,
    /// Requests that the type may start in its turn under weighted round robin; 1 if absent.
    pub weight: Option<u32>,
}

/// A part of a workload that changes over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// How long the phase lasts. The first phase begins with the measurement, each other one at the
    /// end of the one before.
    pub length: PhaseLength,
    /// Factor of the load. Above 0.
    pub load: f64,
    /// The types during this phase. Names and order are those of the workload.
    pub types: Vec<WorkloadType>,
}

/// How long a [`Phase`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseLength {
    /// A number of nanoseconds.
    Time {
        /// At least 1.
        duration_ns: u64,
    },
    /// A number of arrivals, at least 1.
    Requests(u64),
    /// Until the end. Only the last phase may be open.
    Open,
}

impl Workload {
    /// A workload that does not change, with Poisson arrivals.
    pub fn of_types(name: impl Into<String>, types: Vec<WorkloadType>) -> Self {
        Self {
            name: name.into(),
            types,
            phases: Vec::new(),
            arrivals: ArrivalProcess::Poisson,
            clients: Clients::default(),
        }
    }

    /// Checks all ranges.
    ///
    /// # Errors
    /// [`WorkloadError::Invalid`] for the first value out of its range.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        self.fault().map_or(Ok(()), |reason| Err(WorkloadError::Invalid { reason }))
    }

    fn fault(&self) -> Option<String> {
        if self.types.is_empty() || self.types.len() > TYPES_MAX {
            return Some(format!("there are {} types; a workload has from 1 to {TYPES_MAX}", self.types.len()));
        }
        if let ArrivalProcess::Bursty(bursts) = self.arrivals
            && !bursts.is_valid()
        {
            return Some("bursts: factor must be at least 1, share between 0 and 1, requests above 0".to_owned());
        }
        if let Some(fault) = self.clients.fault() {
            return Some(fault);
        }
        let names: Vec<&str> = self.types.iter().map(|ty| ty.name.as_str()).collect();
        let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
        if let Some((_, name)) = twice {
            return Some(format!("two types are called `{name}`"));
        }
        fault_of_types(&self.types).or_else(|| {
            self.phases.iter().enumerate().find_map(|(index, phase)| {
                let is_last = index + 1 == self.phases.len();
                let same = names.iter().eq(phase.types.iter().map(|ty| &ty.name));
                let number = index + 1;
                if !same {
                    return Some(format!("phase {number} has other types"));
                }
                phase
                    .fault(number, is_last)
                    .or_else(|| fault_of_types(&phase.types).map(|fault| format!("phase {number}: {fault}")))
            })
        })
    }

    /// Scales rounded shares so that they add up to 1 exactly.
    pub(super) fn scale_shares(&mut self) {
        let phases = self.phases.iter_mut().map(|phase| &mut phase.types);
        for types in std::iter::once(&mut self.types).chain(phases) {
            let total: f64 = types.iter().map(|ty| ty.share).sum();
            if (total - 1.0).abs() <= SHARES_ROUNDING_MAX {
                for ty in types {
                    ty.share /= total;
                }
            }
        }
    }

    /// Whether requests of any type wait without their worker.
    #[must_use]
    pub fn waits(&self) -> bool {
        let phases = self.phases.iter().flat_map(|phase| &phase.types);
        self.types.iter().chain(phases).any(|ty| ty.wait_ns > 0)
    }

    /// Mean service time over all requests, in nanoseconds.
    #[must_use]
    pub fn service_ns_mean(&self) -> f64 {
        service_ns_mean(&self.types)
    }

    /// Requests per second that keep `workers` workers busy for the fraction `load` of the time.
    #[must_use]
    pub fn rate_rps(&self, load: f64, workers: usize) -> f64 {
        load * workers as f64 * 1e9 / self.service_ns_mean()
    }

    /// The same workload with all service times and waits multiplied by `factor`.
    ///
    /// # Errors
    /// [`WorkloadError::DilationZero`], or [`WorkloadError::Dilation`] when a service time or a wait would
    /// exceed the 32 bits that a psp request has for it.
    pub fn dilated(&self, factor: u32) -> Result<Self, WorkloadError> {
        if factor == 0 {
            return Err(WorkloadError::DilationZero);
        }
        let mut dilated = self.clone();
        let phases = dilated.phases.iter_mut().flat_map(|phase| &mut phase.types);
        for ty in dilated.types.iter_mut().chain(phases) {
            let service_ns = ty.service_ns.saturating_mul(u64::from(factor));
            let wait_ns = ty.wait_ns.saturating_mul(u64::from(factor));
            if service_ns.max(wait_ns) > u64::from(u32::MAX) {
                return Err(self.too_long_dilated(factor));
            }
            ty.service_ns = service_ns;
            ty.wait_ns = wait_ns;
            ty.slo_ns = ty.slo_ns.map(|slo_ns| slo_ns.saturating_mul(u64::from(factor)));
        }
        Ok(dilated)
    }

    /// The error for the longest type: it names the largest dilation that fits.
    fn too_long_dilated(&self, factor: u32) -> WorkloadError {
        let phases = self.phases.iter().flat_map(|phase| &phase.types);
        let types = self.types.iter().chain(phases);
        let longer_ns = |ty: &WorkloadType| ty.service_ns.max(ty.wait_ns);
        let longest = types.max_by_key(|ty| longer_ns(ty));
        longest.map_or(WorkloadError::DilationZero, |ty| WorkloadError::Dilation {
            type_name: ty.name.clone(),
            time_ns: longer_ns(ty),
            factor,
            factor_max: u64::from(u32::MAX) / longer_ns(ty),
        })
    }
}

/// Mean service time over all requests of `types`, in nanoseconds.
#[must_use]
pub fn service_ns_mean(types: &[WorkloadType]) -> f64 {
    types.iter().map(|ty| ty.share * ty.service_ns as f64).sum()
}

fn fault_of_types(types: &[WorkloadType]) -> Option<String> {
    let fault = types.iter().find_map(|ty| {
        let fault = if !(0.0..=1.0).contains(&ty.share) {
            Some(format!("share is {}, it must be from 0 to 1", ty.share))
        } else if ty.service_ns == 0 {
            Some("the service time is 0".to_owned())
        } else if ty.weight == Some(0) {
            Some("the weight is 0, it must be at least 1".to_owned())
        } else {
            ty.distribution.fault()
        };
        fault.map(|fault| format!("type `{}`: {fault}", ty.name))
    });
    let total: f64 = types.iter().map(|ty| ty.share).sum();
    fault.or_else(|| {
        ((total - 1.0).abs() > 1e-6).then(|| format!("the shares add up to {total}, they must add up to 1"))
    })
}

impl Phase {
    fn fault(&self, number: usize, is_last: bool) -> Option<String> {
        if !(self.load.is_finite() && self.load > 0.0) {
            return Some(format!("phase {number}: load is {}, it must be above 0", self.load));
        }
        match self.length {
            PhaseLength::Open if !is_last => {
                Some(format!("phase {number} has no length; only the last goes on to the end"))
            }
            PhaseLength::Requests(0) => Some(format!("phase {number}: requests is 0, it must be at least 1")),
            PhaseLength::Time { duration_ns: 0 } => Some(format!("phase {number} takes no time")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let WorkloadError::Dilation { factor_max, .. } = extreme.dilated(10_000).unwrap_err() else {
            panic!("another error");
        };
        let factor_max = u32::try_from(factor_max).unwrap();
        extreme.dilated(factor_max).unwrap();
        extreme.dilated(factor_max + 1).unwrap_err();
        assert_eq!(extreme.dilated(0), Err(WorkloadError::DilationZero));
    }
}
