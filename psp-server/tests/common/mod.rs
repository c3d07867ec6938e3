//! A server with a line protocol, as a user would write it, and clients for it.
#![allow(dead_code, unused_imports, unused_macros)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use psp_server::protocols::{self, FrameError, Framing, Rejection, Sink, Step};
use psp_server::{
    Classifier, Config, DrainReport, Handler, Missing, OneType, Policy, Reply, Request, RequestType, Server,
    ServerBuilder, ServerHandle, SpawnedServer, Topology, TypeSpec, checkpoint, no_preempt,
};
use tempfile::TempDir;

/// Long enough for any machine; reached only when a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// One request a line, at most 1 MiB, which does not begin with a zero byte.
pub(crate) struct Lines;

impl Framing for Lines {
    type Cursor = usize;
    type Head = ();

    fn next_frame(&self, scanned: &mut usize, input: &[u8]) -> Result<Step, FrameError> {
        if input[0] == b'\0' {
            return Err(FrameError::new("zero byte"));
        }
        protocols::Lines::default().len_max(1 << 20).next_frame(scanned, input)
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        let text = match rejection {
            Rejection::Busy { type_name } => format!("!busy {type_name}"),
            Rejection::Overloaded { type_name, .. } => format!("!overloaded {type_name}"),
            Rejection::HandlerFailed => "!failed".into(),
            Rejection::ReplyTooLarge { limit_bytes } => format!("!larger than {limit_bytes}"),
            Rejection::Malformed(error) => format!("!malformed: {error}"),
            Rejection::TooManyConnections => "!too many connections".into(),
            Rejection::Refused(reason) => format!("!refused: {reason}"),
            Rejection::OutOfBuffers => "!out of buffers".into(),
            Rejection::ShuttingDown => "!shutting down".into(),
            Rejection::Expired => "!expired".into(),
            other => format!("!{other}"),
        };
        out.put(text.as_bytes());
        out.put(b" ");
        out.put(request.trim_ascii_end());
        out.put(b"\n");
    }
}

/// Any handler without state, as one type.
pub(crate) type AnyHandler = Box<dyn Fn(Request<'_, ()>, &mut Reply<'_>) + Send + Sync>;

/// Any classifier, as one type.
pub(crate) type AnyClassifier = Box<dyn Fn(&[u8]) -> RequestType + Send + Sync>;

/// Makes a handler of that type. The compiler makes the runtime anew for each type of handler, and needs seconds for
/// it.
pub(crate) fn handler(serve: impl Fn(Request<'_, ()>, &mut Reply<'_>) + Send + Sync + 'static) -> AnyHandler {
    Box::new(serve)
}

/// Makes a classifier of that type, for the same reason.
pub(crate) fn classifier(classify: impl Fn(&[u8]) -> RequestType + Send + Sync + 'static) -> AnyClassifier {
    Box::new(classify)
}

/// The beginning of a handler that has state neither of workers nor of connections.
macro_rules! without_state {
    () => {
        type Worker = ();
        type Connection = ();

        fn init_worker(&self, _worker: psp_server::WorkerId) {}

        fn connect(&self, _peer: psp_server::Peer) {}
    };
}
pub(crate) use without_state;

/// A server of lines on any free port, to which a test adds the rest.
pub(crate) fn lines() -> ServerBuilder<Lines, OneType, Missing> {
    Server::builder().tcp("127.0.0.1:0").framing(Lines)
}

/// Starts what was built.
pub(crate) trait Spawned {
    fn spawned(self) -> SpawnedServer;
}

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Spawned for ServerBuilder<F, K, H> {
    fn spawned(self) -> SpawnedServer {
        self.build().unwrap().spawn().unwrap()
    }
}

/// What tests do with a server of lines.
pub(crate) trait OfLines {
    /// A client of its first address.
    fn connect(&self) -> Client;

    fn stop(self) -> DrainReport;
}

impl OfLines for SpawnedServer {
    fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.local_addrs()[0]).unwrap())
    }

    fn stop(self) -> DrainReport {
        self.shut_down();
        self.join().unwrap()
    }
}

/// A server with the types `short` and `long`: the lines that begin with `long`, and all others.
pub(crate) fn start_by_prefix(policy: Policy, config: Config, handle: AnyHandler) -> SpawnedServer {
    lines()
        .types(["short", "long"].map(TypeSpec::new))
        .classifier(classifier(|line| RequestType::new(u32::from(line.starts_with(b"long")))))
        .handler(handle)
        .policy(policy)
        .config(config)
        .spawned()
}

/// A gate at which `wait` requests wait until the test opens it.
#[derive(Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    pub(crate) waiting: AtomicUsize,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        *self.open.lock().unwrap() = false;
    }

    pub(crate) fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let open = self.open.lock().unwrap();
        let _ = self.changed.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Passes checkpoints until it is open.
    pub(crate) fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let since = Instant::now();
        // A request that yields holds no lock.
        while !no_preempt(|| *self.open.lock().unwrap()) && since.elapsed() < PATIENCE {
            checkpoint();
        }
    }
}

/// The name of a server's Unix socket.
const UNIX_SOCKET: &str = "server.sock";

/// Requests of type `long` begin with these words.
const LONG: [&[u8]; 3] = [b"wait", b"big", b"spin"];

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    /// The address of UDP, if there is one.
    pub(crate) udp: SocketAddr,
    pub(crate) handle: ServerHandle,
    pub(crate) gate: Arc<Gate>,
    /// Where its Unix socket is, if it has one, on which clients connect then.
    directory: Option<TempDir>,
    server: Option<SpawnedServer>,
}

