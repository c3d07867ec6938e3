//! What of the memory of the process's control group is for what, so that the kernel has no reason to kill the process.
//!
//! ```text
//!   limit of the group = the program's data + buffers of connections, and a quarter more + margin
//! ```
//!
//! Stacks, gaps between allocations, freed pages and buffers in the kernel need the margin.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use psp_server::Config;

/// The margin is this part of the limit and these bytes, and half of the limit at most.
const MARGIN_DIVISOR: u64 = 8;
const MARGIN_BYTES: u64 = 16 << 20;
/// The part of the rest that is for data where nothing else is set.
const DATA_SHARE: (u64, u64) = (3, 4);
/// Buffers have this part of the limit at most, and this part where data leaves them less.
const BUFFERS_DIVISOR: u64 = 2;
const BUFFERS_DIVISOR_MIN: u64 = 32;
/// Limits from here on mean none.
const NO_LIMIT_MIN: u64 = 1 << 60;

/// What the memory of a control group is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMemory {
    /// The limit of the group.
    pub limit_bytes: u64,
    /// What neither data nor buffers may have.
    pub margin_bytes: u64,
}

impl GroupMemory {
    /// The memory of the process's control group; `None` if there is no limit.
    #[must_use]
    pub fn get() -> Option<Self> {
        static MEMORY: LazyLock<Option<GroupMemory>> = LazyLock::new(|| {
            let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
            limit_bytes(&groups, Path::new("/sys/fs/cgroup")).map(GroupMemory::of_limit)
        });
        *MEMORY
    }

    fn of_limit(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            margin_bytes: (limit_bytes / MARGIN_DIVISOR + MARGIN_BYTES).min(limit_bytes / 2),
        }
    }

    /// What data and buffers may have together.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        self.limit_bytes - self.margin_bytes
    }

    /// What the data of a program may have where nothing else is set.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        let (share, whole) = DATA_SHARE;
        self.usable_bytes() / whole * share
    }

    /// The limit of buffers beside so many bytes of data, if nothing else is set. Many connections that hold little may
    /// have a quarter more.
    fn buffered_bytes(&self, data_bytes: u64) -> u64 {
        let left = self.usable_bytes().saturating_sub(data_bytes) / 5 * 4;
        let least = self.limit_bytes / BUFFERS_DIVISOR_MIN;
        left.clamp(least, self.limit_bytes / BUFFERS_DIVISOR)
    }
}

/// Sets the limit of buffers, if there is none, to what the control group of the process has room for beside
/// `data_bytes`. Logs what the memory of the group is for, and warns if that is more than it has.
pub fn fit_buffers(server: &mut Config, data_bytes: u64) {
    if let Some(group) = GroupMemory::get() {
        fit(server, data_bytes, group);
        let buffered_bytes = server.buffered_bytes() as u64;
        tracing::info!(
            limit_mib = mib(group.limit_bytes),
            data_mib = mib(data_bytes),
            buffers_mib = mib(buffered_bytes),
            margin_mib = mib(group.margin_bytes),
            "memory of the control group"
        );
        if data_bytes + buffered_bytes / 4 * 5 > group.usable_bytes() {
            tracing::warn!(
                "data and buffers may need more memory than the control group has: the kernel would end the process"
            );
        }
    }
}

fn fit(server: &mut Config, data_bytes: u64, group: GroupMemory) {
    if server.buffered_bytes_max.is_none() {
        let room = usize::try_from(group.buffered_bytes(data_bytes)).unwrap_or(usize::MAX);
        server.buffered_bytes_max = Some(room.min(server.buffered_bytes()));
    }
}

const fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// The least memory limit of the control groups in `groups` and of the groups around them, below the file system at
/// `root`. `groups` is in the form of /proc/self/cgroup, see cgroups(7).
fn limit_bytes(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or(""), fields.next().unwrap_or("/"));
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ => (root.join("memory"), "memory.limit_in_bytes"),
        };
        let is_memory = controllers.is_empty() || controllers.split(',').any(|name| name == "memory");
        let around = Path::new(path.trim_start_matches('/')).ancestors();
        let files = around.map(move |group| root.join(group).join(file));
        files.filter(move |_| is_memory).collect::<Vec<_>>()
    });
    let limits = limits.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.filter(|limit| *limit < NO_LIMIT_MIN).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_least_limit_of_all_groups_around_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        };
        let limit = |groups: &str| limit_bytes(groups, root.path());
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

    #[test]
    fn data_buffers_and_margin_fit_in_the_group() {
        for limit in [8, 64, 200, 600, 4096, 1 << 20].map(|mib| mib * MIB) {
            let group = GroupMemory::of_limit(limit);
            for data_bytes in [0, group.data_bytes(), group.usable_bytes() / 10 * 9] {
                let mut server = Config::default();
                fit(&mut server, data_bytes, group);
                let buffered_bytes = server.buffered_bytes() as u64;
                let sum = data_bytes + buffered_bytes / 4 * 5 + group.margin_bytes / 2;
                assert!(buffered_bytes > 0 && sum <= limit, "{limit} {data_bytes}");
            }
        }
    }

    #[test]
    fn buffers_have_what_is_set_or_left() {
        let group = GroupMemory::of_limit(600 * MIB);
        let buffered_mib = |server: Config, data_mib: u64| {
            let mut server = server;
            fit(&mut server, data_mib * MIB, group);
            server.buffered_bytes() as u64 / MIB
        };
        assert_eq!(buffered_mib(Config::default(), 0), 300);
        assert_eq!(buffered_mib(Config::default(), 400), 87);
        assert_eq!(buffered_mib(Config::default(), 600), 18);
        assert_eq!(buffered_mib(Config::default().buffered_bytes_max(5 << 20), 0), 5);
        let group = GroupMemory::of_limit(64 << 30);
        let mut server = Config::default();
        fit(&mut server, 0, group);
        assert_eq!(server.buffered_bytes(), 1 << 30);
    }
}
