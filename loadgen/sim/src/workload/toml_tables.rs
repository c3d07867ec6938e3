//! The tables of a workload file, and how they become a workload.

use serde::Deserialize;

use super::arrivals::{ArrivalProcess, Bursts};
use super::clients::Clients;
use super::definition::{Phase, PhaseLength, WorkloadType};
use super::error::WorkloadError;
use super::service_time::Distribution;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arrivals: ArrivalsName,
    pub(super) bursts: Option<Bursts>,
    #[serde(default)]
    pub(super) clients: Clients,
    rate_rps: Option<f64>,
    #[serde(rename = "type")]
    pub(super) types: Vec<TypeTable>,
    #[serde(rename = "phase", default)]
    pub(super) phases: Vec<PhaseTable>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub(super) enum ArrivalsName {
    #[default]
    Poisson,
    Uniform,
    Bursty,
}

/// A type, or the settings of a type that a phase changes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TypeTable {
    pub(super) name: String,
    share: Option<f64>,
    rate_rps: Option<f64>,
    pub(super) command: Option<String>,
    pub(super) service_us: Option<f64>,
    distribution: Option<DistributionName>,
    sigma: Option<f64>,
    shape: Option<f64>,
    wait_us: Option<f64>,
    slo_us: Option<f64>,
    weight: Option<u32>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum DistributionName {
    Fixed,
    Exponential,
    Lognormal,
    Pareto,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PhaseTable {
    duration_ms: Option<f64>,
    requests: Option<u64>,
    #[serde(default = "whole")]
    load: f64,
    #[serde(rename = "type", default)]
    types: Vec<TypeTable>,
}

const fn whole() -> f64 {
    1.0
}

impl File {
    /// Turns rates of the types into shares. Returns the rate of all types together.
    pub(super) fn resolve_rates(&mut self) -> Result<Option<f64>, WorkloadError> {
        let rates = self.types.iter().map(|ty| ty.rate_rps);
        for rate_rps in rates.clone().chain([self.rate_rps]).flatten() {
            if !(rate_rps.is_finite() && rate_rps > 0.0) {
                return Err(invalid(format!("rate_rps is {rate_rps}, it must be above 0")));
            }
        }
        let rate_rps: f64 = rates.clone().flatten().sum();
        if rate_rps == 0.0 {
            return Ok(self.rate_rps);
        }
        let no_shares = self.types.iter().all(|ty| ty.share.is_none());
        if !rates.clone().all(|rate| rate.is_some()) || !no_shares || self.rate_rps.is_some() {
            return Err(invalid("give rate_rps either for every type, without shares, or once for all".to_owned()));
        }
        for ty in &mut self.types {
            ty.share = ty.rate_rps.map(|own_rps| own_rps / rate_rps);
        }
        Ok(Some(rate_rps))
    }
}

pub(super) fn arrivals(name: ArrivalsName, bursts: Option<Bursts>) -> Result<ArrivalProcess, WorkloadError> {
    match (name, bursts) {
        (ArrivalsName::Bursty, bursts) => Ok(ArrivalProcess::Bursty(bursts.unwrap_or_default())),
        (_, Some(_)) => Err(invalid("`bursts` goes with arrivals = \"bursty\" only".to_owned())),
        (ArrivalsName::Poisson, None) => Ok(ArrivalProcess::Poisson),
        (ArrivalsName::Uniform, None) => Ok(ArrivalProcess::Uniform),
    }
}

pub(super) fn invalid(reason: String) -> WorkloadError {
    WorkloadError::Invalid { reason }
}

impl TypeTable {
    pub(super) fn complete(&self) -> Result<WorkloadType, WorkloadError> {
        let name = &self.name;
        let missing = |key| invalid(format!("type `{name}` has no `{key}`"));
        Ok(WorkloadType {
            name: name.clone(),
            share: self.share.ok_or_else(|| missing("share"))?,
            service_ns: match (self.service_ns()?, &self.command) {
                (Some(service_ns), _) => service_ns,
                (None, Some(_)) => 1,
                (None, None) => return Err(missing("service_us")),
            },
            distribution: self.distribution()?.unwrap_or_default(),
            wait_ns: self.wait_ns()?.unwrap_or(0),
            slo_ns: self.slo_ns()?,
            weight: self.weight,
        })
    }

    /// The type `base` with the settings of this table in place of its own.
    fn over(&self, base: &WorkloadType) -> Result<WorkloadType, WorkloadError> {
        Ok(WorkloadType {
            name: base.name.clone(),
            share: self.share.unwrap_or(base.share),
            service_ns: self.service_ns()?.unwrap_or(base.service_ns),
            distribution: self.distribution()?.unwrap_or(base.distribution),
            wait_ns: self.wait_ns()?.unwrap_or(base.wait_ns),
            slo_ns: self.slo_ns()?.or(base.slo_ns),
            weight: self.weight.or(base.weight),
        })
    }

    fn service_ns(&self) -> Result<Option<u64>, WorkloadError> {
        self.nanoseconds("service_us", self.service_us)
    }

    /// Unlike other times, 0 is one: a phase can take a type's wait away.
    fn wait_ns(&self) -> Result<Option<u64>, WorkloadError> {
        match self.wait_us {
            Some(0.0) => Ok(Some(0)),
            wait_us => self.nanoseconds("wait_us", wait_us),
        }
    }

    fn slo_ns(&self) -> Result<Option<u64>, WorkloadError> {
        self.nanoseconds("slo_us", self.slo_us)
    }

    fn nanoseconds(&self, key: &str, micros: Option<f64>) -> Result<Option<u64>, WorkloadError> {
        let Some(micros) = micros else {
            return Ok(None);
        };
        nanoseconds(micros, 1e3).map(Some).ok_or_else(|| {
            let name = &self.name;
            invalid(format!("type `{name}`: {key} is {micros}, it must be from 0.001 to a day"))
        })
    }

    fn distribution(&self) -> Result<Option<Distribution>, WorkloadError> {
        let name = &self.name;
        let parameter = |key: &str, value: Option<f64>| {
            value.ok_or_else(|| invalid(format!("type `{name}`: its distribution needs `{key}`")))
        };
        let (distribution, takes) = match self.distribution {
            None => (None, [false, false]),
            Some(DistributionName::Fixed) => (Some(Distribution::Fixed), [false, false]),
            Some(DistributionName::Exponential) => (Some(Distribution::Exponential), [false, false]),
            Some(DistributionName::Lognormal) => {
                let sigma = parameter("sigma", self.sigma)?;
                (Some(Distribution::Lognormal { sigma }), [true, false])
            }
            Some(DistributionName::Pareto) => {
                let shape = parameter("shape", self.shape)?;
                (Some(Distribution::Pareto { shape }), [false, true])
            }
        };
        for ((key, value), takes) in [("sigma", self.sigma), ("shape", self.shape)].into_iter().zip(takes) {
            if value.is_some() && !takes {
                return Err(invalid(format!("type `{name}`: its distribution has no `{key}`")));
            }
        }
        Ok(distribution)
    }
}

impl PhaseTable {
    pub(super) fn over(&self, index: usize, types: &[WorkloadType]) -> Result<Phase, WorkloadError> {
        let length = match (self.duration_ms, self.requests) {
            (None, None) => PhaseLength::Open,
            (None, Some(requests)) => PhaseLength::Requests(requests),
            (Some(millis), None) => {
                let duration_ns = nanoseconds(millis, 1e6).ok_or_else(|| {
                    invalid(format!(
                        "phase {}: duration_ms is {millis}, it must be above 0 and at most a day",
                        index + 1
                    ))
                })?;
                PhaseLength::Time { duration_ns }
            }
            (Some(_), Some(_)) => {
                return Err(invalid(format!("phase {}: give either duration_ms or requests", index + 1)));
            }
        };
        let mut changed = types.to_vec();
        for table in &self.types {
            let Some(ty) = changed.iter_mut().find(|ty| ty.name == table.name) else {
                return Err(invalid(format!("phase {}: there is no type `{}`", index + 1, table.name)));
            };
            if table.rate_rps.is_some() || table.command.is_some() {
                return Err(invalid(format!(
                    "phase {}: it may change shares and service times, not rate_rps or command",
                    index + 1
                )));
            }
            *ty = table.over(ty)?;
        }
        Ok(Phase { length, load: self.load, types: changed })
    }
}

/// `value` units of `unit_ns` in nanoseconds. `None` unless the result lies between 1 ns and a day.
fn nanoseconds(value: f64, unit_ns: f64) -> Option<u64> {
    const DAY_NS: f64 = 8.64e13;
    let value_ns = (value * unit_ns).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was checked"
    )]
    (1.0..=DAY_NS).contains(&value_ns).then_some(value_ns as u64)
}
