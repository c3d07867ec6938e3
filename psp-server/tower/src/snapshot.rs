//! Counters of a layer.

use crate::placement::Place;
use crate::spread::Spread;

/// What a layer has done until now.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// By the types of the pool, and `UNKNOWN` last.
    pub types: Vec<TypeSnapshot>,
}

/// What a layer has done with requests of one type. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TypeSnapshot {
    /// The name of the type.
    pub name: String,
    /// Where its requests are polled now.
    pub place: Place,
    /// Requests that were polled where they arrived.
    pub inline: u64,
    /// Requests that went to the pool.
    pub pooled: u64,
    /// Requests that the service has answered, or failed.
    pub completed: u64,
    /// Requests that were refused because the queue of their type was full.
    pub shed: u64,
    /// Requests whose deadline has passed before there was an answer.
    pub expired: u64,
    /// Requests whose response no caller awaited any more.
    pub cancelled: u64,
    /// Requests that panicked.
    pub panicked: u64,
    /// Requests that were refused because the pool had ended.
    pub closed: u64,
    /// From the arrival of pooled requests to their first polls, added up.
    pub wait_ns: u64,
    /// The longest.
    pub wait_ns_max: u64,
    /// The polls of completed requests, added up.
    pub service_ns: u64,
    /// Those of the longest request.
    pub service_ns_max: u64,
    /// The mean of the latest requests, by which a type has its place. Before the first one, what the type was said to
    /// take; 0 if nothing was.
    pub service_ns_mean: u64,
    /// Polls of requests whose answers no client got, added up: cancelled ones and those that expired.
    pub abandoned_ns: u64,
    /// Polls of responses' bodies that took longer than [`PspLayer::long_poll`](crate::PspLayer::long_poll), but for
    /// the first one: that may have waited for other programs.
    pub slow_frames: u64,
    /// How far its service times are apart, once 512 requests were measured.
    pub spread: Option<Spread>,
    /// What to do about a type whose service times are more than a decade apart, if they are, and if its requests are
    /// long enough to be in the way of others.
    pub advice: Option<String>,
}

/// What to do about a type whose service times lie so far apart.
pub(crate) fn advice(name: &str, spread: Spread) -> String {
    let us = |ns: u64| ns as f64 / 1000.0;
    let (low_us, high_us) = (us(spread.low_ns), us(spread.high_ns));
    format!(
        "requests of `{name}` take from {low_us:.0} us to {high_us:.0} us: give them several types, by an argument on \
         which their cost depends"
    )
}
