//! The settings that policies enter with.
//!
//! Each policy whose best setting depends on the workload has a range of it, and takes part with each. The best of them
//! in a cell counts, though no operator could know in advance which it is.

use psp_policy::Policy;
use psp_policy::internal::{QUANTA, least_quantum_us};

use crate::workload::Workload;

/// What is searched, in words.
pub const SEARCHED: &str = "quantum-us of sq, mq, jbsq and jsq: q, 4 q and 16 q, where q is the largest of 2 us, 2 \
    preemptions, and a hundredth of the mean service time; quantum-factor of synergy: 2, 8 and 32; darc-static: 1 \
    worker, a quarter and half of the workers; delta of darc and cscq: 2 and 4";

/// The settings with which a policy enters, for a workload on `workers` workers whose preemption takes `cost_ns`. The
/// policy as it is given, unless its settings are the default ones and it has a range.
#[must_use]
pub fn settings_of(policy: &Policy, mix: &Workload, workers: usize, cost_ns: u64) -> Vec<Policy> {
    let is_default = policy.name().parse::<Policy>().is_ok_and(|by_default| by_default == *policy);
    let range = match policy.name() {
        _ if !is_default => Vec::new(),
        "sq" | "mq" | "jbsq" | "jsq" => quanta(mix, cost_ns).map(|us| format!("quantum-us={us}")).collect(),
        "synergy" => [2, 8, 32].map(|factor| format!("quantum-factor={factor}")).to_vec(),
        "darc-static" => {
            let mut reserved = vec![1, workers / 4, workers / 2];
            reserved.retain(|&reserved| reserved > 0 && reserved < workers);
            reserved.dedup();
            reserved.iter().map(|reserved| format!("reserved={reserved}")).collect()
        }
        "darc" | "cscq" => [2, 4].map(|delta| format!("delta={delta}.0")).to_vec(),
        _ => Vec::new(),
    };
    let named = |setting: &String| format!("{policy} {setting}").parse().ok();
    let entrants: Vec<Policy> = range.iter().filter_map(named).collect();
    if entrants.is_empty() {
        return vec![policy.clone()];
    }
    entrants
}

/// A policy with the settings that are not the default ones.
#[must_use]
pub fn label(policy: &Policy) -> String {
    let defaults = policy.name().parse().map_or_else(|_| String::new(), |policy: Policy| policy.spelled());
    let is_set = |word: &&str| !defaults.split(' ').any(|default| default == *word);
    let spelled = policy.spelled();
    let words = spelled.split(' ').skip(1).filter(is_set);
    std::iter::once(policy.name()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Quanta in microseconds, to two digits.
fn quanta(mix: &Workload, cost_ns: u64) -> impl Iterator<Item = f64> {
    let least = least_quantum_us(mix.service_ns_mean(), cost_ns);
    let digits = |us: f64| {
        let unit = 10_f64.powf(us.log10().floor() - 1.0);
        // Quanta are from 2 us on: their second digit is at least a tenth.
        ((us / unit).round() * unit * 10.0).round() / 10.0
    };
    QUANTA.into_iter().map(move |factor| digits(least * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entrants(name: &str, workers: usize, cost_ns: u64) -> Vec<String> {
        let mix = Workload::named("high-bimodal").unwrap();
        let policy: Policy = name.parse().unwrap();
        let entrants = settings_of(&policy, &mix, workers, cost_ns);
        for entrant in &entrants {
            entrant.validate(workers).unwrap();
        }
        entrants.iter().map(label).collect()
    }

    #[test]
    fn quanta_are_worth_their_cost() {
        let expected = ["sq quantum-us=2.0", "sq quantum-us=8.0", "sq quantum-us=32.0"];
        assert_eq!(entrants("sq", 4, 200), expected);
        let expected = ["mq quantum-us=10.0", "mq quantum-us=40.0", "mq quantum-us=160.0"];
        assert_eq!(entrants("mq", 4, 5_000), expected);
    }

    #[test]
    fn reservations_leave_a_worker() {
        assert_eq!(entrants("darc-static", 2, 0), ["darc-static"], "1 is the default");
        assert_eq!(entrants("darc-static", 8, 0).len(), 3);
    }

    #[test]
    fn what_is_set_is_not_searched() {
        assert_eq!(entrants("sq quantum-us=7.0", 4, 0), ["sq quantum-us=7.0"]);
        assert_eq!(entrants("darc-lending", 4, 0), ["darc-lending"]);
    }
}
