//! Partitions of cgroup v2 (Documentation/admin-guide/cgroup-v2.rst, "Cpuset").
//!
//! ```text
//!   PARENT                  cgroup.subtree_control: cpuset
//!   └─ psp-arbiter          cpuset.cpus.exclusive: all managed cores
//!      ├─ unmanaged         threaded: servers' processes, except for threads with a core
//!      ├─ core1             threaded: the thread that was granted core 1
//!      │                    cpuset.cpus.exclusive: 1    cpuset.cpus.partition: root, or member if it is not granted
//!      └─ core2 ..
//! ```
//!
//! The kernel takes a core of a partition away from all other groups, so nothing has to be confined. Threads can only
//! move between threaded groups of one domain, so a server's process moves to the arbiter's when it registers, and
//! back to its own group when its server goes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cgroup::{self, CORE_GROUP, OWN_GROUP, UNMANAGED_GROUP};
use super::contract::{Mechanism, Scope};
use super::error::MechanismError;
use super::kind::Kind;
use crate::cores::{CoreId, CoreSet};
use crate::thread::ThreadId;

const PARTITION: &str = "cpuset.cpus.partition";
const EXCLUSIVE: &str = "cpuset.cpus.exclusive";
const THREADS: &str = "cgroup.threads";
const PROCESSES: &str = "cgroup.procs";

/// Partitions of cgroup v2.
#[derive(Debug)]
pub struct CpusetV2 {
    mount: PathBuf,
    parent: PathBuf,
    group: PathBuf,
    cores: CoreSet,
    /// Cores that are partitions now.
    partitions: CoreSet,
    /// The groups from which servers' processes came.
    origins: BTreeMap<i32, PathBuf>,
}

impl CpusetV2 {
    /// The hierarchy that is mounted at `mount`.
    ///
    /// # Errors
    /// The hierarchy has no cpuset controller, or its files cannot be read.
    pub fn open(mount: &Path, scope: &Scope) -> Result<Self, MechanismError> {
        let parent = mount.join(&scope.parent);
        let controllers = parent.join("cgroup.controllers");
        let named = cgroup::read(&controllers)?;
        if !named.split_whitespace().any(|name| name == "cpuset") {
            return Err(MechanismError::NoController { path: controllers });
        }
        let group = parent.join(OWN_GROUP);
        // What an earlier arbiter granted is not among the parent's cores, but among its own.
        let mut own = cgroup::read_cores(&parent.join("cpuset.cpus.effective"))?;
        if group.join(EXCLUSIVE).exists() {
            let earlier = cgroup::read_cores(&group.join(EXCLUSIVE))?;
            earlier.iter().for_each(|core| own.insert(core));
        }
        Ok(Self {
            mount: mount.to_owned(),
            cores: scope.cores.map_or(own, |cores| cores.and(&own)),
            partitions: CoreSet::default(),
            origins: BTreeMap::new(),
            group,
            parent,
        })
    }

    fn core_group(&self, core: CoreId) -> PathBuf {
        self.group.join(format!("{CORE_GROUP}{core}"))
    }

    fn unmanaged(&self) -> PathBuf {
        self.group.join(UNMANAGED_GROUP)
    }

    fn make_threaded(&self, group: &Path) -> Result<(), MechanismError> {
        cgroup::make(group)?;
        let kind = group.join("cgroup.type");
        if cgroup::read(&kind)?.trim() == "threaded" {
            return Ok(());
        }
        cgroup::write(&kind, "threaded")
    }

    /// Makes the core a partition, or no longer one.
    fn partition(&mut self, core: CoreId, on: bool) -> io::Result<()> {
        if self.partitions.contains(core) == on {
            return Ok(());
        }
        let path = self.core_group(core).join(PARTITION);
        let kind = if on { "root" } else { "member" };
        cgroup::write(&path, kind).map_err(io::Error::other)?;
        // The kernel takes the word, and says behind it what is wrong, as in "root invalid (..)".
        let made = fs::read_to_string(&path)?;
        if made.trim() != kind {
            let _ = cgroup::write(&path, "member");
            let message = format!("{} is '{}'", path.display(), made.trim());
            return Err(io::Error::other(message));
        }
        match on {
            true => self.partitions.insert(core),
            false => self.partitions.remove(core),
        }
        Ok(())
    }

