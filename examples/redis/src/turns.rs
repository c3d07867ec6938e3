//! Turns of long requests that change the same keys: one at a time, so that they do not make each other's work vain.

use std::sync::LazyLock;
use std::time::Duration;

use psp_server::sync::Mutex;
use psp_server::{task, wait};

/// The longest wait for a turn. The one before may be a script without end.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// Runs `section` in its turn. Other requests have the worker while it waits.
pub(crate) fn take(section: &mut dyn FnMut()) {
    static TURN: LazyLock<Mutex<()>> = LazyLock::new(|| Mutex::new(()));
    let turn = wait(task::timeout(WAIT_MAX, TURN.lock()));
    section();
    drop(turn);
}
