//! Targets over TLS.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use psp_certificates::Certificates;
use psp_protocols::http::Http;
use psp_protocols::resp::Resp;
use psp_protocols::{Framing, Step};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::program::{assert_every_arrival_ends_once, call, count, run};
use crate::scripted::serve::{Answer, serve};

/// Whether a server asks clients for certificates.
#[derive(Clone, Copy, PartialEq)]
enum Clients {
    Anybody,
    WithCertificate,
}

fn config(certificates: &Certificates, clients: Clients) -> ServerConfig {
    let read = |path: &Path| CertificateDer::from_pem_file(path).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        Clients::Anybody => builder.with_no_client_auth(),
        Clients::WithCertificate => {
            let mut roots = RootCertStore::empty();
            roots.add(read(&certificates.authority)).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::from_pem_file(&certificates.server.key).unwrap();
    let mut config = builder.with_single_cert(vec![read(&certificates.server.certificate)], key).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

fn server<F: Framing + Clone>(config: ServerConfig, framing: F, script: fn(&[u8]) -> Answer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let config = Arc::new(config);
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (config, framing) = (Arc::clone(&config), framing.clone());
            // A client that disconnects is not a failure of the server.
            thread::spawn(move || {
                let session = ServerConnection::new(config).unwrap();
                serve(StreamOwned::new(session, socket?), &framing, &script)
            });
        }
    });
    addr
}

/// Every hundredth request closes its connection.
fn redis(frame: &[u8]) -> Answer {
    match frame {
        b"*2\r\n$3\r\nGET\r\n$5\r\nkey:0\r\n" => Answer::Reply(b"$5\r\nvalue\r\n"),
        _ => Answer::Close,
    }
}

#[test]
fn redis_over_tls_is_measured_with_the_authority_or_without_a_check() {
    let certificates = Certificates::new();
    let addr = server(config(&certificates, Clients::Anybody), Resp::default(), redis);
    let trusts = format!("--ca {}", certificates.authority.display());
    for (target, options) in [
        (format!("rediss://{addr}"), &*trusts),
        (format!("redis+tls://localhost:{}", addr.port()), &*trusts),
        (format!("rediss://{addr}"), "--insecure"),
        (format!("rediss://{addr}"), "--insecure --server-name other.test"),
    ] {
        let report = run(&target, "GET key:0:1", &format!("--rate 400 --connections 3 --pipeline 4 {options}"));
        assert_every_arrival_ends_once(&report);
        assert_eq!(count(&report, "completed"), 200, "{report}");
        assert_eq!(count(&report, "reconnects"), 0);
    }
}

#[test]
fn connections_over_tls_are_opened_again() {
    let certificates = Certificates::new();
    let addr = server(config(&certificates, Clients::Anybody), Resp::default(), redis);
    let mix = "GET key:0:9,QUIT:1";
    let report = run(&format!("rediss://{addr}"), mix, "--rate 400 --connections 2 --insecure");
    assert_every_arrival_ends_once(&report);
    assert!(count(&report, "completed") > 100, "{report}");
    assert!(report["types"][1]["reconnects"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn large_bodies_of_https_are_read_whole() {
    const BODY: usize = 300_000;
    static REPLY: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
        [head.as_bytes(), &vec![b'x'; BODY]].concat()
    });
    let certificates = Certificates::new();
    let addr = server(config(&certificates, Clients::WithCertificate), Http::default(), |frame| {
        let mut cursor = Default::default();
        let is_whole =
            matches!(Http::default().next_frame(&mut cursor, frame), Ok(Step::Frame { len, .. }) if len == frame.len());
        if is_whole { Answer::Reply(&REPLY) } else { Answer::Close }
    });
    let url = format!("https://{addr}");
    let [authority, certificate, key] = certificates.for_client().map(Path::display);
    let options = format!("--ca {authority} --cert {certificate} --key {key} --rate 100 --connections 4");
    let body = "y".repeat(100_000);
    for mix in ["GET /a:1".to_owned(), format!("POST /a {body}:1")] {
        let report = run(&url, &mix, &options);
        assert_every_arrival_ends_once(&report);
        assert_eq!(count(&report, "completed"), 50, "{report}");
    }
}

/// A store that answers whatever it is asked with a long value.
fn store(frame: &[u8]) -> Answer {
    static VALUE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
        let len = (1 << 20) - 12;
        [format!("${len}\r\n").as_bytes(), &vec![b'v'; len], b"\r\n"].concat()
    });
    match frame.windows(3).any(|word| word == b"GET") {
        true => Answer::Reply(&VALUE),
        false => Answer::Reply(b"+OK\r\n"),
    }
}

#[test]
fn greetings_preloads_and_values_of_a_megabyte_are_read_to_their_ends() {
    let certificates = Certificates::new();
    let addr = server(config(&certificates, Clients::Anybody), Resp::default(), store);
    let options = "--insecure --preload --keys 1000 --connections 2 --rate 40";
    let report = run(&format!("rediss://:word@{addr}/3"), "GET:1", options);
    assert_every_arrival_ends_once(&report);
    assert_eq!(count(&report, "completed"), 20, "{report}");
}

#[test]
fn servers_that_are_not_trusted_are_refused_with_a_reason() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let addr = server(config(&certificates, Clients::Anybody), Resp::default(), redis);
    let (url, nowhere) = (format!("rediss://{addr}"), "/no/such.pem");
    let [authority, other] = [&certificates, &others].map(|it| it.authority.to_str().unwrap());
    let certificate = certificates.client.certificate.to_str().unwrap();
    for (options, reason) in [
        (&["--ca", other][..], "invalid peer certificate"),
        (&["--ca", authority, "--server-name", "other.test"][..], "not valid for name"),
        (&["--ca", nowhere][..], "cannot read /no/such.pem"),
        (&["--ca", "/dev/null"][..], "/dev/null has no certificate that can be used"),
        (&["--server-name", "a b"][..], "`a b` can be in no certificate"),
        (&["--cert", certificate][..], "--key"),
        (&["--ca", authority, "--insecure"][..], "cannot be used with"),
    ] {
        let output = call(&[&["run", "--target", &url, "--mix", "GET key:0:1", "--rate", "1"], options].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{options:?}");
        assert!(errors.contains(reason), "{options:?}: {errors}");
    }
    let plain = call(&[
        "run",
        "--target",
        "redis://127.0.0.1:1",
        "--mix",
        "GET key:0:1",
        "--rate",
        "1",
        "--insecure",
    ]);
    let errors = String::from_utf8_lossy(&plain.stderr);
    assert!(errors.contains("is not encrypted"), "{errors}");
}

#[test]
fn a_server_that_does_not_shake_hands_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rediss://{}", silent.local_addr().unwrap());
    let output = call(&["run", "--target", &url, "--mix", "GET key:0:1", "--rate", "1", "--insecure"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("no TLS handshake in time"), "{errors}");
}
