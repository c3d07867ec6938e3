//! When the allocator of the servers, jemalloc, gives freed pages back to the system.

use tikv_jemalloc_ctl::{Access, AsName, Mib, background_thread};

/// How long freed pages wait to be used again, in milliseconds.
const DECAY_MS: isize = 1000;

/// The freed pages that the allocator of the process keeps.
#[derive(Debug)]
pub struct FreedPages {
    arenas: u32,
}

impl FreedPages {
    /// From now on freed pages go back to the system after a second, also when nothing is allocated. By default they
    /// do so after ten seconds. `None` in a process with another allocator.
    #[must_use]
    pub fn return_soon() -> Option<Self> {
        let arenas = b"arenas.narenas\0".name().read().ok()?;
        // Without the thread, freed pages go back when others are freed.
        let _without_thread = background_thread::write(true);
        let _kept = b"arenas.dirty_decay_ms\0".name().write(DECAY_MS);
        let pages = Self { arenas };
        pages.each_arena(|decay| decay.write(DECAY_MS));
        Some(pages)
    }

    /// Gives all freed pages back at once.
    pub fn purge(&self) {
        self.each_arena(|decay| {
            // The arena of large blocks has a time of its own.
            let decay_ms: isize = decay.read()?;
            decay.write(0_isize)?;
            decay.write(decay_ms)
        });
    }

    /// Calls `change` with the time that freed pages wait in each arena.
    fn each_arena(&self, change: impl Fn(&Mib<[usize; 3]>) -> tikv_jemalloc_ctl::Result<()>) {
        let key: Result<Mib<[usize; 3]>, _> = b"arena.0.dirty_decay_ms\0".name().mib();
        let Ok(mut key) = key else { return };
        for arena in 0..self.arenas {
            key[1] = arena as usize;
            // An arena that does not exist has no pages.
            let _none = change(&key);
        }
    }
}
