//! Requests and responses in datagrams.

use std::net::UdpSocket;
use std::process::Command;

use prost::Message;
use psp_harness::{DEADLINE, ServerProcess, Start, free_port};
use psp_protocols::kv::{GET, GetRequest, GetResponse, PUT, PutRequest, SCAN, ScanResponse};
use psp_protocols::rpc::{RequestRef, Response, Status};

use crate::common::{Connection, ENGINES, scan};

/// A server for TCP and UDP on one port.
fn server(engine: &str) -> ServerProcess {
    ServerProcess::start(|directory| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_psp-rocksdb"));
        command.args(["--engine", engine, "--udp", "--port", &free_port().to_string()]);
        if engine == "rocksdb" {
            command.arg("--data-dir").arg(directory.join("data"));
        }
        Start { command, port: None }
    })
}

fn ask(socket: &UdpSocket, id: u64, method: &str, payload: &impl Message) -> Response {
    let mut frame = Vec::new();
    let payload = payload.encode_to_vec();
    RequestRef { id, method, deadline_us: 0, payload: &payload }.encode_frame(&mut frame);
    socket.send(&frame).unwrap();
    let mut datagram = [0; 65_536];
    let len = socket.recv(&mut datagram).unwrap();
    let response = Response::decode_length_delimited(&datagram[..len]).unwrap();
    assert_eq!(response.id, id);
    response
}

#[test]
fn datagrams_have_the_same_effects_as_streams() {
    for engine in ENGINES {
        let server = server(engine);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.address()).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let put = PutRequest { key: b"a".to_vec(), value: b"one".to_vec() };
        assert_eq!(ask(&socket, 1, PUT, &put).status(), Status::Ok);
        let mut stream = Connection::open(server.address());
        assert_eq!(stream.get(b"a").unwrap(), b"one");
        stream.put(b"b", &[b'x'; 1000]).unwrap();
        stream.put(b"c", &[b'y'; 70_000]).unwrap();
        let key = b"b".to_vec();
        let value = ask(&socket, 2, GET, &GetRequest { key });
        assert_eq!(GetResponse::decode(value.payload).unwrap().value.len(), 1000);
        let first = ask(&socket, 3, SCAN, &scan(b"", 1, false));
        assert_eq!(ScanResponse::decode(first.payload).unwrap().pairs[0].value, b"one");
        let long = ask(&socket, 4, SCAN, &scan(b"", 3, false));
        assert_eq!(long.status(), Status::Internal);
        assert!(long.error.contains("larger than the limit of 2048 bytes"), "{}", long.error);
        let summary = ask(&socket, 5, SCAN, &scan(b"", 3, true));
        assert_eq!(ScanResponse::decode(summary.payload).unwrap().count, 3);
    }
}
