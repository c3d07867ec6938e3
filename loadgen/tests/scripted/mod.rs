//! Servers that do what a test tells them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;

use psp_protocols::psp_header::{Header, Kind};
use psp_protocols::resp::Resp;
use psp_protocols::{Framing, Step};

/// What becomes of one request.
pub(crate) enum Answer {
    /// These bytes are sent.
    Reply(&'static [u8]),
    /// Nothing is sent.
    Silence,
    /// The connection is closed.
    Close,
}

/// Starts a RESP server whose connections all ask `script` for the answer to each frame. Its
/// threads end with the test's process.
pub(crate) fn resp_server(script: impl Fn(&[u8]) -> Answer + Send + Sync + 'static) -> SocketAddr {
    watched_resp_server(script, || ())
}

/// The same; calls `on_connect` for each new connection.
pub(crate) fn watched_resp_server(
    script: impl Fn(&[u8]) -> Answer + Send + Sync + 'static,
    on_connect: impl Fn() + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || serve_all(&listener, script, on_connect));
    addr
}

/// Serves all connections of `listener`, for ever; calls `on_connect` for each.
pub(crate) fn serve_all(
    listener: &TcpListener,
    script: impl Fn(&[u8]) -> Answer + Send + Sync + 'static,
    on_connect: impl Fn(),
) {
    let script = Arc::new(script);
    for socket in listener.incoming() {
        on_connect();
        let script = Arc::clone(&script);
        // A client that has gone is no failure of the server.
        thread::spawn(move || serve(socket?, &*script));
    }
}

fn serve(mut socket: TcpStream, script: &dyn Fn(&[u8]) -> Answer) -> std::io::Result<()> {
    let framing = Resp::default();
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    socket.set_nodelay(true)?;
    loop {
        let mut cursor = Default::default();
        while let Ok(Step::Frame { len }) = framing.next_frame(&mut cursor, &input) {
            match script(&input[..len]) {
                Answer::Reply(bytes) => socket.write_all(bytes)?,
                Answer::Silence => {}
                Answer::Close => return Ok(()),
            }
            input.drain(..len);
        }
        let count = socket.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..count]);
    }
}

/// Starts a server for the psp header over UDP that answers a request at once when `answers` says
/// so.
pub(crate) fn psp_server(answers: impl Fn(&Header) -> Option<Kind> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((len, peer)) = socket.recv_from(&mut buffer) {
            let mut header = Header::decode(&buffer[..len]).unwrap();
            if let Some(kind) = answers(&header) {
                header.kind = kind;
                let _ = socket.send_to(&header.encode(), peer);
            }
        }
    });
    addr
}
