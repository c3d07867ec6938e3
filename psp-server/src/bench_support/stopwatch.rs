//! Measures the time of each stage of a request.

use quanta::Clock as Tsc;

/// The stages; as a number, the index into [`STAGES`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    Rx,
    Headers,
    Classify,
    Enqueue,
    Dispatch,
    Send,
    Receive,
    Complete,
    Take,
    Handle,
    Report,
    Tx,
}

/// The stages' names, and the thread of each.
pub(super) const STAGES: [(&str, Side); 12] = [
    ("rx", Side::NetThread),
    ("headers", Side::NetThread),
    ("classify", Side::NetThread),
    ("enqueue", Side::NetThread),
    ("dispatch", Side::NetThread),
    ("send", Side::NetThread),
    ("receive", Side::NetThread),
    ("complete", Side::NetThread),
    ("take", Side::Worker),
    ("handle", Side::Worker),
    ("report", Side::Worker),
    ("tx", Side::Worker),
];

/// The thread of a stage, in a server whose workers have threads of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The net thread, which has the dispatcher.
    NetThread,
    /// A worker's thread.
    Worker,
}

/// Resolution: parts of a cycle.
const SCALE: u64 = 100;

/// Cycles of the processor's time stamp.
#[derive(Debug, Clone, PartialEq)]
pub struct Stages {
    /// Requests that went through all stages.
    pub requests: u64,
    /// Each stage and its cycles for one request: the median of all bursts, because the kernel may take the
    /// core away within a burst.
    pub cycles: Vec<(&'static str, Side, f64)>,
    /// Cycles in a second.
    pub cycles_per_second: f64,
}

/// Measures the time between stages.
pub(super) struct Stopwatch {
    pub(super) tsc: Tsc,
    last: u64,
    /// The cost of a reading itself.
    reading: u64,
    /// Cycles of the present burst.
    cycles: [u64; STAGES.len()],
    /// Cycles of each earlier burst, for one request.
    bursts: [Vec<u64>; STAGES.len()],
}

impl Stopwatch {
    pub(super) fn new() -> Self {
        let tsc = Tsc::new();
        let mut last = tsc.raw();
        let readings = (0..1000).map(|_| {
            let before = std::mem::replace(&mut last, tsc.raw());
            last - before
        });
        Self {
            reading: readings.min().unwrap_or(0),
            last,
            cycles: [0; STAGES.len()],
            bursts: Default::default(),
            tsc,
        }
    }

    pub(super) fn start_burst(&mut self) {
        self.cycles = [0; STAGES.len()];
        self.last = self.tsc.raw();
    }

    /// The time since the last call belongs to this stage.
    pub(super) fn lap(&mut self, stage: Stage) {
        let now = self.tsc.raw();
        self.cycles[stage as usize] += (now - self.last).saturating_sub(self.reading);
        self.last = now;
    }

    /// Ends a burst of so many requests.
    pub(super) fn end_burst(&mut self, requests: u64) {
        for (stage, cycles) in self.bursts.iter_mut().zip(self.cycles) {
            stage.extend((cycles * SCALE).checked_div(requests));
        }
    }

    pub(super) fn medians(&mut self) -> [f64; STAGES.len()] {
        self.bursts.each_mut().map(|bursts| {
            bursts.sort_unstable();
            let median = bursts.get(bursts.len() / 2);
            median.map_or(0.0, |median| *median as f64 / SCALE as f64)
        })
    }
}
