//! Unix sockets, and sockets of a service manager.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use psp_harness::{DEADLINE, connect};

use crate::common::{Options, Server};

fn server() -> Server {
    Server::start_with(&Options { unixsocketperm: Some("700"), ..Options::default() })
}

/// Sends `line` on a new connection. Returns the lines of the reply, `count` of them.
fn ask(path: &Path, line: &str, count: usize) -> Vec<String> {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines();
    lines.map(Result::unwrap).take(count).collect()
}

#[test]
fn a_unix_socket_is_served_beside_tcp() {
    let mut server = server();
    let path = server.unix_socket();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(ask(&path, "PING", 1), ["+PONG"]);
    assert_eq!(server.connect().ask("PING"), "+PONG");
    assert_eq!(ask(&path, "CONFIG GET unixsocketperm", 5)[4], "700", "as in redis.conf");
    let client = &ask(&path, "CLIENT LIST", 2)[1];
    let address = format!(" addr={}:0 ", path.display());
    assert!(client.contains(&address), "{client}");
    assert!(client.contains(" flags=U "), "{client}");
    server.terminate();
    server.wait_for_exit();
    assert!(!path.exists(), "the file goes with the server");
}

#[test]
fn a_path_in_use_is_refused() {
    psp_harness::only_psp!();
    let server = server();
    let path = server.unix_socket();
    let output = Command::new(env!("CARGO_BIN_EXE_psp-redis"))
        .args(["--port", "0", "--unixsocket"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("Error: cannot listen on unix:{}: another process listens on it\n", path.display());
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(ask(&path, "PING", 1), ["+PONG"]);
}

#[test]
fn a_service_manager_passes_the_socket() {
    psp_harness::only_psp!();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The connection waits for the server.
    let mut client = connect(address).unwrap();
    // The shell becomes the program, so that the process id is known.
    let mut server = Command::new("sh")
        .args(["-c", "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" --listen-fds 3<&0 </dev/null"])
        .arg(env!("CARGO_BIN_EXE_psp-redis"))
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    client.get_mut().write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn without_a_service_manager_the_server_says_so() {
    psp_harness::only_psp!();
    let output = Command::new(env!("CARGO_BIN_EXE_psp-redis"))
        .arg("--listen-fds")
        .env_remove("LISTEN_FDS")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "Error: cannot listen on sockets of a service manager: the environment variable LISTEN_FDS is not set\n"
    );
}
