//! Clients that send more than a server shall hold.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::descriptors::raise_descriptor_limit;
use crate::memory_group::{GROUPS_MIB, MemoryGroup, NO_MEMORY_GROUP};
use crate::server_process::{ServerProcess, Start};

/// How long a client waits for the server to read on.
const PATIENCE: Duration = Duration::from_millis(100);

/// Opens so many connections. Each sends `part`, which is a part of a request, as far as the server takes it, and then
/// waits.
///
/// # Panics
/// When the server accepts no connection.
#[must_use]
pub fn unfinished(address: SocketAddr, part: &[u8], clients: usize) -> Vec<TcpStream> {
    raise_descriptor_limit();
    let connect = |_| {
        let mut client = TcpStream::connect(address).expect("the server accepts");
        client.set_write_timeout(Some(PATIENCE)).unwrap();
        // The server may read no more, or have closed the connection.
        let _sent = client.write_all(part);
        client
    };
    (0..clients).map(connect).collect()
}

/// Starts a program in control groups with little memory, and sends it each of `parts` of requests, which no client
/// ends, from so many connections. It has to live, and to answer what `ask` sends on new connections all the while.
///
/// # Panics
/// When the kernel has killed the server.
pub fn survives_unfinished(program: &str, flags: &[&str], parts: &[(Vec<u8>, usize)], ask: impl Fn(SocketAddr) + Sync) {
    for limit_mib in GROUPS_MIB {
        let Some(group) = MemoryGroup::new(limit_mib) else {
            return psp_skip::skip(NO_MEMORY_GROUP);
        };
        for (part, clients) in parts {
            let server = ServerProcess::start(|_| {
                let mut command = group.command(program);
                command.args(flags);
                Start { command, port: None }
            });
            let said = "memory of the control group";
            assert!(server.log().iter().any(|line| line.contains(said)));
            let address = server.address();
            let _held = answered_beside(
                || ask(address),
                || {
                    let held = unfinished(address, part, *clients);
                    // What was sent has to be read, as far as there is room.
                    thread::sleep(10 * PATIENCE);
                    held
                },
            );
            ask(address);
        }
    }
}

/// Calls `ask`, which sends a request and checks its reply, over and over while `flood` runs. Returns what that
/// returns.
///
/// # Panics
/// When either panics.
pub fn answered_beside<R>(mut ask: impl FnMut() + Send, flood: impl FnOnce() -> R) -> R {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                ask();
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        let _ends = EndsOnDrop(&ends);
        flood()
    })
}

/// The other thread shall end if the flood panics, too.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
