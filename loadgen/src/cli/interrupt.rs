//! Ctrl-C: the first ends the work early, the second ends the program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Shells add this to the number of the signal that ended a program.
const SIGNAL_EXIT_CODE: i32 = 128;

/// The first signal sets `stop`, and the command prints its results so far. A second signal ends
/// the program.
pub(super) fn stop_on_signals(stop: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        let exit_code = SIGNAL_EXIT_CODE + signal;
        flag::register_conditional_shutdown(signal, exit_code, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}
