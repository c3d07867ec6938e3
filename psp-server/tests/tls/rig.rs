//! A server with TLS, and clients for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use psp_certificates::Certificates;
use psp_server::protocols::Sink;
use psp_server::telemetry::{Snapshot, TypeSnapshot};
use psp_server::tls::rustls::crypto::ring;
use psp_server::tls::rustls::pki_types::pem::PemObject;
use psp_server::tls::rustls::pki_types::{CertificateDer, ServerName};
use psp_server::tls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use psp_server::tls::{ClientCertificates, HANDSHAKE, TlsConfig};
use psp_server::{Config, DrainReport, Policy, RequestType, Server, ServerHandle, SpawnedServer, Topology, TypeSpec};

use crate::common::{Lines, OfLines, PATIENCE, Spawned, classifier, handler};

/// A running server with a TLS address and a plain one.
pub(crate) struct TlsServer {
    pub(crate) files: Certificates,
    pub(crate) address: SocketAddr,
    pub(crate) plain: SocketAddr,
    pub(crate) handle: ServerHandle,
    server: SpawnedServer,
}

/// Requests are lines: `big N` answers N bytes, `push N` pushes N messages, `quit` closes; each is answered with `ok`
/// and itself. They are of the one type `short`; a line that starts with `2` has the number of the type of handshakes.
pub(crate) fn start_with(files: Certificates, tls: &TlsConfig, (policy, topology): Shape, config: Config) -> TlsServer {
    let server = Server::builder()
        .tls("127.0.0.1:0", tls)
        .tcp("127.0.0.1:0")
        .framing(Lines)
        .types([TypeSpec::new("short").service_time(Duration::from_micros(1))])
        .classifier(classifier(|line| RequestType::new(u32::from(line.starts_with(b"2")))))
        .policy(policy)
        .config(config.topology(topology).workers(2))
        .handler(handler(|request, reply| {
            let line = std::str::from_utf8(request.payload).unwrap().trim_end();
            if let Some(len) = line.strip_prefix("big ") {
                (0..len.parse().unwrap()).for_each(|_: usize| reply.put(b"x"));
            }
            if let Some(count) = line.strip_prefix("push ") {
                let push = request.pusher().unwrap();
                for number in 0..count.parse().unwrap() {
                    let number: usize = number;
                    let padding = "x".repeat(number);
                    push.send(format!("{number} {padding}\n").into()).unwrap();
                }
            }
            if line == "pieces" {
                reply.put(b"first\n");
                assert!(reply.flush(), "the peer is there");
                reply.put(b"second\n");
            }
            if line == "quit" {
                reply.close();
            }
            reply.put(format!("ok {line}\n").as_bytes());
        }))
        .spawned();
    let &[address, plain] = server.local_addrs() else {
        panic!("two addresses");
    };
    TlsServer {
        files,
        address,
        plain,
        handle: server.handle().clone(),
        server,
    }
}

/// Who runs requests.
pub(crate) type Shape = (Policy, Topology);

/// Servers with a net thread, and whose workers receive for themselves.
pub(crate) fn shapes() -> [Shape; 3] {
    [
        (Policy::darc(), Topology::Auto),
        (Policy::d_fcfs(), Topology::Distributed),
        (Policy::darc_distributed(), Topology::Distributed),
    ]
}

/// A server whose certificate is for `localhost`.
pub(crate) fn start(config: Config) -> TlsServer {
    start_in((Policy::darc(), Topology::Auto), config)
}

/// The same in any shape.
pub(crate) fn start_in(shape: Shape, config: Config) -> TlsServer {
    let files = Certificates::new();
    let (pair, clients) = (&files.server, ClientCertificates::NotAsked);
    let tls = TlsConfig::from_pem_files(&pair.certificate, &pair.key, &clients).unwrap();
    start_with(files, &tls, shape, config)
}

fn socket(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

impl TlsServer {
    /// A connection after its handshake.
    pub(crate) fn connect(&self) -> TlsClient {
        self.connect_to(self.address)
    }

    /// The same to another address of this server.
    pub(crate) fn connect_to(&self, address: SocketAddr) -> TlsClient {
        let mut client = TlsClient::new(socket(address), self.session());
        let stream = client.stream.get_mut();
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        client
    }

    /// A connection to the address with TLS, on which nothing was sent.
    pub(crate) fn socket(&self) -> TcpStream {
        socket(self.address)
    }

    fn session(&self) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(&self.files.authority).unwrap();
        roots.add(authority).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        ClientConnection::new(Arc::new(config), name).unwrap()
    }

    /// The first bytes of a client.
    pub(crate) fn hello(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.session().write_tls(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.handle.snapshot()
    }

    /// The figures of handshakes.
    pub(crate) fn handshakes(&self) -> TypeSnapshot {
        let types = self.snapshot().types;
        let of_handshakes = |ty: &TypeSnapshot| ty.name == HANDSHAKE;
        types.into_iter().find(of_handshakes).unwrap()
    }

    pub(crate) fn stop(self) -> DrainReport {
        self.server.stop()
    }
}

/// A client of lines over TLS.
pub(crate) struct TlsClient {
    pub(crate) stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

impl TlsClient {
    fn new(socket: TcpStream, session: ClientConnection) -> Self {
        socket.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(StreamOwned::new(session, socket)) }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
        self.stream.get_mut().flush().unwrap();
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, request: &str) -> String {
        self.send(&format!("{request}\n"));
        self.line()
    }

    /// All bytes until the server says that it sends no more.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let read = self.stream.read_to_end(&mut rest);
        read.expect("the end comes with close_notify");
        rest
    }
}
