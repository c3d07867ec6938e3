//! The memory that the process has allocated, for `maxmemory` and INFO.
//!
//! The allocator adds up its figures, which takes some microseconds. Writes therefore compare the limit with a figure
//! that is a few milliseconds old.

use std::fmt;
use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use psp_store::FreedPages;
use quanta::Instant;
use tikv_jemalloc_ctl::{epoch, epoch_mib, stats};

/// Age of the figure that writes are compared with.
const AGE_MAX: Duration = Duration::from_millis(10);
/// The same near the limit and beyond it: writes shall go on soon after memory is free. A reading takes some 50 us
/// there.
const AGE_MAX_NEAR_LIMIT: Duration = Duration::from_millis(4);
/// This part of the limit is near it.
const NEAR_DIVISOR: u64 = 16;

/// Reads how much memory the process has allocated.
pub struct Memory {
    freed_pages: Option<FreedPages>,
    created_at: Instant,
    /// Bytes at the start.
    startup_bytes: u64,
    /// Time since `created_at` and bytes of the last reading.
    read_at_ns: AtomicU64,
    used_bytes: AtomicU64,
    /// The most bytes of all readings.
    peak_bytes: AtomicU64,
    /// Bytes that the figure still has and that are free, or will be soon.
    freed_bytes: AtomicU64,
    /// Bytes that commands are about to allocate.
    reserved_bytes: AtomicU64,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// Prepares the allocator: freed pages go back to the system after a second, also when nothing is allocated.
    #[must_use]
    pub fn new() -> Self {
        Self {
            // The allocator would have a thread that is not needed.
            freed_pages: cfg!(not(feature = "system-allocator")).then(FreedPages::return_soon).flatten(),
            created_at: Instant::now(),
            startup_bytes: allocated_bytes(),
            read_at_ns: AtomicU64::new(0),
            used_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
            reserved_bytes: AtomicU64::new(0),
        }
    }

    /// [`allocated_bytes`], whose maximum is noted.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let bytes = allocated_bytes();
        self.peak_bytes.fetch_max(bytes, Ordering::Relaxed);
        bytes
    }

    /// The most bytes that [`used_bytes`](Self::used_bytes) has returned.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// What the process had allocated before it had any data.
    #[must_use]
    pub fn startup_bytes(&self) -> u64 {
        self.startup_bytes
    }

    /// Gives freed pages back to the system.
    pub fn purge(&self) {
        if let Some(freed_pages) = &self.freed_pages {
            freed_pages.purge();
        }
    }

    /// Notes that `bytes` of what the process has allocated are free, or will be soon.
    pub fn note_freed(&self, bytes: usize) {
        self.freed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes beyond `limit_bytes` at the last reading, less what was freed since.
    #[must_use]
    pub fn excess_bytes(&self, limit_bytes: u64) -> u64 {
        let used_bytes = self.used_bytes.load(Ordering::Relaxed);
        let freed_bytes = self.freed_bytes.load(Ordering::Relaxed);
        used_bytes.saturating_sub(limit_bytes).saturating_sub(freed_bytes)
    }

    /// Reserves `bytes` that are allocated next, if the process has no more than `limit_bytes` then. `pending_bytes` of
    /// what it has will be free soon: as long as that is little, it counts as free.
    #[must_use]
    pub fn reserve(&self, bytes: usize, limit_bytes: u64, pending_bytes: usize) -> Option<Reserved<'_>> {
        let bytes = bytes as u64;
        // Whoever reserves at the same time sees this, and what it becomes.
        let others_bytes = self.reserved_bytes.fetch_add(bytes, Ordering::SeqCst);
        let reserved = Reserved { memory: self, bytes };
        let free_soon_bytes = (pending_bytes as u64).min(limit_bytes / NEAR_DIVISOR);
        let held_bytes = self.used_bytes().saturating_sub(free_soon_bytes);
        let sum_bytes = held_bytes.saturating_add(others_bytes).saturating_add(bytes);
        (sum_bytes <= limit_bytes).then_some(reserved)
    }

    /// Whether pages of `bytes` more have room beside those that the process has touched, within `limit_bytes`. If they
    /// have not, freed pages go back to the system.
    #[must_use]
    pub fn has_pages(&self, bytes: usize, limit_bytes: u64) -> bool {
        let fits = || {
            let own_bytes = own_resident_bytes().unwrap_or(0);
            own_bytes.saturating_add(bytes as u64) <= limit_bytes
        };
        fits() || {
            self.purge();
            fits()
        }
    }

    /// Whether the process has allocated more than `limit_bytes`, as of a few milliseconds before `now`.
    /// `pending_bytes` says what of it will be free soon, at a reading.
    #[must_use]
    pub fn exceeds(&self, limit_bytes: u64, now: Instant, pending_bytes: impl FnOnce() -> usize) -> bool {
        let used_bytes = self.used_bytes.load(Ordering::Relaxed);
        let age_max = if used_bytes > limit_bytes - limit_bytes / NEAR_DIVISOR {
            AGE_MAX_NEAR_LIMIT
        } else {
            AGE_MAX
        };
        let now_ns = now.saturating_duration_since(self.created_at).as_nanos();
        let now_ns = u64::try_from(now_ns).unwrap_or(u64::MAX);
        let read_at_ns = self.read_at_ns.load(Ordering::Relaxed);
        let is_old = Duration::from_nanos(now_ns.saturating_sub(read_at_ns)) >= age_max;
        // One of the workers that find it old reads it again.
        let shall_read = (is_old || read_at_ns == 0)
            && self
                .read_at_ns
                .compare_exchange(read_at_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !shall_read {
            return used_bytes > limit_bytes;
        }
        let pending_bytes = pending_bytes() as u64;
        let used_bytes = self.used_bytes();
        self.used_bytes.store(used_bytes, Ordering::Relaxed);
        self.freed_bytes.store(pending_bytes, Ordering::Relaxed);
        used_bytes > limit_bytes
    }
}

