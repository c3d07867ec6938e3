//! Simulated servers as targets: `sim:darc?workers=14&preempt-ns=700`.

use std::fmt;
use std::str::FromStr;

use psp_sim::experiment::{Assignment, SettingError, SimSettings};
use psp_sim::simulator::{SimPolicy, UnknownPolicy};

/// The scheme of simulated targets.
const SCHEME: &str = "sim:";

/// The key of the number of workers.
const WORKERS: &str = "workers";

/// A server to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct SimTarget {
    /// The policy with its settings.
    pub policy: SimPolicy,
    /// Number of workers.
    pub workers: usize,
    /// Costs and other properties of the server.
    pub settings: SimSettings,
    url: String,
}

/// Why a simulated target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SimTargetError {
    /// It does not begin with `sim:`.
    #[error("`{0}` is no simulated target; those are sim:POLICY?workers=N, with settings after &")]
    Scheme(String),
    /// The number of workers is missing or is not a number.
    #[error("`{0}`: the number of workers is missing, as in sim:darc?workers=14")]
    Workers(String),
    /// The policy is not known.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// A setting cannot be set.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

impl SimTarget {
    /// Whether `url` names a simulated target.
    #[must_use]
    pub fn is_meant(url: &str) -> bool {
        url.starts_with(SCHEME)
    }
}

impl FromStr for SimTarget {
    type Err = SimTargetError;

    fn from_str(url: &str) -> Result<Self, SimTargetError> {
        let scheme_error = || SimTargetError::Scheme(url.to_owned());
        let rest = url.strip_prefix(SCHEME).ok_or_else(scheme_error)?;
        let (policy, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut policies = [policy.parse::<SimPolicy>()?];
        let mut workers = None;
        let mut assignments: Vec<Assignment> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some((WORKERS, count)) => workers = count.parse().ok(),
                _ => assignments.push(pair.parse()?),
            }
        }
        let mut settings = SimSettings::default();
        settings.assign(&mut policies, &assignments)?;
        let [policy] = policies;
        Ok(Self {
            policy,
            workers: workers.ok_or_else(|| SimTargetError::Workers(url.to_owned()))?,
            settings,
            url: url.to_owned(),
        })
    }
}

impl fmt::Display for SimTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_workers_and_settings_are_understood() {
        let url = "sim:darc?workers=14&preempt-ns=700&darc.delta=3&hints=false";
        let target: SimTarget = url.parse().unwrap();
        assert_eq!((target.workers, target.to_string().as_str()), (14, url));
        assert_eq!(target.settings.costs.preempt_ns, 700);
        assert!(!target.settings.hints);
        let default: SimPolicy = "darc".parse().unwrap();
        assert_eq!(target.policy.name(), "darc");
        assert_ne!(target.policy, default);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (url, reason) in [
            ("redis://127.0.0.1", "no simulated target"),
            ("sim:darc", "number of workers is missing"),
            ("sim:darc?workers=many", "number of workers is missing"),
            ("sim:fifo?workers=1", "no policy is called `fifo`"),
            ("sim:?workers=1", "no policy is called ``"),
            ("sim:darc?workers=1&speed=3", "no setting is called `speed`"),
            ("sim:darc?workers=1&hints", "`hints` sets nothing"),
        ] {
            let error = url.parse::<SimTarget>().unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }
}
