//! Unix sockets, sockets that the server was given, and connections that it refuses.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use psp_server::protocols::Sink;
use psp_server::{
    BuildError, Config, DrainReport, Handler, Missing, OneType, Peer, Policy, Refusal, Reply, Request, Server,
    ServerBuilder, ServerHandle, SpawnedServer, Topology, WorkerId,
};
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use crate::common::{Lines, OfLines, PATIENCE, until};

/// Answers `peer` with the peer, `big N` with N bytes, and other lines with themselves.
#[derive(Default)]
struct Echo {
    /// Refuses all connections.
    closed: Arc<AtomicBool>,
    /// Panics at each connection.
    broken: Arc<AtomicBool>,
}

impl Handler for Echo {
    type Worker = ();
    type Connection = Peer;

    fn init_worker(&self, _worker: WorkerId) {}

    fn accept(&self, peer: &Peer) -> Result<(), Refusal> {
        assert!(!self.broken.load(Ordering::SeqCst), "the test asked for it");
        match self.closed.load(Ordering::SeqCst) {
            true => Err(format!("closed for {peer}").into()),
            false => Ok(()),
        }
    }

    fn connect(&self, peer: Peer) -> Peer {
        peer
    }

    fn handle(&self, (): &mut (), request: Request<'_, Peer>, reply: &mut Reply<'_>) {
        assert!(matches!(request.peer, Peer::Ip(_)) || request.peer == *request.connection);
        match request.payload.trim_ascii_end() {
            b"peer" => reply.put(request.peer.to_string().as_bytes()),
            line => match line.strip_prefix(b"big ") {
                Some(len) => {
                    let len = std::str::from_utf8(len).unwrap().parse().unwrap();
                    reply.put_shared(vec![b'x'; len].into());
                }
                None => reply.put(line),
            },
        }
        reply.put(b"\n");
    }
}

type Builder<H> = ServerBuilder<Lines, OneType, H>;

fn builder() -> ServerBuilder<Lines, OneType, Missing> {
    Server::builder().framing(Lines)
}

fn echo() -> Builder<Echo> {
    builder().handler(Echo::default())
}

/// Servers with a net thread, and whose workers receive for themselves.
fn echoes() -> [Builder<Echo>; 3] {
    let of_workers = |policy: Policy| {
        let builder = echo().policy(policy).workers(2);
        builder.topology(Topology::Distributed)
    };
    [echo(), of_workers(Policy::d_fcfs()), of_workers(Policy::darc_distributed())]
}

/// A server that runs until it is dropped.
struct Running {
    addresses: Vec<SocketAddr>,
    paths: Vec<PathBuf>,
    handle: ServerHandle,
    server: SpawnedServer,
}

impl Running {
    fn start(builder: Builder<Echo>) -> Self {
        let server = builder.build().unwrap();
        Self {
            addresses: server.local_addrs().to_vec(),
            paths: server.unix_paths().to_vec(),
            handle: server.handle(),
            server: server.spawn().unwrap(),
        }
    }

    fn tcp(&self) -> Line<TcpStream> {
        Line::tcp(self.addresses[0])
    }

    fn unix(&self) -> Line<UnixStream> {
        Line::unix(&self.paths[0])
    }

    fn stop(self) -> DrainReport {
        self.server.stop()
    }
}

/// A client that sends and receives lines.
struct Line<S>(BufReader<S>);

impl Line<TcpStream> {
    fn tcp(address: SocketAddr) -> Self {
        Self::on(TcpStream::connect(address).unwrap())
    }

    /// A connection from an address of this machine.
    fn tcp_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let source = SocketAddr::from((source, 0));
        socket.bind(&source.into()).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::on(socket.into())
    }

    fn on(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }
}

impl Line<UnixStream> {
    fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }
}

impl<S: Read + Write> Line<S> {
    /// The next line; empty at the end.
    fn next(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, request: &str) -> String {
        let stream = self.0.get_mut();
        stream.write_all(request.as_bytes()).unwrap();
        stream.write_all(b"\n").unwrap();
        self.next()
    }
}

fn socket_in(directory: &TempDir) -> PathBuf {
    directory.path().join("server.sock")
}

