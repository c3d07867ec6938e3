//! TLS: the settings under redis-server's names, and real clients.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::process::Command;

use psp_certificates::{Certificates, Pair};
use psp_harness::{ServerProcess, Start};

/// Starts a server whose only port speaks TLS, with further flags.
fn start(pair: &Pair, flags: &[&OsStr]) -> ServerProcess {
    ServerProcess::start(|_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_psp-redis"));
        command.args(["--port", "0", "--tls-port", "0", "--log-level", "info"]);
        command.arg("--tls-cert-file").arg(&pair.certificate);
        command.arg("--tls-key-file").arg(&pair.key).args(flags);
        Start { command, port: None }
    })
}

fn start_for_all(files: &Certificates) -> ServerProcess {
    start(&files.server, &["--tls-auth-clients".as_ref(), "no".as_ref()])
}

/// What the program says when it does not start.
fn refusal(flags: &[&OsStr]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-redis"));
    let output = command.args(["--port", "0", "--tls-port", "0"]).args(flags).output();
    let output = output.unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}

#[test]
fn a_start_without_what_tls_needs_fails_and_says_what() {
    let files = Certificates::new();
    assert_eq!(refusal(&[]), "Error: TLS needs the file of a certificate");
    let mut flags: Vec<&OsStr> =
        vec!["--tls-cert-file".as_ref(), files.server.certificate.as_ref(), "--tls-key-file".as_ref()];
    flags.push(files.server.key.as_ref());
    assert_eq!(
        refusal(&flags),
        "Error: to check clients, TLS needs the file of their authority's certificate"
    );
    flags.pop();
    flags.push(files.client.key.as_ref());
    flags.extend(["--tls-auth-clients".as_ref(), OsStr::new("no")]);
    let message = refusal(&flags);
    assert!(message.contains("cannot be used with the key of"), "{message}");
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn a_port_of_0_beside_the_tls_port_is_no_plain_port() {
    let files = Certificates::new();
    let server = start_for_all(&files);
    // The first address is announced, and a plain one would come first.
    let mut peer = psp_harness::connect(server.address()).unwrap();
    peer.get_mut().write_all(b"PING\r\n").unwrap();
    let answer = psp_harness::read_to_close(&mut peer);
    assert_eq!(answer.first(), Some(&21), "an alert of TLS: {answer:?}");
}

mod clients {
    use std::env;
    use std::path::{Path, PathBuf};

    use psp_harness::wait_until;

    use super::*;
    use crate::common::run_program;

    /// redis-cli or redis-benchmark, which trust the authority.
    fn client(program: &str, server: &ServerProcess, authority: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .args(["-h", "127.0.0.1", "-p", &server.port(), "--tls", "--cacert"])
            .arg(authority);
        command
    }

    #[test]
    #[ignore = "needs redis-tools; run by .ci/run"]
    fn redis_cli() {
        let files = Certificates::new();
        let server = start_for_all(&files);
        let cli = || client("redis-cli", &server, &files.authority);
        assert_eq!(run_program(cli().arg("ping"), ""), "PONG\n");
        let value = "x".repeat(1 << 20);
        assert_eq!(run_program(cli().args(["-x", "set", "key"]), &value), "OK\n");
        assert_eq!(run_program(cli().args(["get", "key"]), ""), format!("{value}\n"));
        let mut insecure = Command::new("redis-cli");
        insecure.args(["-p", &server.port(), "--tls", "--insecure", "ping"]);
        assert_eq!(run_program(&mut insecure, ""), "PONG\n");

        let mut plain = Command::new("redis-cli");
        let refused = plain.args(["-p", &server.port(), "ping"]).output().unwrap();
        assert!(!refused.status.success() && refused.stdout != b"PONG\n");
    }

    #[test]
    #[ignore = "needs redis-tools; run by .ci/run"]
    fn redis_cli_with_a_certificate() {
        let files = Certificates::new();
        let authority = ["--tls-ca-cert-file".as_ref(), files.authority.as_os_str()];
        let optional = ["--tls-auth-clients".as_ref(), OsStr::new("optional")];
        for (flags, lets_all_in) in [(&authority[..], false), (&[authority, optional].concat(), true)] {
            let server = start(&files.server, flags);
            let cli = || client("redis-cli", &server, &files.authority);
            let mut known = cli();
            known.arg("--cert").arg(&files.client.certificate);
            known.arg("--key").arg(&files.client.key).arg("ping");
            assert_eq!(run_program(&mut known, ""), "PONG\n");
            let unknown = cli().arg("ping").output().unwrap();
            assert_eq!(unknown.stdout == b"PONG\n", lets_all_in, "{unknown:?}");
        }
    }

    #[test]
    #[ignore = "needs redis-tools; run by .ci/run"]
    fn redis_benchmark() {
        let files = Certificates::new();
        let server = start_for_all(&files);
        for pipeline in ["1", "16"] {
            let mut command = client("redis-benchmark", &server, &files.authority);
            command.args(["-t", "get,set,lrange_100", "-n", "3000", "-c", "50", "--csv"]);
            let output = run_program(command.args(["-P", pipeline]), "");
            assert_eq!(output.lines().count(), 5, "a header and four tests: {output}");
        }
    }

    #[test]
    #[ignore = "needs redis-py; run by .ci/run"]
    fn redis_py() {
        let files = Certificates::new();
        let authority = ["--tls-ca-cert-file".as_ref(), files.authority.as_os_str()];
        let server = start(&files.server, &authority);
        let program = env::var_os("PSP_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/clients/redis_py_tls.py"].iter().collect();
        let mut command = Command::new(program);
        command.arg(script).arg(server.port()).args(files.for_client());
        assert_eq!(run_program(&mut command, ""), "all checks passed\n");
    }

    #[test]
    #[ignore = "needs redis-tools; run by .ci/run"]
    fn certificates_are_read_again_on_sighup() {
        let (files, others) = (Certificates::new(), Certificates::new());
        let server = start_for_all(&files);
        let answers = |authority: &Path| {
            let output = client("redis-cli", &server, authority).arg("ping").output();
            output.unwrap().stdout == b"PONG\n"
        };
        assert!(answers(&files.authority) && !answers(&others.authority));
        fs::copy(&others.server.certificate, &files.server.certificate).unwrap();
        server.hang_up();
        wait_until("the pair is refused", || {
            let log = server.log();
            log.iter().any(|line| line.contains("certificates not reloaded"))
        });
        assert!(answers(&files.authority));
        fs::copy(&others.server.key, &files.server.key).unwrap();
        server.hang_up();
        wait_until("the other certificate is there", || answers(&others.authority));
        assert!(!answers(&files.authority));
    }
}
