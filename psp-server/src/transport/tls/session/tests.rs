mod hostile;

use std::io::ErrorKind;

use proptest::prelude::*;
use psp_certificates::Certificates;
use psp_protocols::Sink;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use super::*;
use crate::transport::tls::{ClientCertificates, TlsConfig, TlsVersion};

/// Bytes of a socket that gives at most `step` of them at a time, and then has none for now.
struct Wire<'a> {
    bytes: &'a [u8],
    step: usize,
}

impl Read for Wire<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (now, rest) = self.bytes.split_at(self.bytes.len().min(self.step).min(into.len()));
        if now.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        into[..now.len()].copy_from_slice(now);
        self.bytes = rest;
        Ok(now.len())
    }
}

/// A server's session, with the buffers of its connection.
struct Server {
    session: Box<TlsSession>,
    input: InputBuffer,
    output: OutputQueue,
    pool: BufferPool,
}

/// What became of bytes that a server received.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    Ended,
    Broken,
}

impl Server {
    fn new(config: &TlsConfig) -> Self {
        Self {
            session: config.session(0).unwrap(),
            input: InputBuffer::default(),
            output: OutputQueue::default(),
            pool: BufferPool::new(),
        }
    }

    /// Receives `bytes`, at most `step` at a time, and takes all steps of a handshake.
    fn receive(&mut self, bytes: &[u8], step: usize) -> Outcome {
        let mut wire = Wire { bytes, step };
        loop {
            let fill = match self.session.handshake() {
                Some(HandshakeStage::Receive) => self.session.receive_handshake(&mut wire),
                Some(HandshakeStage::Step) => {
                    self.session.step();
                    continue;
                }
                Some(HandshakeStage::Open) => {
                    self.session.open(&mut self.input, &mut self.pool);
                    continue;
                }
                Some(HandshakeStage::Fail) => return Outcome::Broken,
                None => self.session.receive(&mut wire, &mut self.input, 1, &mut self.pool),
            };
            match fill.unwrap() {
                Fill::Read { .. } => {}
                Fill::Blocked => return Outcome::Fine,
                Fill::End => return Outcome::Ended,
                Fill::Broken => return Outcome::Broken,
            }
        }
    }

    /// All bytes that wait to be sent.
    fn sent(&mut self) -> Vec<u8> {
        let (mut bytes, mut sent) = (Vec::new(), 0);
        let flush = self.session.send(&mut self.output, &mut bytes, usize::MAX, &mut sent);
        assert_eq!((flush.unwrap(), sent), (Flush::Empty, bytes.len()));
        bytes
    }

    fn is_open(&self) -> bool {
        self.session.handshake().is_none()
    }
}

/// Bytes that a client has to send.
fn sent_by(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// Gives bytes to a client, and adds what it can read to `plaintext`.
fn give(client: &mut ClientConnection, mut bytes: &[u8], plaintext: &mut Vec<u8>) {
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets().unwrap();
        match client.reader().read_to_end(plaintext) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => assert_eq!((read.unwrap(), bytes), (0, &[][..]), "the end"),
        }
    }
}

