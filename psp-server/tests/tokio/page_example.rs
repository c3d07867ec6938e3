use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use psp_server::protocols::Sink;
use psp_server::sync::Mutex;
use psp_server::{Reply, Request, task, wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Asks another server: one line there, and its answer back.
async fn ask(server: SocketAddr, line: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(line).await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer)
}

pub struct Upstreams {
    pub servers: Vec<SocketAddr>,
    pub patience: Duration,
    /// The servers' last answers, written by one request at a time.
    pub last: Mutex<Vec<u8>>,
}

impl Upstreams {
    /// Nested: the answer of one server, if it comes in time.
    pub fn forward(&self, request: &Request<'_, ()>, reply: &mut Reply<'_>) {
        let asked = ask(self.servers[0], request.payload);
        match wait(task::timeout(self.patience, asked)) {
            Ok(Ok(answer)) => reply.put(&answer),
            Ok(Err(error)) => reply.fail(error),
            Err(elapsed) => reply.fail(elapsed),
        }
    }

    /// Fan-out: all servers at once, and their answers together.
    pub fn gather(&self, request: &Request<'_, ()>, reply: &mut Reply<'_>) {
        let asked = self
            .servers
            .iter()
            .map(|&server| ask(server, request.payload));
        let answers: io::Result<Vec<_>> = wait(task::join_all(asked)).into_iter().collect();
        match answers {
            Ok(answers) => reply.put(&answers.concat()),
            Err(error) => reply.fail(error),
        }
    }

    /// The first two good answers: who fails or panics is left out, and who is late is cancelled.
    pub fn quorum(&self, request: &Request<'_, ()>, reply: &mut Reply<'_>) {
        let mut asked = task::Tasks::new(self.servers.len());
        for &server in &self.servers {
            if let Err(too_many) = asked.spawn(ask(server, request.payload)) {
                return reply.fail(too_many);
            }
        }
        let mut missing = 2;
        while missing > 0 {
            match wait(asked.join_next()) {
                Some((_, Ok(Ok(answer)))) => {
                    reply.put(&answer);
                    missing -= 1;
                }
                Some(_) => {}
                None => return reply.fail("too few answers"),
            }
        }
    }

    /// A lock that is held while the request waits.
    pub fn refresh(&self, request: &Request<'_, ()>, reply: &mut Reply<'_>) {
        wait(async {
            let mut last = self.last.lock().await;
            if let Ok(answer) = ask(self.servers[0], request.payload).await {
                *last = answer;
            }
            reply.put(&last);
        });
    }
}