/// Listeners that a test makes itself: on TCP, with its address, and at `path`.
fn listeners(path: &Path) -> (TcpListener, UnixListener, SocketAddr) {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    (tcp, UnixListener::bind(path).unwrap(), address)
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn refusal(builder: Builder<Echo>) -> String {
    let refused: Option<BuildError> = builder.build().err();
    refused.expect("the server is refused").to_string()
}

#[test]
fn a_unix_socket_serves_and_its_file_goes_with_the_server() {
    for echo in echoes() {
        let directory = directory();
        let path = socket_in(&directory);
        let server = Running::start(echo.unix(&path));
        assert!(server.addresses.is_empty());
        assert_eq!(server.paths, [path.as_path()]);
        let mut client = server.unix();
        assert_eq!(client.ask("hello"), "hello");
        let own = fs::metadata("/proc/self").unwrap();
        let (uid, gid) = {
            use std::os::unix::fs::MetadataExt;
            (own.uid(), own.gid())
        };
        let pid = std::process::id();
        assert_eq!(client.ask("peer"), format!("unix:pid={pid},uid={uid},gid={gid}"));
        drop(client);
        assert_eq!(server.stop().abandoned, 0);
        assert!(!path.exists());
    }
}

#[test]
fn a_unix_socket_is_served_beside_tcp() {
    for echo in echoes() {
        let directory = directory();
        let server = Running::start(echo.tcp("127.0.0.1:0").unix(socket_in(&directory)));
        let mut tcp = server.tcp();
        let local = tcp.0.get_ref().local_addr().unwrap();
        assert_eq!(tcp.ask("peer"), local.to_string());
        assert_eq!(server.unix().ask("hello"), "hello");
        assert_eq!(server.handle.snapshot().net.connections_accepted, 2);
    }
}

#[test]
fn a_long_reply_reaches_a_slow_reader_of_a_unix_socket() {
    for echo in echoes() {
        const LEN: usize = 8 << 20;
        let directory = directory();
        let server = Running::start(echo.unix(socket_in(&directory)));
        let mut client = server.unix();
        let requests = format!("big {LEN}\nsecond\n");
        client.0.get_mut().write_all(requests.as_bytes()).unwrap();
        // The socket's buffer is full long before the end of the reply.
        until("the server sends as much as it can", || server.handle.snapshot().net.bytes_sent > 0);
        assert_eq!(client.next().len(), LEN);
        assert_eq!(client.next(), "second");
    }
}

#[test]
fn a_live_socket_is_refused_and_a_stale_one_replaced() {
    let directory = directory();
    let path = socket_in(&directory);
    let server = Running::start(echo().unix(&path));
    let expected = format!("cannot listen on unix:{}: another process listens on it", path.display());
    assert_eq!(refusal(echo().unix(&path)), expected);
    assert_eq!(server.unix().ask("still here"), "still here");
    server.stop();

    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a process that was killed leaves its file");
    let server = Running::start(echo().unix(&path));
    assert_eq!(server.unix().ask("hello"), "hello");
    server.stop();

    fs::write(&path, "not a socket").unwrap();
    let expected = format!("cannot listen on unix:{}: the file is not a socket", path.display());
    assert_eq!(refusal(echo().unix(&path)), expected);
}

#[test]
fn the_permissions_of_a_socket_are_chosen() {
    let directory = directory();
    let path = socket_in(&directory);
    let server = Running::start(echo().unix_mode(0o620).unix(&path));
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o620);
    drop(server);
    assert_eq!(
        refusal(echo().unix(&path).unix_mode(0o1777)),
        "unix_mode is 0o1777, it must be between 0 and 0o777"
    );
    assert_eq!(
        refusal(echo().tcp("127.0.0.1:0").unix_mode(0o700)),
        "unix_mode is 0o700, it must be unset where no Unix socket is set"
    );
}

#[test]
fn a_server_that_never_ran_leaves_no_file() {
    let directory = directory();
    let path = socket_in(&directory);
    let server = echo().unix(&path).build().unwrap();
    assert!(path.exists());
    drop(server);
    assert!(!path.exists());
}

