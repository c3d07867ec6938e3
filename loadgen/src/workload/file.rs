//! Workloads from TOML files.
//!
//! ```toml
//! name = "cache"                 # the file's name unless set
//! arrivals = "bursty"            # poisson unless set; uniform
//! bursts = { factor = 5.0, share = 0.1, requests = 100.0 }
//!
//! [[type]]
//! name = "GET"
//! share = 0.9
//! service_us = 1.5
//! distribution = "lognormal"     # fixed unless set; exponential; pareto, with its shape
//! sigma = 0.5
//! slo_us = 15.0
//!
//! [[type]]
//! name = "SCAN"
//! share = 0.1
//! service_us = 635.0
//! command = "SCAN 0"             # what a redis:// server is sent
//!
//! [[phase]]                      # the types as above
//! duration_ms = 500.0            # or requests = 100000; the last phase needs neither
//!
//! [[phase]]
//! load = 0.9                     # factor of the load; 1 unless set
//! [[phase.type]]                 # what differs from above
//! name = "SCAN"
//! share = 0.2
//! [[phase.type]]
//! name = "GET"
//! share = 0.8
//! service_us = 3.0
//! ```
//!
//! The simulator needs `service_us`, as does a live psp:// server; a live redis:// server needs
//! `command`. A file may have both and serve all. `rate_rps` of the whole, or of every type instead
//! of its `share`, is the rate of a live run.

use std::path::Path;

use serde::Deserialize;

use super::{Distribution, Phase, PhaseLength, Workload, WorkloadError, WorkloadType};
use crate::arrivals::{ArrivalProcess, Bursts};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    #[serde(default)]
    arrivals: ArrivalsName,
    bursts: Option<Bursts>,
    rate_rps: Option<f64>,
    #[serde(rename = "type")]
    types: Vec<TypeTable>,
    #[serde(rename = "phase", default)]
    phases: Vec<PhaseTable>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum ArrivalsName {
    #[default]
    Poisson,
    Uniform,
    Bursty,
}

/// A type, or what differs of it in a phase.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypeTable {
    name: String,
    share: Option<f64>,
    rate_rps: Option<f64>,
    command: Option<String>,
    service_us: Option<f64>,
    distribution: Option<DistributionName>,
    sigma: Option<f64>,
    shape: Option<f64>,
    slo_us: Option<f64>,
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
struct PhaseTable {
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

impl Workload {
    /// Reads a TOML file; `docs/simulator.md` says what it may hold.
    ///
    /// # Errors
    /// [`WorkloadError::Read`], [`WorkloadError::Syntax`], and what [`Workload::validate`] says.
    pub fn from_file(path: &Path) -> Result<Self, WorkloadError> {
        WorkloadFile::read(path)?.simulated()
    }

    /// Reads TOML; `name` is the workload's where the text does not give one.
    ///
    /// # Errors
    /// [`WorkloadError::Syntax`], and what [`Workload::validate`] says.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, WorkloadError> {
        WorkloadFile::parse(name, text)?.simulated()
    }

    /// A workload by name or, when `name_or_path` ends in `.toml`, from a file.
    ///
    /// # Errors
    /// Those of [`Workload::named`] and [`Workload::from_file`].
    pub fn named_or_file(name_or_path: &str) -> Result<Self, WorkloadError> {
        let path = Path::new(name_or_path);
        if path.extension().is_some_and(|end| end == "toml") {
            Self::from_file(path)
        } else {
            Self::named(name_or_path)
        }
    }
}

/// All that a file may hold: a workload, and what live runs need besides.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WorkloadFile {
    /// Types without a service time have one of 1 ns here.
    pub(super) workload: Workload,
    /// Each type's command.
    pub(super) commands: Vec<Option<String>>,
    /// Requests per second of all types together.
    pub(super) rate_rps: Option<f64>,
    /// The first type without a service time.
    pub(super) without_service: Option<String>,
}

