//! The scheduler: one state machine for all workers.

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, WorkerId};
use crate::request_type::RequestType;
use crate::study::{Findings, Study};

/// What a scheduler says about one type; see [`Scheduler::type_status`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TypeStatus {
    /// Requests (or runs) that wait.
    pub queued: usize,
    /// Workers reserved for the type's group; 0 before the first reservation and for policies
    /// without reservations. For a group that found no worker left, the spillway workers, which it
    /// shares.
    pub workers_reserved: usize,
    /// First of the reserved workers, when there are any.
    pub worker_first: Option<WorkerId>,
    /// Whether its requests begin on the driver's own thread as well, whoever has that reserved: to hand one over takes
    /// longer than to run it.
    pub on_own_thread: bool,
    /// Number of the type's group, by ascending service time. `None` for `UNKNOWN`, for types of
    /// unknown length, and for policies without groups.
    pub group: Option<usize>,
    /// Profiled mean service time in nanoseconds; 0 while unknown.
    pub service_ns_mean: f64,
    /// Profiled share of all requests, 0 to 1.
    pub share: f64,
    /// Times one of its requests ran on a worker reserved for a longer group.
    pub steals: u64,
    /// Times one of its requests began on a worker of others because its own were [stuck](Scheduler::relief).
    pub relieved: u64,
    /// Times one of its requests was refused because the queue was full.
    pub rejections: u64,
}

/// What is left to a type while requests are stuck; see [`Scheduler::relief`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Relief {
    /// It needs none: some worker that it may use is not stuck. So it is under policies that reserve no workers, as
    /// long as they have another worker.
    #[default]
    NotNeeded,
    /// All workers that it may use are stuck. It may use another, with one request at a time.
    OtherWorker,
    /// All workers that it may use are stuck, and there is no other: those left are stuck, or the driver's own thread,
    /// or one of them runs a request of its group by relief.
    NoWorker,
}

/// A scheduling policy at work: one state machine for all workers.
///
/// The driver reports events, then polls until `None`. It may run one action's request to its end
/// (on a worker that is its own thread) before it polls for the next.
///
/// [`on_event`](Self::on_event), [`poll`](Self::poll) and [`deadline_ns`](Self::deadline_ns) are the
/// policy. The other methods have defaults: no handover, no mixed runs, no telemetry.
/// [`TypedQueues`](crate::TypedQueues) has ready-made parts for all of them.
pub trait Scheduler: Send {
    /// Records an event. `now_ns` never goes backwards.
    fn on_event(&mut self, now_ns: u64, event: Event<'_>);

    /// The next action; `None` when every request that can run has been handed out.
    fn poll(&mut self, now_ns: u64) -> Option<Action>;

    /// When the scheduler needs an event at the latest, in nanoseconds: the end of the earliest
    /// quantum, say. If nothing else happens before, the driver sends a [`Event::Tick`] then, and
    /// polls. `None` when there is no such time.
    fn deadline_ns(&self) -> Option<u64> {
        None
    }

    /// How its requests go on under another policy. With `None`, the default, a running server
    /// refuses to leave or adopt the policy, rather than lose requests.
    fn handover(&mut self) -> Option<&mut dyn Handover> {
        None
    }

    /// Whether requests of two types may travel in one run of pipelined requests: the types are the
    /// same, or share queueing and workers and are of similar length. By default only equal types
    /// travel together, so that a long request never delays a short one within its run. The answer
    /// may change whenever an event is reported.
    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        first == next
    }

    /// Telemetry of the type at `slot` of the [`TypeTable`](crate::TypeTable) (`UNKNOWN` comes last).
    /// All zeros by default.
    fn type_status(&self, slot: usize) -> TypeStatus {
        let _ = slot;
        TypeStatus::default()
    }

    /// What is left to the type at `slot` while requests are stuck, by
    /// [`SchedulerSetup::stuck`](crate::SchedulerSetup::stuck).
    ///
    /// A policy that reserves workers may leave a type only one, and a request that never ends would have all
    /// others of the type wait for ever. So a group of types whose workers are all stuck may use any other worker but
    /// the driver's own thread, while no other group has a request for that worker. One request of the group does so
    /// at a time: if that is stuck as well, no further worker is lost. When a stuck request ends, everything is as
    /// before.
    fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        let _ = (now_ns, slot);
        Relief::NotNeeded
    }

    /// How often reservations were computed.
    fn reservation_updates(&self) -> u64 {
        0
    }

    /// Work that the scheduler wants done aside, if any. The driver asks now and then, after events. It asks for no
    /// other before it has reported the findings with [`conclude`](Self::conclude). A driver that never asks has a
    /// scheduler that knows less.
    fn study(&mut self) -> Option<Study> {
        None
    }

    /// What came of the study; `None` if nothing did, because there was no thread for it or it panicked. The driver
    /// polls afterwards.
    fn conclude(&mut self, now_ns: u64, findings: Option<&Findings>) {
        let _ = (now_ns, findings);
    }
}

/// Switches to another policy: `next` takes over everything that waits and runs in `scheduler`. Does
/// nothing and returns false if either has no [`Handover`].
#[must_use]
pub fn switch(scheduler: &mut dyn Scheduler, next: &mut dyn Scheduler, now_ns: u64) -> bool {
    switch_seeing(scheduler, next, now_ns, |_| {})
}

/// As [`switch`], and shows `see` what goes over.
pub(crate) fn switch_seeing(
    scheduler: &mut dyn Scheduler,
    next: &mut dyn Scheduler,
    now_ns: u64,
    see: impl FnOnce(&Backlog),
) -> bool {
    match (scheduler.handover(), next.handover()) {
        (Some(before), Some(after)) => {
            let backlog = before.hand_over();
            see(&backlog);
            after.take_over(now_ns, backlog);
            true
        }
        _ => false,
    }
}