/// Memory that is allocated next. Dropping it says that it has been.
#[derive(Debug)]
pub struct Reserved<'m> {
    memory: &'m Memory,
    bytes: u64,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        { &self.memory.reserved_bytes }.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// Bytes of all allocations of the process. 0 if the allocator has no figures.
#[must_use]
pub fn allocated_bytes() -> u64 {
    type Mibs = (epoch_mib, stats::allocated_mib);
    static ALLOCATOR: LazyLock<Option<Mibs>> =
        LazyLock::new(|| Some((epoch::mib().ok()?, stats::allocated::mib().ok()?)));
    let Some((figures, allocated)) = &*ALLOCATOR else {
        return 0;
    };
    // The figures are those of the last advance.
    let _stale = figures.advance();
    allocated.read().unwrap_or_default() as u64
}

/// What the allocator has, in bytes. Zeros if it has no figures.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allocator {
    /// In allocations.
    pub allocated: u64,
    /// In pages that have allocations.
    pub active: u64,
    /// In pages that the system has given it.
    pub resident: u64,
}

impl Allocator {
    /// The figures now.
    #[must_use]
    pub fn read() -> Self {
        let allocated = allocated_bytes();
        let bytes = |read: tikv_jemalloc_ctl::Result<usize>| read.unwrap_or_default() as u64;
        Self {
            allocated,
            active: bytes(stats::active::read()),
            resident: bytes(stats::resident::read()),
        }
    }
}

/// The resident memory of the process in bytes, as the system reports it.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    resident_and_shared_bytes().map(|[resident, _]| resident)
}

/// The same without pages of files, which the system can drop.
fn own_resident_bytes() -> Option<u64> {
    resident_and_shared_bytes().map(|[resident, shared]| resident.saturating_sub(shared))
}

fn resident_and_shared_bytes() -> Option<[u64; 2]> {
    // In pages: the size, what is resident, and what of that is of files. Of all files that say so, it takes the least
    // time.
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = pages.split(' ').skip(1);
    let mut bytes = || Some(pages.next()?.parse::<u64>().ok()? * rustix::param::page_size() as u64);
    Some([bytes()?, bytes()?])
}

/// The memory of the machine in bytes.
#[must_use]
pub fn system_bytes() -> Option<u64> {
    static BYTES: LazyLock<Option<u64>> = LazyLock::new(read_system_bytes);
    *BYTES
}

fn read_system_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib * 1024)
}

/// A number of bytes with one of Redis' units: `k` and `m` and `g` are powers of 1000, `kb`, `mb` and `gb` of 1024.
///
/// # Errors
/// A message.
pub fn parse_bytes(text: &str) -> Result<u64, &'static str> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1024,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err(NOT_BYTES),
    };
    let number: u64 = digits.parse().map_err(|_| NOT_BYTES)?;
    number.checked_mul(unit).ok_or(NOT_BYTES)
}

const NOT_BYTES: &str = "argument must be a memory value";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_redis() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("1024", Ok(1024)),
            ("3b", Ok(3)),
            ("2k", Ok(2000)),
            ("2KB", Ok(2048)),
            ("10m", Ok(10_000_000)),
            ("10Mb", Ok(10 << 20)),
            ("1g", Ok(1_000_000_000)),
            ("1GB", Ok(1 << 30)),
            ("10mib", Err(NOT_BYTES)),
            ("-1", Err(NOT_BYTES)),
            ("mb", Err(NOT_BYTES)),
            ("", Err(NOT_BYTES)),
            ("99999999999gb", Err(NOT_BYTES)),
        ] {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn allocations_count_while_they_exist() {
        // Far more than the tests beside this one allocate. Nothing touches its pages.
        const BYTES: u64 = 1 << 30;
        let memory = Memory::new();
        let before = memory.used_bytes();
        let block = std::hint::black_box(vec![0_u8; BYTES as usize]);
        assert!(memory.used_bytes() >= before + BYTES / 2);
        assert!(memory.exceeds(1, Instant::now(), || 0));
        assert!(!memory.exceeds(u64::MAX, Instant::now(), || 0));
        assert!(memory.excess_bytes(before) >= BYTES / 2);
        memory.note_freed(BYTES as usize);
        assert!(memory.excess_bytes(before) < BYTES / 2);
        let limit_bytes = before + 2 * BYTES;
        let half = memory.reserve(BYTES as usize / 2, limit_bytes, 0);
        assert!(half.is_some() && memory.reserve(BYTES as usize, limit_bytes, 0).is_none());
        drop(half);
        assert!(memory.reserve(BYTES as usize / 4 * 3, limit_bytes, 0).is_some());
        drop(block);
        assert!(memory.used_bytes() < before + BYTES / 2);
    }
}
