//! Checks the request types of a server.

use std::collections::HashSet;
use std::time::Duration;

use psp_policy::{PreemptPolicy, RequestType, TypeSpec, TypeTable};

use crate::config::{Config, Topology};
use crate::error::{BuildError, TypesError};
use crate::limits::QUEUE_CAPACITY_MAX;

/// How far shares may add up to more than 1, because they are rounded.
const SHARES_SLACK: f64 = 1e-6;

/// Name of the type of TLS handshakes, which a server with TLS has behind the user's types.
#[cfg_attr(not(feature = "tls"), expect(unreachable_pub, reason = "public with TLS"))]
pub const HANDSHAKE: &str = "HANDSHAKE";

/// About what a step of a handshake takes: a key exchange, and a signature by an ECDSA or RSA key.
const HANDSHAKE_SERVICE_TIME: Duration = Duration::from_micros(500);
/// Expected share of handshakes in all requests, until they are counted.
const HANDSHAKE_SHARE: f64 = 0.001;

/// Registers the type of TLS handshakes. They never yield: a library runs them.
pub(crate) fn register_handshake(types: &mut TypeTable) -> Result<RequestType, TypesError> {
    if types.by_name(HANDSHAKE).is_some() {
        return Err(TypesError::Duplicate(HANDSHAKE.to_owned()));
    }
    let hinted: f64 = types.specs().iter().filter_map(|spec| spec.share).sum();
    Ok(types.register(
        TypeSpec::new(HANDSHAKE)
            .service_time(HANDSHAKE_SERVICE_TIME)
            .share(HANDSHAKE_SHARE.min(1.0 - hinted).max(0.0))
            .preempt(PreemptPolicy::None),
    ))
}

/// `types` with the hints of a file. Without types, those of the file are the types.
pub(crate) fn with_hints(mut types: TypeTable, hints: &[TypeSpec]) -> Result<TypeTable, TypesError> {
    if types.is_empty() {
        return Ok(hints.iter().cloned().collect());
    }
    let unknown = hints.iter().find(|hint| !types.adjust(hint));
    match unknown {
        None => Ok(types),
        Some(hint) => Err(TypesError::Unknown {
            name: hint.name.clone(),
            known: types.specs().iter().map(|spec| spec.name.clone()).collect(),
        }),
    }
}

/// Refuses types that no server can have.
pub(crate) fn validate(types: &TypeTable) -> Result<(), TypesError> {
    if types.is_empty() {
        return Err(TypesError::None);
    }
    let mut names = HashSet::new();
    for (index, spec) in types.specs().iter().enumerate() {
        if spec.name.is_empty() {
            return Err(TypesError::Unnamed { index });
        }
        if !names.insert(&spec.name) {
            return Err(TypesError::Duplicate(spec.name.clone()));
        }
        validate_spec(spec)?;
    }
    let shares: f64 = types.specs().iter().filter_map(|spec| spec.share).sum();
    if shares > 1.0 + SHARES_SLACK {
        return Err(TypesError::Shares(shares));
    }
    Ok(())
}

fn validate_spec(spec: &TypeSpec) -> Result<(), TypesError> {
    let refuse = |setting, value: &dyn ToString, expected: &str| {
        Err(TypesError::Setting {
            name: spec.name.clone(),
            setting,
            value: value.to_string(),
            expected: expected.to_owned(),
        })
    };
    if let Some(share) = spec.share
        && !(0.0..=1.0).contains(&share)
    {
        return refuse("share", &share, "between 0 and 1");
    }
    if spec.weight == Some(0) {
        return refuse("weight", &0, "at least 1");
    }
    if let Some(capacity) = spec.queue_capacity
        && !(1..=QUEUE_CAPACITY_MAX).contains(&capacity)
    {
        let expected = format!("between 1 and {QUEUE_CAPACITY_MAX}");
        return refuse("queue_capacity", &capacity, &expected);
    }
    Ok(())
}

/// The names of the types without a `service_time` hint, if there are any.
pub(crate) fn unhinted(types: &TypeTable) -> Option<String> {
    let specs = types.specs().iter();
    let unhinted = specs.filter(|spec| spec.service_time.is_none() && !spec.is_control());
    let names: Vec<&str> = unhinted.map(|spec| spec.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// How requests of each type yield, by the type's slot. `UNKNOWN` comes last.
pub(crate) fn preempt_by_slot(types: &TypeTable, server: PreemptPolicy) -> Result<Vec<PreemptPolicy>, BuildError> {
    let of = |spec: &TypeSpec| match spec.preempt {
        None => Ok(server),
        Some(PreemptPolicy::None) => Ok(PreemptPolicy::None),
        Some(PreemptPolicy::Cooperative) if server != PreemptPolicy::None => Ok(PreemptPolicy::Cooperative),
        Some(chosen) if chosen == server => Ok(server),
        Some(chosen) => Err(BuildError::Preempt {
            preempt: server,
            reason: format!("type {} asks for {chosen}", spec.name),
        }),
    };
    let slots = types.specs().iter().map(of);
    slots.chain([Ok(server)]).collect()
}

/// The threads that run requests as workers: so many workers, and the net thread that is none of them but runs control
/// requests.
pub(crate) fn executors(types: &TypeTable, topology: Topology, workers: usize) -> usize {
    workers + usize::from(topology == Topology::Dedicated && types.has_control())
}

/// Control requests of a net thread that may have begun at the same time. They have contexts beside those of the
/// policy's requests: a policy that may begin a request there relies on a context to which that one can yield.
pub(crate) fn control_begun_max(config: &Config) -> usize {
    config.contexts()
}

/// Requests that all typed queues together hold, that of `UNKNOWN` included.
pub(crate) fn queued_max(types: &TypeTable, config: &Config) -> usize {
    let capacity = |spec: &TypeSpec| spec.queue_capacity.unwrap_or(config.queue_capacity);
    let queued: usize = types.specs().iter().map(capacity).sum();
    queued + config.queue_capacity
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn hints_of_a_file_adjust_types_by_name_or_are_the_types() {
        let own = || {
            let get = TypeSpec::new("GET").service_time(Duration::from_micros(1));
            TypeTable::from_iter([get.share(0.5), TypeSpec::new("SCAN")])
        };
        let hint = TypeSpec::new("GET").service_time(Duration::from_micros(3));
        let types = with_hints(own(), std::slice::from_ref(&hint)).unwrap();
        assert_eq!(types.specs()[0], hint.clone().share(0.5));
        assert_eq!(types.specs()[1], TypeSpec::new("SCAN"));
        let only = with_hints(TypeTable::new(), std::slice::from_ref(&hint)).unwrap();
        assert_eq!(only.specs(), [hint]);
        let unknown = with_hints(own(), &[TypeSpec::new("get")]).unwrap_err();
        let expected = "there is no request type get; the types are GET, SCAN";
        assert_eq!(unknown.to_string(), expected);
    }

    #[test]
    fn types_without_a_service_time_are_named_in_order() {
        let hinted = |name| TypeSpec::new(name).service_time(Duration::from_micros(1));
        let of = |types: Vec<TypeSpec>| unhinted(&types.into_iter().collect());
        assert_eq!(of(vec![hinted("GET")]), None);
        let ping = TypeSpec::new("PING").control();
        let types = vec![TypeSpec::new("SCAN"), hinted("GET"), ping, TypeSpec::new("KEYS")];
        assert_eq!(of(types).as_deref(), Some("SCAN, KEYS"));
    }
}
