//! An admin port that speaks TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use psp_certificates::Certificates;
use psp_server::tls::{ClientCertificates, TlsConfig};
use psp_server::{BuildError, Config, Policy, Reply, Request, Topology};

use crate::common::lines;
use crate::rig::start_with;

const LIVEZ: &str = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[test]
fn the_admin_port_has_the_certificate_that_the_settings_name() {
    let files = Certificates::new();
    let pair = &files.server;
    let config = Config::default().admin("0").admin_tls(&pair.certificate, &pair.key);
    let tls = TlsConfig::from_pem_files(&pair.certificate, &pair.key, &ClientCertificates::NotAsked);
    let shape = (Policy::darc(), Topology::Auto);
    let server = start_with(files, &tls.unwrap(), shape, config);
    let port = server.handle.admin_addr().unwrap();
    let mut client = server.connect_to(port);
    client.send(LIVEZ);
    let answer = String::from_utf8(client.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("alive\n"), "{answer}");
    // Nothing is said in the open.
    let mut plain = TcpStream::connect(port).unwrap();
    plain.write_all(LIVEZ.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _reset = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn a_certificate_that_cannot_be_used_is_an_error() {
    let files = Certificates::new();
    let no_file = Path::new("/no/such");
    let both = Config::default().admin("0").admin_tls(no_file, &files.server.key);
    let mut one = Config::default().admin("0");
    one.admin_tls_cert_file = Some(files.server.certificate.clone());
    for (config, said) in [(both, "/no/such"), (one, "need each other")] {
        let built = lines().config(config).handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {}).build();
        let Err(error @ BuildError::Admin { .. }) = built.map(|_| ()) else {
            panic!("nothing can be shown: {said}");
        };
        assert!(error.to_string().contains(said), "{error}");
    }
}
