//! Ranges of settings, and what policies say about themselves.

use psp_policy::Policy;
use psp_policy::elastic::{ElasticSettings, Workers};

#[test]
fn settings_of_elastic_workers_have_ranges() {
    let with = |load_factor, hysteresis, interval_ms, tail_factor| {
        let settings = ElasticSettings::default().load_factor(load_factor).hysteresis(hysteresis);
        settings.interval_ms(interval_ms).tail_factor(tail_factor)
    };
    for (settings, wrong) in [
        (ElasticSettings::default(), None),
        (with(0.1, 0.0, 1, 0.0), None),
        (with(9.0, 0.99, 1000, 1.0), None),
        (with(0.0, 0.0, 1, 1.0), Some(("elastic_load_factor", 0.0, "more than 0"))),
        (with(-1.0, 0.0, 1, 1.0), Some(("elastic_load_factor", -1.0, "more than 0"))),
        (
            with(f64::INFINITY, 0.0, 1, 1.0),
            Some(("elastic_load_factor", f64::INFINITY, "more than 0")),
        ),
        (with(1.0, 1.0, 1, 1.0), Some(("elastic_hysteresis", 1.0, "from 0 to below 1"))),
        (with(1.0, -0.1, 1, 1.0), Some(("elastic_hysteresis", -0.1, "from 0 to below 1"))),
        (with(1.0, 0.5, 0, 1.0), Some(("elastic_interval_ms", 0.0, "at least 1"))),
        (with(1.0, 0.5, 1, 0.5), Some(("elastic_tail_factor", 0.5, "0, or at least 1"))),
        (
            with(1.0, 0.5, 1, f64::INFINITY),
            Some(("elastic_tail_factor", f64::INFINITY, "0, or at least 1")),
        ),
    ] {
        let found = settings.validate().err();
        let found = found.map(|error| (error.setting(), error.value(), error.range()));
        assert_eq!(found, wrong, "{settings:?}");
    }
    assert_eq!(
        [(2, 8), (4, 4), (8, 2)].map(|(min, max)| Workers { min, max }.is_elastic()),
        [true, false, false]
    );
}

#[test]
fn a_policy_says_what_it_goes_by() {
    let policy = |name: &str| name.parse::<Policy>().expect("a policy's name");
    let needy = Policy::NAMES.iter().filter(|name| policy(name).needs_preemption());
    let others = Policy::names_to_completion();
    assert!(needy.clone().all(|name| policy(name).can_preempt() && !others.contains(name)));
    assert_eq!(needy.count() + others.len(), Policy::NAMES.len());
    assert!(others.contains(&"c-fcfs") && others.len() < Policy::NAMES.len() && !policy("c-fcfs").can_preempt());
    assert_eq!(["sjf", "c-fcfs"].map(|name| policy(name).goes_by_length()), [true, false]);
    assert_eq!(["jsq", "c-fcfs"].map(|name| policy(name).is_local()), [true, false]);
    assert_eq!(["synergy", "c-fcfs"].map(|name| policy(name).has_dispatcher()), [false, true]);
    assert!(Policy::help().map(|(name, _)| name).eq(Policy::NAMES));
    assert!(Policy::help().all(|(_, line)| !line.is_empty() && line == line.trim()));
}
