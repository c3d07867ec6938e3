//! A server that does as its requests say, and a client on another port.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use psp_server::dpdk::{DpdkClient, DpdkConfig};
use psp_server::internal::mbufs_lost;
use psp_server::protocols::psp_header::{HEADER_LEN, Header, Kind, PspFraming};
use psp_server::protocols::{Framing, Sink};
use psp_server::{
    BuildError, Classifier, Config, Handler, Policy, Reply, Request, RequestType, Server, ServerHandle, SpawnedServer,
    TypeSpec, checkpoint,
};

use crate::common::{Gate, OfLines, until};

/// Arguments of DPDK's environment.
const EAL: &str = "--no-huge -m 512 --no-pci --no-shconf --no-telemetry --file-prefix=psp-test --log-level=*:error";

pub(crate) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 78, 0, 1), 9000);
pub(crate) const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 78, 0, 2), 40_000);

/// Workers of a server.
pub(crate) const WORKERS: usize = 2;

/// Queues of either end of a wire: for the net thread and the workers.
const QUEUES: usize = WORKERS + 1;

/// Types of requests.
pub(crate) const SHORT: u16 = 0;
pub(crate) const LONG: u16 = 1;

/// The kind of a request, by its first byte.
pub(crate) mod ask {
    /// Answers the payload.
    pub(crate) const ECHO: u8 = b'e';
    /// Answers as many bytes as the next four bytes say.
    pub(crate) const BYTES: u8 = b'b';
    /// Answers when the gate is open.
    pub(crate) const WAIT: u8 = b'w';
    /// Passes checkpoints until the gate is open.
    pub(crate) const LOOP: u8 = b'l';
    /// Passes as many checkpoints as the next four bytes say.
    pub(crate) const SPIN: u8 = b's';
    /// Panics.
    pub(crate) const PANIC: u8 = b'p';
    /// Does not answer.
    pub(crate) const SILENCE: u8 = b'-';
}

/// One test at a time.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port on `device`, as after `--vdev`, at `address`.
pub(crate) fn port(address: SocketAddrV4, device: String) -> DpdkConfig {
    DpdkConfig::new(address, EAL).virtual_device(Some(device))
}

/// A request to pass so many checkpoints.
pub(crate) fn spin(rounds: u32) -> Vec<u8> {
    [&[ask::SPIN][..], &rounds.to_be_bytes()].concat()
}

fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn handle(gate: &Gate, request: &Request<'_, ()>, reply: &mut Reply<'_>) {
    let header = Header::decode(request.payload).unwrap();
    let body = &request.payload[HEADER_LEN..];
    let mut answer = body.to_vec();
    match body.first() {
        Some(&ask::BYTES) => answer = vec![b'x'; number(&body[1..]) as usize],
        Some(&ask::WAIT) => gate.wait(),
        Some(&ask::LOOP) => gate.pass(),
        Some(&ask::SPIN) => (0..number(&body[1..])).for_each(|_| checkpoint()),
        Some(&ask::PANIC) => panic!("the test asked for it"),
        Some(&ask::SILENCE) => return,
        _ => {}
    }
    let payload_len = u32::try_from(answer.len()).unwrap();
    let kind = Kind::Reply;
    reply.put(&Header { kind, payload_len, ..header }.encode());
    reply.put(&answer);
    if reply.is_too_large() {
        assert!(reply.len() > reply.limit_bytes());
    }
}

/// A running server.
pub(crate) struct TestServer {
    pub(crate) handle: ServerHandle,
    pub(crate) gate: Arc<Gate>,
    server: Option<SpawnedServer>,
    lost_before: u64,
}

impl TestServer {
    /// Starts a server on `port`.
    pub(crate) fn start(port: DpdkConfig, policy: Policy, config: Config) -> Self {
        Self::try_start(port, policy, config).unwrap()
    }

