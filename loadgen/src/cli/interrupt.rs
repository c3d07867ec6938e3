//! Ctrl-C: the first time the work ends early, the second time the program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// What shells make of a program that a signal ended: this and the signal's number.
const SIGNAL_EXIT_CODE: i32 = 128;

/// The first signal sets `stop`, and the work prints what it has so far; a second one ends the
/// program.
pub(super) fn stop_on_signals(stop: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        let exit_code = SIGNAL_EXIT_CODE + signal;
        flag::register_conditional_shutdown(signal, exit_code, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}
