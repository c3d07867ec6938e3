//! A server whose workers cannot start, or die later, ends with an error that names the worker and the cause.

use std::error::Error;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use psp_server::protocols::Sink;
use psp_server::{
    Config, DrainReport, Handler, Peer, Policy, PreemptPolicy, Reply, Request, RunError, Server, Shutdown, Topology,
    WorkerId,
};

use crate::common::{Client, Lines, OfLines, PATIENCE, Spawned, handler, lines, until};

/// How a worker fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Error,
    Panic,
}

/// Makes `states` states of a worker, and then fails to.
struct Failing {
    failure: Failure,
    worker: WorkerId,
    states: usize,
    made: AtomicUsize,
}

impl Failing {
    fn new(failure: Failure, worker: u32, states: usize) -> Self {
        Self {
            failure,
            worker: WorkerId(worker),
            states,
            made: AtomicUsize::new(0),
        }
    }
}

impl Handler for Failing {
    type Worker = ();
    type Connection = ();

    fn init_worker(&self, _worker: WorkerId) {
        unreachable!("the server calls try_init_worker")
    }

    fn try_init_worker(&self, worker: WorkerId) -> Result<(), Box<dyn Error + Send + Sync>> {
        if worker != self.worker || self.made.fetch_add(1, Ordering::SeqCst) < self.states {
            return Ok(());
        }
        match self.failure {
            Failure::Error => Err("no database".into()),
            Failure::Panic => panic!("no database"),
        }
    }

    fn connect(&self, _peer: Peer) {}

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        assert_ne!(request.payload, b"panic\n");
        reply.put(request.payload);
    }
}

type Kind = (Topology, PreemptPolicy, Policy);

/// Each kind of worker.
fn kinds() -> impl Iterator<Item = Kind> {
    let linux = cfg!(target_os = "linux");
    let kernel_thread = linux.then(|| {
        let mq = Policy::mq();
        (Topology::Dedicated, PreemptPolicy::KernelThread, mq)
    });
    let cooperative = PreemptPolicy::Cooperative;
    [
        (Topology::Inline, cooperative, Policy::darc()),
        (Topology::Dedicated, PreemptPolicy::None, Policy::darc()),
        (Topology::Dedicated, cooperative, Policy::darc()),
        (Topology::Dedicated, cooperative, Policy::mq()),
        (Topology::Distributed, cooperative, Policy::d_fcfs()),
    ]
    .into_iter()
    .chain(kernel_thread)
}

/// Runs a server until it ends. `with` gets its address and its shutdown while it runs.
fn run(
    handler: Failing,
    workers: usize,
    (topology, preempt, policy): Kind,
    with: impl FnOnce(SocketAddr, &Shutdown),
) -> Result<DrainReport, RunError> {
    let config = Config::default()
        .workers(workers)
        .topology(topology)
        .preempt(preempt)
        .drain_timeout_ms(100);
    let server = lines().handler(handler).policy(policy).config(config).build().unwrap();
    let address = server.local_addrs()[0];
    let shutdown = Shutdown::new();
    let until = shutdown.clone();
    let (ended, ending) = mpsc::channel();
    std::thread::spawn(move || ended.send(server.run_until(&until)));
    with(address, &shutdown);
    ending.recv_timeout(PATIENCE).expect("the server ends")
}

#[test]
fn a_worker_that_cannot_start_is_an_error_with_its_cause() {
    for kind in kinds() {
        for (failure, cause) in [
            (Failure::Error, "its state cannot be made: no database"),
            (Failure::Panic, "panicked: no database"),
        ] {
            // In the topologies `inline` and `distributed` the first thread is worker 0.
            for worker in [0, 1] {
                let handler = Failing::new(failure, worker, 0);
                let error = run(handler, 2, kind.clone(), |_, _| {}).unwrap_err();
                let expected = format!("worker {worker} cannot start: {cause}");
                assert_eq!(error.to_string(), expected, "{kind:?}");
                assert!(matches!(error, RunError::WorkerStart { .. }), "{error:?}");
            }
        }
    }
}

/// A worker loses its state when its handler panics. It dies if it gets no other.
#[test]
fn a_worker_that_dies_later_is_an_error_with_its_cause() {
    for kind in kinds() {
        let handler = Failing::new(Failure::Error, 0, 1);
        let error = run(handler, 1, kind.clone(), |address, _| {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"panic\n").unwrap();
        });
        let error = error.unwrap_err();
        let expected = "worker 0 died: its state cannot be made: no database";
        assert_eq!(error.to_string(), expected, "{kind:?}");
        assert!(matches!(error, RunError::WorkerDied { .. }), "{error:?}");
    }
}

/// Without a further context, requests run on instead of yielding.
#[test]
fn a_worker_goes_on_without_a_further_context() {
    for kind in kinds() {
        let handler = Failing::new(Failure::Panic, 0, 1);
        let report = run(handler, 1, kind.clone(), |address, shutdown| {
            let mut client = Client::new(TcpStream::connect(address).unwrap());
            for request in ["one", "two"] {
                client.send(&format!("{request}\n"));
                assert_eq!(client.line(), request, "{kind:?}");
            }
            shutdown.trigger();
        });
        assert_eq!(report.unwrap().abandoned, 0, "{kind:?}");
    }
}

#[test]
fn a_spawned_server_serves_at_once_and_ends_with_its_owner() {
    for kind in kinds() {
        let (topology, preempt, policy) = kind.clone();
        let alive = Arc::new(());
        let held = alive.clone();
        let server = lines()
            .handler(handler(move |request, reply| {
                let _held = &held;
                reply.put(request.payload);
            }))
            .policy(policy)
            .config(Config::default().workers(2).topology(topology).preempt(preempt))
            .spawned();
        let stream = TcpStream::connect(server.local_addrs()[0]).unwrap();
        let mut client = Client::new(stream);
        assert_eq!(client.ask("one"), "one", "{kind:?}");
        assert_eq!(server.handle().snapshot().net.connections_accepted, 1);
        drop(server);
        assert_eq!(client.line(), "", "{kind:?}: the connection is closed");
        until("no thread has the handler", || Arc::strong_count(&alive) == 1);
    }
}

#[test]
fn a_spawned_server_says_how_it_ended() {
    for kind in kinds() {
        let spawn = |states| {
            let (topology, preempt, policy) = kind.clone();
            let handler = Failing::new(Failure::Error, 0, states);
            let builder = Server::builder().tcp("127.0.0.1:0").framing(Lines);
            let builder = builder.handler(handler).policy(policy).workers(1);
            // The request of the worker that dies is never done.
            let builder = builder.config(Config::default().drain_timeout_ms(100));
            let server = builder.topology(topology).preempt(preempt).build();
            server.unwrap().spawn()
        };
        let cause = "its state cannot be made: no database";
        let error = spawn(0).unwrap_err().to_string();
        assert_eq!(error, format!("worker 0 cannot start: {cause}"), "{kind:?}");

        let server = spawn(1).unwrap();
        let mut client = TcpStream::connect(server.local_addrs()[0]).unwrap();
        client.write_all(b"panic\n").unwrap();
        let error = server.join().unwrap_err().to_string();
        assert_eq!(error, format!("worker 0 died: {cause}"), "{kind:?}");

        let server = spawn(1).unwrap();
        assert_eq!(server.stop().abandoned, 0, "{kind:?}");
    }
}
