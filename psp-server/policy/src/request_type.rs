//! Request types: what a classifier returns, and what policies schedule by.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::preempt::PreemptPolicy;

/// Number of a request type: an index into the [`TypeTable`], or [`RequestType::UNKNOWN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestType(u32);

impl RequestType {
    /// The type of requests that a classifier cannot name (Perséphone 4.2). They have the lowest
    /// priority and run on spillway workers.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// The type registered at `index`. An index beyond the table counts as [`Self::UNKNOWN`].
    #[inline]
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// Its index in the [`TypeTable`]; `None` for [`Self::UNKNOWN`].
    #[inline]
    #[must_use]
    pub const fn index(self) -> Option<usize> {
        if self.0 == u32::MAX {
            None
        } else {
            Some(self.0 as usize)
        }
    }
}

/// A request type as a user registers it: a name, and what is known beforehand.
///
/// In a configuration file the times are in microseconds, `service-time-us`, `slo-us`, `max-wait-us` and `slow-us`, and
/// the other names have dashes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct TypeSpec {
    /// Name in statistics and in `-BUSY` replies.
    pub name: String,
    /// Expected service time. Seeds the profile until the first window closes.
    #[serde(rename = "service-time-us", with = "micros", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_time: Option<Duration>,
    /// Target for the time from arrival to completion, for policies that weigh by SLO.
    #[serde(rename = "slo-us", with = "micros", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo: Option<Duration>,
    /// Longest time that a request of the type may wait. A request that has waited longer when its
    /// turn comes is not run.
    #[serde(rename = "max-wait-us", with = "micros", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Duration>,
    /// Live servers log requests of the type that take this long or longer from arrival to completion; zero is never,
    /// and absent as the server says.
    #[serde(rename = "slow-us", with = "micros", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<Duration>,
    /// Expected share of all requests, 0 to 1. Types without it share what is left equally.
    pub share: Option<f64>,
    /// Requests that it may start in its turn under [`Policy::wrr`](crate::Policy::wrr), at least 1; 1 when absent.
    pub weight: Option<u32>,
    /// Requests that may wait in the typed queue; the server's default when absent.
    pub queue_capacity: Option<usize>,
    /// How its requests yield; as the server says if absent.
    pub preempt: Option<PreemptPolicy>,
    /// Live servers run its requests where they arrive, past the policy; `false` when absent.
    pub control: Option<bool>,
    /// Policies that serve types of similar length as one group serve it alone; `false` when absent.
    pub never_grouped: Option<bool>,
}