#[test]
fn listeners_of_the_caller_are_served() {
    for echo in echoes() {
        let directory = directory();
        let path = socket_in(&directory);
        let (tcp, unix, address) = listeners(&path);
        let server = Running::start(echo.tcp_listener(tcp).unix_listener(unix));
        assert_eq!(server.addresses, [address]);
        assert_eq!(server.paths, [path.as_path()]);
        assert_eq!(server.tcp().ask("hello"), "hello");
        assert_eq!(server.unix().ask("hello"), "hello");
        server.stop();
        assert!(path.exists(), "the caller made the file");
    }
}

#[test]
fn every_address_of_a_name_is_served() {
    let loopback = [1, 2].map(|host| SocketAddr::from(([127, 0, 0, host], 0)));
    let server = Running::start(echo().tcp(&loopback[..]));
    let [first, second] = server.addresses[..] else {
        panic!("two addresses: {:?}", server.addresses);
    };
    let hosts = [first, second].map(|address| address.ip());
    assert_eq!(hosts, loopback.map(|address| address.ip()));
    assert_eq!(first.port(), second.port());
    for address in [first, second] {
        assert_eq!(Line::tcp(address).ask("hello"), "hello");
    }

    let server = Running::start(echo().tcp("localhost:0"));
    let hosts: Vec<IpAddr> = server.addresses.iter().map(SocketAddr::ip).collect();
    assert!(hosts.contains(&Ipv4Addr::LOCALHOST.into()), "{hosts:?}");
    for &address in &server.addresses {
        assert_eq!(address.port(), server.addresses[0].port());
        assert_eq!(Line::tcp(address).ask("hello"), "hello");
    }
}

#[test]
fn a_handler_refuses_connections_before_their_first_request() {
    let directory = directory();
    let handler = Echo::default();
    let (closed, broken) = (handler.closed.clone(), handler.broken.clone());
    let path = socket_in(&directory);
    let server = Running::start(builder().handler(handler).tcp("127.0.0.1:0").unix(path));
    let mut early = server.tcp();
    assert_eq!(early.ask("hello"), "hello");

    closed.store(true, Ordering::SeqCst);
    let mut refused = server.tcp();
    let peer = refused.0.get_ref().local_addr().unwrap();
    assert_eq!(refused.next(), format!("!refused: closed for {peer}"));
    assert_eq!(refused.next(), "", "closed");
    let told = server.unix().next();
    assert!(told.starts_with("!refused: closed for unix:pid="), "{told}");
    assert_eq!(early.ask("hello"), "hello", "open connections stay open");

    closed.store(false, Ordering::SeqCst);
    assert_eq!(server.tcp().ask("hello"), "hello");

    broken.store(true, Ordering::SeqCst);
    assert_eq!(server.tcp().next(), "");
    broken.store(false, Ordering::SeqCst);
    assert_eq!(server.tcp().ask("hello"), "hello");

    let net = server.handle.snapshot().net;
    assert_eq!((net.connections_refused, net.connections_refused_by_handler), (3, 2));
    assert_eq!((net.connections_accepted, net.malformed), (3, 0));
}

#[test]
fn an_address_has_a_limited_number_of_connections() {
    for echo in echoes() {
        let directory = directory();
        let config = Config::default().connections_per_address_max(2);
        let builder = echo.config(config).tcp("127.0.0.1:0");
        let server = Running::start(builder.unix(socket_in(&directory)));
        let address = server.addresses[0];
        let mut held = [server.tcp(), server.tcp()];
        for client in &mut held {
            assert_eq!(client.ask("hello"), "hello");
        }
        let mut refused = server.tcp();
        assert_eq!(refused.next(), "!too many connections");
        assert_eq!(refused.next(), "", "closed");

        let mut other = Line::tcp_from(Ipv4Addr::new(127, 0, 0, 2), address);
        assert_eq!(other.ask("hello"), "hello");
        let mut local: Vec<_> = (0..4).map(|_| server.unix()).collect();
        for client in &mut local {
            assert_eq!(client.ask("hello"), "hello");
        }
        let net = server.handle.snapshot().net;
        assert_eq!((net.connections_refused, net.connections_over_address_limit), (1, 1));

        let open = net.connections_open;
        let [first, mut second] = held;
        drop(first);
        until("the connection is closed", || server.handle.snapshot().net.connections_open < open);
        assert_eq!(server.tcp().ask("hello"), "hello");
        assert_eq!(second.ask("hello"), "hello");
    }
}

/// Asks the child process of a test for its part.
const CHILD: &str = "PSP_TEST_LISTEN_FDS";

