//! How long a grant takes, and what it consists of.
//!
//! Grants are those of an arbiter that runs: from a server's request until the thread that it offered has a core and
//! runs (Arachne, figure 10). Moves are those of the mechanisms by themselves. The rest is what a busy thread pays to
//! learn that it must give its core back.

use std::fs;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use psp_arbiter::client::{Arbiter, ArbiterEvent};
use psp_arbiter::mechanism::{Affinity, CpusetV1, Mechanism, Scope, cpuset_mount};
use psp_arbiter::{CoreId, Priority, Registration, ThreadId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::DEFAULT_SOCKET;

/// How long to wait for a grant before giving up.
const GRANT_WITHIN: Duration = Duration::from_secs(5);

/// How long everything is left alone between two grants.
const REST: Duration = Duration::from_millis(1);

/// Flags of `psp-arbiter measure`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// The arbiter's Unix socket
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// How often each thing is measured
    #[arg(long, value_name = "N", default_value_t = 2000)]
    rounds: usize,
    /// Only what needs no arbiter
    #[arg(long)]
    moves_only: bool,
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<()> {
    ensure!(flags.rounds > 0, "--rounds must be at least 1");
    println!("{:<48} {:>9} {:>9} {:>9} {:>9}", "us", "p50", "p90", "p99", "max");
    moves(flags.rounds)?;
    print("two threads wake each other over a socket", wakes(flags.rounds)?);
    if flags.moves_only {
        return Ok(());
    }
    print("grant of a free core", free_core(flags)?);
    print("grant of a core that another server must release", recalled_core(flags)?);
    let (load_ns, read_ns) = looks(&flags.socket)?;
    println!("a look at the shared page: {load_ns:.2} ns as a load, {read_ns:.0} ns as a read of its file");
    Ok(())
}

fn print(what: &str, mut taken: Vec<Duration>) {
    taken.sort_unstable();
    let us = |share: f64| {
        let index = ((taken.len() - 1) as f64 * share).round() as usize;
        taken[index].as_secs_f64() * 1e6
    };
    println!("{what:<48} {:>9.1} {:>9.1} {:>9.1} {:>9.1}", us(0.5), us(0.9), us(0.99), us(1.0));
}

fn register(socket: &Path, name: &str, priority: Priority) -> anyhow::Result<Arbiter> {
    let registration = Registration { name: name.to_owned(), priority, cores_min: 0, cores_max: 1 };
    Ok(Arbiter::connect(socket, registration)?)
}

/// Sleeps until the arbiter has told something.
fn wait_for(arbiter: &mut Arbiter, wanted: impl Fn(ArbiterEvent) -> bool) -> anyhow::Result<()> {
    let give_up = Instant::now() + GRANT_WITHIN;
    loop {
        while let Some(event) = arbiter.poll() {
            if wanted(event) {
                return Ok(());
            }
        }
        let left = give_up.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "the arbiter did not grant a core: see psp-arbiter status");
        let timeout = Timespec::try_from(left)?;
        let mut readable = [PollFd::from_borrowed_fd(arbiter.as_fd(), PollFlags::IN)];
        let _ = poll(&mut readable, Some(&timeout));
    }
}

fn is_grant(event: ArbiterEvent) -> bool {
    matches!(event, ArbiterEvent::Granted { .. })
}

/// From the request until this thread, which sleeps meanwhile, has a core and runs. Then it gives the core back.
fn grant(arbiter: &mut Arbiter) -> anyhow::Result<Duration> {
    let before = Instant::now();
    arbiter.set_wanted(1);
    wait_for(arbiter, is_grant)?;
    let taken = before.elapsed();
    arbiter.set_wanted(0);
    arbiter.release(ThreadId::current());
    Ok(taken)
}

/// Grants while no server has a core.
fn free_core(flags: &Flags) -> anyhow::Result<Vec<Duration>> {
    let mut arbiter = register(&flags.socket, "measure-free", Priority::HIGHEST)?;
    arbiter.offer(ThreadId::current());
    let mut taken = Vec::with_capacity(flags.rounds);
    for _ in 0..flags.rounds {
        std::thread::sleep(REST);
        taken.push(grant(&mut arbiter)?);
    }
    Ok(taken)
}

/// The same, while a thread of a less important server has every core, and releases one as soon as it sees that.
fn recalled_core(flags: &Flags) -> anyhow::Result<Vec<Duration>> {
    let enough = Arc::new(AtomicBool::new(false));
    let grantable = psp_arbiter::status::ask(&flags.socket)?.grantable;
    let holders: Vec<_> = (0..grantable)
        .map(|_| {
            let (socket, enough) = (flags.socket.clone(), Arc::clone(&enough));
            std::thread::spawn(move || hold(&socket, &enough))
        })
        .collect();
    let taken = take_from_others(flags, grantable);
    enough.store(true, Ordering::Relaxed);
    for holder in holders {
        holder.join().expect("a holder panicked")?;
    }
    taken
}

fn take_from_others(flags: &Flags, grantable: usize) -> anyhow::Result<Vec<Duration>> {
    let mut arbiter = register(&flags.socket, "measure-high", Priority::HIGHEST)?;
    arbiter.offer(ThreadId::current());
    let mut taken = Vec::with_capacity(flags.rounds);
    for _ in 0..flags.rounds {
        let give_up = Instant::now() + GRANT_WITHIN;
        loop {
            std::thread::sleep(REST);
            let servers = psp_arbiter::status::ask(&flags.socket)?.servers;
            if servers.iter().map(|server| server.held.len()).sum::<usize>() == grantable {
                break;
            }
            ensure!(Instant::now() < give_up, "not all cores were granted: see psp-arbiter status");
        }
        taken.push(grant(&mut arbiter)?);
    }
    Ok(taken)
}

