//! The first mechanism that works.

use super::affinity::Affinity;
use super::contract::{Mechanism, Scope, Started};
use super::cpuset_v1::CpusetV1;
use super::cpuset_v2::CpusetV2;
use super::error::MechanismError;
use super::kind::{Choice, Kind};
use super::mounts::{CpusetMount, cpuset_mount};
use super::recorded::Recorded;

/// Opens the chosen mechanism and starts it.
///
/// # Errors
/// The chosen mechanism does not work, or there are fewer than two cores.
pub fn choose(choice: Choice, scope: &Scope) -> Result<Started, MechanismError> {
    let start = |kind| {
        let mechanism = open(kind, scope)?;
        let cores = mechanism.cores();
        if cores.len() < 2 {
            return Err(MechanismError::TooFewCores(format!("core {cores}")));
        }
        let started = Started::new(mechanism)?;
        if kind == Kind::Affinity {
            tracing::warn!("threads are pinned to granted cores, but other programs are not kept off them");
        }
        Ok(started)
    };
    if let Choice::Only(kind) = choice {
        return start(kind);
    }
    for kind in [Kind::CpusetV1, Kind::CpusetV2] {
        match start(kind) {
            Err(error @ MechanismError::TooFewCores(_)) => return Err(error),
            Err(error) => tracing::info!("{kind} does not work here: {error}"),
            started => return started,
        }
    }
    start(Kind::Affinity)
}

fn open(kind: Kind, scope: &Scope) -> Result<Box<dyn Mechanism>, MechanismError> {
    let mount = |wanted: fn(&CpusetMount) -> bool, name| {
        let mut mounts = cpuset_mount().into_iter();
        mounts.find(wanted).ok_or(MechanismError::NotMounted(name))
    };
    Ok(match kind {
        Kind::CpusetV1 => {
            let mount = mount(|mount| !mount.is_v2, "cpuset of cgroup v1")?;
            Box::new(CpusetV1::open(&mount.path, scope)?)
        }
        Kind::CpusetV2 => {
            let mount = mount(|mount| mount.is_v2, "cgroup v2")?;
            Box::new(CpusetV2::open(&mount.path, scope)?)
        }
        Kind::Affinity => Box::new(Affinity::open(scope)?),
        Kind::Recorded => Box::new(Recorded::new(scope.cores.unwrap_or_default(), [])),
    })
}
