//! An arbiter on a thread of the test, and clients with threads that sleep.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use psp_arbiter::arbitration::Settings;
use psp_arbiter::client::{Arbiter, ArbiterEvent};
use psp_arbiter::daemon::{Daemon, Listener};
use psp_arbiter::mechanism::{Recorded, Started};
use psp_arbiter::status::{self, Status};
use psp_arbiter::{CoreId, Priority, Registration, ThreadId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(60);

/// An arbiter.
pub(crate) struct Rig {
    folder: tempfile::TempDir,
    pub(crate) mechanism: Recorded,
    running: Option<(UnixStream, JoinHandle<()>)>,
}

impl Rig {
    /// An arbiter of the cores 0 to `cores - 1`.
    pub(crate) fn start(cores: usize, settings: Settings) -> Self {
        let cores = (0..cores).filter_map(CoreId::new).collect();
        let mut rig = Self {
            folder: tempfile::tempdir().unwrap(),
            mechanism: Recorded::new(cores, []),
            running: None,
        };
        rig.restart(settings);
        rig
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Starts an arbiter, after the present one has stopped. It finds nothing on the cores.
    pub(crate) fn restart(&mut self, settings: Settings) {
        self.stop();
        let (socket, mechanism) = (self.socket(), Box::new(self.mechanism.clone()));
        let (stop, told) = UnixStream::pair().unwrap();
        let listener = Listener::bind(&socket, 0o600).unwrap();
        let daemon = std::thread::spawn(move || {
            let started = Started::new(mechanism).unwrap();
            let daemon = Daemon::new(listener, settings, started).unwrap();
            daemon.run(told).unwrap();
        });
        self.running = Some((stop, daemon));
    }

    pub(crate) fn stop(&mut self) {
        if let Some((stop, daemon)) = self.running.take() {
            drop(stop);
            daemon.join().unwrap();
        }
    }

    pub(crate) fn status(&self) -> Status {
        status::ask(&self.socket()).unwrap()
    }

    /// Waits until the status is as `expected`.
    pub(crate) fn wait_for(&self, what: &str, expected: impl Fn(&Status) -> bool) -> Status {
        let give_up = Instant::now() + DEADLINE;
        loop {
            let status = self.status();
            if expected(&status) {
                return status;
            }
            assert!(Instant::now() < give_up, "not in time: {what}: {status:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

pub(crate) fn registration(name: &str, level: u8) -> Registration {
    Registration {
        name: name.to_owned(),
        priority: Priority::new(level).unwrap(),
        cores_min: 0,
        cores_max: 8,
    }
}

/// A server with threads that sleep until it is dropped.
pub(crate) struct Client {
    pub(crate) arbiter: Arbiter,
    pub(crate) threads: Vec<ThreadId>,
    _sleepers: Vec<Sender<()>>,
}

impl Client {
    pub(crate) fn connect(socket: &Path, name: &str, level: u8, threads: usize) -> Self {
        let mut arbiter = Arbiter::connect(socket, registration(name, level)).unwrap();
        let (threads, sleepers): (Vec<_>, Vec<_>) = (0..threads).map(|_| sleeper()).unzip();
        threads.iter().for_each(|&thread| arbiter.offer(thread));
        Self { arbiter, threads, _sleepers: sleepers }
    }

    /// Waits for an event that `wanted` chooses. Skips others.
    pub(crate) fn expect<T>(&mut self, wanted: impl Fn(ArbiterEvent) -> Option<T>) -> T {
        next_event(&mut self.arbiter, wanted)
    }

    pub(crate) fn granted(&mut self) -> (ThreadId, CoreId) {
        self.expect(|event| match event {
            ArbiterEvent::Granted { thread, core } => Some((thread, core)),
            _ => None,
        })
    }
}

/// Waits for an event that `wanted` chooses. Skips others.
pub(crate) fn next_event<T>(arbiter: &mut Arbiter, wanted: impl Fn(ArbiterEvent) -> Option<T>) -> T {
    let give_up = Instant::now() + DEADLINE;
    loop {
        while let Some(event) = arbiter.poll() {
            if let Some(found) = wanted(event) {
                return found;
            }
        }
        assert!(Instant::now() < give_up, "no such event in time");
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut readable = [PollFd::from_borrowed_fd(arbiter.as_fd(), PollFlags::IN)];
        let _ = poll(&mut readable, Some(&second));
    }
}

/// A thread that sleeps until the sender is dropped.
fn sleeper() -> (ThreadId, Sender<()>) {
    let (sender, receiver) = channel();
    let (told, thread) = channel();
    std::thread::spawn(move || {
        told.send(ThreadId::current()).unwrap();
        let _ = receiver.recv();
    });
    (thread.recv().unwrap(), sender)
}
