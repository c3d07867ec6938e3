//! What a layer knows and counts of each type.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use psp_pool::policy::TypeTable;

use crate::placement::{Place, Placement, Thresholds, nanos};
use crate::refusal::Refusal;
use crate::snapshot::{Snapshot, TypeSnapshot, advice};
use crate::spread::{ServiceTimes, Spread};
use crate::times::Times;

/// A number that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    fn raise_to(&self, to: u64) {
        if to > self.get() {
            self.0.fetch_max(to, Ordering::Relaxed);
        }
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One type. Types do not share cache lines.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Type {
    /// As the classifier calls it, once it was asked.
    name: OnceLock<Option<String>>,
    pub(crate) placement: Placement,
    pub(crate) service_times: ServiceTimes,
    /// From the arrival of pooled requests to their first poll.
    pub(crate) waits: Times,
    has_warned: AtomicBool,
    inline: Count,
    pooled: Count,
    pub(crate) completed: Count,
    pub(crate) cancelled: Count,
    pub(crate) panicked: Count,
    shed: Count,
    expired: Count,
    closed: Count,
    wait_ns: Count,
    wait_ns_max: Count,
    service_ns: Count,
    service_ns_max: Count,
    /// Polls of requests without an answer that a client got.
    pub(crate) abandoned_ns: Count,
    /// A poll of a body took long, by the clock.
    has_slow_frames: AtomicBool,
    slow_frames: Count,
}

impl Type {
    fn new(expected_ns: Option<u64>, thresholds: Thresholds) -> Self {
        Self {
            name: OnceLock::new(),
            placement: Placement::new(expected_ns, thresholds),
            service_times: ServiceTimes::new(),
            waits: Times::new(),
            has_warned: AtomicBool::new(false),
            inline: Count::default(),
            pooled: Count::default(),
            completed: Count::default(),
            cancelled: Count::default(),
            panicked: Count::default(),
            shed: Count::default(),
            expired: Count::default(),
            closed: Count::default(),
            wait_ns: Count::default(),
            wait_ns_max: Count::default(),
            service_ns: Count::default(),
            service_ns_max: Count::default(),
            abandoned_ns: Count::default(),
            has_slow_frames: AtomicBool::new(false),
            slow_frames: Count::default(),
        }
    }

    /// Whether a poll of a body may have taken long.
    pub(crate) fn has_slow_frames(&self) -> bool {
        self.has_slow_frames.load(Ordering::Relaxed)
    }

    /// A poll of a body took long; it `is_known` whether the thread had the processor. Returns whether that is to be
    /// told.
    pub(crate) fn slow_frame(&self, is_known: bool) -> bool {
        if !is_known {
            self.has_slow_frames.store(true, Ordering::Relaxed);
            return false;
        }
        self.slow_frames.0.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Asks for its name, the first time.
    pub(crate) fn named(&self, name: impl FnOnce() -> Option<String>) {
        self.name.get_or_init(name);
    }

    /// A request is to be polled there.
    pub(crate) fn arrived(&self, place: Place) {
        match place {
            Place::Inline => self.inline.add(1),
            Place::Pool => self.pooled.add(1),
        }
    }

    /// A worker begins a request that has waited for so long.
    pub(crate) fn waited(&self, ns: u64) {
        self.waits.add(ns);
        self.wait_ns.add(ns);
        self.wait_ns_max.raise_to(ns);
    }

    /// A request has no answer of the service.
    pub(crate) fn refused(&self, refusal: Refusal) {
        match refusal {
            Refusal::Shed => self.shed.add(1),
            Refusal::Expired => self.expired.add(1),
            Refusal::Closed => self.closed.add(1),
        }
    }

    /// A request took so long, in all its polls. Returns how far its type's times are apart if that is to be told.
    pub(crate) fn served(&self, service_ns: u64, thresholds: Thresholds) -> Option<Spread> {
        self.service_ns.add(service_ns);
        self.service_ns_max.raise_to(service_ns);
        self.placement.served(service_ns, thresholds);
        let spread = { self.service_times.add(service_ns) }.filter(|it| matters(*it, thresholds))?;
        let is_first = !self.has_warned.swap(true, Ordering::Relaxed);
        is_first.then_some(spread)
    }

    /// Its name here, if it is called so in the pool.
    fn name<'a>(&'a self, pools: &'a str) -> &'a str {
        self.name.get().and_then(Option::as_deref).unwrap_or(pools)
    }

    fn snapshot(&self, pools: &str, thresholds: Thresholds) -> TypeSnapshot {
        let name = self.name(pools);
        let spread = self.service_times.spread();
        let wide = spread.filter(|it| matters(*it, thresholds));
        TypeSnapshot {
            name: name.to_owned(),
            place: self.placement.place(),
            inline: self.inline.get(),
            pooled: self.pooled.get(),
            completed: self.completed.get(),
            shed: self.shed.get(),
            expired: self.expired.get(),
            cancelled: self.cancelled.get(),
            panicked: self.panicked.get(),
            closed: self.closed.get(),
            wait_ns: self.wait_ns.get(),
            wait_ns_max: self.wait_ns_max.get(),
            service_ns: self.service_ns.get(),
            service_ns_max: self.service_ns_max.get(),
            service_ns_mean: self.placement.mean_ns(),
            abandoned_ns: self.abandoned_ns.get(),
            slow_frames: self.slow_frames.get(),
            spread,
            advice: wide.map(|it| advice(name, it)),
        }
    }
}

/// Whether one should do something about it.
fn matters(spread: Spread, thresholds: Thresholds) -> bool {
    spread.is_wide() && spread.high_ns >= thresholds.inline_below_ns
}

/// All types of a pool, `UNKNOWN` last.
#[derive(Debug)]
pub(crate) struct Types {
    all: Box<[Type]>,
    names: Box<[String]>,
}

impl Types {
    pub(crate) fn new(table: &TypeTable, thresholds: Thresholds) -> Self {
        let expected_ns = |slot: usize| {
            let spec = table.specs().get(slot)?;
            spec.service_time.map(nanos)
        };
        let slots = 0..=table.len();
        Self {
            all: { slots.clone() }.map(|slot| Type::new(expected_ns(slot), thresholds)).collect(),
            names: slots.map(|slot| table.name_of_slot(slot).to_owned()).collect(),
        }
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn all(&self) -> impl Iterator<Item = &Type> {
        self.all.iter()
    }

    pub(crate) fn at(&self, slot: usize) -> &Type {
        &self.all[slot]
    }

    /// Logs that the requests of a type are too different.
    pub(crate) fn warn(&self, slot: usize, spread: Spread) {
        let name = self.all[slot].name(&self.names[slot]);
        tracing::warn!("{}", advice(name, spread));
    }

    /// Logs that bodies of a type compute as they stream.
    pub(crate) fn warn_of_body(&self, slot: usize, frame_ns: u64) {
        let name = self.all[slot].name(&self.names[slot]);
        tracing::warn!(
            "bodies of `{name}` compute as they stream, for {} us at once: no policy can order that. Compute the parts \
             in Pool::spawn",
            frame_ns / 1000
        );
    }

    pub(crate) fn snapshot(&self, thresholds: Thresholds) -> Snapshot {
        let types = self.all.iter().zip(&self.names);
        let types = types.map(|(it, name)| it.snapshot(name, thresholds));
        Snapshot { types: types.collect() }
    }
}
