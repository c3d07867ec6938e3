//! A server in a control group with little memory. This needs root.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The limits of memory that tests try, in MiB.
pub const GROUPS_MIB: [u64; 2] = [200, 600];

/// Why a test is skipped where no group can be made.
pub const NO_MEMORY_GROUP: &str = "no right to make a control group of the memory controller (cgroup v1 or v2)";

/// A control group with a limit of memory, beyond which the kernel kills what is in it. It ends with its processes.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// A new group; `None` if the process may not make one.
    #[must_use]
    pub fn new(limit_mib: u64) -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("psp-test-{}-{number}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (root, limit, swap) = match v1.is_dir() {
            true => (v1, "memory.limit_in_bytes", "memory.swappiness"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max", "memory.swap.max"),
        };
        // The controller may be there already, and it is in v1.
        let _has_memory = fs::write(root.join("cgroup.subtree_control"), "+memory");
        let group = Self { folder: root.join(name) };
        fs::create_dir(&group.folder).ok()?;
        let limit_bytes = (limit_mib << 20).to_string();
        fs::write(group.folder.join(limit), limit_bytes).ok()?;
        // A kernel may have no swap.
        let _without_swap = fs::write(group.folder.join(swap), "0");
        Some(group)
    }

    /// Runs `program` in the group.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"echo $$ >"$0" && exec "$@""#]);
        shell.arg(self.folder.join("cgroup.procs")).arg(program);
        shell
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel needs a moment after the last process has ended.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
