//! A server with one worker whose long requests run until the test lets them go.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use psp_server::protocols::Sink;
use psp_server::{
    Config, DrainReport, Handler, Policy, Reply, Request, RequestType, Server, ServerHandle,
    Shutdown, Topology, TypeSpec, WorkerId, checkpoint, no_preempt,
};

use crate::common::{Client, Lines, until};

/// Long requests by the digit at the end of their line.
const GATES: usize = 10;

/// What tests and handlers share.
#[derive(Default)]
pub(crate) struct Gates {
    /// Long requests with this digit may end.
    open: [AtomicBool; GATES],
    /// Long requests that have begun.
    pub(crate) begun: AtomicUsize,
    /// Held by `lock` and `need`.
    lock: Mutex<()>,
    /// For `block`: somebody opened a gate.
    opened: (Mutex<()>, Condvar),
}

impl Gates {
    pub(crate) fn open(&self, gate: usize) {
        let _notifying = self.opened.0.lock().unwrap();
        self.open[gate].store(true, Ordering::SeqCst);
        self.opened.1.notify_all();
    }

    /// Blocks until the gate is open.
    fn wait(&self, line: &str) {
        let waiting = self.opened.0.lock().unwrap();
        self.begun.fetch_add(1, Ordering::SeqCst);
        let closed = |_: &mut ()| !self.is_open(line);
        drop(self.opened.1.wait_while(waiting, closed).unwrap());
    }

    fn is_open(&self, line: &str) -> bool {
        let digit = line
            .as_bytes()
            .last()
            .expect("a line with a digit at its end");
        self.open[usize::from(digit - b'0')].load(Ordering::SeqCst)
    }
}

/// `spin N` calls checkpoints until gate N is open, `hold N` does so within `no_preempt`, `fail N`
/// panics then. `burn N` spins without checkpoints, `lock N` does so while it holds a lock that `need ..`
/// takes, and `block N` sleeps. `work ..` takes a while, everything else answers at once.
pub(crate) struct Rig(Arc<Gates>);

impl Handler for Rig {
    type Worker = ();
    type Connection = ();

    fn init_worker(&self, _worker: WorkerId) {}

    fn connect(&self, _peer: SocketAddr) {}

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        let line = std::str::from_utf8(request.payload).unwrap().trim_end();
        let gates = &self.0;
        let spin = || {
            gates.begun.fetch_add(1, Ordering::SeqCst);
            while !gates.is_open(line) {
                checkpoint();
            }
        };
        let burn = || {
            gates.begun.fetch_add(1, Ordering::SeqCst);
            while !gates.is_open(line) {
                std::hint::spin_loop();
            }
        };
        match line.split_once(' ') {
            Some(("spin", _)) => spin(),
            Some(("hold", _)) => no_preempt(spin),
            Some(("fail", _)) => {
                spin();
                panic!("the test asked for it");
            }
            Some(("burn", _)) => burn(),
            Some(("lock", _)) => {
                let _held = gates.lock.lock().unwrap();
                burn();
            }
            Some(("need", _)) => drop(gates.lock.lock().unwrap()),
            Some(("block", _)) => gates.wait(line),
            Some(("work", _)) => {
                for _ in 0..50_000 {
                    std::hint::spin_loop();
                }
            }
            _ => {}
        }
        reply.put(b"ok ");
        reply.put(line.as_bytes());
        reply.put(b"\n");
    }
}

pub(crate) struct RigServer {
    address: SocketAddr,
    pub(crate) handle: ServerHandle,
    pub(crate) gates: Arc<Gates>,
    shutdown: Shutdown,
    thread: Option<JoinHandle<DrainReport>>,
}

/// One worker, two types, and a quantum that is over as soon as somebody waits.
pub(crate) fn start(config: Config) -> RigServer {
    start_with(config, TypeSpec::new("long"))
}

/// The same with a long type of one's own.
pub(crate) fn start_with(config: Config, long: TypeSpec) -> RigServer {
    let gates = Arc::new(Gates::default());
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .framing(Lines)
        .types([TypeSpec::new("short"), long])
        .classifier(|line: &[u8]| {
            let long = [&b"spin"[..], b"hold", b"fail", b"burn", b"lock", b"block"];
            RequestType::new(u32::from(long.iter().any(|word| line.starts_with(word))))
        })
        .policy(Policy::sq().quantum_us(1.0))
        .config(Config {
            workers: Some(1),
            topology: Topology::Dedicated,
            ..config
        })
        .handler(Rig(gates.clone()))
        .build()
        .unwrap();
    let address = server.local_addrs()[0];
    let handle = server.handle();
    let shutdown = Shutdown::new();
    let until = shutdown.clone();
    let thread = Some(std::thread::spawn(move || {
        server.run_until(&until).unwrap()
    }));
    RigServer {
        address,
        handle,
        gates,
        shutdown,
        thread,
    }
}

impl RigServer {
    pub(crate) fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).unwrap())
    }

    /// A client whose long request has begun.
    pub(crate) fn begin(&self, line: &str) -> Client {
        let before = self.gates.begun.load(Ordering::SeqCst);
        let mut client = self.connect();
        client.send(&format!("{line}\n"));
        until("the long request runs", || {
            self.gates.begun.load(Ordering::SeqCst) > before
        });
        client
    }

    pub(crate) fn stop(mut self) -> DrainReport {
        self.shutdown.trigger();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for RigServer {
    fn drop(&mut self) {
        (0..GATES).for_each(|gate| self.gates.open(gate));
        self.shutdown.trigger();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
