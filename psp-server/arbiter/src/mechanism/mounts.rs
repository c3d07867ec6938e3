//! Where cgroups are mounted.

use std::path::PathBuf;

/// A mounted hierarchy of cgroups that has cpusets, or could have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpusetMount {
    /// Where it is mounted.
    pub path: PathBuf,
    /// Whether it is of cgroup v2.
    pub is_v2: bool,
}

/// The mounted hierarchies: cgroup v1 with cpusets, and cgroup v2 whether or not it has them.
#[must_use]
pub fn cpuset_mount() -> Vec<CpusetMount> {
    parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

fn parse(mountinfo: &str) -> Vec<CpusetMount> {
    mountinfo.lines().filter_map(mount).collect()
}

/// A line such as `31 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset` (proc_pid_mountinfo(5)).
fn mount(line: &str) -> Option<CpusetMount> {
    let (left, right) = line.split_once(" - ")?;
    let path = left.split(' ').nth(4)?;
    let mut right = right.split(' ');
    let is_v2 = match right.next()? {
        "cgroup2" => true,
        "cgroup" if right.nth(1)?.split(',').any(|option| option == "cpuset") => false,
        _ => return None,
    };
    let path = PathBuf::from(path.replace("\\040", " "));
    Some(CpusetMount { path, is_v2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpusets_are_found_among_the_mounts() {
        let mounts = parse(
            "22 1 0:21 / /proc rw,relatime shared:3 - proc proc rw\n\
             30 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
             31 23 0:28 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n\
             32 23 0:29 / /mnt/two\\040words rw - cgroup2 cgroup2 rw,nsdelegate\n\
             nonsense\n",
        );
        let found: Vec<_> = mounts.iter().map(|mount| (mount.path.to_str().unwrap(), mount.is_v2)).collect();
        assert_eq!(found, [("/sys/fs/cgroup/cpuset", false), ("/mnt/two words", true)]);
    }
}
