//! The memory that the process has allocated, for `maxmemory` and INFO.
//!
//! The allocator adds up its figures, which takes some microseconds. Writes therefore compare the limit with a figure
//! that is a few milliseconds old.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use psp_store::FreedPages;
use quanta::Instant;
use tikv_jemalloc_ctl::{epoch, epoch_mib, stats};

/// Age of the figure that writes are compared with.
const AGE_MAX: Duration = Duration::from_millis(10);
/// The same near the limit and beyond it: writes shall go on soon after memory is free.
const AGE_MAX_NEAR_LIMIT: Duration = Duration::from_millis(1);
/// This part of the limit is near it.
const NEAR_DIVISOR: u64 = 16;

/// The part of a control group's limit that is the default of `maxmemory`. Stacks, gaps between allocations and
/// buffers in the kernel need the rest.
const SHARE_OF_GROUP: (u64, u64) = (3, 4);
/// Limits from here on mean none.
const NO_LIMIT_MIN: u64 = 1 << 60;

/// Reads how much memory the process has allocated.
pub struct Memory {
    allocator: Option<(epoch_mib, stats::allocated_mib)>,
    created_at: Instant,
    /// Time since `created_at` and bytes of the last reading.
    read_at_ns: AtomicU64,
    used_bytes: AtomicU64,
    /// The most bytes of all readings.
    peak_bytes: AtomicU64,
    /// Bytes that the figure still has and that are free, or will be soon.
    freed_bytes: AtomicU64,
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
        let _freed_pages = FreedPages::return_soon();
        let mibs = || Ok((epoch::mib()?, stats::allocated::mib()?));
        let mibs: Result<_, tikv_jemalloc_ctl::Error> = mibs();
        Self {
            allocator: mibs.ok(),
            created_at: Instant::now(),
            read_at_ns: AtomicU64::new(0),
            used_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
        }
    }

    /// Bytes of all allocations of the process. 0 if the allocator has no figures.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let Some((figures, allocated)) = &self.allocator else {
            return 0;
        };
        // The figures are those of the last advance.
        let _stale = figures.advance();
        let bytes = allocated.read().unwrap_or_default() as u64;
        self.peak_bytes.fetch_max(bytes, Ordering::Relaxed);
        bytes
    }

    /// The most bytes that [`used_bytes`](Self::used_bytes) has returned.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
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
        used_bytes
            .saturating_sub(limit_bytes)
            .saturating_sub(freed_bytes)
    }

    /// Whether the process has allocated more than `limit_bytes`, as of a few milliseconds before `now`.
    /// `pending_bytes` says what of it will be free soon, at a reading.
    #[must_use]
    pub fn exceeds(
        &self,
        limit_bytes: u64,
        now: Instant,
        pending_bytes: impl FnOnce() -> usize,
    ) -> bool {
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

/// The resident memory of the process in bytes, as the system reports it.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    // In pages: the size, and then what is resident. Of all files that say so, it takes the least time.
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let resident: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(resident * rustix::param::page_size() as u64)
}

/// The memory of the machine in bytes.
#[must_use]
pub fn system_bytes() -> Option<u64> {
    static BYTES: LazyLock<Option<u64>> = LazyLock::new(read_system_bytes);
    *BYTES
}

fn read_system_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib * 1024)
}

/// The default of `maxmemory` in bytes: three quarters of the limit of the process's control group, 0 if it has none.
#[must_use]
pub fn default_limit_bytes() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = group_limit_bytes(&groups, Path::new("/sys/fs/cgroup"));
    let (share, whole) = SHARE_OF_GROUP;
    limit.map_or(0, |limit| limit / whole * share)
}

/// The least memory limit of the control groups in `groups` and of the groups around them, below the file system at
/// `root`. `groups` is in the form of /proc/self/cgroup, see cgroups(7).
fn group_limit_bytes(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or(""), fields.next().unwrap_or("/"));
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ => (root.join("memory"), "memory.limit_in_bytes"),
        };
        let is_memory =
            controllers.is_empty() || controllers.split(',').any(|name| name == "memory");
        let around = Path::new(path.trim_start_matches('/')).ancestors();
        let files = around.map(move |group| root.join(group).join(file));
        files.filter(move |_| is_memory).collect::<Vec<_>>()
    });
    let limits = limits.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.filter(|limit| *limit < NO_LIMIT_MIN).min()
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
        drop(block);
        assert!(memory.used_bytes() < before + BYTES / 2);
    }

    #[test]
    fn the_least_limit_of_all_groups_around_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        };
        let limit = |groups: &str| group_limit_bytes(groups, root.path());
        assert_eq!(limit("0::/a/b\n"), None);
        write("a/b/memory.max", "max\n");
        assert_eq!(limit("0::/a/b\n"), None);
        write("a/memory.max", "1000\n");
        assert_eq!(limit("0::/a/b\n"), Some(1000));
        assert_eq!(limit("0::/\n"), None);
        write("a/b/memory.max", "900\n");
        assert_eq!(limit("0::/a/b\n"), Some(900));
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit("4:memory:/x\n1:cpu:/\n"), None);
        write("memory/x/memory.limit_in_bytes", "800\n");
        assert_eq!(limit("4:memory:/x\n1:cpu:/a\n"), Some(800));
    }
}