impl TypeSpec {
    /// A type with no hints.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            service_time: None,
            slo: None,
            max_wait: None,
            slow: None,
            share: None,
            weight: None,
            queue_capacity: None,
            preempt: None,
            control: None,
            never_grouped: None,
        }
    }

    /// Sets the expected service time.
    #[must_use]
    pub fn service_time(mut self, service_time: Duration) -> Self {
        self.service_time = Some(service_time);
        self
    }

    /// Sets the SLO.
    #[must_use]
    pub fn slo(mut self, slo: Duration) -> Self {
        self.slo = Some(slo);
        self
    }

    /// Sets how long a request may wait. If its turn comes later, its handler does not run, and the
    /// peer is told that the request has expired.
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = Some(max_wait);
        self
    }

    /// Sets from when on a request is slow, from its arrival to its completion: live servers log such requests. Zero is
    /// never.
    #[must_use]
    pub fn slow(mut self, slow: Duration) -> Self {
        self.slow = Some(slow);
        self
    }

    /// Sets the expected share of all requests.
    #[must_use]
    pub fn share(mut self, share: f64) -> Self {
        self.share = Some(share);
        self
    }

    /// Sets how many requests it may start in its turn under [`Policy::wrr`](crate::Policy::wrr).
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = Some(weight);
        self
    }

    /// Sets how many requests may wait in the typed queue.
    #[must_use]
    pub fn queue_capacity(mut self, queue_capacity: usize) -> Self {
        self.queue_capacity = Some(queue_capacity);
        self
    }

    /// Says how its requests yield: [`PreemptPolicy::None`] for never,
    /// [`PreemptPolicy::Cooperative`] for at checkpoints only, or the server's own mechanism.
    #[must_use]
    pub fn preempt(mut self, preempt: PreemptPolicy) -> Self {
        self.preempt = Some(preempt);
        self
    }

    /// Says that its requests are administration, which must work whatever else runs: live servers run each of them on
    /// the thread that received it, as soon as it is read. No policy sees them, so none groups them, queues them, or
    /// gives them a worker. Everything else that this thread does waits meanwhile: such requests are few and short.
    #[must_use]
    pub fn control(mut self) -> Self {
        self.control = Some(true);
        self
    }

    /// Says that no policy serves the type in one group with others of similar length. For types that are short on
    /// average and must not wait behind their like: DARC gives the type reservations of its own.
    #[must_use]
    pub fn never_grouped(mut self) -> Self {
        self.never_grouped = Some(true);
        self
    }

    /// Whether its requests are [control](Self::control) requests.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.control == Some(true)
    }

    /// Whether it is [never grouped](Self::never_grouped).
    #[must_use]
    pub fn is_never_grouped(&self) -> bool {
        self.never_grouped == Some(true)
    }
}

/// A duration that configuration files give in microseconds.
mod micros {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        let micros = duration.map(|duration| duration.as_nanos() as f64 / 1000.0);
        micros.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let micros = f64::deserialize(deserializer)?;
        // As nanoseconds, the unit of schedulers, it is exact.
        let duration = Duration::try_from_secs_f64(micros / 1e6)
            .map_err(|_| D::Error::custom(format!("{micros} is no time in microseconds")))?;
        Ok(Some(duration))
    }
}

/// All registered types, in the order of their indices. `UNKNOWN` is not part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TypeTable {
    specs: Vec<TypeSpec>,
}

impl TypeTable {
    /// Replaces the hints of the type of that name by those that `spec` has, and keeps the others. Returns whether
    /// there is such a type.
    pub fn adjust(&mut self, spec: &TypeSpec) -> bool {
        let Some(own) = self.specs.iter_mut().find(|own| own.name == spec.name) else {
            return false;
        };
        own.service_time = spec.service_time.or(own.service_time);
        own.slo = spec.slo.or(own.slo);
        own.max_wait = spec.max_wait.or(own.max_wait);
        own.slow = spec.slow.or(own.slow);
        own.share = spec.share.or(own.share);
        own.weight = spec.weight.or(own.weight);
        own.queue_capacity = spec.queue_capacity.or(own.queue_capacity);
        own.preempt = spec.preempt.or(own.preempt);
        own.control = spec.control.or(own.control);
        own.never_grouped = spec.never_grouped.or(own.never_grouped);
        true
    }

    /// An empty table: every request is `UNKNOWN`.
    #[must_use]
    pub const fn new() -> Self {
        Self { specs: Vec::new() }
    }

    /// Registers one more type and returns its number.
    pub fn register(&mut self, spec: TypeSpec) -> RequestType {
        let index = u32::try_from(self.specs.len()).expect("fewer than 2^32 types");
        self.specs.push(spec);
        RequestType::new(index)
    }

