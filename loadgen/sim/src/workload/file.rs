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
//! wait_us = 50.0                 # waits without its worker after half its service; 0 unless set
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
//! The simulator and live psp:// servers need `service_us`. A live redis:// server needs `command`.
//! A file may have both and serve all of them. `rate_rps`, once for the workload or for every type
//! instead of its `share`, is the rate of a live run.

use std::path::Path;

use serde::{Deserialize, Deserializer};

use super::definition::Workload;
use super::error::WorkloadError;
use super::toml_tables::{File, TypeTable, arrivals, invalid};
use crate::text;

impl Workload {
    /// Reads a TOML file. `docs/simulator.md` documents the format.
    ///
    /// # Errors
    /// [`WorkloadError::Read`], [`WorkloadError::Syntax`], and those of [`Workload::validate`].
    pub fn from_file(path: &Path) -> Result<Self, WorkloadError> {
        WorkloadFile::read(path)?.simulated()
    }

    /// Parses TOML. `name` is the workload's name unless the text sets one.
    ///
    /// # Errors
    /// [`WorkloadError::Syntax`], and those of [`Workload::validate`].
    pub fn from_toml(name: &str, text: &str) -> Result<Self, WorkloadError> {
        WorkloadFile::parse(name, text)?.simulated()
    }

    /// A workload by name or, when `name_or_path` ends in `.toml`, from a file.
    ///
    /// # Errors
    /// Those of [`Workload::named`] and [`Workload::from_file`].
    pub fn named_or_file(name_or_path: &str) -> Result<Self, WorkloadError> {
        WorkloadFile::named_or_read(name_or_path)?.simulated()
    }
}

/// A text names a workload or a file, as [`Workload::named_or_file`]; a table has what a file has.
impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spelled = |file| WorkloadFile::of_tables("", file)?.simulated();
        text::named_or_spelled(deserializer, "a workload", Self::named_or_file, spelled)
    }
}

/// The contents of a file: a workload, and what live runs need in addition.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadFile {
    /// The workload. A type without a service time has one of 1 ns.
    pub workload: Workload,
    /// The command of each type.
    pub commands: Vec<Option<String>>,
    /// Requests per second of all types together.
    pub rate_rps: Option<f64>,
    /// The first type without a service time.
    pub without_service: Option<String>,
}

impl WorkloadFile {
    /// A workload by name, without commands or a rate, or, when `name_or_path` ends in `.toml`, a file.
    ///
    /// # Errors
    /// Those of [`Workload::named`] and [`read`](Self::read).
    pub fn named_or_read(name_or_path: &str) -> Result<Self, WorkloadError> {
        let path = Path::new(name_or_path);
        if path.extension().is_some_and(|end| end == "toml") {
            return Self::read(path);
        }
        let workload = Workload::named(name_or_path)?;
        Ok(Self {
            commands: vec![None; workload.types.len()],
            workload,
            rate_rps: None,
            without_service: None,
        })
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// [`WorkloadError::Read`] and those of [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self, WorkloadError> {
        let text = text::read(path)
            .map_err(|error| WorkloadError::Read { path: path.display().to_string(), reason: error.to_string() })?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&stem, &text)
    }

    /// Parses TOML. `name` is the workload's name unless the text sets one.
    ///
    /// # Errors
    /// [`WorkloadError::Syntax`], and those of [`Workload::validate`].
    pub fn parse(name: &str, text: &str) -> Result<Self, WorkloadError> {
        let file = toml::from_str(text).map_err(|error| WorkloadError::Syntax { reason: error.to_string() })?;
        Self::of_tables(name, file)
    }

    fn of_tables(name: &str, mut file: File) -> Result<Self, WorkloadError> {
        let rate_rps = file.resolve_rates()?;
        let types = file.types.iter().map(TypeTable::complete).collect::<Result<Vec<_>, _>>()?;
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
            clients: file.clients,
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
    ///
    /// # Errors
    /// [`WorkloadError::Invalid`], for the first type without one.
    pub fn simulated(self) -> Result<Workload, WorkloadError> {
        self.without_service
            .map_or(Ok(self.workload), |name| Err(invalid(format!("type `{name}` has no `service_us`"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{ArrivalProcess, Bursts, Distribution, PhaseLength};

    const TWO: &str = "
        [[type]]
        name = 'GET'
        share = 0.9
        service_us = 1.5
        distribution = 'lognormal'
        sigma = 0.5
        slo_us = 15
        weight = 4
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
        assert_eq!((get.weight, workload.types[1].weight), (Some(4), None));
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
        let bursts = Bursts { factor: 3.0, ..Bursts::default() };
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
            ("type = []".to_owned(), "there are 0 types"),
            (ty("color = 3"), "unknown field `color`"),
            (ty("distribution = 'weibull'"), "unknown variant `weibull`"),
            (ty("distribution = 'pareto'"), "needs `shape`"),
            (ty("distribution = 'pareto'\nshape = 1"), "above 1"),
            (ty("distribution = 'lognormal'\nsigma = 0"), "above 0"),
            (ty("sigma = 1"), "has no `sigma`"),
            (ty("slo_us = 0"), "slo_us is 0"),
            (ty("weight = 0"), "the weight is 0"),
            (ty("weight = 0.5"), "expected u32"),
            (ty(&ty("")), "two types are called `A`"),
            (ty("[[phase]]\n[[phase]]"), "phase 1 has no length"),
            (ty("[[phase]]\nduration_ms=1\nrequests=1"), "either duration_ms or requests"),
            (ty("[[phase]]\nrequests=0"), "requests is 0"),
            (ty("[[phase]]\nload=0"), "load is 0"),
            (ty("[[phase]]\n[[phase.type]]\nname='B'"), "no type `B`"),
            (ty("[[phase]]\n[[phase.type]]\nname='A'\nshare=0.5"), "phase 1: the shares add up to 0.5"),
            ("[[type]]\nname='A'\nshare=1".to_owned(), "type `A` has no `service_us`"),
            ("[[type]]\nname='A'\nshare=0.4\nservice_us=1".to_owned(), "the shares add up to 0.4"),
            ("[[type]]\nname='A'\nshare=-1\nservice_us=1".to_owned(), "share is -1"),
            (ty("rate_rps = 5"), "either for every type"),
            (format!("rate_rps = 0\n{}", ty("")), "rate_rps is 0"),
            (ty("[[phase]]\n[[phase.type]]\nname='A'\ncommand='GET'"), "not rate_rps or command"),
            ("[[type]]\nname='A'\nshare=1\ncommand='GET'".to_owned(), "type `A` has no `service_us`"),
            (format!("bursts = {{}}\n{}", ty("")), "goes with arrivals"),
            (format!("arrivals='bursty'\nbursts={{share=2}}\n{}", ty("")), "bursts"),
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