    /// The group of a process, as a folder; the parent's if it is in a group of the arbiter.
    fn group_of(&self, process: i32) -> io::Result<PathBuf> {
        let text = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
        let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
        let group = self.mount.join(path.unwrap_or_default());
        let is_own = group.starts_with(&self.group);
        Ok(if is_own { self.parent.clone() } else { group })
    }

    fn send_home(&self, process: i32, origin: &Path) -> io::Result<()> {
        let number = process.to_string();
        match cgroup::open(&origin.join(PROCESSES)).and_then(|file| cgroup::put(&file, &number)) {
            Err(error) if cgroup::has_ended(&error) => Ok(()),
            moved => moved,
        }
    }
}

impl Mechanism for CpusetV2 {
    fn kind(&self) -> Kind {
        Kind::CpusetV2
    }

    fn cores(&self) -> CoreSet {
        self.cores
    }

    fn start(&mut self) -> Result<Vec<(CoreId, ThreadId)>, MechanismError> {
        cgroup::write(&self.parent.join("cgroup.subtree_control"), "+cpuset")?;
        cgroup::make(&self.group)?;
        cgroup::write(&self.group.join("cgroup.subtree_control"), "+cpuset")?;
        cgroup::write(&self.group.join(EXCLUSIVE), &self.cores.to_string())?;
        self.make_threaded(&self.unmanaged())?;
        let mut orphans = Vec::new();
        for core in self.cores.iter() {
            let group = self.core_group(core);
            self.make_threaded(&group)?;
            cgroup::write(&group.join("cpuset.cpus"), &core.to_string())?;
            cgroup::write(&group.join(EXCLUSIVE), &core.to_string())?;
            let threads = group.join(THREADS);
            let left = cgroup::threads(&threads).map_err(|source| MechanismError::File {
                doing: "read",
                path: threads,
                source,
            })?;
            orphans.extend(left.into_iter().map(|thread| (core, thread)));
            if cgroup::read(&group.join(PARTITION))?.trim() == "root" {
                self.partitions.insert(core);
            }
        }
        Ok(orphans)
    }

    fn admit(&mut self, process: i32) -> io::Result<()> {
        if self.origins.contains_key(&process) {
            return Ok(());
        }
        let origin = self.group_of(process)?;
        // A process that an earlier arbiter moved is there, and its threads may have cores.
        if origin != self.parent || !self.holds(process)? {
            let procs = cgroup::open(&self.unmanaged().join(PROCESSES))?;
            cgroup::put(&procs, &process.to_string())?;
        }
        self.origins.insert(process, origin);
        Ok(())
    }

    fn forget(&mut self, process: i32) {
        if let Some(origin) = self.origins.remove(&process)
            && let Err(error) = self.send_home(process, &origin)
        {
            tracing::warn!(process, %error, "a process stays in the arbiter's group");
        }
    }

    fn grant(&mut self, core: CoreId, thread: ThreadId) -> io::Result<()> {
        self.partition(core, true)?;
        let threads = cgroup::open(&self.core_group(core).join(THREADS))?;
        cgroup::put(&threads, &thread.to_string())
    }

    fn vacate(&mut self, core: CoreId, left: Option<ThreadId>, stays: Option<ThreadId>) -> io::Result<()> {
        let mut threads = cgroup::threads(&self.core_group(core).join(THREADS))?;
        threads.retain(|&thread| Some(thread) != stays && Some(thread) != left);
        let unmanaged = cgroup::open(&self.unmanaged().join(THREADS))?;
        let mut result = Ok(());
        for thread in left.into_iter().chain(threads) {
            match cgroup::put(&unmanaged, &thread.to_string()) {
                Err(error) if !cgroup::has_ended(&error) => result = Err(error),
                _ => {}
            }
        }
        result
    }

