//! A server, with one worker unless a test says otherwise, whose long requests run until the test releases them.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use psp_server::protocols::Sink;
use psp_server::{
    AdmissionMode, Config, CpuTimer, DrainReport, Handler, Policy, PreemptPolicy, Reply, Request, RequestType,
    ServerHandle, SignalPreemptible, SpawnedServer, Topology, TypeSpec, checkpoint, no_preempt, sleep, wait,
};

use crate::common::{Client, OfLines, Spawned, lines, until, without_state};

/// Long requests by the digit at the end of their line.
const GATES: usize = 10;

/// How long a `nap` takes.
const NAP: Duration = Duration::from_millis(20);

/// How long a `work` takes. A run of pipelined requests has less, so that what is behind a `work` is queued again.
const WORK: Duration = Duration::from_micros(100);

/// For how long a `compute` computes.
pub(crate) const COMPUTED: Duration = Duration::from_millis(20);

/// All mechanisms of this platform.
pub(crate) const MECHANISMS: &[PreemptPolicy] = &[
    PreemptPolicy::Cooperative,
    #[cfg(target_os = "linux")]
    PreemptPolicy::KernelThread,
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    PreemptPolicy::Signal,
];

/// State that tests and handlers share.
#[derive(Default)]
pub(crate) struct Gates {
    /// Which long requests may end.
    open: Mutex<[bool; GATES]>,
    /// Long requests that have begun.
    pub(crate) begun: AtomicUsize,
    /// Locked by `keep` and `need`.
    kept: Mutex<()>,
    /// Requests that wait for a gate, to be woken when any opens.
    dozing: Mutex<Vec<Waker>>,
    /// For how long the last `time` computed, and how long it took.
    pub(crate) timed: Mutex<(Duration, Duration)>,
}

impl Gates {
    pub(crate) fn open(&self, gate: usize) {
        self.open.lock().unwrap()[gate] = true;
        let dozing = std::mem::take(&mut *self.dozing.lock().unwrap());
        dozing.into_iter().for_each(Waker::wake);
    }

    /// Closes a gate: long requests wait there from now on.
    pub(crate) fn close(&self, gate: usize) {
        self.open.lock().unwrap()[gate] = false;
    }

    fn is_open(&self, gate: usize) -> bool {
        no_preempt(|| self.open.lock().unwrap()[gate])
    }

