//! `-s`: a Unix socket in place of the network.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use psp_harness::{DEADLINE, free_port, other_server, wait_until};

use crate::common::shapes;

/// A server on a Unix socket. Dropping it kills the process.
struct Local(Child);

impl Local {
    fn start(path: &Path, flags: &[&str]) -> Self {
        let program = other_server();
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_psp-memcached").into());
        let mut command = Command::new(program);
        if other_server().is_some() {
            command.args(["-u", "root"]);
        }
        command.arg("-s").arg(path).args(flags).stderr(Stdio::null());
        let server = Self(command.spawn().unwrap());
        wait_until("the server listens", || UnixStream::connect(path).is_ok());
        server
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends lines on a new connection, and `quit`. Returns the replies.
fn ask(path: &Path, lines: &str) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = format!("{lines}\r\nquit\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    replies
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_unix_socket_takes_the_place_of_the_network() {
    for flags in shapes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memcached.sock");
        let port = free_port();
        let server = Local::start(&path, &[&["-p", &port.to_string()], flags].concat());
        assert_eq!(mode(&path), 0o700);
        let replies = ask(&path, "set key 0 0 5\r\nvalue\r\nget key");
        assert_eq!(replies, "STORED\r\nVALUE key 0 5\r\nvalue\r\nEND\r\n");
        let settings = ask(&path, "stats settings");
        let expected = format!("STAT domain_socket {}\r\n", path.display());
        assert!(settings.contains(&expected), "{settings}");
        let sockets = ask(&path, "stats conns");
        let socket = format!("unix:{}\r\n", path.display());
        // memcached cuts the path of its own socket short.
        let figures = if other_server().is_some() {
            &["listen_addr"][..]
        } else {
            &["addr", "listen_addr"]
        };
        for figure in figures {
            assert!(sockets.contains(&format!(":{figure} {socket}")), "{sockets}");
        }
        assert!(settings.contains("STAT umask 700\r\n"), "{settings}");
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        drop(server);
        // A killed server leaves its file, which the next one replaces.
        assert!(path.exists());
        let _server = Local::start(&path, &[&["-a", "0666"], flags].concat());
        assert_eq!(mode(&path), 0o666);
        assert_eq!(ask(&path, "get key"), "END\r\n");
    }
}
