//! Which policies a server can run, at its start and later, and which topology `Auto` is.
//!
//! | policy | `preempt = none` | topology `inline` | `dedicated` | `distributed` |
//! | --- | --- | --- | --- | --- |
//! | `d-fcfs`, `stealing` | yes | yes | yes | yes |
//! | others that run requests to completion | yes | yes | yes | no |
//! | `darc-lending` | as `darc` | as `darc` | yes | no |
//! | `darc-distributed` | lends nothing | lends nothing | yes | yes |
//! | `jsq`, `synergy` | no | no | yes | yes |
//! | others that need preemption | no | no | yes | no |
//!
//! The net thread cannot preempt a request that it runs itself as worker 0. Workers that receive for themselves have a
//! timer core for that. Without a mechanism, and on systems other than Linux, `jsq` and `synergy` run requests to
//! completion there, and `darc-distributed` lends nothing. By `kernel-thread` a preempted request there has a thread of
//! its own, and goes on at any worker.

use psp_policy::{Contexts, Policy, PolicyError, PreemptPolicy, Preemption, SchedulerSetup};

use crate::config::{Config, Topology};

/// Cores up to which [`Topology::Auto`] is [`Topology::Inline`].
const INLINE_CORES_MAX: usize = 4;

/// Refuses a policy that a server cannot run.
pub(crate) fn admit(policy: &Policy, config: &Config, topology: Topology, workers: usize) -> Result<(), PolicyError> {
    policy.validate(workers)?;
    if topology == Topology::Distributed {
        // Without a mechanism, what preempts elsewhere runs its requests to completion there.
        return match policy.is_local() {
            true => Ok(()),
            false => Err(PolicyError::NotDistributed(policy.name().to_owned())),
        };
    }
    if !policy.needs_preemption() {
        Ok(())
    } else if config.preempt == PreemptPolicy::None {
        Err(PolicyError::NeedsPreemption {
            policy: policy.name().to_owned(),
            to_completion: Policy::names_to_completion(),
        })
    } else if topology == Topology::Inline {
        Err(PolicyError::NeedsDedicated(policy.name().to_owned()))
    } else {
        Ok(())
    }
}

/// Refuses to switch from or to a policy that cannot hand its requests over.
pub(crate) fn admit_switch(policies: &[&Policy], setup: &SchedulerSetup<'_>) -> Result<(), PolicyError> {
    match policies.iter().find(|policy| !policy.can_switch(setup)) {
        None => Ok(()),
        Some(policy) => Err(PolicyError::NoHandover(policy.name().to_owned())),
    }
}

/// The topology for the policy that a server starts with, on so many cores.
pub(crate) fn topology(config: &Config, policy: &Policy, cores: usize) -> Topology {
    let preempts = policy.can_preempt() && config.preempt != PreemptPolicy::None;
    match config.topology {
        Topology::Auto if cores <= INLINE_CORES_MAX && !preempts => Topology::Inline,
        Topology::Auto => Topology::Dedicated,
        chosen => chosen,
    }
}

/// How many workers there are on so many cores, unless a setting says so. Where threads that receive are workers, one
/// more for long requests than there are cores costs nothing while they are idle.
pub(crate) fn workers_by_cores(topology: Topology, cores: usize) -> usize {
    match topology {
        Topology::Inline | Topology::Distributed => cores.max(2),
        _ => cores.saturating_sub(1).max(2),
    }
}

/// How many threads receive requests, where there are so many workers.
pub(crate) fn receivers(topology: Topology, workers: usize) -> usize {
    match topology {
        Topology::Distributed => workers,
        _ => 1,
    }
}

/// The preemption that policies may use. Without it they run requests to completion. `polls` says that the net thread
/// polls while it is idle, rather than sleeping.
pub(crate) fn preemption(config: &Config, topology: Topology, polls: bool) -> Option<Preemption> {
    let cost_ns = cost_ns(config.preempt)?;
    let preemption = Preemption::new(cost_ns).quantum_ns_min(quantum_ns_min(config.preempt, polls));
    let has_preemption = match topology {
        Topology::Dedicated => true,
        // The timer core is made of what Linux has.
        Topology::Distributed => cfg!(target_os = "linux"),
        _ => false,
    };
    has_preemption.then_some(preemption)
}

/// The shortest quantum that a server chooses itself. `docs/preemption.md` has the measurements. A net thread that
/// sleeps is woken for the end of a quantum, and for what the worker reports: some 50 us each on a virtual machine. Of
/// such quanta 200 us is the shortest that leaves requests of 20 us alone there.
const fn quantum_ns_min(preempt: PreemptPolicy, polls: bool) -> u64 {
    match preempt {
        PreemptPolicy::Cooperative if polls => 2_000,
        PreemptPolicy::Signal if polls => 20_000,
        PreemptPolicy::KernelThread if polls => 100_000,
        _ => 200_000,
    }
}

/// The requests that a worker can hold: one context takes over from a request that yields or waits. Where workers
/// receive for themselves, a request that the kernel preempts takes its thread along.
pub(crate) fn contexts(config: &Config, topology: Topology) -> Contexts {
    let held = config.contexts() - 1;
    if moves(config, topology) {
        Contexts::at_home_unless_preempted(held)
    } else {
        Contexts::at_home(held)
    }
}

/// Whether preempted requests go on at any worker.
pub(crate) fn moves(config: &Config, topology: Topology) -> bool {
    cfg!(target_os = "linux") && topology == Topology::Distributed && config.preempt == PreemptPolicy::KernelThread
}

