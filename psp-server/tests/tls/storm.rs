//! A storm of handshakes beside requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use psp_certificates::Certificates;
use psp_server::tls::rustls::ServerConfig;
use psp_server::tls::rustls::crypto::ring;
use psp_server::tls::rustls::pki_types::pem::PemObject;
use psp_server::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use psp_server::tls::rustls::server::{ClientHello, ResolvesServerCert};
use psp_server::tls::rustls::sign::CertifiedKey;
use psp_server::{Config, Policy, Topology};

use crate::common::{Client, PATIENCE, until};
use crate::rig::{Shape, TlsServer, start_with};

const QUEUE_CAPACITY: usize = 8;
const STORM: usize = 30;
/// Of so many connections either of two workers has some.
const CLIENTS: usize = 32;

/// A certificate that handshakes get only while a gate is open.
#[derive(Debug)]
struct Gated {
    certified: Arc<CertifiedKey>,
    open: Mutex<bool>,
    changed: Condvar,
    waiting: AtomicUsize,
}

impl Gated {
    fn new(files: &Certificates) -> Self {
        let chain = vec![CertificateDer::from_pem_file(&files.server.certificate).unwrap()];
        let key = PrivateKeyDer::from_pem_file(&files.server.key).unwrap();
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
        Self {
            certified: Arc::new(certified.unwrap()),
            open: Mutex::new(true),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    fn set_open(&self, open: bool) {
        *self.open.lock().unwrap() = open;
        self.changed.notify_all();
    }
}

impl ResolvesServerCert for Gated {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let open = self.open.lock().unwrap();
        let closed = |open: &mut bool| !*open;
        drop(self.changed.wait_timeout_while(open, PATIENCE, closed).unwrap());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Some(self.certified.clone())
    }
}

/// Whether a peer hears of its handshake.
fn hears(peer: &mut TcpStream) -> bool {
    matches!(peer.read(&mut [0]), Ok(1))
}

/// A server whose handshakes get a certificate while the gate is open.
fn start_gated(shape: Shape, config: Config) -> (TlsServer, Arc<Gated>) {
    let files = Certificates::new();
    let gate = Arc::new(Gated::new(&files));
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(gate.clone());
    let config = config.handshake_timeout_s(0);
    let server = start_with(files, &Arc::new(tls).into(), shape, config);
    (server, gate)
}

/// Beyond the queue's capacity handshakes are refused, or wait for as long as the others take if `they_wait`.
fn requests_overtake_handshakes(topology: Topology, they_wait: bool) {
    let config = Config::default()
        .queue_capacity(QUEUE_CAPACITY)
        .backpressure_ms(if they_wait { u64::MAX } else { 0 });
    let (server, gate) = start_gated((Policy::darc(), topology), config);
    let mut client = server.connect();
    assert_eq!(client.ask("before"), "ok before");
    let before = server.handshakes();

    gate.set_open(false);
    let mut storm: Vec<_> = (0..STORM).map(|_| server.socket()).collect();
    let at_gate = || gate.waiting.load(Ordering::SeqCst);
    storm[0].write_all(&server.hello()).unwrap();
    until("a handshake has a worker", || at_gate() == 1);
    for peer in &mut storm[1..] {
        peer.write_all(&server.hello()).unwrap();
    }
    let beyond = (STORM - 1 - QUEUE_CAPACITY) as u64;
    let (held, refused) = if they_wait { (beyond, 0) } else { (0, beyond) };
    until("the storm has arrived", || {
        server.handshakes().arrivals == before.arrivals + STORM as u64
            && server.snapshot().net.handshakes_failed == refused
    });
    assert_eq!(server.handshakes().held, held);
    assert_eq!(server.handshakes().rejections, refused);
    for round in 0..100 {
        assert_eq!(client.ask(&format!("during {round}")), format!("ok during {round}"));
    }
    // Each request overtook every handshake.
    assert_eq!(at_gate(), 1);
    assert_eq!(server.handshakes().completions, before.completions);

    gate.set_open(true);
    let answered = storm.iter_mut().map(hears).filter(|&hears| hears).count() as u64;
    assert_eq!(answered, STORM as u64 - refused);
    assert_eq!(server.handshakes().completions, before.completions + answered);
}

#[test]
fn requests_overtake_handshakes_where_the_net_thread_runs_none() {
    for they_wait in [false, true] {
        requests_overtake_handshakes(Topology::Dedicated, they_wait);
    }
}

#[test]
fn requests_overtake_handshakes_where_the_net_thread_is_a_worker() {
    for they_wait in [false, true] {
        requests_overtake_handshakes(Topology::Inline, they_wait);
    }
}

/// `d-fcfs` reserves no worker, so there a single handshake has one of two.
#[test]
fn a_worker_with_a_handshake_leaves_its_connections_to_others() {
    for (policy, handshakes) in [(Policy::d_fcfs(), 1), (Policy::darc_distributed(), STORM)] {
        let shape = (policy.clone(), Topology::Distributed);
        let config = Config::default().backpressure_ms(u64::MAX);
        let (server, gate) = start_gated(shape, config);
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.ask("before"), "ok before", "{policy:?}");
        }
        let before = server.handshakes().completions;

        gate.set_open(false);
        let mut storm: Vec<_> = (0..handshakes).map(|_| server.socket()).collect();
        for peer in &mut storm {
            peer.write_all(&server.hello()).unwrap();
        }
        let at_gate = || gate.waiting.load(Ordering::SeqCst);
        until("a handshake has a worker", || at_gate() == 1);
        for round in 0..4 {
            for client in &mut clients {
                let request = format!("during {round}");
                assert_eq!(client.ask(&request), format!("ok {request}"), "{policy:?}");
            }
            let mut late = Client::new(TcpStream::connect(server.plain).unwrap());
            assert_eq!(late.ask("late"), "ok late", "{policy:?}");
        }
        assert_eq!(at_gate(), 1, "{policy:?}");
        assert_eq!(server.handshakes().completions, before, "{policy:?}");
        gate.set_open(true);
        assert!(storm.iter_mut().all(hears), "{policy:?}");
    }
}
