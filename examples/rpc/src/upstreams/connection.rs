//! One connection to an upstream.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psp_protocols::rpc::{Failure, RequestRef, Response, Rpc, Status};
use psp_protocols::{Framing, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::pool::unavailable;
use super::{Outcome, Question};

/// Most bytes of its buffer that an idle connection keeps.
const BUFFER_KEPT_MAX: usize = 16 << 10;

/// See the [module](self). No call is in flight, or the one that [`Connection::call`] is polled for.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    last_id: u64,
    /// A request was sent, and its response has not come.
    in_flight: bool,
    /// A request to send, then a response as far as it has come.
    buffer: Vec<u8>,
}

/// The response to a call.
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    /// The upstream has refused the connection, not the request: it closes it.
    pub(super) is_last: bool,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, last_id: 0, in_flight: false, buffer: Vec::new() })
    }

    /// Whether the upstream has neither closed the connection nor sent what was not asked for.
    pub(super) fn is_open(&self) -> bool {
        let read = self.stream.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Sends a request and waits for its response. After an error, the connection is of no use.
    pub(super) async fn call(
        &mut self,
        framing: &Rpc,
        question: Question<'_>,
        until: Instant,
    ) -> Result<Answer, Failure> {
        self.last_id += 1;
        let left = until.saturating_duration_since(Instant::now());
        let request = RequestRef {
            id: self.last_id,
            method: question.method,
            deadline_us: deadline_us(left),
            payload: question.payload,
        };
        self.buffer.clear();
        request.encode_frame(&mut self.buffer);
        self.in_flight = true;
        let sent = self.stream.write_all(&self.buffer).await;
        sent.map_err(unavailable)?;
        self.buffer.clear();
        let len = self.receive(framing).await?;
        self.in_flight = false;
        let response = Response::from_frame(&self.buffer[..len]).map_err(malformed)?;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT_MAX);
        // An unknown number is no success.
        let status = Status::try_from(response.status).unwrap_or(Status::Unknown);
        let is_last = response.id != self.last_id;
        let outcome = match status {
            Status::Ok if is_last => return Err(malformed("the response is to another request")),
            Status::Ok => Ok(response.payload.into()),
            status => Err(Failure::new(status, response.error)),
        };
        Ok(Answer { outcome, is_last })
    }

    /// Receives a frame, and returns its length.
    async fn receive(&mut self, framing: &Rpc) -> Result<usize, Failure> {
        loop {
            let step = framing.next_frame(&mut (), &self.buffer);
            match step.map_err(malformed)? {
                Step::Frame { len, .. } => return Ok(len),
                Step::NeedMore { .. } => {}
            }
            let read = self.stream.read_buf(&mut self.buffer).await;
            if read.map_err(unavailable)? == 0 {
                return Err(unavailable("the connection was closed"));
            }
        }
    }
}

impl Drop for Connection {
    /// Resets the connection if no request waits for the response any more: an upstream may take an end for that of a
    /// client that goes on to read.
    fn drop(&mut self) {
        if self.in_flight {
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// How a deadline is sent: 0 would be none.
fn deadline_us(left: Duration) -> u64 {
    u64::try_from(left.as_micros()).unwrap_or(u64::MAX).max(1)
}

fn malformed(error: impl std::fmt::Display) -> Failure {
    Failure::new(Status::Internal, format!("malformed response: {error}"))
}
