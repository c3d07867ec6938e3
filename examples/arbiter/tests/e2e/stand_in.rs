//! A server that only asks for cores: this test program, in a process of its own.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use psp_arbiter::client::{Arbiter, ArbiterEvent, Gate};
use psp_arbiter::{Priority, Registration, ThreadId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::fixture::Process;

const SOCKET: &str = "PSP_TEST_STAND_IN_SOCKET";
const LEVEL: &str = "PSP_TEST_STAND_IN_LEVEL";
const CORES: &str = "PSP_TEST_STAND_IN_CORES";

/// Starts a server that wants `cores` cores.
pub(crate) fn start(socket: &Path, level: u8, cores: usize) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "stand_in::stands_in", "--ignored", "--nocapture"])
        .env(SOCKET, socket)
        .env(LEVEL, level.to_string())
        .env(CORES, cores.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    Process::spawn(&mut command)
}

/// Not a test by itself: other tests run it in a process of its own.
#[test]
#[ignore = "run by other tests"]
fn stands_in() {
    let variable = |name| std::env::var(name).unwrap();
    // It ends with the test that started it, even if that was killed.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let cores = variable(CORES).parse().unwrap();
    let registration = Registration {
        name: format!("stand-in-{}", variable(LEVEL)),
        priority: Priority::new(variable(LEVEL).parse().unwrap()).unwrap(),
        cores_min: 0,
        cores_max: cores,
    };
    let arbiter = Arbiter::connect_later(variable(SOCKET), registration).unwrap();
    serve(arbiter, cores);
}

/// A thread that works while it has a core.
struct Worker {
    thread: ThreadId,
    gate: Arc<Gate>,
    stop: Arc<AtomicBool>,
    stopped: Receiver<()>,
}

impl Worker {
    fn start() -> Self {
        let (gate, stop) = (Arc::new(Gate::default()), Arc::new(AtomicBool::new(false)));
        let ((told, thread), (tell, stopped)) = (channel(), channel());
        let (its_gate, its_stop) = (Arc::clone(&gate), Arc::clone(&stop));
        std::thread::spawn(move || {
            told.send(ThreadId::current()).unwrap();
            while its_gate.block_until_core().is_some() {
                while !its_stop.swap(false, Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_micros(200));
                }
                tell.send(()).unwrap();
            }
        });
        Self { thread: thread.recv().unwrap(), gate, stop, stopped }
    }
}

/// The net thread of the server.
fn serve(mut arbiter: Arbiter, cores: usize) {
    let workers: Vec<Worker> = (0..cores).map(|_| Worker::start()).collect();
    workers.iter().for_each(|worker| arbiter.offer(worker.thread));
    arbiter.set_wanted(cores);
    loop {
        let turn = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let mut readable = [PollFd::from_borrowed_fd(arbiter.as_fd(), PollFlags::IN)];
        let _ = poll(&mut readable, Some(&turn));
        while let Some(event) = arbiter.poll() {
            let of = |thread| workers.iter().find(|worker| worker.thread == thread).unwrap();
            match event {
                ArbiterEvent::Granted { thread, core } => of(thread).gate.open(Some(core)),
                ArbiterEvent::Taken { thread, .. } => {
                    of(thread).stop.store(true, Ordering::Relaxed);
                }
                ArbiterEvent::Recalled { release } => {
                    for (thread, _) in arbiter.granted().take(release) {
                        of(thread).stop.store(true, Ordering::Relaxed);
                    }
                }
                ArbiterEvent::Refused(refusal) => panic!("{refusal}"),
                ArbiterEvent::Registered { .. } | ArbiterEvent::Lost => {}
            }
        }
        for worker in &workers {
            if worker.stopped.try_recv().is_ok() {
                arbiter.release(worker.thread);
            }
        }
    }
}