    fn set_unmanaged(&mut self, cores: CoreSet) -> io::Result<()> {
        for core in self.partitions.and(&cores).iter() {
            self.partition(core, false)?;
        }
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for (process, origin) in std::mem::take(&mut self.origins) {
            result = result.and(self.send_home(process, &origin));
        }
        let everything = self.partitions;
        result = result.and(self.set_unmanaged(everything));
        // Processes of servers that an earlier arbiter knew, and this one does not.
        let home = self.parent.join(PROCESSES);
        let moved = cgroup::move_all(&self.group.join(PROCESSES), &home);
        result = result.and(moved.map(drop));
        let cores = cgroup::core_groups(&self.group)?.into_iter();
        let mut groups: Vec<PathBuf> = cores.map(|(_, path)| path).collect();
        groups.extend([self.unmanaged(), self.group.clone()]);
        for group in groups {
            result = result.and(cgroup::remove(&group));
        }
        result
    }
}

impl CpusetV2 {
    /// Whether the process is in the arbiter's group.
    fn holds(&self, process: i32) -> io::Result<bool> {
        let processes = cgroup::numbers(&self.group.join(PROCESSES))?;
        Ok(processes.contains(&process))
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A folder that looks like a hierarchy in which an arbiter has run before. Its files keep the last text written.
    fn tree() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join(OWN_GROUP);
        let file = |path: PathBuf, text: &str| fs::write(path, text).unwrap();
        for name in ["cgroup.subtree_control", PROCESSES] {
            file(root.path().join(name), "");
        }
        file(root.path().join("cgroup.controllers"), "cpuset cpu io\n");
        file(root.path().join("cpuset.cpus.effective"), "0-1\n");
        fs::create_dir(&own).unwrap();
        for name in ["cgroup.subtree_control", PROCESSES] {
            file(own.join(name), "");
        }
        file(own.join(EXCLUSIVE), "0-3\n");
        for name in ["unmanaged", "core0", "core1", "core2", "core3"] {
            let group = own.join(name);
            fs::create_dir(&group).unwrap();
            for name in ["cpuset.cpus", EXCLUSIVE, THREADS, PROCESSES] {
                file(group.join(name), "");
            }
            file(group.join("cgroup.type"), "domain\n");
            file(group.join(PARTITION), "member\n");
        }
        root
    }

    fn core(number: usize) -> CoreId {
        CoreId::new(number).unwrap()
    }

    #[test]
    fn a_granted_core_is_a_partition() {
        let tree = tree();
        let own = tree.path().join(OWN_GROUP);
        let text = |path: &str| fs::read_to_string(own.join(path)).unwrap();
        // What an earlier arbiter left.
        fs::write(own.join("core3").join(PARTITION), "root\n").unwrap();
        fs::write(own.join("core3").join(THREADS), "4000000\n").unwrap();
        let mut mechanism = CpusetV2::open(tree.path(), &Scope::default()).unwrap();
        assert_eq!(mechanism.cores().to_string(), "0-3");
        let orphan = ThreadId::new(4_000_000).unwrap();
        assert_eq!(mechanism.start().unwrap(), [(core(3), orphan)]);
        assert_eq!(text("cgroup.subtree_control"), "+cpuset");
        assert_eq!(text("core2/cgroup.type"), "threaded");
        assert_eq!(text("core2/cpuset.cpus.exclusive"), "2");
        let this = ThreadId::current();
        mechanism.grant(core(2), this).unwrap();
        assert_eq!(text("core2/cpuset.cpus.partition"), "root");
        assert_eq!(text("core2/cgroup.threads"), this.to_string());
        mechanism.set_unmanaged("0-1".parse().unwrap()).unwrap();
        assert_eq!(text("core3/cpuset.cpus.partition"), "root\n");
        mechanism.vacate(core(2), Some(this), None).unwrap();
        assert_eq!(text("unmanaged/cgroup.threads"), this.to_string());
        mechanism.set_unmanaged("0-2".parse().unwrap()).unwrap();
        assert_eq!(text("core2/cpuset.cpus.partition"), "member");
    }

