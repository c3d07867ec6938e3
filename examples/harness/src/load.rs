//! Clients that keep a server busy while a test changes it. They notice every lost request.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::{connect, wait_until};

/// Clients that each send a request, read its reply, and repeat.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    replies: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts this number of clients. Each reply to `request` must be `reply`.
    #[must_use = "call `finish` to check the replies"]
    pub fn start(server: SocketAddr, clients: usize, request: &'static [u8], reply: &'static [u8]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let replies = Arc::new(AtomicU64::new(0));
        let client = |_| {
            let (stop, replies) = (Arc::clone(&stop), Arc::clone(&replies));
            thread::spawn(move || {
                let mut connection = connect(server).expect("the server accepts connections");
                let mut received = vec![0; reply.len()];
                while !stop.load(Ordering::Relaxed) {
                    connection.get_mut().write_all(request).expect("the server reads");
                    connection.read_exact(&mut received).expect("the server replies");
                    assert_eq!(received.escape_ascii().to_string(), reply.escape_ascii().to_string());
                    replies.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let clients = (0..clients).map(client).collect();
        Self { stop, replies, clients }
    }

    /// Waits until some more requests have been answered.
    ///
    /// # Panics
    /// When they are not answered within [`DEADLINE`](crate::DEADLINE).
    pub fn goes_on(&self) {
        let aim = self.replies.load(Ordering::Relaxed) + 50 * self.clients.len() as u64;
        wait_until("requests are answered", || self.replies.load(Ordering::Relaxed) >= aim);
    }

    /// Ends the load.
    ///
    /// # Panics
    /// When a request got no reply or a wrong one.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("every request has its reply");
        }
    }
}