    /// The same, if the server can be built.
    pub(crate) fn try_start(port: DpdkConfig, policy: Policy, config: Config) -> Result<Self, BuildError> {
        let gate = Arc::new(Gate::default());
        let at = gate.clone();
        let server = Server::builder()
            .listen_dpdk(port)
            .framing(PspFraming::default())
            .types([
                TypeSpec::new("short").service_time(Duration::from_micros(1)),
                TypeSpec::new("long").service_time(Duration::from_millis(10)),
            ])
            .classifier(|request: &[u8]| match Header::decode(request) {
                Ok(header) => RequestType::new(header.request_type.into()),
                Err(_) => RequestType::UNKNOWN,
            })
            .policy(policy)
            .config(config)
            .handler(move |request: Request<'_, ()>, reply: &mut Reply<'_>| {
                handle(&at, &request, reply);
            })
            .build()?;
        Ok(Self::run(server, gate))
    }

    /// Runs a server, whose requests may wait at `gate`.
    pub(crate) fn run<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>>(
        server: Server<F, K, H>,
        gate: Arc<Gate>,
    ) -> Self {
        let lost_before = mbufs_lost();
        let server = server.spawn().unwrap();
        Self {
            handle: server.handle().clone(),
            gate,
            server: Some(server),
            lost_before,
        }
    }