impl WorkloadFile {
    pub(super) fn read(path: &Path) -> Result<Self, WorkloadError> {
        let read = || {
            let bytes = std::fs::metadata(path)?.len();
            if bytes > FILE_BYTES_MAX {
                return Err(std::io::Error::other(format!(
                    "it has {bytes} bytes, at most {FILE_BYTES_MAX} are read"
                )));
            }
            std::fs::read_to_string(path)
        };
        let text = read().map_err(|error| WorkloadError::Read {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&stem, &text)
    }

    pub(super) fn parse(name: &str, text: &str) -> Result<Self, WorkloadError> {
        let mut file: File = toml::from_str(text).map_err(|error| WorkloadError::Syntax {
            reason: error.to_string(),
        })?;
        let rate_rps = file.resolve_rates()?;
        let types = file
            .types
            .iter()
            .map(TypeTable::complete)
            .collect::<Result<Vec<_>, _>>()?;
        let phases = file
            .phases
            .iter()
            .enumerate()
            .map(|(index, phase)| phase.over(index, &types))
            .collect::<Result<Vec<_>, _>>()?;
        let mut workload = Workload {
            name: file.name.unwrap_or_else(|| name.to_owned()),
            types,
            phases,
            arrivals: arrivals(file.arrivals, file.bursts)?,
        };
        workload.scale_shares();
        workload.validate()?;
        let without_service = file.types.iter().find(|ty| ty.service_us.is_none());
        Ok(Self {
            workload,
            rate_rps,
            without_service: without_service.map(|ty| ty.name.clone()),
            commands: file.types.into_iter().map(|ty| ty.command).collect(),
        })
    }

    /// The workload, if all types have service times.
    pub(super) fn simulated(self) -> Result<Workload, WorkloadError> {
        self.without_service.map_or(Ok(self.workload), |name| {
            Err(invalid(format!("type `{name}` has no `service_us`")))
        })
    }
}

impl File {
    /// Turns rates of the types into shares, and says what all types' rate is.
    fn resolve_rates(&mut self) -> Result<Option<f64>, WorkloadError> {
        let rates = self.types.iter().map(|ty| ty.rate_rps);
        for rate_rps in rates.clone().chain([self.rate_rps]).flatten() {
            if !(rate_rps.is_finite() && rate_rps > 0.0) {
                return Err(invalid(format!(
                    "rate_rps is {rate_rps}, it must be above 0"
                )));
            }
        }
        let rate_rps: f64 = rates.clone().flatten().sum();
        if rate_rps == 0.0 {
            return Ok(self.rate_rps);
        }
        let no_shares = self.types.iter().all(|ty| ty.share.is_none());
        if !rates.clone().all(|rate| rate.is_some()) || !no_shares || self.rate_rps.is_some() {
            return Err(invalid(
                "give rate_rps either for every type, without shares, or once for all".to_owned(),
            ));
        }
        for ty in &mut self.types {
            ty.share = ty.rate_rps.map(|own_rps| own_rps / rate_rps);
        }
        Ok(Some(rate_rps))
    }
}

fn arrivals(name: ArrivalsName, bursts: Option<Bursts>) -> Result<ArrivalProcess, WorkloadError> {
    match (name, bursts) {
        (ArrivalsName::Bursty, bursts) => Ok(ArrivalProcess::Bursty(bursts.unwrap_or_default())),
        (_, Some(_)) => Err(invalid(
            "`bursts` goes with arrivals = \"bursty\" only".to_owned(),
        )),
        (ArrivalsName::Poisson, None) => Ok(ArrivalProcess::Poisson),
        (ArrivalsName::Uniform, None) => Ok(ArrivalProcess::Uniform),
    }
}

fn invalid(reason: String) -> WorkloadError {
    WorkloadError::Invalid { reason }
}

impl TypeTable {
    fn complete(&self) -> Result<WorkloadType, WorkloadError> {
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
            slo_ns: self.slo_ns()?,
        })
    }

    /// This over what the type is otherwise.
    fn over(&self, base: &WorkloadType) -> Result<WorkloadType, WorkloadError> {
        Ok(WorkloadType {
            name: base.name.clone(),
            share: self.share.unwrap_or(base.share),
            service_ns: self.service_ns()?.unwrap_or(base.service_ns),
            distribution: self.distribution()?.unwrap_or(base.distribution),
            slo_ns: self.slo_ns()?.or(base.slo_ns),
        })
    }

    fn service_ns(&self) -> Result<Option<u64>, WorkloadError> {
        self.nanoseconds("service_us", self.service_us)
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
            invalid(format!(
                "type `{name}`: {key} is {micros}, it must be from 0.001 to a day"
            ))
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
            Some(DistributionName::Exponential) => {
                (Some(Distribution::Exponential), [false, false])
            }
            Some(DistributionName::Lognormal) => {
                let sigma = parameter("sigma", self.sigma)?;
                (Some(Distribution::Lognormal { sigma }), [true, false])
            }
            Some(DistributionName::Pareto) => {
                let shape = parameter("shape", self.shape)?;
                (Some(Distribution::Pareto { shape }), [false, true])
            }
        };
        for ((key, value), takes) in [("sigma", self.sigma), ("shape", self.shape)]
            .into_iter()
            .zip(takes)
        {
            if value.is_some() && !takes {
                return Err(invalid(format!(
                    "type `{name}`: its distribution has no `{key}`"
                )));
            }
        }
        Ok(distribution)
    }
}