/// Time from the decision to the freed worker that policies assume. `docs/preemption.md` has the measurements.
/// `cooperative` and `signal` are those of an idle machine with a margin, `kernel-thread` is as measured.
const fn cost_ns(preempt: PreemptPolicy) -> Option<u64> {
    match preempt {
        PreemptPolicy::Cooperative => Some(1_000),
        PreemptPolicy::Signal => Some(5_000),
        PreemptPolicy::KernelThread => Some(20_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use psp_policy::Quantum;

    fn config(preempt: PreemptPolicy, topology: Topology) -> Config {
        Config { preempt, topology, ..Config::default() }
    }

    #[test]
    fn policies_that_preempt_need_a_mechanism_and_a_net_thread_that_runs_nothing() {
        for name in Policy::NAMES {
            let policy: Policy = name.parse().unwrap();
            let refusal = |preempt, topology| {
                let config = config(preempt, topology);
                let admitted = admit(&policy, &config, topology, 2);
                admitted.err().map(|error| error.to_string())
            };
            let none = refusal(PreemptPolicy::None, Topology::Dedicated);
            let inline = refusal(PreemptPolicy::Cooperative, Topology::Inline);
            for (refused, reason) in [(none, "preempt = none"), (inline, "topology dedicated")] {
                assert_eq!(refused.is_some(), policy.needs_preemption(), "{name}");
                if let Some(message) = refused {
                    assert!(message.starts_with(&format!("policy {name} preempts requests")));
                    assert!(message.contains(reason), "{message}");
                }
            }
            let refused = refusal(PreemptPolicy::Cooperative, Topology::Dedicated);
            assert_eq!(refused, None, "{name}");
            let refused = refusal(PreemptPolicy::Cooperative, Topology::Distributed);
            assert_eq!(refused.is_none(), policy.is_local(), "{refused:?}");
        }
        let error = admit(&Policy::darc(), &Config::default(), Topology::Inline, 0);
        assert_eq!(error, Err(PolicyError::NoWorkers));
    }

    #[test]
    fn auto_has_a_net_thread_of_its_own_where_the_policy_preempts() {
        let chosen = |policy: Policy, preempt, cores| topology(&config(preempt, Topology::Auto), &policy, cores);
        let cooperative = PreemptPolicy::Cooperative;
        assert_eq!(chosen(Policy::darc(), cooperative, 4), Topology::Inline);
        assert_eq!(chosen(Policy::darc(), cooperative, 5), Topology::Dedicated);
        for policy in [Policy::mq(), Policy::darc_lending()] {
            assert_eq!(chosen(policy, cooperative, 2), Topology::Dedicated);
        }
        let lending = chosen(Policy::darc_lending(), PreemptPolicy::None, 2);
        assert_eq!(lending, Topology::Inline);
        let asked = config(cooperative, Topology::Inline);
        assert_eq!(topology(&asked, &Policy::mq(), 64), Topology::Inline);
    }

    #[test]
    fn policies_hear_of_preemption_where_there_is_some() {
        let told = |preempt, topology| preemption(&config(preempt, topology), topology, false);
        assert_eq!(told(PreemptPolicy::None, Topology::Dedicated), None);
        assert_eq!(told(PreemptPolicy::Signal, Topology::Inline), None);
        for (preempt, preempts) in [
            (PreemptPolicy::None, false),
            (PreemptPolicy::Cooperative, cfg!(target_os = "linux")),
            (PreemptPolicy::Signal, cfg!(target_os = "linux")),
            (PreemptPolicy::KernelThread, cfg!(target_os = "linux")),
        ] {
            let preemption = told(preempt, Topology::Distributed);
            assert_eq!(preemption.is_some(), preempts, "{preempt}");
        }
        let held = |preempt, topology| {
            let held = contexts(&config(preempt, topology), topology);
            assert!(!held.migrates);
            (held.preempted_migrate, held.per_worker)
        };
        let cooperative = PreemptPolicy::Cooperative;
        assert_eq!(held(cooperative, Topology::Inline), (false, 4095));
        assert_eq!(held(cooperative, Topology::Distributed), (false, 4095));
        let threads = PreemptPolicy::KernelThread;
        assert_eq!(held(threads, Topology::Dedicated), (false, 63));
        assert_eq!(held(threads, Topology::Distributed), (cfg!(target_os = "linux"), 63));
        let costs = [PreemptPolicy::Cooperative, PreemptPolicy::Signal, PreemptPolicy::KernelThread]
            .map(|preempt| told(preempt, Topology::Dedicated).unwrap().cost_ns);
        assert!(costs.is_sorted(), "a switch, a signal, a wake: {costs:?}");
    }

    #[test]
    fn the_quanta_that_a_server_chooses_are_longer_where_the_net_thread_sleeps() {
        let quantum_ns = |preempt, polls| {
            let config = config(preempt, Topology::Dedicated);
            let preemption = preemption(&config, Topology::Dedicated, polls);
            [5.0, 1_000.0].map(|own_us| Quantum::Auto.ns(own_us, preemption))
        };
        let longest_ns = 1_000_000;
        for (preempt, polling_ns, sleeping_ns) in [
            (PreemptPolicy::Cooperative, 5_000, 200_000),
            (PreemptPolicy::Signal, 20_000, 200_000),
            (PreemptPolicy::KernelThread, 100_000, 200_000),
        ] {
            assert_eq!(quantum_ns(preempt, true), [polling_ns, longest_ns]);
            assert_eq!(quantum_ns(preempt, false), [sleeping_ns, longest_ns]);
        }
    }
}
