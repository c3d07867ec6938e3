//! Cpusets of cgroup v1, as in the paper (section 4).
//!
//! ```text
//!   PARENT                  tasks that the kernel keeps there
//!   └─ psp-arbiter
//!      ├─ unmanaged         cpus: all that is not granted    tasks: those of PARENT, and threads without a core
//!      ├─ core1             cpus: 1                          tasks: the thread that was granted core 1
//!      └─ core2 ..
//! ```
//!
//! To move a thread is to write its number to a group's `tasks`. A thread that is made is in its maker's group.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::cgroup::{self, CORE_GROUP, OWN_GROUP, UNMANAGED_GROUP};
use super::contract::{Mechanism, Scope};
use super::error::MechanismError;
use super::kind::Kind;
use crate::cores::{CoreId, CoreSet};
use crate::thread::ThreadId;

/// Cpusets of cgroup v1.
#[derive(Debug)]
pub struct CpusetV1 {
    parent: PathBuf,
    group: PathBuf,
    cores: CoreSet,
    /// Cores of the parent that are not managed.
    others: CoreSet,
    memory_nodes: String,
    /// The files `tasks` of the cores' groups.
    tasks: BTreeMap<CoreId, File>,
    unmanaged: Option<Unmanaged>,
}

#[derive(Debug)]
struct Unmanaged {
    cpus: File,
    tasks: File,
}

impl CpusetV1 {
    /// The hierarchy that is mounted at `mount`.
    ///
    /// # Errors
    /// The parent's files cannot be read.
    pub fn open(mount: &Path, scope: &Scope) -> Result<Self, MechanismError> {
        let parent = mount.join(&scope.parent);
        let own = cgroup::read_cores(&parent.join("cpuset.cpus"))?;
        let cores = scope.cores.map_or(own, |cores| cores.and(&own));
        Ok(Self {
            group: parent.join(OWN_GROUP),
            cores,
            others: own.without(&cores),
            memory_nodes: cgroup::read(&parent.join("cpuset.mems"))?,
            tasks: BTreeMap::new(),
            unmanaged: None,
            parent,
        })
    }

    fn core_group(&self, core: CoreId) -> PathBuf {
        self.group.join(format!("{CORE_GROUP}{core}"))
    }

    fn make(&self, group: &Path, cores: CoreSet) -> Result<(), MechanismError> {
        cgroup::make(group)?;
        cgroup::write(&group.join("cpuset.cpus"), &cores.to_string())?;
        cgroup::write(&group.join("cpuset.mems"), self.memory_nodes.trim())
    }

    fn confine(&self, unmanaged: &Path) -> Result<(), MechanismError> {
        let (from, to) = (self.parent.join("tasks"), unmanaged.join("tasks"));
        let stuck = cgroup::move_all(&from, &to).map_err(|source| MechanismError::File {
            doing: "move the tasks of",
            path: from,
            source,
        })?;
        if stuck > 0 {
            tracing::info!(stuck, "threads that the kernel does not move stay on their cores");
        }
        // The arbiter need not be in its parent.
        for thread in cgroup::numbers_of_own_threads() {
            cgroup::write(&to, &thread.to_string())?;
        }
        Ok(())
    }

    /// Removes groups of cores that are not managed any more.
    fn remove_others(&self, to: &Path) -> io::Result<()> {
        for (number, path) in cgroup::core_groups(&self.group)? {
            if !CoreId::new(number).is_some_and(|core| self.cores.contains(core)) {
                cgroup::move_all(&path.join("tasks"), to)?;
                fs::remove_dir(path)?;
            }
        }
        Ok(())
    }
}

impl Mechanism for CpusetV1 {
    fn kind(&self) -> Kind {
        Kind::CpusetV1
    }

    fn cores(&self) -> CoreSet {
        self.cores
    }

