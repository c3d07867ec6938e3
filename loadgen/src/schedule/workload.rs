//! Workloads for live servers.

use std::time::Duration;

use psp_sim::workload::{
    ArrivalProcess, PhaseLength, Workload, WorkloadError, WorkloadFile, WorkloadType, service_ns_mean,
};

use super::plan::{RequestPlan, ServicePlan, TypePhase, TypePlan};
use crate::wire::{CommandTemplate, Protocol};

/// A workload, the commands of its types, and a rate.
#[derive(Debug, Clone)]
pub struct LiveWorkload {
    file: WorkloadFile,
}

/// The offered load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OfferedLoad {
    /// Requests per second in all, times the load factor of each phase.
    Rate(f64),
    /// The fraction of the workers' time that requests take, by the mean service time of each phase
    /// and times its load factor.
    Workers {
        /// The fraction.
        load: f64,
        /// Number of workers.
        workers: usize,
    },
}

impl LiveWorkload {
    /// A workload by name or, when `name_or_path` ends in `.toml`, from a file.
    ///
    /// # Errors
    /// Those of [`Workload::named_or_file`].
    pub fn named_or_file(name_or_path: &str) -> Result<Self, WorkloadError> {
        WorkloadFile::named_or_read(name_or_path).map(|file| Self { file })
    }

    /// The workload for a simulation.
    ///
    /// # Errors
    /// When a type has no service time.
    pub fn simulated(&self) -> Result<Workload, WorkloadError> {
        self.file.clone().simulated()
    }

    /// How arrivals are spaced.
    #[must_use]
    pub fn arrivals(&self) -> ArrivalProcess {
        self.file.workload.arrivals
    }

    /// Requests per second of all types, if the file sets them.
    #[must_use]
    pub fn rate_rps(&self) -> Option<f64> {
        self.file.rate_rps
    }

    /// The types for a server that speaks `protocol`. `dilation` multiplies service times and
    /// lengths of phases and divides rates. A phase of a number of requests takes as long as these
    /// requests take on average.
    ///
    /// # Errors
    /// [`WorkloadError::NotLive`] when types lack commands or service times, and what
    /// [`Workload::dilated`] says.
    pub fn type_plans(
        &self,
        protocol: Protocol,
        offered: OfferedLoad,
        dilation: u32,
    ) -> Result<Vec<TypePlan>, WorkloadError> {
        let needs_service = protocol.is_synthetic() || matches!(offered, OfferedLoad::Workers { .. });
        if let Some(name) = self.file.without_service.as_ref().filter(|_| needs_service) {
            return Err(self.not_live(format!("type `{name}` has no `service_us`")));
        }
        let dilated = self.file.workload.dilated(dilation)?;
        let rates = |types: &[WorkloadType], factor: f64| -> Vec<f64> {
            let total_rps = factor
                * match offered {
                    OfferedLoad::Rate(rate_rps) => rate_rps / f64::from(dilation),
                    OfferedLoad::Workers { load, workers } => load * workers as f64 * 1e9 / service_ns_mean(types),
                };
            types.iter().map(|ty| ty.share * total_rps).collect()
        };
        let first_factor = dilated.phases.first().map_or(1.0, |phase| phase.load);
        let first = dilated.phases.first().map_or(&dilated.types, |it| &it.types);
        let mut plans = Vec::with_capacity(first.len());
        for (index, (ty, rate_rps)) in first.iter().zip(rates(first, first_factor)).enumerate() {
            let request = self.request(protocol, index, ty)?;
            plans.push(TypePlan::new(ty.name.clone(), rate_rps, request));
        }
        let mut starts = Duration::ZERO;
        for (index, phase) in dilated.phases.iter().enumerate() {
            let rates = rates(&phase.types, phase.load);
            if index > 0 {
                let types = phase.types.iter().zip(&rates);
                for (plan, (ty, &rate_rps)) in plans.iter_mut().zip(types) {
                    plan.phases.push(TypePhase {
                        starts,
                        rate_rps,
                        service: plan.service().map(|_| service_plan(ty)),
                    });
                }
            }
            starts += match phase.length {
                PhaseLength::Time { duration_ns } => Duration::from_nanos(duration_ns) * dilation,
                PhaseLength::Requests(requests) => {
                    let length_s = requests as f64 / rates.iter().sum::<f64>();
                    Duration::try_from_secs_f64(length_s).unwrap_or(Duration::MAX / 4)
                }
                PhaseLength::Open => Duration::ZERO,
            };
        }
        Ok(plans)
    }

    fn not_live(&self, reason: String) -> WorkloadError {
        WorkloadError::NotLive { workload: self.file.workload.name.clone(), reason }
    }

    fn request(&self, protocol: Protocol, index: usize, ty: &WorkloadType) -> Result<RequestPlan, WorkloadError> {
        let name = &ty.name;
        match protocol {
            Protocol::Redis
            | Protocol::Memcached
            | Protocol::MemcachedMeta
            | Protocol::MemcachedUdp
            | Protocol::Protobuf
            | Protocol::Wire(_) => {
                let command = self.file.commands[index].as_ref().ok_or_else(|| {
                    self.not_live(format!("type `{name}` has no `command` that a {protocol} server could be sent"))
                })?;
                let template = CommandTemplate::for_protocol(command, protocol)
                    .map_err(|error| self.not_live(format!("the command of type `{name}`: {error}")))?;
                Ok(RequestPlan::Command(template))
            }
            Protocol::PspUdp => Ok(RequestPlan::Synthetic {
                request_type: u16::try_from(index).expect("types are at most 256"),
                service: service_plan(ty),
            }),
        }
    }
}