    /// The type registered as `name`.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<RequestType> {
        let index = self.specs.iter().position(|spec| spec.name == name)?;
        Some(RequestType::new(u32::try_from(index).ok()?))
    }

    /// The registered types in order.
    #[must_use]
    pub fn specs(&self) -> &[TypeSpec] {
        &self.specs
    }

    /// Number of registered types.
    #[must_use]
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether no type is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Index of `ty` in per-type arrays of `len() + 1` places, of which the last is `UNKNOWN`'s.
    #[inline]
    #[must_use]
    pub fn slot(&self, ty: RequestType) -> usize {
        ty.index().map_or(self.len(), |index| index.min(self.len()))
    }

    /// Whether requests of the type at `slot` yield at all; `UNKNOWN` ones do.
    #[must_use]
    pub fn yields(&self, slot: usize) -> bool {
        let spec = self.specs.get(slot);
        spec.is_none_or(|spec| spec.preempt != Some(PreemptPolicy::None))
    }

    /// Whether requests of the type at `slot` are [control](TypeSpec::control) requests; `UNKNOWN` ones are not.
    #[must_use]
    pub fn is_control(&self, slot: usize) -> bool {
        self.specs.get(slot).is_some_and(TypeSpec::is_control)
    }

    /// Whether any type has control requests.
    #[must_use]
    pub fn has_control(&self) -> bool {
        self.specs.iter().any(TypeSpec::is_control)
    }

    /// Name of the type at `slot`; `UNKNOWN` for the last.
    #[must_use]
    pub fn name_of_slot(&self, slot: usize) -> &str {
        self.specs.get(slot).map_or("UNKNOWN", |spec| &spec.name)
    }
}

impl FromIterator<TypeSpec> for TypeTable {
    fn from_iter<I: IntoIterator<Item = TypeSpec>>(specs: I) -> Self {
        Self { specs: specs.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `GET`, and `INFO`, which is a control type.
    fn table() -> TypeTable {
        let get = TypeSpec::new("GET").weight(2).preempt(PreemptPolicy::None);
        TypeTable::from_iter([get, TypeSpec::new("INFO").control()])
    }

    #[test]
    fn hints_that_come_later_replace_those_before_and_leave_the_others() {
        let mut types = table();
        assert!(types.adjust(&TypeSpec::new("GET").weight(3).share(0.5)));
        assert!(types.adjust(&TypeSpec::new("INFO")));
        assert!(!types.adjust(&TypeSpec::new("SET").weight(4)), "there is no such type");
        let get = TypeSpec::new("GET").weight(3).share(0.5).preempt(PreemptPolicy::None);
        assert_eq!(types.specs(), [get, TypeSpec::new("INFO").control()]);
    }

    #[test]
    fn the_last_place_is_that_of_types_which_are_not_registered() {
        let types = table();
        for (index, slot) in [(0, 0), (1, 1), (2, 2), (7, 2), (u32::MAX, 2)] {
            assert_eq!(types.slot(RequestType::new(index)), slot, "{index}");
        }
        let of_slot = |slot| (types.name_of_slot(slot), types.yields(slot), types.is_control(slot));
        let rows = [("GET", false, false), ("INFO", true, true), ("UNKNOWN", true, false)];
        assert_eq!([0, 1, 2].map(of_slot), rows);
        let by_name = ["GET", "INFO", "UNKNOWN"].map(|name| types.by_name(name));
        assert_eq!(by_name, [Some(RequestType::new(0)), Some(RequestType::new(1)), None]);
    }

    #[test]
    fn one_type_is_enough_for_a_table_to_have_control_requests() {
        assert!(table().has_control());
        assert!(!TypeTable::from_iter([TypeSpec::new("GET")]).has_control());
        assert!(!TypeTable::new().has_control());
    }

    #[test]
    fn files_have_times_in_microseconds_exact_to_a_nanosecond() {
        let file = "name = \"GET\"\nservice-time-us = 1.501\n";
        let get = TypeSpec::new("GET").service_time(Duration::from_nanos(1501));
        assert_eq!(toml::from_str(file), Ok(get.clone()));
        assert_eq!(toml::to_string(&get).as_deref(), Ok(file));
        let error = toml::from_str::<TypeSpec>("name = \"GET\"\nslo-us = -1.0").unwrap_err();
        assert!(error.message().contains("-1 is no time in microseconds"), "{error}");
    }
}
