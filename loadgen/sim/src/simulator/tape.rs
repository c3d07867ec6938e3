//! What happens to requests in a window of a simulation, for a file of [`psp_trace`].

use std::io;

use psp_policy::{HandOff, WorkerId};
use psp_trace::{Event, Kind, Trace};

use super::plan::{SimPlan, TraceWindow};

/// Events that are kept.
const EVENTS_MAX: usize = 1 << 20;

/// What happened in the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimTrace {
    events: Vec<Event>,
    from_ns: u64,
    until_ns: u64,
    dropped: u64,
}

impl SimTrace {
    /// Writes the file. `plan` is that of the simulation.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, plan: &SimPlan, out: impl io::Write) -> io::Result<()> {
        let types = plan.workload.types.iter().map(|ty| ty.name.clone());
        let about = [
            ("policy", plan.policy.to_string()),
            ("workload", plan.workload.name.clone()),
            ("load", plan.load.to_string()),
            ("seed", plan.seed.to_string()),
        ];
        let trace = Trace {
            server: "psp-loadgen sim".to_owned(),
            about: about.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            types: types.collect(),
            workers: plan.workers,
            from_ns: self.from_ns,
            until_ns: self.until_ns,
            dropped: self.dropped,
        };
        trace.write(self.events.clone(), out)
    }
}

/// See the [module](self). Nothing is recorded before the first measured arrival.
pub(super) struct Tape {
    window: TraceWindow,
    trace: Option<SimTrace>,
}

/// What an event is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    pub(super) request: u32,
    /// Index of its type.
    pub(super) slot: usize,
    /// 0 where there is none.
    pub(super) worker: WorkerId,
}

impl Tape {
    pub(super) fn new(window: TraceWindow) -> Self {
        Self { window, trace: None }
    }

    /// The first measured request arrives now.
    pub(super) fn begin(&mut self, now_ns: u64) {
        let from_ns = now_ns.saturating_add(self.window.from_ns);
        self.trace.get_or_insert_with(|| SimTrace {
            events: Vec::new(),
            from_ns,
            until_ns: from_ns.saturating_add(self.window.length_ns),
            dropped: 0,
        });
    }

    pub(super) fn record(&mut self, at_ns: u64, kind: Kind, about: About) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        if !(trace.from_ns..=trace.until_ns).contains(&at_ns) {
            return;
        }
        if trace.events.len() >= EVENTS_MAX {
            // Some that are already there may be later, and are left out.
            trace.until_ns = at_ns.saturating_sub(1).max(trace.from_ns);
            trace.dropped += 1;
            return;
        }
        let short = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        trace.events.push(Event {
            at_ns,
            kind,
            request: about.request,
            slot: short(about.slot),
            worker: short(about.worker.index()),
            count: 1,
        });
    }

    /// A worker gets a request by that way, and begins it later.
    pub(super) fn begun(&mut self, now_ns: u64, starts_ns: u64, about: About, hand_off: HandOff) {
        let way = match hand_off {
            HandOff::Stolen => Some(Kind::Stolen),
            HandOff::HandedOver => Some(Kind::HandedOver),
            HandOff::Dispatched | HandOff::Own => None,
        };
        if let Some(kind) = way {
            self.record(now_ns, kind, about);
        }
        self.record(starts_ns, Kind::Begun, about);
    }

    /// What was recorded until the end of the simulation.
    pub(super) fn into_trace(self, now_ns: u64) -> Option<SimTrace> {
        let mut trace = self.trace?;
        trace.until_ns = trace.until_ns.min(now_ns.max(trace.from_ns));
        Some(trace)
    }
}