fn service_plan(ty: &WorkloadType) -> ServicePlan {
    ServicePlan {
        // `dilated` has checked the range.
        mean_ns: u32::try_from(ty.service_ns).unwrap_or(u32::MAX),
        distribution: ty.distribution,
        wait_ns: u32::try_from(ty.wait_ns).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use psp_sim::workload::Distribution;

    fn read(text: &str) -> LiveWorkload {
        let file = WorkloadFile::parse("test", text).unwrap();
        LiveWorkload { file }
    }

    const CACHE: &str = "
        rate_rps = 1000
        [[type]]
        name = 'GET'
        share = 0.9
        command = 'GET {key}'
        [[type]]
        name = 'SCAN'
        share = 0.1
        command = 'LRANGE big 0 -1'
        [[phase]]
        duration_ms = 500
        [[phase]]
        load = 2
        requests = 1000
        [[phase.type]]
        name = 'GET'
        share = 0.4
        [[phase.type]]
        name = 'SCAN'
        share = 0.6
        [[phase]]
        load = 0.5
    ";

    fn rates(plans: &[TypePlan]) -> Vec<Vec<(u128, u64)>> {
        let rounded = |rate_rps: f64| rate_rps.round() as u64;
        let of = |plan: &TypePlan| {
            let phases = plan.phases.iter();
            let phases = phases.map(|it| (it.starts.as_millis(), rounded(it.rate_rps)));
            [(0, rounded(plan.rate_rps))].into_iter().chain(phases).collect()
        };
        plans.iter().map(of).collect()
    }

    #[test]
    fn commands_have_rates_that_change_with_the_phases() {
        let live = read(CACHE);
        assert_eq!(live.rate_rps(), Some(1_000.0));
        let offered = OfferedLoad::Rate(1_000.0);
        let plans = live.type_plans(Protocol::Redis, offered, 1).unwrap();
        assert_eq!(plans[0].name, "GET");
        assert!(matches!(plans[1].request, RequestPlan::Command(_)));
        // A thousand requests at 2000 per second take half a second.
        let expected = [vec![(0, 900), (500, 800), (1_000, 450)], vec![(0, 100), (500, 1_200), (1_000, 50)]];
        assert_eq!(rates(&plans), expected);
    }

    #[test]
    fn load_follows_the_service_times_of_each_phase() {
        let live = read(
            "[[type]]\nname='A'\nshare=1\nservice_us=100\ndistribution='exponential'
            [[phase]]\nduration_ms=10\nload=0.5\n[[phase]]\n[[phase.type]]\nname='A'\nservice_us=50",
        );
        let offered = OfferedLoad::Workers { load: 0.8, workers: 2 };
        let plans = live.type_plans(Protocol::PspUdp, offered, 100).unwrap();
        assert_eq!(rates(&plans), [vec![(0, 80), (1_000, 320)]]);
        let service = |mean_ns| ServicePlan { mean_ns, distribution: Distribution::Exponential, wait_ns: 0 };
        assert_eq!(plans[0].service(), Some(service(10_000_000)));
        assert_eq!(plans[0].phases[0].service, Some(service(5_000_000)));
        // So much work is offered per second in the first phase: half of 0.8 of 2 workers.
        let busy = plans[0].rate_rps * 0.01;
        assert!((busy - 0.8).abs() < 1e-9, "{busy}");
    }

    #[test]
    fn types_may_have_rates_of_their_own() {
        let live = read(
            "[[type]]\nname='A'\nrate_rps=30\ncommand='PING'
            [[type]]\nname='B'\nrate_rps=10\ncommand='PING'",
        );
        assert_eq!(live.rate_rps(), Some(40.0));
        let offered = OfferedLoad::Rate(80.0);
        let plans = live.type_plans(Protocol::Redis, offered, 1).unwrap();
        assert_eq!(rates(&plans), [vec![(0, 60)], vec![(0, 20)]]);
    }

    #[test]
    fn what_a_target_needs_is_said() {
        let offered = OfferedLoad::Rate(1.0);
        let workers = OfferedLoad::Workers { load: 1.0, workers: 1 };
        let named = LiveWorkload::named_or_file("tpcc").unwrap();
        let bad = read("[[type]]\nname='A'\nshare=1\ncommand='GET {x}'");
        for (live, protocol, offered, reason) in [
            (&named, Protocol::Redis, offered, "`Payment` has no `command`"),
            (&bad, Protocol::PspUdp, offered, "`A` has no `service_us`"),
            (&bad, Protocol::Redis, workers, "`A` has no `service_us`"),
            (&bad, Protocol::Redis, offered, "unknown placeholder `{x}`"),
        ] {
            let error = live.type_plans(protocol, offered, 1).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
