//! Ctrl-C: the first ends the work early, the second ends the program.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Shells add this to the number of the signal that ended a program.
const SIGNAL_EXIT_CODE: i32 = 128;

/// The first signal sets `stop`, and the command prints its results so far. A second signal ends
/// the program. A SIGHUP that the parent has the program ignore, as `nohup` does, stays ignored. Shells have programs
/// in the background ignore SIGINT, and those who send it all the same want the results.
pub(super) fn stop_on_signals(stop: &Arc<AtomicBool>) -> std::io::Result<()> {
    let has_hangup = ignored_signals() >> (SIGHUP - 1) & 1 == 0;
    let hangup = has_hangup.then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        let exit_code = SIGNAL_EXIT_CODE + signal;
        flag::register_conditional_shutdown(signal, exit_code, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// The set of signals that this process ignores: signal 1 is the lowest bit.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}