impl PhaseTable {
    fn over(&self, index: usize, types: &[WorkloadType]) -> Result<Phase, WorkloadError> {
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
                return Err(invalid(format!(
                    "phase {}: give either duration_ms or requests",
                    index + 1
                )));
            }
        };
        let mut changed = types.to_vec();
        for table in &self.types {
            let Some(ty) = changed.iter_mut().find(|ty| ty.name == table.name) else {
                return Err(invalid(format!(
                    "phase {}: there is no type `{}`",
                    index + 1,
                    table.name
                )));
            };
            if table.rate_rps.is_some() || table.command.is_some() {
                return Err(invalid(format!(
                    "phase {}: it may change shares and service times, not rate_rps or command",
                    index + 1
                )));
            }
            *ty = table.over(ty)?;
        }
        Ok(Phase {
            length,
            load: self.load,
            types: changed,
        })
    }
}

/// `value` units of `unit_ns` in nanoseconds, if that is from one to a day of them.
fn nanoseconds(value: f64, unit_ns: f64) -> Option<u64> {
    const DAY_NS: f64 = 8.64e13;
    let value_ns = (value * unit_ns).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was checked"
    )]
    (1.0..=DAY_NS)
        .contains(&value_ns)
        .then_some(value_ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
        [[type]]
        name = 'GET'
        share = 0.9
        service_us = 1.5
        distribution = 'lognormal'
        sigma = 0.5
        slo_us = 15
        [[type]]
        name = 'SCAN'
        share = 0.1
        service_us = 635
    ";

    fn read(text: &str) -> Result<Workload, String> {
        Workload::from_toml("file", text).map_err(|error| error.to_string())
    }

    #[test]
    fn types_have_their_distributions() {
        let workload = read(TWO).unwrap();
        assert_eq!((workload.name.as_str(), workload.types.len()), ("file", 2));
        assert_eq!(workload.arrivals, ArrivalProcess::Poisson);
        let get = &workload.types[0];
        assert_eq!((get.service_ns, get.slo_ns), (1_500, Some(15_000)));
        assert_eq!(get.distribution, Distribution::Lognormal { sigma: 0.5 });
        assert_eq!(workload.types[1].distribution, Distribution::Fixed);
        let mean_ns = workload.service_ns_mean();
        assert!((mean_ns - 64_850.0).abs() < 1e-6, "{mean_ns}");
    }

    #[test]
    fn phases_change_what_they_name() {
        let workload = read(&format!(
            "name = 'changing'
            arrivals = 'bursty'
            bursts = {{ factor = 3.0 }}
            {TWO}
            [[phase]]
            duration_ms = 2.5
            [[phase]]
            requests = 1000
            load = 0.5
            [[phase.type]]
            name = 'SCAN'
            share = 1
            [[phase.type]]
            name = 'GET'
            share = 0
            [[phase]]"
        ))
        .unwrap();
        assert_eq!(workload.name, "changing");
        let bursts = Bursts {
            factor: 3.0,
            ..Bursts::default()
        };
        assert_eq!(workload.arrivals, ArrivalProcess::Bursty(bursts));
        let [first, second, last] = &workload.phases[..] else {
            panic!("three phases");
        };
        let duration_ns = 2_500_000;
        assert_eq!(first.length, PhaseLength::Time { duration_ns });
        assert_eq!(first.types, workload.types);
        assert_eq!(second.length, PhaseLength::Requests(1000));
        assert!((second.load - 0.5).abs() < 1e-12);
        assert_eq!((second.types[0].share, second.types[1].share), (0.0, 1.0));
        assert_eq!(second.types[1].service_ns, 635_000);
        assert_eq!((last.length, last.load), (PhaseLength::Open, 1.0));
    }

    #[test]
    fn shares_may_be_rounded() {
        let types: String = ["A", "B", "C"]
            .map(|name| format!("[[type]]\nname='{name}'\nshare=0.33\nservice_us=1\n"))
            .concat();
        let workload = read(&types).unwrap();
        assert!((workload.types[0].share - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let ty = |rest: &str| format!("[[type]]\nname='A'\nshare=1\nservice_us=1\n{rest}");
        for (text, reason) in [
            (String::new(), "missing field `type`"),
            ("type = []".to_owned(), "no type"),
            (ty("color = 3"), "unknown field `color`"),
            (ty("distribution = 'weibull'"), "unknown variant `weibull`"),
            (ty("distribution = 'pareto'"), "needs `shape`"),
            (ty("distribution = 'pareto'\nshape = 1"), "above 1"),
            (ty("distribution = 'lognormal'\nsigma = 0"), "above 0"),
            (ty("sigma = 1"), "has no `sigma`"),
            (ty("slo_us = 0"), "slo_us is 0"),
            (ty(&ty("")), "two types are called `A`"),
            (ty("[[phase]]\n[[phase]]"), "phase 1 has no length"),
            (
                ty("[[phase]]\nduration_ms=1\nrequests=1"),
                "either duration_ms or requests",
            ),
            (ty("[[phase]]\nrequests=0"), "requests is 0"),
            (ty("[[phase]]\nload=0"), "load is 0"),
            (ty("[[phase]]\n[[phase.type]]\nname='B'"), "no type `B`"),
            (
                ty("[[phase]]\n[[phase.type]]\nname='A'\nshare=0.5"),
                "phase 1: the shares add up to 0.5",
            ),
            (
                "[[type]]\nname='A'\nshare=1".to_owned(),
                "type `A` has no `service_us`",
            ),
            (
                "[[type]]\nname='A'\nshare=0.4\nservice_us=1".to_owned(),
                "the shares add up to 0.4",
            ),
            (
                "[[type]]\nname='A'\nshare=-1\nservice_us=1".to_owned(),
                "share is -1",
            ),
            (ty("rate_rps = 5"), "either for every type"),
            (format!("rate_rps = 0\n{}", ty("")), "rate_rps is 0"),
            (
                ty("[[phase]]\n[[phase.type]]\nname='A'\ncommand='GET'"),
                "not rate_rps or command",
            ),
            (
                "[[type]]\nname='A'\nshare=1\ncommand='GET'".to_owned(),
                "type `A` has no `service_us`",
            ),
            (format!("bursts = {{}}\n{}", ty("")), "goes with arrivals"),
            (
                format!("arrivals='bursty'\nbursts={{share=2}}\n{}", ty("")),
                "bursts",
            ),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Workload::named_or_file("no/such.toml").unwrap_err();
        assert!(error.to_string().contains("no/such.toml"), "{error}");
        assert!(Workload::named_or_file("tpcc").is_ok());
    }
}