/// Takes a core and looks at the page all the time, as a busy worker would between requests.
fn hold(socket: &Path, enough: &AtomicBool) -> anyhow::Result<()> {
    let mut arbiter = register(socket, "measure-low", Priority::LOWEST)?;
    let this = ThreadId::current();
    arbiter.offer(this);
    arbiter.set_wanted(1);
    while !enough.load(Ordering::Relaxed) {
        let timeout = Timespec::try_from(Duration::from_millis(10))?;
        let mut readable = [PollFd::from_borrowed_fd(arbiter.as_fd(), PollFlags::IN)];
        let _ = poll(&mut readable, Some(&timeout));
        let mut has_core = false;
        while let Some(event) = arbiter.poll() {
            has_core |= is_grant(event);
        }
        let page = arbiter.page().cloned().context("the arbiter has gone")?;
        while has_core && !enough.load(Ordering::Relaxed) {
            if page.must_release(1) > 0 {
                arbiter.release(this);
                has_core = false;
            }
        }
    }
    Ok(())
}

/// A load of the page, and a read of a file like it, in nanoseconds.
fn looks(socket: &Path) -> anyhow::Result<(f64, f64)> {
    let arbiter = register(socket, "measure-page", Priority::LOWEST)?;
    let page = arbiter.page().context("the arbiter has gone")?;
    let load = || {
        let _ = black_box(page.must_release(black_box(1)));
    };
    let load_ns = ns_each(10_000_000, load);
    let file = rustix::fs::memfd_create("page", rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, 4096)?;
    let mut word = [0; 4];
    let read = || {
        let _ = black_box(rustix::io::pread(&file, &mut word, 0));
    };
    Ok((load_ns, ns_each(1_000_000, read)))
}

/// From a message to another thread, which sleeps, until its answer: what every grant contains.
fn wakes(rounds: usize) -> anyhow::Result<Vec<Duration>> {
    let (mut here, mut there) = UnixStream::pair()?;
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let mut byte = [0];
    let wakes = (0..rounds).map(|_| {
        std::thread::sleep(REST);
        let before = Instant::now();
        here.write_all(&byte)?;
        here.read_exact(&mut byte)?;
        Ok(before.elapsed())
    });
    let taken = wakes.collect();
    drop(here);
    let _ = echo.join();
    taken
}

fn ns_each(times: u32, mut look: impl FnMut()) -> f64 {
    let before = Instant::now();
    (0..times).for_each(|_| look());
    before.elapsed().as_secs_f64() * 1e9 / f64::from(times)
}

/// Moves a thread that sleeps to each core in turn, as the arbiter does, and away from it.
fn moves(rounds: usize) -> anyhow::Result<()> {
    let scope = Scope::default();
    let mut affinity = Affinity::open(&scope)?;
    print("move to a core: affinity", moves_by(&mut affinity, rounds)?);
    match Group::make() {
        Ok(group) => {
            let scope = Scope { parent: group.name.clone().into(), ..scope };
            let mut cpusets = CpusetV1::open(&group.mount, &scope)?;
            cpusets.start()?;
            let taken = moves_by(&mut cpusets, rounds);
            cpusets.stop()?;
            drop(group);
            print("move to a core: cpuset-v1", taken?);
        }
        Err(error) => println!("{:<48} not here: {error:#}", "move to a core: cpuset-v1"),
    }
    Ok(())
}

fn moves_by(mechanism: &mut dyn Mechanism, rounds: usize) -> anyhow::Result<Vec<Duration>> {
    let cores: Vec<CoreId> = mechanism.cores().iter().collect();
    let (told, thread) = channel();
    let (wake, sleep) = channel::<()>();
    let sleeper = std::thread::spawn(move || {
        let _ = told.send(ThreadId::current());
        let _ = sleep.recv();
    });
    let thread = thread.recv()?;
    // Until it has fallen asleep.
    std::thread::sleep(REST);
    let moves = cores.iter().cycle().take(rounds).map(|&core| {
        let before = Instant::now();
        mechanism.grant(core, thread)?;
        let taken = before.elapsed();
        mechanism.vacate(core, Some(thread), None)?;
        Ok(taken)
    });
    let taken = moves.collect();
    drop(wake);
    let _ = sleeper.join();
    taken
}

/// A cpuset of this process' own. It returns to the hierarchy's root, or where it was, in the end.
struct Group {
    mount: PathBuf,
    name: String,
    home: PathBuf,
}

impl Group {
    fn make() -> anyhow::Result<Self> {
        let mounts = cpuset_mount().into_iter();
        let mount = mounts.filter(|mount| !mount.is_v2).map(|mount| mount.path).next();
        let mount = mount.context("no cpusets of cgroup v1 are mounted")?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let home = own.lines().find_map(|line| line.split_once(":cpuset:/"));
        let home = mount.join(home.map_or("", |(_, path)| path));
        let name = format!("psp-arbiter-measure-{}", std::process::id());
        let path = mount.join(&name);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let group = Self { mount, name, home };
        for file in ["cpuset.cpus", "cpuset.mems"] {
            fs::write(path.join(file), fs::read_to_string(group.mount.join(file))?.trim())?;
        }
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let path = self.mount.join(&self.name);
        let own = fs::read_to_string(path.join("tasks")).unwrap_or_default();
        for task in own.lines() {
            let _ = fs::write(self.home.join("tasks"), task);
        }
        if let Err(error) = fs::remove_dir(&path) {
            eprintln!("cannot remove {}: {error}", path.display());
        }
    }
}
