//! Scripted servers.

pub(crate) mod serve;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread;

use psp_protocols::psp_header::{Header, Kind};
use psp_protocols::resp::Resp;

pub(crate) use serve::Answer;
use serve::serve;

/// Starts a RESP server. Each connection asks `script` for the reply to each frame. The server's
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
        // A client that disconnects is not a failure of the server.
        thread::spawn(move || {
            let socket = socket?;
            socket.set_nodelay(true)?;
            serve(socket, &Resp::default(), &*script)
        });
    }
}

/// Starts a server for the psp header over UDP. It replies at once to each request that `answers`
/// accepts.
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
