//! Processes, and a cpuset of the test's own in which they live.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use psp_arbiter::mechanism::cpuset_mount;
use psp_arbiter::status::{self, Status};
use psp_harness::wait_until;
use rustix::process::{Pid, Signal, kill_process};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_psp-arbiter");

/// A process that dies with the test.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn id(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// Kills it at once (SIGKILL), and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Asks it to end, and returns whether it said that all was well.
    pub(crate) fn terminate(&mut self) -> bool {
        kill_process(Pid::from_raw(self.id()).unwrap(), Signal::TERM).unwrap();
        self.0.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cpuset that holds only what the test puts there. Its tasks must have ended, or leave with it.
pub(crate) struct Cpuset {
    mount: PathBuf,
    pub(crate) name: String,
}

impl Cpuset {
    /// # Errors
    /// Says why there is none.
    pub(crate) fn make() -> Result<Self, String> {
        static SO_FAR: AtomicU32 = AtomicU32::new(0);
        let mut mounts = cpuset_mount().into_iter();
        let mount = mounts.find(|mount| !mount.is_v2).ok_or("no cpusets of cgroup v1")?;
        let number = SO_FAR.fetch_add(1, Ordering::Relaxed);
        let cpuset = Self {
            mount: mount.path,
            name: format!("psp-arbiter-test-{}-{number}", std::process::id()),
        };
        fs::create_dir(cpuset.path()).map_err(|error| format!("cannot make a cpuset: {error}"))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let all = fs::read_to_string(cpuset.mount.join(file)).unwrap();
            fs::write(cpuset.path().join(file), all.trim()).unwrap();
        }
        Ok(cpuset)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.mount.join(&self.name)
    }

    /// A file of a group of the arbiter.
    pub(crate) fn own(&self, file: &str) -> PathBuf {
        self.path().join("psp-arbiter").join(file)
    }

    pub(crate) fn add(&self, process: &Process) {
        fs::write(self.path().join("tasks"), process.id().to_string()).unwrap();
    }
}

/// The numbers in a file such as `tasks`.
pub(crate) fn numbers(path: &Path) -> Vec<i32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        remove(&self.path(), &self.mount.join("tasks"));
    }
}

/// Removes a group and those below it, after their tasks have moved to the file `to`.
fn remove(group: &Path, to: &Path) {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    folders.for_each(|below| remove(&below, to));
    for _ in 0..100 {
        for task in numbers(&group.join("tasks")) {
            let _ = fs::write(to, task.to_string());
        }
        if fs::remove_dir(group).is_ok() || !group.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    eprintln!("cannot remove {}", group.display());
}

/// An arbiter that can be killed and started again, and the place where it lives.
pub(crate) struct Arbiter {
    // Processes end before their cpuset does.
    process: Option<Process>,
    folder: tempfile::TempDir,
    flags: Vec<String>,
    pub(crate) cpuset: Option<Cpuset>,
}

impl Arbiter {
    /// With cpusets of cgroup v1.
    ///
    /// # Errors
    /// Says why there are none.
    pub(crate) fn in_cpuset() -> Result<Self, String> {
        let cpuset = Cpuset::make()?;
        let flags = ["--mechanism", "cpuset-v1", "--parent", &cpuset.name];
        let flags = flags.map(str::to_owned).to_vec();
        Ok(Self::new(flags, Some(cpuset)))
    }

    /// With affinity alone.
    pub(crate) fn by_affinity() -> Self {
        let flags = ["--mechanism", "affinity"].map(str::to_owned).to_vec();
        Self::new(flags, None)
    }

    fn new(flags: Vec<String>, cpuset: Option<Cpuset>) -> Self {
        Self {
            process: None,
            folder: tempfile::tempdir().unwrap(),
            flags,
            cpuset,
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn start(&mut self) {
        self.spawn();
        let socket = self.socket();
        wait_until("the arbiter answers", || status::ask(&socket).is_ok());
    }

    /// Starts it, and waits for nothing.
    pub(crate) fn spawn(&mut self) {
        let log = self.folder.path().join("log");
        let log = fs::File::options().append(true).create(true).open(log).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("--socket").arg(self.socket()).args(&self.flags);
        self.process = Some(Process::spawn(command.stderr(log)));
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        self.process.as_mut().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub(crate) fn status(&self) -> Status {
        status::ask(&self.socket()).unwrap()
    }
}

/// Runs the program to its end.
pub(crate) fn run(flags: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(flags).stdin(Stdio::null()).output().unwrap()
}
