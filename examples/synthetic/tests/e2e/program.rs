//! A started psp-synthetic, and requests to it over a stream.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use psp_harness::{ServerProcess, Start};
use psp_protocols::psp_header::{HEADER_LEN, Header, Kind};
use psp_server::SpawnedServer;

/// Starts psp-synthetic with a configuration file and flags, on any free port.
pub(crate) fn start(config: &str, flags: &[&str]) -> ServerProcess {
    ServerProcess::start(|directory| {
        let file = directory.join("psp-synthetic.toml");
        fs::write(&file, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_psp-synthetic"));
        command.arg("--config").arg(file).args(["--port", "0"]);
        command.args(flags);
        Start { command, port: None }
    })
}

pub(crate) fn send(client: &mut BufReader<TcpStream>, request_type: u16, id: u32, run_time_ns: u32) {
    let header = Header {
        kind: Kind::Request,
        request_type,
        id,
        run_time_ns,
        payload_len: 0,
    };
    client.get_mut().write_all(&header.encode()).unwrap();
}

/// Waits for the reply to a request, and returns the request's id.
pub(crate) fn receive(client: &mut BufReader<TcpStream>) -> u32 {
    let mut reply = [0; HEADER_LEN];
    client.read_exact(&mut reply).unwrap();
    Header::decode(&reply).unwrap().id
}

/// Ends a server of this process, which has answered everything.
pub(crate) fn stop(server: SpawnedServer) {
    server.shut_down();
    assert_eq!(server.join().unwrap().abandoned, 0);
}