/// Requests: `wait ..` waits at the gate, `panic ..` panics, `big N` answers N bytes, `spin N` passes N
/// checkpoints, `quit` closes; every other line is echoed with `ok`. `wait`, `big` and `spin` are of type
/// `long`, lines that start with `?` of no known type, all others `short`.
pub(crate) fn start(policy: Policy, topology: Topology, config: Config) -> TestServer {
    start_typed(policy, topology, config, types())
}

/// The policies of the topology `distributed`.
pub(crate) fn policies_of_workers() -> [Policy; 5] {
    [
        Policy::d_fcfs(),
        Policy::stealing(),
        Policy::jsq(),
        Policy::synergy(),
        Policy::darc_distributed(),
    ]
}

/// On how many of two workers requests of the type `long` run at least: DARC reserves one for shorter ones, and may
/// lend it.
pub(crate) fn workers_of_long_requests(policy: &Policy) -> usize {
    match *policy == Policy::darc_distributed() {
        true => 1,
        false => 2,
    }
}

/// The types of [`start`].
pub(crate) fn types() -> [TypeSpec; 2] {
    [
        TypeSpec::new("short").service_time(Duration::from_micros(1)),
        TypeSpec::new("long").service_time(Duration::from_millis(10)),
    ]
}

/// The server of [`start`] with its types changed.
pub(crate) fn start_typed(policy: Policy, topology: Topology, config: Config, types: [TypeSpec; 2]) -> TestServer {
    start_on(Server::builder().udp("127.0.0.1:0"), policy, config.topology(topology), types)
}

/// The server of [`start`] without UDP.
pub(crate) fn start_tcp(policy: Policy, topology: Topology, config: Config) -> TestServer {
    start_on(Server::builder(), policy, config.topology(topology), types())
}

/// The server of [`start_tcp`], to which clients connect on a Unix socket.
pub(crate) fn start_unix(policy: Policy, topology: Topology, config: Config) -> TestServer {
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().unix(directory.path().join(UNIX_SOCKET));
    let mut server = start_on(builder, policy, config.topology(topology), types());
    server.directory = Some(directory);
    server
}

fn start_on(
    builder: ServerBuilder<Missing, OneType, Missing>,
    policy: Policy,
    config: Config,
    types: [TypeSpec; 2],
) -> TestServer {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let server = builder
        .tcp("127.0.0.1:0")
        .framing(Lines)
        .types(types)
        .classifier(classifier(|line| match line {
            line if LONG.iter().any(|word| line.starts_with(word)) => RequestType::new(1),
            line if line.starts_with(b"?") => RequestType::UNKNOWN,
            _ => RequestType::new(0),
        }))
        .policy(policy)
        .config(config)
        .handler(handler(move |request, reply| {
            let line = std::str::from_utf8(request.payload).unwrap_or("binary").trim_end();
            match line.split_once(' ') {
                Some(("wait", _)) => at.wait(),
                Some(("panic", _)) => {
                    reply.put(b"half a reply");
                    panic!("the test asked for it");
                }
                Some(("big", len)) => {
                    let chunk = [b'x'; 1000];
                    let len: usize = len.parse().unwrap();
                    for _ in 0..len / 1000 {
                        reply.put(&chunk);
                    }
                }
                Some(("spin", rounds)) => {
                    let rounds = rounds.split_once('.').map_or(rounds, |(rounds, _)| rounds);
                    for _ in 0..rounds.parse().unwrap() {
                        (0..32).for_each(|_| std::hint::spin_loop());
                        checkpoint();
                    }
                }
                _ if line == "quit" => reply.close(),
                _ => {}
            }
            reply.put(b"ok ");
            reply.put(line.as_bytes());
            reply.put(b"\n");
        }))
        .spawned();
    let addresses = server.local_addrs();
    let (address, udp) = (addresses.first(), addresses.last());
    let (address, udp) = (*address.unwrap(), *udp.unwrap());
    TestServer {
        address,
        udp,
        handle: server.handle().clone(),
        gate,
        directory: None,
        server: Some(server),
    }
}

impl TestServer {
    pub(crate) fn connect(&self) -> Client {
        match &self.directory {
            Some(directory) => Client::unix(&directory.path().join(UNIX_SOCKET)),
            None => Client::new(TcpStream::connect(self.address).unwrap()),
        }
    }

    pub(crate) fn stop(mut self) -> DrainReport {
        self.server.take().unwrap().stop()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.gate.open();
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self::on(stream)
    }

    /// A client of a Unix socket. One reads from it and writes to it as from and to any stream.
    pub(crate) fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        Self::on(OwnedFd::from(stream).into())
    }

    fn on(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { reader: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// The next line, without its end; empty at the end of the stream.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// What comes until the end of the stream.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        // The peer may reset the connection if it has not read all requests.
        let _ = self.reader.read_to_string(&mut rest);
        rest
    }

    pub(crate) fn ask(&mut self, request: &str) -> String {
        self.send(&format!("{request}\n"));
        self.line()
    }
}

/// A client that sends and receives lines in datagrams.
pub(crate) struct UdpClient(UdpSocket);

impl UdpClient {
    pub(crate) fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect(server).unwrap();
        Self(socket)
    }

    pub(crate) fn send(&self, line: &str) {
        self.0.send(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line, without its end.
    pub(crate) fn line(&self) -> String {
        let mut reply = [0; 2048];
        let len = self.0.recv(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[..len]).trim_end().to_owned()
    }

    pub(crate) fn ask(&self, request: &str) -> String {
        self.send(request);
        self.line()
    }

    /// Whether a line has come.
    pub(crate) fn has_line(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let has_line = self.0.peek(&mut [0; 2048]).is_ok();
        self.0.set_nonblocking(false).unwrap();
        has_line
    }
}

/// Polls until `condition` holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        std::thread::yield_now();
    }
}