    fn start(&mut self) -> Result<Vec<(CoreId, ThreadId)>, MechanismError> {
        let unmanaged = self.group.join(UNMANAGED_GROUP);
        let system = |path: &Path| {
            let path = path.to_owned();
            move |source| MechanismError::File { doing: "take over", path, source }
        };
        // Cores of the group may be fewer only when its children's are.
        cgroup::make(&self.group)?;
        cgroup::write(&self.group.join("cpuset.mems"), self.memory_nodes.trim())?;
        let parent_cpus = cgroup::read(&self.parent.join("cpuset.cpus"))?;
        cgroup::write(&self.group.join("cpuset.cpus"), parent_cpus.trim())?;
        self.make(&unmanaged, self.cores.or(&self.others))?;
        let to = unmanaged.join("tasks");
        self.remove_others(&to).map_err(system(&self.group))?;
        let mut orphans = Vec::new();
        for core in self.cores.iter() {
            let group = self.core_group(core);
            self.make(&group, [core].into_iter().collect())?;
            let tasks = group.join("tasks");
            let threads = cgroup::threads(&tasks).map_err(system(&tasks))?;
            orphans.extend(threads.into_iter().map(|thread| (core, thread)));
            let file = cgroup::open(&tasks).map_err(system(&tasks))?;
            self.tasks.insert(core, file);
        }
        self.confine(&unmanaged)?;
        let open = |file: &str| {
            let path = unmanaged.join(file);
            cgroup::open(&path).map_err(system(&path))
        };
        self.unmanaged = Some(Unmanaged { cpus: open("cpuset.cpus")?, tasks: open("tasks")? });
        Ok(orphans)
    }

    fn grant(&mut self, core: CoreId, thread: ThreadId) -> io::Result<()> {
        let tasks = self.tasks.get(&core).ok_or(io::ErrorKind::NotFound)?;
        cgroup::put(tasks, &thread.to_string())
    }

    fn vacate(&mut self, core: CoreId, left: Option<ThreadId>, stays: Option<ThreadId>) -> io::Result<()> {
        let unmanaged = self.unmanaged.as_ref().ok_or(io::ErrorKind::NotFound)?;
        // Also threads that the granted thread has made, which are on its core.
        let mut threads = cgroup::threads(&self.core_group(core).join("tasks"))?;
        threads.retain(|&thread| Some(thread) != stays && Some(thread) != left);
        let mut result = Ok(());
        for thread in left.into_iter().chain(threads) {
            match cgroup::put(&unmanaged.tasks, &thread.to_string()) {
                Err(error) if !cgroup::has_ended(&error) => result = Err(error),
                _ => {}
            }
        }
        result
    }

    fn set_unmanaged(&mut self, cores: CoreSet) -> io::Result<()> {
        let unmanaged = self.unmanaged.as_ref().ok_or(io::ErrorKind::NotFound)?;
        cgroup::put(&unmanaged.cpus, &cores.or(&self.others).to_string())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.unmanaged = None;
        self.tasks.clear();
        let to = self.parent.join("tasks");
        let mut result = Ok(());
        let cores = cgroup::core_groups(&self.group)?.into_iter();
        let mut groups: Vec<PathBuf> = cores.map(|(_, path)| path).collect();
        groups.push(self.group.join(UNMANAGED_GROUP));
        groups.push(self.group.clone());
        for group in groups {
            let moved = cgroup::move_all(&group.join("tasks"), &to);
            result = result.and(moved.map(drop)).and(cgroup::remove(&group));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order and contents of what is written, in a folder. `examples/arbiter/tests/e2e` is about the kernel.
    #[test]
    fn everything_else_keeps_the_cores_that_are_not_managed() {
        let tree = tempfile::tempdir().unwrap();
        let own = tree.path().join(OWN_GROUP);
        let groups = ["unmanaged", "core2", "core3"].map(|name| own.join(name));
        for group in [tree.path(), &own].into_iter().chain(groups.iter().map(PathBuf::as_path)) {
            fs::create_dir_all(group).unwrap();
            for (file, text) in [("cpuset.cpus", "0-7\n"), ("cpuset.mems", "0\n"), ("tasks", "")] {
                fs::write(group.join(file), text).unwrap();
            }
        }
        let scope = Scope { cores: Some("2-3".parse().unwrap()), ..Scope::default() };
        let mut mechanism = CpusetV1::open(tree.path(), &scope).unwrap();
        assert_eq!(mechanism.start().unwrap(), []);
        let text = |file: &str| fs::read_to_string(own.join(file)).unwrap();
        assert_eq!(text("core3/cpuset.cpus"), "3");
        mechanism.set_unmanaged("2".parse().unwrap()).unwrap();
        assert_eq!(text("unmanaged/cpuset.cpus"), "0-2,4-7");
        let this = ThreadId::current();
        mechanism.grant(CoreId::new(3).unwrap(), this).unwrap();
        assert_eq!(text("core3/tasks"), this.to_string());
    }
}