    async fn opened(&self, gate: usize) {
        std::future::poll_fn(|context| {
            // Before the look, so that the wake is not missed.
            no_preempt(|| self.dozing.lock().unwrap().push(context.waker().clone()));
            match self.is_open(gate) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

thread_local! {
    static BORROWED: RefCell<()> = const { RefCell::new(()) };
}
static LOCKED: Mutex<()> = Mutex::new(());

/// Lets the handler of SIGUSR2 return.
pub(crate) static HANDLER_MAY_RETURN: AtomicBool = AtomicBool::new(false);

/// Spins in a signal's handler, on the request's own stack, until [`HANDLER_MAY_RETURN`].
#[cfg(target_os = "linux")]
fn in_signal_handler() {
    extern "C" fn spin(_signal: libc::c_int) {
        while !HANDLER_MAY_RETURN.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    }
    // SAFETY: zeroes are a valid `sigaction`, which lives until the call returns; `spin` has the signature of a
    // handler and does nothing but read an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = spin as *const () as usize;
        libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
        libc::raise(libc::SIGUSR2);
    }
}

/// Requests end in the digit of their gate:
///
/// | request | until its gate is open it |
/// | --- | --- |
/// | `spin` | spins, and calls checkpoints where requests yield at them |
/// | `loop` | spins in a loop into which a macro has put checkpoints |
/// | `hold` | does so within `no_preempt` |
/// | `hold-then-spin` | does so, and then spins until the next gate is open |
/// | `fail` | spins, and panics then |
/// | `block` | sleeps in a system call |
/// | `borrow`, `lock` | spins with a thread-local variable borrowed, a lock held |
/// | `keep` | spins with a lock held that `need ..` waits for |
/// | `time` | spins, and notes its times then |
/// | `signalled` | spins in the handler of another signal, and then until the next gate is open |
///
/// `doze` waits for its gate without the worker, and `nap` for [`NAP`]. `borrow-briefly` and `try-lock` want the same,
/// `work ..` takes [`WORK`], `compute` computes for [`COMPUTED`], and all other requests answer at once.
pub(crate) struct Rig {
    gates: Arc<Gates>,
    pause: fn(),
}

impl Rig {
    /// Sleeps, a millisecond at a time.
    fn block(&self, gate: usize) {
        while !self.gates.is_open(gate) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn spin(&self, gate: usize) {
        while !self.gates.is_open(gate) {
            (self.pause)();
        }
    }
}

#[psp_server::preemptible]
fn wait_in_loop(gates: &Gates, gate: usize) {
    while !gates.is_open(gate) {
        std::hint::spin_loop();
    }
}

// SAFETY: it keeps the promises except in `borrow` and `lock`, which break them to show the consequences; a
// `RefCell` and a `Mutex` notice.
unsafe impl SignalPreemptible for Rig {}

impl Handler for Rig {
    without_state!();

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        let line = std::str::from_utf8(request.payload).unwrap().trim_end();
        let (word, digits) = line.split_once(' ').unwrap_or((line, ""));
        let gate = digits.parse().unwrap_or(0);
        let long = request.request_type == RequestType::new(1);
        self.gates.begun.fetch_add(usize::from(long), Ordering::SeqCst);
        let mut taken = false;
        match word {
            "spin" => self.spin(gate),
            "loop" => wait_in_loop(&self.gates, gate),
            "hold" => no_preempt(|| self.spin(gate)),
            "hold-then-spin" => {
                no_preempt(|| self.spin(gate));
                self.spin(gate + 1);
            }
            "fail" => {
                self.spin(gate);
                panic!("the test asked for it");
            }
            "block" => self.block(gate),
            "borrow" => BORROWED.with_borrow_mut(|()| self.spin(gate)),
            "doze" => wait(self.gates.opened(gate)),
            "nap" => sleep(NAP),
            "borrow-briefly" => BORROWED.with_borrow_mut(|()| {}),
            "lock" => {
                let _held = LOCKED.lock().unwrap();
                self.spin(gate);
            }
            "keep" => {
                let _kept = self.gates.kept.lock().unwrap();
                self.spin(gate);
            }
            "need" => drop(self.gates.kept.lock().unwrap()),
            #[cfg(target_os = "linux")]
            "signalled" => {
                in_signal_handler();
                self.spin(gate + 1);
            }
            "try-lock" => taken = LOCKED.try_lock().is_err(),
            "work" => {
                let begun = Instant::now();
                while begun.elapsed() < WORK {
                    std::hint::spin_loop();
                }
            }
            "time" => {
                let (timer, begun) = (CpuTimer::start(), Instant::now());
                self.spin(gate);
                let times = (timer.elapsed(), begun.elapsed());
                no_preempt(|| *self.gates.timed.lock().unwrap() = times);
            }
            "compute" => {
                let timer = CpuTimer::start();
                while timer.elapsed() < COMPUTED {
                    std::hint::spin_loop();
                }
            }
            _ => {}
        }
        reply.put(if taken { b"taken " } else { b"ok " });
        reply.put(line.as_bytes());
        reply.put(b"\n");
    }
}

pub(crate) struct RigServer {
    address: SocketAddr,
    pub(crate) handle: ServerHandle,
    pub(crate) gates: Arc<Gates>,
    server: Option<SpawnedServer>,
}

/// The parts of a server beside its configuration.
pub(crate) struct Setup {
    pub(crate) policy: Policy,
    pub(crate) topology: Topology,
    pub(crate) short: TypeSpec,
    pub(crate) long: TypeSpec,
}

impl Default for Setup {
    /// A quantum that is over as soon as a request waits: far shorter than a thread takes to wake.
    fn default() -> Self {
        Self {
            policy: Policy::sq().quantum_us(1.0),
            topology: Topology::Dedicated,
            short: TypeSpec::new("short"),
            long: TypeSpec::new("long"),
        }
    }
}

impl Setup {
    /// With another long type.
    pub(crate) fn of_long(long: TypeSpec) -> Self {
        Self { long, ..Self::default() }
    }
}

/// One worker, unless `config` says otherwise, and two types.
pub(crate) fn start(config: Config) -> RigServer {
    start_with(config, Setup::default())
}

/// The same with another setup.
pub(crate) fn start_with(config: Config, setup: Setup) -> RigServer {
    let Setup { policy, topology, short, long } = setup;
    let workers = config.workers.map_or(1, |workers| workers.max);
    let preempt = long.preempt.unwrap_or(config.preempt);
    let gates = Arc::new(Gates::default());
    let server = lines()
        .types([short, long])
        .classifier(|line: &[u8]| {
            let long = [
                "spin ",
                "loop ",
                "hold",
                "fail ",
                "block ",
                "borrow ",
                "lock ",
                "keep ",
                "signalled ",
                "time ",
            ];
            let long = long.iter().any(|word| line.starts_with(word.as_bytes()));
            RequestType::new(u32::from(long))
        })
        .policy(policy)
        .config(
            config
                .workers(workers)
                .topology(topology)
                // Policies go by the SLOs here. Nothing is refused for them.
                .admission(AdmissionMode::Off)
                // Other programs may run on the machine.
                .background_nice(0),
        )
        .handler(Rig {
            gates: gates.clone(),
            pause: match preempt {
                PreemptPolicy::Cooperative => checkpoint,
                _ => std::hint::spin_loop,
            },
        })
        .signal_preemption()
        .spawned();
    let (address, handle) = (server.local_addrs()[0], server.handle().clone());
    RigServer { address, handle, gates, server: Some(server) }
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
        until("the long request runs", || self.gates.begun.load(Ordering::SeqCst) > before);
        client
    }

    /// Times that a request yielded.
    pub(crate) fn preempted(&self) -> u64 {
        let workers = self.handle.snapshot().workers;
        let honoured = workers.iter().map(|it| it.turns.preemptions_honoured);
        honoured.sum()
    }

    /// The same, and pauses of requests that share the net thread.
    pub(crate) fn interrupted(&self) -> u64 {
        let workers = self.handle.snapshot().workers;
        let pauses: u64 = workers.iter().map(|it| it.turns.pauses).sum();
        self.preempted() + pauses
    }

    pub(crate) fn stop(mut self) -> DrainReport {
        self.server.take().unwrap().stop()
    }
}

impl Drop for RigServer {
    fn drop(&mut self) {
        (0..GATES).for_each(|gate| self.gates.open(gate));
    }
}

/// Tests a server of one worker whose long type is cooperative. `wait` returns when the second short request waits.
pub(crate) fn yields_at_checkpoints_only(server: RigServer, wait: impl Fn(&RigServer)) {
    let mut spinning = server.begin("spin 0");
    let mut short = server.connect();
    assert_eq!(short.ask("short 1"), "ok short 1");
    assert!(server.preempted() > 0);
    server.gates.open(0);
    assert_eq!(spinning.line(), "ok spin 0");

    let mut holding = server.begin("hold 1");
    let before = server.preempted();
    short.send("short 2\n");
    wait(&server);
    assert_eq!(server.preempted(), before);
    server.gates.open(1);
    assert_eq!(holding.line(), "ok hold 1");
    assert_eq!(short.line(), "ok short 2");
    assert_eq!(server.stop().abandoned, 0);
}
