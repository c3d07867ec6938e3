//! Workers that come and go with the cores that an arbiter grants. It moves nothing here, so it can have more cores
//! than the machine.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use psp_arbiter::arbitration::Settings;
use psp_arbiter::client::Arbiter;
use psp_arbiter::daemon::{Daemon, Listener};
use psp_arbiter::mechanism::{Recorded, Started};
use psp_arbiter::{CoreId, Priority, Registration, ThreadId};
use psp_harness::wait_until;
use psp_server::{Config, Policy, ServerHandle, Topology};

use crate::elastic::{Client, INTERVAL_MS, WORKERS_MAX, present, with_config};

/// An arbiter on threads of the test, of one core more than the server has threads.
struct Daemons {
    folder: tempfile::TempDir,
    running: Option<(UnixStream, JoinHandle<()>)>,
}

impl Daemons {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), running: None }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn start(&mut self) {
        let cores = (0..WORKERS_MAX + 2).filter_map(CoreId::new).collect();
        let listener = Listener::bind(&self.socket(), 0o600).unwrap();
        let (stop, told) = UnixStream::pair().unwrap();
        let daemon = thread::spawn(move || {
            let started = Started::new(Box::new(Recorded::new(cores, []))).unwrap();
            let daemon = Daemon::new(listener, Settings::default(), started).unwrap();
            daemon.run(told).unwrap();
        });
        self.running = Some((stop, daemon));
    }

    fn stop(&mut self) {
        let (stop, daemon) = self.running.take().unwrap();
        drop(stop);
        daemon.join().unwrap();
    }
}

/// A more important server that wants so many cores, and keeps them until it is dropped.
fn rival(socket: &Path, cores: usize) -> (Arbiter, Vec<JoinHandle<()>>) {
    let registration = Registration {
        name: "rival".to_owned(),
        priority: Priority::HIGHEST,
        cores_min: 0,
        cores_max: cores,
    };
    let mut arbiter = Arbiter::connect(socket, registration).unwrap();
    let (told, threads) = std::sync::mpsc::channel();
    let sleepers = (0..cores).map(|_| {
        let told = told.clone();
        thread::spawn(move || {
            told.send(ThreadId::current()).unwrap();
            thread::park();
        })
    });
    let sleepers: Vec<_> = sleepers.collect();
    { threads.iter().take(cores) }.for_each(|thread| arbiter.offer(thread));
    arbiter.set_wanted(cores);
    (arbiter, sleepers)
}

fn cores(handle: &ServerHandle) -> usize {
    handle.snapshot().arbiter.cores as usize
}

fn config(topology: Topology, socket: &Path) -> Config {
    Config::default()
        .workers(1..=WORKERS_MAX)
        .topology(topology)
        .elastic_interval_ms(INTERVAL_MS)
        .arbiter(socket)
}

#[test]
fn workers_come_and_go_with_their_cores_and_nothing_is_lost() {
    let mut arbiter = Daemons::new();
    arbiter.start();
    let socket = arbiter.socket();
    let config = config(Topology::Dedicated, &socket);
    with_config(config, Policy::c_fcfs(), |address, handle| {
        let replies = Client::with(address, |client| {
            let goes_on = || {
                let aim = client.replies() + 2 * WORKERS_MAX;
                wait_until("requests are answered", || client.replies() >= aim);
            };
            let many_come = || {
                wait_until("workers come", || present(handle) >= 4 && cores(handle) == present(handle) + 1);
                goes_on();
            };
            let has_nothing = || present(handle) == 1 && cores(handle) == 0;
            wait_until("an idle server has no cores", has_nothing);
            client.keep(WORKERS_MAX);
            many_come();
            // One core is left to the server: that of the net thread.
            let rival = rival(&socket, WORKERS_MAX);
            wait_until("workers go", || present(handle) == 1 && cores(handle) == 1);
            goes_on();
            let arbiter_says = handle.snapshot().arbiter;
            assert!(arbiter_says.recalls > 0, "{arbiter_says:?}");
            assert!(arbiter_says.wanted > 1, "{arbiter_says:?}");
            drop(rival);
            many_come();
            arbiter.stop();
            wait_until("the arbiter has gone", || handle.snapshot().arbiter.registered == 0);
            goes_on();
            assert!(cores(handle) > 1, "the server goes on with what it has");
            arbiter.start();
            wait_until("there is an arbiter again", || handle.snapshot().arbiter.registered == 1);
            many_come();
            client.keep(0);
            wait_until("an idle server gives its cores back", has_nothing);
        });
        let snapshot = handle.snapshot();
        let completions: u64 = snapshot.types.iter().map(|ty| ty.completions).sum();
        assert_eq!(completions, replies as u64);
    });
}

#[test]
fn without_an_arbiter_workers_come_all_the_same() {
    let arbiter = Daemons::new();
    let config = config(Topology::Dedicated, &arbiter.socket());
    with_config(config, Policy::c_fcfs(), |address, handle| {
        Client::with(address, |client| {
            client.keep(WORKERS_MAX);
            wait_until("workers come", || present(handle) >= 4);
            client.keep(0);
            wait_until("workers go", || present(handle) == 1);
        });
        assert_eq!(handle.snapshot().arbiter.grants, 0);
    });
}

#[test]
fn an_inline_net_thread_is_worker_0_and_gets_a_core_first() {
    let mut arbiter = Daemons::new();
    arbiter.start();
    let config = config(Topology::Inline, &arbiter.socket());
    with_config(config, Policy::c_fcfs(), |address, handle| {
        Client::with(address, |client| {
            client.keep(WORKERS_MAX);
            wait_until("workers come", || present(handle) >= 3 && cores(handle) == present(handle));
            client.keep(0);
            wait_until("the server gives its cores back", || cores(handle) == 0);
        });
    });
}