/// Starts this test program as [`serves_passed_sockets`], as a service manager would: with `sockets` from descriptor
/// 3 on.
fn service(sockets: Vec<OwnedFd>, pid: &str) -> Child {
    let count = sockets.len();
    // The shell has the sockets as 0 and 1, and becomes the program, so that the process id is known.
    let redirections = ["", "3<&0", "3<&0 4<&1"][count];
    let run = format!("LISTEN_FDS={count} LISTEN_PID={pid} exec \"$0\" \"$@\" {redirections} </dev/null >&2");
    let mut sockets = sockets.into_iter().map(Stdio::from);
    let mut command = Command::new("sh");
    command
        .args(["-c", &run])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "sockets::serves_passed_sockets"])
        .args(["--ignored", "--nocapture"])
        .env(CHILD, "1")
        .stdin(sockets.next().unwrap_or_else(Stdio::null))
        .stdout(sockets.next().unwrap_or_else(Stdio::null))
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// A server in a process of its own. It stops at the end of its first connection.
#[test]
#[ignore = "the child process of other tests"]
fn serves_passed_sockets() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    match echo().listen_fds().build() {
        Err(error) => eprintln!("refused: {error}"),
        Ok(server) => {
            assert!(std::env::var_os("LISTEN_FDS").is_none());
            eprintln!("serves: {:?} {:?}", server.local_addrs(), server.unix_paths());
            let server = server.spawn().unwrap();
            let handle = server.handle().clone();
            until("a connection comes and goes", || {
                let net = handle.snapshot().net;
                net.connections_accepted > 0 && net.connections_open == 0
            });
            handle.shut_down();
            server.join().unwrap();
        }
    }
}

/// Waits for the end of the child process. Returns its line with `word`.
fn line_of(mut child: Child, word: &str) -> String {
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    let line = said.lines().find(|line| line.contains(word));
    line.unwrap_or(&said).to_owned()
}

#[test]
fn sockets_of_a_service_manager_are_served() {
    let directory = directory();
    let path = socket_in(&directory);
    let (tcp, unix, address) = listeners(&path);
    // Connections wait until the server is there.
    let mut on_tcp = Line::tcp(address);
    let child = service(vec![tcp.into(), unix.into()], "$$");
    assert_eq!(on_tcp.ask("hello"), "hello");
    assert_eq!(Line::unix(&path).ask("hello"), "hello");
    drop(on_tcp);
    let expected = format!("serves: [{address}] [{path:?}]");
    let said = line_of(child, "serves: ");
    assert!(said.ends_with(&expected), "{said}");
    assert!(path.exists(), "the service manager made the file");
}

#[test]
fn a_service_manager_that_passes_nothing_useful_is_named() {
    let connection = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap()
    };
    let file = || fs::File::open("/proc/self/status").unwrap();
    let prefix = "refused: cannot listen on sockets of a service manager: ";
    for (sockets, pid, expected) in [
        (vec![], "$$", "LISTEN_FDS is 0"),
        (
            vec![TcpListener::bind("127.0.0.1:0").unwrap().into()],
            "1",
            "they are for process 1 (LISTEN_PID), and this process is ",
        ),
        (vec![file().into()], "$$", "socket 1 of 1 is not a socket of TCP, UDP or a Unix stream"),
        (
            vec![TcpListener::bind("127.0.0.1:0").unwrap().into(), connection().into()],
            "$$",
            "socket 2 of 2 is a connection, not a listener (Accept=yes passes connections)",
        ),
    ] {
        let said = line_of(service(sockets, pid), "refused: ");
        let reason = said.split_once(prefix).map(|(_, reason)| reason);
        assert!(reason.is_some_and(|reason| reason.starts_with(expected)), "{said:?} for {expected:?}");
    }
}

#[test]
fn datagrams_come_in_on_a_socket_of_a_service_manager() {
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = udp.local_addr().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let stop = Line::tcp(tcp.local_addr().unwrap());
    let child = service(vec![udp.into(), tcp.into()], "$$");
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(b"hello\n", address).unwrap();
    let mut reply = [0; 16];
    let len = client.recv(&mut reply).unwrap();
    assert_eq!(&reply[..len], b"hello\n");
    drop(stop);
    line_of(child, "serves: ");
}
