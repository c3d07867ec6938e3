//! Workers that come and go with the load. Requests sleep, so that many workers fit on few cores.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use psp_harness::{ServerProcess, Start, wait_until};
use psp_protocols::psp_header::{Header, Kind};
use psp_server::{Policy, ServerHandle, Topology};
use psp_synthetic::config::Config;
use psp_synthetic::handler::Mode;
use psp_synthetic::startup;

use crate::program::stop;

pub(crate) const WORKERS_MAX: usize = 6;
/// Long enough that a machine that is busy with other programs wakes up in time.
const SERVICE: Duration = Duration::from_millis(20);
pub(crate) const INTERVAL_MS: u64 = 100;
/// Longest wait for a reply.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that keeps a number of requests in the system.
pub(crate) struct Client {
    requests: AtomicUsize,
    stop: AtomicBool,
    replies: AtomicUsize,
}

impl Client {
    /// Runs `test` beside clients that send nothing yet. Returns how many replies there were in the end.
    pub(crate) fn with(address: SocketAddr, test: impl FnOnce(&Self)) -> usize {
        let client = Self {
            requests: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            replies: AtomicUsize::new(0),
        };
        thread::scope(|scope| {
            let _stop = Stop(&client);
            for number in 0..WORKERS_MAX {
                let client = &client;
                scope.spawn(move || client.send(address, number));
            }
            test(&client);
        });
        client.replies.into_inner()
    }

    /// From now on so many requests are in the system.
    pub(crate) fn keep(&self, requests: usize) {
        self.requests.store(requests, Ordering::Relaxed);
    }

    /// So many requests were answered.
    pub(crate) fn replies(&self) -> usize {
        self.replies.load(Ordering::Relaxed)
    }

    /// Sends a request after the other while there shall be more than `number` at a time. Each has one reply.
    fn send(&self, address: SocketAddr, number: usize) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reply = [0; 64];
        let mut id = 0;
        while !self.stop.load(Ordering::Relaxed) {
            if number >= self.requests.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            id += 1;
            let header = Header {
                kind: Kind::Request,
                request_type: 1,
                id,
                run_time_ns: SERVICE.as_nanos() as u32,
                payload_len: 0,
            };
            socket.send(&header.encode()).unwrap();
            let len = socket.recv(&mut reply).expect("every request has a reply");
            assert_eq!(Header::decode(&reply[..len]).unwrap().id, id);
            self.replies.fetch_add(1, Ordering::Relaxed);
        }
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut reply).is_err(), "a request has two replies");
    }
}

/// Ends the threads of a client, whatever happened.
struct Stop<'a>(&'a Client);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// The server's address and handle, while `test` runs.
fn with_server(topology: Topology, policy: Policy, test: impl FnOnce(SocketAddr, &ServerHandle)) {
    let server = psp_server::Config::default()
        .workers(1..=WORKERS_MAX)
        .topology(topology)
        .elastic_interval_ms(INTERVAL_MS);
    with_config(server, policy, test);
}

/// The same with any settings.
pub(crate) fn with_config(server: psp_server::Config, policy: Policy, test: impl FnOnce(SocketAddr, &ServerHandle)) {
    let server = startup::build(Config {
        port: 0,
        mode: Mode::Sleep,
        policy,
        server,
        ..Config::default()
    })
    .unwrap()
    .spawn()
    .unwrap();
    test(server.local_addrs()[0], server.handle());
    stop(server);
}

pub(crate) fn present(handle: &ServerHandle) -> usize {
    handle.snapshot().elastic.present as usize
}

/// The load rises and falls, and at least `many` workers come. `meanwhile` is called again and again.
fn ramp(address: SocketAddr, handle: &ServerHandle, many: usize, mut meanwhile: impl FnMut()) {
    let replies = Client::with(address, |client| {
        let mut reach = |requests: usize, what: &str, reached: &dyn Fn(usize) -> bool| {
            client.keep(requests);
            let replies = client.replies();
            wait_until(what, || {
                meanwhile();
                reached(present(handle))
            });
            wait_until("some requests are answered", || {
                meanwhile();
                client.replies() > replies
            });
        };
        reach(1, "one worker for one request", &|present| present == 1);
        reach(WORKERS_MAX, "workers come", &|present| present >= many);
        // The net thread as worker 0 runs one request after the other by itself, however many workers there are.
        if handle.topology() == Topology::Dedicated {
            reach(1, "workers go", &|present| present < many);
        }
        reach(WORKERS_MAX, "workers come again", &|present| present >= many);
        client.keep(0);
        wait_until("an idle server has one worker", || present(handle) == 1);
    });
    let elastic = handle.snapshot().elastic;
    assert_eq!(elastic.came, elastic.went, "as many went as came");
    assert!(elastic.came as usize + 1 >= many, "{elastic:?}");
    let snapshot = handle.snapshot();
    let completions: u64 = snapshot.types.iter().map(|ty| ty.completions).sum();
    assert_eq!(completions, replies as u64);
}

#[test]
fn workers_follow_the_load_and_nothing_is_lost() {
    for (topology, many) in [(Topology::Dedicated, 4), (Topology::Inline, 3)] {
        with_server(topology, Policy::c_fcfs(), |address, handle| {
            ramp(address, handle, many, || ());
        });
    }
}

#[test]
fn workers_follow_the_load_while_policies_change() {
    with_server(Topology::Dedicated, Policy::darc(), |address, handle| {
        let mut names = Policy::NAMES.iter().cycle();
        let mut changed = Instant::now();
        ramp(address, handle, 4, || {
            if changed.elapsed() > SERVICE {
                changed = Instant::now();
                let policy: Policy = names.next().unwrap().parse().unwrap();
                handle.set_policy(policy).unwrap();
            }
        });
    });
}

#[test]
fn an_idle_server_takes_less_than_a_hundredth_of_a_core() {
    let server = ServerProcess::start(|_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_psp-synthetic"));
        command.args(["--port", "0", "--tcp", "--mode", "sleep", "--workers", "2..8"]);
        Start { command, port: None }
    });
    // The first second is that of the start.
    thread::sleep(Duration::from_secs(1));
    let (before, began) = (server.processor_time(), Instant::now());
    thread::sleep(Duration::from_secs(3));
    let spent = server.processor_time() - before;
    let share = spent.as_secs_f64() / began.elapsed().as_secs_f64();
    assert!(share < 0.01, "{share}");
}
