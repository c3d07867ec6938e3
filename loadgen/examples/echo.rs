//! The smallest possible server: it replies `+PONG` to every RESP request.
//!
//! One thread waits for all sockets, reads, counts requests and writes all replies at once. Its
//! latency under psp-loadgen is the floor of every measurement on this machine: the client's own
//! time, the kernel's time, and two wake-ups.
//!
//! ```sh
//! cargo run --release -p psp-loadgen --example echo -- 127.0.0.1:7777
//! psp-loadgen run --target redis://127.0.0.1:7777 --mix PING:1 --rate 10000
//! ```

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use clap::Parser;
use psp_protocols::resp::Resp;
use psp_protocols::{Framing, Step};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

const PONG: &[u8] = b"+PONG\r\n";

/// The registration data of the listener. Connections count from 1.
const LISTENER: u64 = 0;

/// Bytes read at once.
const READ_LEN: usize = 64 * 1024;

/// Events taken at once.
const EVENTS_MAX: usize = 256;

/// Reply +PONG to every RESP request
#[derive(Debug, Parser)]
struct Arguments {
    /// Address to listen on, such as 127.0.0.1:7777
    #[arg(required_unless_present = "unix")]
    address: Option<String>,
    /// Listen on a Unix socket at this path, which must be free
    #[arg(long, value_name = "PATH", conflicts_with = "address")]
    unix: Option<PathBuf>,
    /// Never sleep: without the wake-up of the server, on a core of its own
    #[arg(long)]
    busy_poll: bool,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn bind(arguments: &Arguments) -> std::io::Result<Self> {
        let address = arguments.address.as_deref().unwrap_or_default();
        Ok(match &arguments.unix {
            Some(path) => Self::Unix(UnixListener::bind(path)?),
            None => Self::Tcp(TcpListener::bind(address)?),
        })
    }

    fn accept(&self) -> std::io::Result<OwnedFd> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nodelay(true)?;
                socket.set_nonblocking(true)?;
                socket.into()
            }
            Self::Unix(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(true)?;
                socket.into()
            }
        })
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

struct Connection {
    socket: OwnedFd,
    /// The beginning of an incomplete request.
    input: Vec<u8>,
    cursor: <Resp as Framing>::Cursor,
}

impl Connection {
    /// Replies to received requests. Returns whether the connection still works. The server closes
    /// the connection of a peer that sends other data than RESP, or does not read its replies.
    fn serve(&mut self, framing: &Resp, buffer: &mut [u8], replies: &mut Vec<u8>) -> bool {
        let count = match rustix::io::read(&self.socket, &mut *buffer) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => return false,
        };
        self.input.extend_from_slice(&buffer[..count]);
        replies.clear();
        let mut start = 0;
        while start < self.input.len() {
            match framing.next_frame(&mut self.cursor, &self.input[start..]) {
                Ok(Step::Frame { len, .. }) => start += len,
                Ok(Step::NeedMore { .. }) => break,
                Err(_) => return false,
            }
            replies.extend_from_slice(PONG);
        }
        self.input.drain(..start);
        replies.is_empty() || rustix::io::write(&self.socket, replies) == Ok(replies.len())
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let listener = Listener::bind(&arguments)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let listening = EventData::new_u64(LISTENER);
    epoll::add(&poll, listener.as_fd(), listening, EventFlags::IN)?;
    let timeout = arguments.busy_poll.then(Timespec::default);
    let framing = Resp::default();
    let mut connections = HashMap::new();
    let mut opened = LISTENER;
    let mut buffer = vec![0; READ_LEN];
    let mut replies = Vec::new();
    let mut events = Vec::with_capacity(EVENTS_MAX);
    loop {
        events.clear();
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&poll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let id = event.data.u64();
            if id == LISTENER {
                // A peer that has already disconnected is not a failure of the server.
                let Ok(socket) = listener.accept() else {
                    continue;
                };
                opened += 1;
                epoll::add(&poll, &socket, EventData::new_u64(opened), EventFlags::IN)?;
                let connection = Connection { socket, input: Vec::new(), cursor: Default::default() };
                connections.insert(opened, connection);
            } else if let Some(connection) = connections.get_mut(&id)
                && !connection.serve(&framing, &mut buffer, &mut replies)
            {
                connections.remove(&id);
            }
        }
    }
}