fn client_of(files: &Certificates, version: &'static SupportedProtocolVersion) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.authority).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

fn config_of(files: &Certificates) -> TlsConfig {
    let pair = &files.server;
    TlsConfig::from_pem_files(&pair.certificate, &pair.key, &ClientCertificates::NotAsked).unwrap()
}

/// A client and a server after their handshake.
fn opened(files: &Certificates) -> (ClientConnection, Server) {
    let (mut client, mut server) = (client_of(files, &TLS13), Server::new(&config_of(files)));
    while client.is_handshaking() || !server.is_open() {
        assert_eq!(server.receive(&sent_by(&mut client), usize::MAX), Outcome::Fine);
        give(&mut client, &server.sent(), &mut Vec::new());
    }
    (client, server)
}

#[test]
fn bytes_may_come_in_any_pieces() {
    let files = Certificates::new();
    let config = config_of(&files);
    for version in [&TLS12, &TLS13] {
        for step in [1, 2, 3, 5, 100, 4096, usize::MAX] {
            let (mut client, mut server) = (client_of(&files, version), Server::new(&config));
            let mut reply = Vec::new();
            client.writer().write_all(b"a request").unwrap();
            while server.input.data() != b"a request" {
                let bytes = sent_by(&mut client);
                assert_eq!(server.receive(&bytes, step), Outcome::Fine, "{version:?} {step}");
                give(&mut client, &server.sent(), &mut reply);
            }
            assert!(server.is_open() && reply.is_empty());
            server.output.put(b"a reply");
            give(&mut client, &server.sent(), &mut reply);
            assert_eq!(reply, b"a reply");
            client.send_close_notify();
            assert_eq!(server.receive(&sent_by(&mut client), step), Outcome::Ended);
            assert_eq!((server.session.close(), server.session.close()), (true, false));
            give(&mut client, &server.sent(), &mut reply);
            assert_eq!(client.reader().read(&mut [0]).unwrap(), 0, "close_notify came");
        }
    }
}

/// The rest of a record may look like the header of a long one.
#[test]
fn part_of_a_record_behind_a_whole_one_waits_for_its_rest() {
    let files = Certificates::new();
    let config = config_of(&files);
    let mut found = 0;
    while found < 3 {
        let (mut client, mut server) = (client_of(&files, &TLS13), Server::new(&config));
        let hello = sent_by(&mut client);
        assert_eq!(server.receive(&hello, usize::MAX), Outcome::Fine);
        give(&mut client, &server.sent(), &mut Vec::new());
        let last = sent_by(&mut client);
        let first_len = 6;
        assert_eq!(record::whole_len(&last[..first_len]), first_len);
        let mut splits = first_len + 1..last.len();
        let Some(split) = splits.find(|&at| record::whole_len(&last[at..]) == 0) else {
            continue;
        };
        found += 1;
        for part in [&last[..split], &last[split..]] {
            assert!(!server.is_open());
            assert_eq!(server.receive(part, usize::MAX), Outcome::Fine);
        }
        assert!(server.is_open(), "split at {split}");
    }
}

#[test]
fn a_step_needs_a_whole_record() {
    let files = Certificates::new();
    let mut server = Server::new(&config_of(&files));
    let hello = sent_by(&mut client_of(&files, &TLS13));
    let (last, others) = hello.split_last().unwrap();
    for byte in others {
        let mut wire = Wire { bytes: &[*byte], step: 1 };
        server.session.receive_handshake(&mut wire).unwrap();
        assert_eq!(server.session.handshake(), Some(HandshakeStage::Receive));
    }
    let mut wire = Wire { bytes: &[*last], step: 1 };
    server.session.receive_handshake(&mut wire).unwrap();
    assert_eq!(server.session.handshake(), Some(HandshakeStage::Step));
}

#[test]
fn a_peer_in_its_handshake_holds_little() {
    let files = Certificates::new();
    let mut server = Server::new(&config_of(&files));
    // A record of the largest size whose last byte does not come.
    let record = [&[22, 3, 1, 0x48, 0][..], &[0; (0x48 << 8) - 1]].concat();
    assert_eq!(server.receive(&record, usize::MAX), Outcome::Fine);
    assert!(server.session.held_bytes() <= 64 * 1024, "{}", server.session.held_bytes());
    assert_eq!(server.receive(&[0; 100_000], usize::MAX), Outcome::Broken);
}

#[test]
fn a_peer_that_speaks_no_tls_gets_an_alert() {
    let files = Certificates::new();
    let config = config_of(&files);
    let oversized = [&[22, 3, 1, 0xff, 0xff][..], &[0; 70_000]].concat();
    let requests = b"*1\r\n$4\r\nPING\r\n";
    for bytes in [&b"PING\r\n"[..], requests, b"GET / HTTP/1.1\r\n\r\n", &[0; 100], &oversized] {
        let mut server = Server::new(&config);
        assert_eq!(server.receive(bytes, usize::MAX), Outcome::Broken);
        assert_eq!(server.sent().first(), Some(&21), "an alert");
        assert!(!server.session.close(), "nothing follows the alert");
    }
}

#[test]
fn a_record_that_was_changed_breaks_the_session() {
    let files = Certificates::new();
    let (mut client, mut server) = opened(&files);
    client.writer().write_all(b"a request").unwrap();
    let mut bytes = sent_by(&mut client);
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(server.receive(&bytes, usize::MAX), Outcome::Broken);
    assert!(server.input.is_empty());
    assert!(server.session.unsent() > 0, "an alert");
}

#[test]
fn long_replies_and_requests_pass_in_bounded_pieces() {
    /// Takes some bytes and blocks on every other call.
    struct Narrow {
        taken: Vec<u8>,
        blocks: bool,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.blocks = !self.blocks;
            if self.blocks {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(30_000);
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let files = Certificates::new();
    let (mut client, mut server) = opened(&files);
    let long: Vec<u8> = (0..1_000_000u32).map(|index| (index / 7) as u8).collect();
    server.output.put(&long[..10]);
    server.output.put_shared(long[10..300_000].to_vec().into());
    server.output.put(&long[300_000..]);
    let mut socket = Narrow { taken: Vec::new(), blocks: false };
    let mut sent = 0;
    loop {
        let Server { session, output, .. } = &mut server;
        let before = sent;
        let flush = session.send(output, &mut socket, before + 100_000, &mut sent).unwrap();
        assert!(session.unsent() <= SEAL_LEN + 2_000, "{}", session.unsent());
        assert!(sent - before <= 100_000 + CALL_BYTES_MAX);
        if flush == Flush::Empty {
            break;
        }
    }
    assert_eq!(sent, socket.taken.len());
    let mut received = Vec::new();
    give(&mut client, &socket.taken, &mut received);
    assert!(received == long);

    let mut spare = Vec::with_capacity(1);
    server.session.return_buffer(&mut spare);
    assert_eq!((spare.len(), server.session.held_bytes()), (1, SESSION_LEN));

    for piece in long.chunks(50_000) {
        client.writer().write_all(piece).unwrap();
        assert_eq!(server.receive(&sent_by(&mut client), 20_000), Outcome::Fine);
    }
    assert!(server.input.data() == long);
}

#[test]
fn clients_without_the_certificate_that_is_asked_for_are_refused() {
    let files = Certificates::new();
    let pair = &files.server;
    for (clients, outcome) in [
        (ClientCertificates::Required(files.authority.clone()), Outcome::Broken),
        (ClientCertificates::Optional(files.authority.clone()), Outcome::Fine),
    ] {
        let config = TlsConfig::from_pem_files(&pair.certificate, &pair.key, &clients).unwrap();
        let (mut client, mut server) = (client_of(&files, &TLS13), Server::new(&config));
        assert_eq!(server.receive(&sent_by(&mut client), usize::MAX), Outcome::Fine);
        give(&mut client, &server.sent(), &mut Vec::new());
        assert_eq!(server.receive(&sent_by(&mut client), usize::MAX), outcome);
        assert_eq!(server.is_open(), outcome == Outcome::Fine);
    }
}

#[test]
fn a_replaced_configuration_is_that_of_later_sessions() {
    let (first, second) = (Certificates::new(), Certificates::new());
    let config = config_of(&first);
    config.clone().replace(&config_of(&second));
    let mut server = Server::new(&config);
    let mut client = client_of(&second, &TLS13);
    assert_eq!(server.receive(&sent_by(&mut client), usize::MAX), Outcome::Fine);
    give(&mut client, &server.sent(), &mut Vec::new());
    assert!(!client.is_handshaking());
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (files, others) = (Certificates::new(), Certificates::new());
    let pair = &files.server;
    let refused = |chain: &std::path::Path, key: &std::path::Path, clients| {
        let error = TlsConfig::from_pem_files(chain, key, &clients).unwrap_err();
        error.to_string()
    };
    let not_asked = ClientCertificates::NotAsked;
    let nowhere = std::path::Path::new("/does/not/exist.pem");
    let message = refused(nowhere, &pair.key, not_asked.clone());
    assert!(message.starts_with("cannot read certificates from /does/not/exist.pem: "), "{message}");
    let message = refused(&pair.certificate, nowhere, not_asked.clone());
    assert!(message.starts_with("cannot read a private key from /does/not/exist.pem: "), "{message}");
    let message = refused(&pair.key, &pair.key, not_asked.clone());
    assert!(message.ends_with("server.key has no certificate"), "{message}");
    let message = refused(&pair.certificate, &others.server.key, not_asked);
    assert!(message.contains("cannot be used with the key of"), "{message}");
    let required = ClientCertificates::Required(nowhere.to_owned());
    let message = refused(&pair.certificate, &pair.key, required);
    assert!(message.contains("/does/not/exist.pem"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_harm_the_server(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        garbage in prop::collection::vec(any::<u8>(), 0..300),
        step in 1..300usize,
    ) {
        let files = files_for_garbage();
        let mut hello = sent_by(&mut client_of(files, &TLS13));
        for (index, byte) in changes {
            let at = index.index(hello.len());
            hello[at] = byte;
        }
        hello.extend(&garbage);
        let mut server = Server::new(&config_of(files));
        let _ = server.receive(&hello, step);
        server.sent();
        prop_assert!(!server.is_open());
        prop_assert!(server.session.held_bytes() < 64 * 1024);

        let (_, mut server) = opened(files);
        let _ = server.receive(&garbage, step);
        prop_assert!(server.input.is_empty());
    }
}

fn files_for_garbage() -> &'static Certificates {
    static FILES: std::sync::OnceLock<Certificates> = std::sync::OnceLock::new();
    FILES.get_or_init(Certificates::new)
}

#[test]
fn the_oldest_version_can_be_chosen() {
    let files = Certificates::new();
    let pair = &files.server;
    let not_asked = ClientCertificates::NotAsked;
    let config = TlsConfig::since(TlsVersion::Tls13, &pair.certificate, &pair.key, &not_asked).unwrap();
    for (version, outcome) in [(&TLS12, Outcome::Broken), (&TLS13, Outcome::Fine)] {
        let mut client = client_of(&files, version);
        let mut server = Server::new(&config);
        assert_eq!(server.receive(&sent_by(&mut client), usize::MAX), outcome);
    }
}

/// What `openssl x509 -req` makes without extensions.
#[test]
fn a_certificate_of_version_1_is_served() {
    let pem = include_str!("version_1.pem");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, pem).unwrap();
    let config = TlsConfig::from_pem_files(&file, &file, &ClientCertificates::NotAsked).unwrap();
    let mut client = client_of(&Certificates::new(), &TLS13);
    let mut server = Server::new(&config);
    assert_eq!(server.receive(&sent_by(&mut client), usize::MAX), Outcome::Fine);
    client.read_tls(&mut &server.sent()[..]).unwrap();
    // This client is one of those that refuse it.
    let refused = client.process_new_packets().unwrap_err().to_string();
    assert!(refused.contains("UnsupportedCertVersion"), "{refused}");
}
