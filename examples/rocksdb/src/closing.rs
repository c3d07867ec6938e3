//! The end of the store, before that of the process.
//!
//! The runtime waits for its workers for a moment only, so that the last to let go of the store may be one
//! that outlives `main`. A database that is closed while the process ends aborts it: librocksdb's own
//! destructors run at that time.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::Engine;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Closes the store on this thread once nobody else has it. Returns whether it is closed; somebody has it
/// still when that takes longer than `patience`.
pub fn close(engine: Arc<dyn Engine>, patience: Duration) -> bool {
    let give_up = Instant::now() + patience;
    // Nobody has it but through this one, so that none can be added once it is the only one.
    while Arc::strong_count(&engine) > 1 {
        if Instant::now() >= give_up {
            // Neither here nor in the destructors of the process.
            std::mem::forget(engine);
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Memory;

    #[test]
    fn a_store_is_closed_when_the_last_other_has_let_go_of_it() {
        let engine: Arc<dyn Engine> = Arc::new(Memory::default());
        let watched = Arc::downgrade(&engine);
        let other = engine.clone();
        let user = thread::spawn(move || drop(other));
        assert!(close(engine, Duration::from_secs(60)));
        assert!(watched.upgrade().is_none());
        user.join().unwrap();
    }

    #[test]
    fn a_store_in_use_stays_open() {
        let engine: Arc<dyn Engine> = Arc::new(Memory::default());
        let other = engine.clone();
        assert!(!close(engine, Duration::ZERO));
        assert_eq!(other.put(b"k", b"v"), Ok(()));
    }
}
