//! Closing the store before the process ends.
//!
//! The runtime waits only briefly for its workers, so a worker that outlives `main` may be the last to
//! hold the store. Closing a database while the process exits aborts the process, because librocksdb's
//! own destructors run at that time.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::Engine;

/// Time between two checks.
const CHECK_EVERY: Duration = Duration::from_millis(1);

/// Closes the store on this thread once no other thread holds it. Returns whether the store is closed:
/// false if another thread still holds it after `patience`.
pub fn close(engine: Arc<dyn Engine>, patience: Duration) -> bool {
    let give_up = Instant::now() + patience;
    // If this is the only reference, no other reference can be made.
    while Arc::strong_count(&engine) > 1 {
        if Instant::now() >= give_up {
            // Leave the store open: close it neither here nor in the destructors of the process.
            std::mem::forget(engine);
            return false;
        }
        thread::sleep(CHECK_EVERY);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Memory;

    #[test]
    fn a_store_is_closed_after_its_last_user_releases_it() {
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
