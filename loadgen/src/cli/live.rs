//! A line each second with the state of the run, on a terminal.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use psp_loadgen::clients::Observer;
use psp_loadgen::record::LiveCounters;

/// Prints to standard error if that is a terminal.
pub(super) struct LiveLine {
    names: Vec<String>,
    completed: Vec<u64>,
    is_terminal: bool,
}

impl LiveLine {
    pub(super) fn new(names: Vec<String>) -> Self {
        Self {
            completed: vec![0; names.len()],
            names,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }
}

impl LiveLine {
    /// Prints the title of the run that begins.
    pub(super) fn announce(&self, title: &str) {
        if self.is_terminal {
            let _ = writeln!(std::io::stderr(), "{title}");
        }
    }
}

impl Observer for LiveLine {
    fn second(&mut self, elapsed: Duration, counters: &[Arc<LiveCounters>]) {
        if !self.is_terminal {
            return;
        }
        let mut line = format!("{:4} s", elapsed.as_secs());
        for ((name, before), live) in self.names.iter().zip(&mut self.completed).zip(counters) {
            let completed = live.completed.load(Ordering::Relaxed);
            let failed = live.failed.load(Ordering::Relaxed);
            let latency_ns_max = live.latency_ns_max.swap(0, Ordering::Relaxed);
            let done = completed - std::mem::replace(before, completed);
            let max_us = latency_ns_max / 1_000;
            line.push_str(&format!("  {name} {done}/s max {max_us} us"));
            if failed > 0 {
                line.push_str(&format!(" failed {failed}"));
            }
        }
        // If the line cannot be printed, the measurement goes on.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
