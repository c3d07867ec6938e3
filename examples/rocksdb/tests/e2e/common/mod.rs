//! A server in its own process, and clients.

// Each test program uses a part of this module.
#![allow(dead_code)]

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use prost::Message;
use psp_harness::{ServerProcess, Start};
use psp_protocols::kv::{
    DELETE, DeleteRequest, DeleteResponse, GET, GetRequest, GetResponse, PUT, PutRequest, PutResponse, SCAN,
    ScanRequest, ScanResponse,
};
use psp_protocols::rpc::{RequestRef, Response, Status};

/// The engines of this build, as values of `--engine`.
pub(crate) const ENGINES: &[&str] = if cfg!(feature = "rocksdb") {
    &["memory", "rocksdb"]
} else {
    &["memory"]
};

/// The name of the configuration file in a server's directory.
pub(crate) const CONFIG_FILE: &str = "psp-rocksdb.toml";

/// A command that starts the server on any free port, with a configuration file in `directory`.
pub(crate) fn psp_rocksdb(directory: &Path, config: &str) -> Command {
    let file = directory.join(CONFIG_FILE);
    fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-rocksdb"));
    command.args(["--port", "0"]).arg("--config").arg(file);
    command
}

/// Starts a server with this engine. Its data, if any, is in the server's directory.
pub(crate) fn start(engine: &str, flags: &[&str], config: &str) -> ServerProcess {
    ServerProcess::start(|directory| {
        let mut command = psp_rocksdb(directory, config);
        command.args(["--engine", engine]).args(flags);
        if engine == "rocksdb" {
            command.arg("--data-dir").arg(directory.join("data"));
        }
        Start { command, port: None }
    })
}

/// Status and message of a failed request.
pub(crate) type Refusal = (Status, String);

/// A client.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    last_id: u64,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self { stream: psp_harness::connect(address).unwrap(), last_id: 0 }
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, payload: &[u8]) -> io::Result<u64> {
        self.last_id += 1;
        let request = RequestRef { id: self.last_id, method, deadline_us: 0, payload };
        let mut frame = Vec::new();
        request.encode_frame(&mut frame);
        self.stream.get_mut().write_all(&frame)?;
        Ok(self.last_id)
    }

    /// The next response.
    pub(crate) fn receive(&mut self) -> io::Result<Response> {
        let mut prefix = Vec::new();
        let len = loop {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            prefix.extend(byte);
            if byte[0] < 0x80 {
                break prost::decode_length_delimiter(&prefix[..])?;
            }
        };
        let mut message = vec![0; len];
        self.stream.read_exact(&mut message)?;
        Ok(Response::decode(&message[..])?)
    }

    /// Sends a request and waits for its response.
    pub(crate) fn exchange(&mut self, method: &str, payload: &[u8]) -> io::Result<Response> {
        let id = self.send(method, payload)?;
        let response = self.receive()?;
        assert_eq!(response.id, id);
        Ok(response)
    }

    fn call<M: Message + Default>(&mut self, method: &str, request: &impl Message) -> Result<M, Refusal> {
        let response = self.exchange(method, &request.encode_to_vec()).unwrap();
        match response.status() {
            Status::Ok => Ok(M::decode(response.payload).unwrap()),
            status => Err((status, response.error)),
        }
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Vec<u8>, Refusal> {
        let key = key.to_vec();
        let response = self.call::<GetResponse>(GET, &GetRequest { key })?;
        Ok(response.value)
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<PutResponse, Refusal> {
        let (key, value) = (key.to_vec(), value.to_vec());
        self.call(PUT, &PutRequest { key, value })
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<DeleteResponse, Refusal> {
        let key = key.to_vec();
        self.call(DELETE, &DeleteRequest { key })
    }

    pub(crate) fn scan(&mut self, start: &[u8], count: u32) -> Result<ScanResponse, Refusal> {
        self.call(SCAN, &scan(start, count, false))
    }

    pub(crate) fn summary(&mut self, start: &[u8], count: u32) -> Result<ScanResponse, Refusal> {
        self.call(SCAN, &scan(start, count, true))
    }
}

pub(crate) fn scan(start: &[u8], count: u32, summary: bool) -> ScanRequest {
    ScanRequest { start: start.to_vec(), count, summary }
}