    #[test]
    fn a_partition_that_the_kernel_calls_invalid_is_an_error() {
        let tree = tree();
        let mut mechanism = CpusetV2::open(tree.path(), &Scope::default()).unwrap();
        mechanism.start().unwrap();
        // Only a kernel answers with another word than the one that was written.
        let partition = tree.path().join("psp-arbiter/core1").join(PARTITION);
        fs::remove_file(&partition).unwrap();
        std::os::unix::fs::symlink("/dev/null", &partition).unwrap();
        let error = mechanism.grant(core(1), ThreadId::current()).unwrap_err();
        assert!(error.to_string().contains("core1/cpuset.cpus.partition"), "{error}");
    }

    #[test]
    fn a_process_moves_in_and_back() {
        let tree = tree();
        let unmanaged = tree.path().join("psp-arbiter/unmanaged").join(PROCESSES);
        let mut mechanism = CpusetV2::open(tree.path(), &Scope::default()).unwrap();
        mechanism.start().unwrap();
        let this = std::process::id();
        let origin = mechanism.group_of(this as i32).unwrap();
        fs::create_dir_all(&origin).unwrap();
        fs::write(origin.join(PROCESSES), "").unwrap();
        mechanism.admit(this as i32).unwrap();
        assert_eq!(fs::read_to_string(&unmanaged).unwrap(), this.to_string());
        mechanism.forget(this as i32);
        let home = fs::read_to_string(origin.join(PROCESSES)).unwrap();
        assert_eq!(home, this.to_string());
    }

    #[test]
    fn a_hierarchy_without_the_controller_is_refused() {
        let tree = tree();
        fs::write(tree.path().join("cgroup.controllers"), "cpu io\n").unwrap();
        let refused = CpusetV2::open(tree.path(), &Scope::default()).unwrap_err();
        assert!(refused.to_string().contains("does not name cpuset"), "{refused}");
    }

    /// For real, where there are partitions: the hierarchy, root, and Linux 6.7.
    #[test]
    fn a_thread_of_a_partition_runs_on_its_core() {
        let mounts = crate::mechanism::cpuset_mount();
        let Some(mount) = mounts.into_iter().find(|mount| mount.is_v2) else {
            return psp_skip::skip_here_and_in_ci("cgroup v2 is not mounted");
        };
        let scope = Scope {
            cores: None,
            parent: format!("psp-arbiter-test-{}", std::process::id()).into(),
        };
        let parent = mount.path.join(&scope.parent);
        let tried =
            cgroup::write(&mount.path.join("cgroup.subtree_control"), "+cpuset").and_then(|()| cgroup::make(&parent));
        if let Err(error) = tried {
            return psp_skip::skip_here_and_in_ci(&format!("no cpusets of cgroup v2: {error}"));
        }
        let remove = RemoveOnDrop(parent.clone());
        let mut mechanism = CpusetV2::open(&mount.path, &scope).unwrap();
        let last = mechanism.cores().iter().last().unwrap();
        // A parent that is not the root must hand its cores on as exclusive ones.
        cgroup::write(&parent.join(EXCLUSIVE), &last.to_string()).unwrap();
        mechanism.cores = [last].into_iter().collect();
        mechanism.start().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = child.id() as i32;
        let granted = mechanism
            .admit(process)
            .and_then(|()| mechanism.grant(last, ThreadId::new(process).unwrap()));
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        mechanism.forget(process);
        mechanism.stop().unwrap();
        drop(remove);
        granted.unwrap();
        assert!(status.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{status}");
    }

    struct RemoveOnDrop(PathBuf);

    impl Drop for RemoveOnDrop {
        fn drop(&mut self) {
            let _ = cgroup::remove(&self.0);
        }
    }
}
