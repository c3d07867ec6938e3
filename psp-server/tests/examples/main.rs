//! The programs of `examples/`, each as it stands there, and the listings of the README, which are theirs.

#[path = "../../examples/calc.rs"]
#[allow(dead_code, reason = "its main")]
mod calc;
#[path = "../../examples/own_policy.rs"]
#[allow(dead_code, reason = "its main")]
mod own_policy;
#[path = "../../examples/store.rs"]
#[allow(dead_code, reason = "its main")]
mod store;

mod echo {
    include!("../../examples/echo/server.rs");

    pub(super) fn serve() -> Result<(), Box<dyn std::error::Error>> {
        main()
    }
}

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psp_certificates::Certificates;
use psp_server::protocols::LengthDelimited;
use psp_server::tls::rustls::crypto::ring;
use psp_server::tls::rustls::pki_types::pem::PemObject;
use psp_server::tls::rustls::pki_types::{CertificateDer, ServerName};
use psp_server::tls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const README: &str = include_str!("../../../README.md");
const ECHO: &str = include_str!("../../examples/echo/server.rs");
const CALC: &str = include_str!("../../examples/calc.rs");
/// The address of the smallest one.
const ECHO_ADDRESS: &str = "127.0.0.1:7000";
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves until this process ends.
fn start(serve: impl FnOnce() -> Result<(), Box<dyn Error>> + Send + 'static) {
    std::thread::spawn(move || serve().unwrap());
}

/// An address that was free a moment ago.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// What `connect` returns when the server listens.
fn when_it_listens<T>(connect: impl Fn() -> std::io::Result<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match connect() {
            Ok(connected) => return connected,
            Err(error) => assert!(Instant::now() < deadline, "nobody listens: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client of lines.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: &str) -> Self {
        let stream = when_it_listens(|| TcpStream::connect(address));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, request: &str) -> String {
        self.send(&format!("{request}\n"));
        self.line()
    }
}

#[test]
fn each_program_is_below_80_lines_and_the_first_of_ten() {
    let folder = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap();
    let files: Vec<_> = folder.map(|file| file.unwrap().path()).filter(|file| file.is_file()).collect();
    assert_eq!(files.len(), 3, "and `echo`: {files:?}");
    for file in files {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines < 80, "{file:?}");
    }
    assert!(ECHO.lines().count() <= 10);
}

/// Each listing of Rust is the first program, or lines of the second.
#[test]
fn the_listings_of_the_readme_are_those_of_programs() {
    let listings: Vec<_> = README.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(listings.len(), 2);
    assert_eq!(listings[0], ECHO);
    assert!(CALC.contains(listings[1]), "{}", listings[1]);
}

#[test]
fn echo_answers() {
    start(echo::serve);
    let mut client = Client::connect(ECHO_ADDRESS);
    client.send("one\ntwo\n");
    assert_eq!([client.line(), client.line()], ["one", "two"]);
}

#[test]
fn calc_answers_fast_slow_and_waiting_requests() {
    let address = free().to_string();
    let at = address.clone();
    start(move || calc::serve(&at));
    let mut client = Client::connect(&address);
    assert_eq!(client.ask("ADD 1 2"), "3");
    assert_eq!(client.ask("PRIMES 100"), "25");
    assert_eq!(client.ask("NAP 1"), "AWAKE");
    for wrong in ["ADD 1", "NAP x", "DANCE 1", ""] {
        assert_eq!(client.ask(wrong), "ERROR one of: ADD A B, PRIMES N, NAP MS", "{wrong}");
    }
    // One that waits holds no other up.
    let mut sleepy: Vec<_> = (0..100).map(|_| Client::connect(&address)).collect();
    for client in &mut sleepy {
        client.send("NAP 86400000\n");
    }
    assert_eq!(client.ask("ADD 3 4"), "7");
}

#[test]
fn one_s_own_policy_is_in_force() {
    let address = free().to_string();
    let at = address.clone();
    start(move || own_policy::serve(&at));
    let mut client = Client::connect(&address);
    for line in ["lower", "UPPER"] {
        assert_eq!(client.ask(line), format!("turns {line}"));
    }
}

#[test]
fn a_store_serves_a_unix_socket_and_tls() {
    let certificates = Certificates::new();
    let folder = tempfile::tempdir().unwrap();
    fs::copy(&certificates.server.certificate, folder.path().join("chain.pem")).unwrap();
    fs::copy(&certificates.server.key, folder.path().join("key.pem")).unwrap();
    let (address, at) = (free(), folder.path().to_owned());
    start(move || store::serve(&at, &address.to_string()));

    let mut local = when_it_listens(|| UnixStream::connect(folder.path().join("store.sock")));
    assert_eq!(ask(&mut local, "SET cat tabby or black"), "OK");
    assert_eq!(ask(&mut local, "SET cow brown"), "OK");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certificates.authority).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let session =
        ClientConnection::new(Arc::new(config.with_no_client_auth()), ServerName::from(address.ip())).unwrap();
    let mut remote = StreamOwned::new(session, TcpStream::connect(address).unwrap());
    assert_eq!(ask(&mut remote, "GET cat"), "tabby or black");
    assert_eq!(ask(&mut remote, "COUNT c"), "2");
    assert_eq!(ask(&mut remote, "GET dog"), "NONE");
    assert_eq!(ask(&mut remote, "PET cat"), "ERROR one of: SET KEY VALUE, GET KEY, COUNT PREFIX");
}

/// The answer of the store.
fn ask(stream: &mut (impl Read + Write), request: &str) -> String {
    let framing = LengthDelimited::default();
    let mut message = Vec::new();
    framing.put(request.as_bytes(), &mut message).unwrap();
    stream.write_all(&message).unwrap();
    let mut header = [0; 4];
    stream.read_exact(&mut header).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(header) as usize];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}