    /// Frames dropped for `reason`.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        let packets = self.handle.snapshot().net.packets;
        let of_reason = packets.dropped.iter().filter(|drop| drop.reason == reason);
        of_reason.map(|drop| drop.frames).sum()
    }

    /// Requests that arrived, that were rejected, and that completed.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let types = self.handle.snapshot().types;
        let sum = |count: fn(&psp_server::telemetry::TypeSnapshot) -> u64| types.iter().map(count).sum();
        (sum(|ty| ty.arrivals), sum(|ty| ty.rejections), sum(|ty| ty.completions))
    }

    /// Stops the server. It must have answered all requests and have all its mbufs back.
    pub(crate) fn stop(mut self) {
        self.gate.open();
        assert_eq!(self.server.take().unwrap().stop().abandoned, 0);
        assert_eq!(mbufs_lost(), self.lost_before, "mbufs leaked");
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// Two ends of a memory interface.
pub(crate) struct Wire {
    number: u32,
    socket: PathBuf,
    queues: usize,
}

impl Wire {
    pub(crate) fn new() -> Self {
        Self::of(QUEUES)
    }

    /// A wire with so many queues.
    pub(crate) fn of(queues: usize) -> Self {
        static WIRES: AtomicU32 = AtomicU32::new(0);
        let number = WIRES.fetch_add(1, Ordering::Relaxed);
        let name = format!("psp-memif-{}-{number}.sock", std::process::id());
        Self { number, socket: std::env::temp_dir().join(name), queues }
    }

    fn device(&self, role: &str) -> String {
        let Self { number, socket, .. } = self;
        let socket = socket.display();
        let role_number = 2 * number + u32::from(role == "client");
        format!("net_memif{role_number},role={role},socket-abstract=no,socket={socket},id={number}")
    }

    pub(crate) fn server(&self) -> DpdkConfig {
        port(SERVER, self.device("server")).queues(Some(self.queues))
    }

    pub(crate) fn client(&self) -> TestClient {
        TestClient::open(&port(CLIENT, self.device("client")).queues(Some(self.queues)))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// A client that knows the server's MAC address.
pub(crate) struct TestClient {
    pub(crate) port: DpdkClient,
    next_id: u32,
}

impl TestClient {
    fn open(config: &DpdkConfig) -> Self {
        let mut port = DpdkClient::open(config, SERVER).unwrap();
        until("the server's station", || port.resolve());
        Self { port, next_id: 1 }
    }

    /// Sends a request, with the next burst, if there is room for it.
    pub(crate) fn offer(&mut self, request_type: u16, body: &[u8]) {
        let (_, request) = self.request(request_type, body);
        let _ = self.port.send(&request);
    }

    /// Sends a request, and returns its id.
    pub(crate) fn send(&mut self, request_type: u16, body: &[u8]) -> u32 {
        let (id, request) = self.request(request_type, body);
        self.send_datagram(&request);
        id
    }

    /// Sends a request on a queue, and returns its id.
    pub(crate) fn send_on(&mut self, queue: usize, request_type: u16, body: &[u8]) -> u32 {
        let id = self.put_on(queue, request_type, body);
        assert_eq!(self.port.flush(), 0, "the transmit queue is full");
        id
    }

    /// Sends a request with the next burst of a queue, and returns its id.
    pub(crate) fn put_on(&mut self, queue: usize, request_type: u16, body: &[u8]) -> u32 {
        let (id, request) = self.request(request_type, body);
        self.port.send_on(queue, &request).unwrap();
        id
    }

    /// Sends a datagram of any kind.
    pub(crate) fn send_datagram(&mut self, payload: &[u8]) {
        until("room in the transmit queue", || self.port.send(payload).is_ok() && self.port.flush() == 0);
    }

    /// Sends a frame unchanged.
    pub(crate) fn send_frame(&mut self, frame: &[u8]) {
        until("room in the transmit queue", || self.port.send_frame(frame) && self.port.flush() == 0);
    }

    fn request(&mut self, request_type: u16, body: &[u8]) -> (u32, Vec<u8>) {
        let id = self.next_id;
        self.next_id += 1;
        let header = Header {
            kind: Kind::Request,
            request_type,
            id,
            payload_len: u32::try_from(body.len()).unwrap(),
            run_time_ns: 0,
        };
        (id, [&header.encode()[..], body].concat())
    }

    /// Hands on the payloads that have come.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(Header, &[u8])) {
        self.port.receive(|datagram| {
            let header = Header::decode(datagram).unwrap();
            take(header, &datagram[HEADER_LEN..]);
        });
    }

    /// Sends `count` requests, some of them long, as fast as replies come back, and waits for all.
    pub(crate) fn exchange(&mut self, count: usize) {
        let mut waiting = HashSet::new();
        let mut sent = 0;
        until("all replies", || {
            while sent < count && waiting.len() < 64 {
                let id = match sent % 8 {
                    5 => self.send(LONG, &spin(200)),
                    _ => self.send(SHORT, &[ask::ECHO; 40]),
                };
                waiting.insert(id);
                sent += 1;
            }
            self.receive(|header, _| {
                assert_eq!(header.kind, Kind::Reply);
                assert!(waiting.remove(&header.id), "a reply to nothing");
            });
            sent == count && waiting.is_empty()
        });
    }

    /// Goes on with short requests until the server has stopped.
    pub(crate) fn polls_to_the_end_of(&mut self, server: TestServer) {
        let stop = std::thread::spawn(|| server.stop());
        until("the end of the server", || {
            self.offer(SHORT, &[ask::ECHO]);
            self.port.flush();
            self.receive(|_, _| {});
            stop.is_finished()
        });
        stop.join().unwrap();
        assert!(!self.port.link_is_up());
    }

    /// Sends short requests until `long` is answered, and waits for them all.
    pub(crate) fn exchange_beside(&mut self, long: u32) {
        let mut waiting = HashSet::from([long]);
        until("the long reply and those of the others", || {
            if waiting.contains(&long) && waiting.len() < 8 {
                waiting.insert(self.send(SHORT, &[ask::ECHO; 8]));
            }
            self.receive(|header, _| {
                assert!(waiting.remove(&header.id), "a reply to nothing");
            });
            waiting.is_empty()
        });
    }

    /// The reply to a request.
    pub(crate) fn ask(&mut self, request_type: u16, body: &[u8]) -> (Kind, Vec<u8>) {
        let id = self.send(request_type, body);
        let mut reply = None;
        until("a reply", || {
            self.receive(|header, body| {
                if header.id == id {
                    reply = Some((header.kind, body.to_vec()));
                }
            });
            reply.is_some()
        });
        reply.unwrap()
    }
}
