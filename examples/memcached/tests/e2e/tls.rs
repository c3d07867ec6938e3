//! TLS: the settings under memcached's names, and real clients.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use psp_certificates::Certificates;
use psp_harness::{ServerProcess, Start};

/// Starts a server that speaks TLS, with further options of TLS and further flags.
fn start(files: &Certificates, options: &str, flags: &[&str]) -> ServerProcess {
    ServerProcess::start(|_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_psp-memcached"));
        command.args(flags);
        command.args(["-p", "0", "--log-level", "info", "-Z", "-o"]);
        let pair = &files.server;
        let (certificate, key) = (pair.certificate.display(), pair.key.display());
        command.arg(format!("ssl_chain_cert={certificate},ssl_key={key}{options}"));
        Start { command, port: None }
    })
}

#[test]
fn a_start_without_a_certificate_fails_and_says_so() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-memcached"));
    let output = command.args(["-p", "0", "-Z"]).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "Error: TLS needs the file of a certificate\n");
}

#[test]
fn an_address_may_serve_plain_connections_beside_tls() {
    let files = Certificates::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let plain = free.local_addr().unwrap();
    drop(free);
    let addresses = format!("127.0.0.1,notls:{plain}");
    let server = start(&files, ",ssl_min_version=tlsv1.3", &["-l", &addresses]);
    let ask = |address| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"stats settings\r\nquit\r\n").unwrap();
        let mut reply = Vec::new();
        // A reset is an end, too.
        let _ = stream.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    };
    let settings = ask(plain);
    for row in ["ssl_enabled yes", "ssl_min_version tlsv1.3"] {
        assert!(settings.contains(&format!("STAT {row}\r\n")), "{settings}");
    }
    assert!(settings.contains(&addresses), "{settings}");
    assert!(!ask(server.address()).contains("STAT"));
}

mod clients {
    use std::env;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::common::{run_program, shapes};

    fn openssl(server: &ServerProcess, authority: &Path) -> Command {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-verify_return_error", "-connect"]);
        command.arg(server.address().to_string());
        command.arg("-CAfile").arg(authority);
        command
    }

    /// What the server answers to the requests.
    fn converse(openssl: &mut Command, requests: &str) -> String {
        let mut process = openssl
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = process.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, requests.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    #[ignore = "needs openssl; run by .ci/run"]
    fn refresh_certs_reads_the_files_again() {
        let (files, others) = (Certificates::new(), Certificates::new());
        let server = start(&files, "", &[]);
        let refresh = |authority: &Path| converse(&mut openssl(&server, authority), "refresh_certs\r\nquit\r\n");
        assert_eq!(refresh(&files.authority), "OK\r\n");
        fs::copy(&others.server.key, &files.server.key).unwrap();
        let refused = refresh(&files.authority);
        assert!(refused.starts_with("Error "), "{refused}");
        fs::copy(&others.server.certificate, &files.server.certificate).unwrap();
        assert_eq!(refresh(&files.authority), "OK\r\n");
        assert_eq!(refresh(&files.authority), "", "the old authority is of no use");
        assert_eq!(refresh(&others.authority), "OK\r\n");
    }

    #[test]
    #[ignore = "needs openssl; run by .ci/run"]
    fn openssl_s_client() {
        let files = Certificates::new();
        for (flags, options) in shapes().zip(["", ",ssl_verify_mode=1", ""]) {
            let server = start(&files, options, flags);
            for version in ["-tls1_2", "-tls1_3"] {
                let mut command = openssl(&server, &files.authority);
                command.arg(version);
                let requests = "set key 0 0 5\r\nvalue\r\nget key\r\nquit\r\n";
                assert_eq!(
                    converse(&mut command, requests),
                    "STORED\r\nVALUE key 0 5\r\nvalue\r\nEND\r\n",
                    "{version} {flags:?}"
                );
            }
        }
    }

    #[test]
    #[ignore = "needs pymemcache; run by .ci/run"]
    fn pymemcache() {
        let files = Certificates::new();
        let authority = files.authority.display();
        let server = start(&files, &format!(",ssl_ca_cert={authority},ssl_verify_mode=2"), &[]);
        let program = env::var_os("PSP_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/clients/pymemcache_tls.py"].iter().collect();
        let mut command = Command::new(program);
        command.arg(script).arg(server.port()).args(files.for_client());
        assert_eq!(run_program(&mut command, ""), "all checks passed\n");
    }
}
