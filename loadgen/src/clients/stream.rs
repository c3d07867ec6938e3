//! Protocols over streams. Each type has connections of its own.
//!
//! ```text
//!   arrival ──► free connection? ──yes──► write ──► in flight ──► reply: latency
//!                    │ no                                            │
//!                    ▼                                               │
//!               queue of the type ◄──────── connection is free ──────┘
//! ```
//!
//! The queue keeps the loop open although connections are few: a queued request keeps its intended
//! send time. Queued and in-flight requests together are bounded.
//!
//! If connections carry several requests at a time, requests that are due together are written
//! together: a system call takes longer than making a dozen requests.
//!
//! A reply may say that the server takes no more requests on its connection, as `Connection: close`
//! does. The connection is then opened again at once, and requests behind that reply go back to the
//! head of the queue with their intended send times.
//!
//! Replies come in the order of the requests, or name them by id. In the first case a request
//! without a reply in time closes its connection, because no later reply can be matched. In the
//! second case that request alone is given up.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use super::arrival::Arrival;
use super::commands::Commands;
use super::connection::Connection;
use super::in_flight::{Answered, Pending};
use super::lane::Lane;
use super::waiter::Waiter;
use crate::record::{Failure, Notes, Recorder, RunClock};
use crate::schedule::RunPlan;
use crate::wire::Endpoint;
use psp_protocols::skip::{Outcome, Skipped};

/// Bytes of one read: small enough for the second-level cache.
const READ_LEN: usize = 128 * 1024;

/// Arrivals of a turn if their requests are written together.
const ARRIVALS_PER_WRITE: usize = 256;

/// Arrivals of a turn if their requests are written one by one.
const ARRIVALS_WRITTEN: usize = 32;

/// Reads of one connection before other connections get a turn.
const READS_PER_TURN: usize = 8;

/// Longest ramp in nanoseconds: a day.
const RAMP_NS_MAX: u64 = 86_400_000_000_000;

/// Error name of requests that were lost with their connection.
const CONNECTION_LOST: &str = "CONNECTION";

/// All connections of one thread.
#[derive(Debug)]
pub(crate) struct StreamLane {
    types: Vec<StreamType>,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
    /// Connections with requests to write at the end of the turn.
    unwritten: Vec<usize>,
    /// Types with requests that have gone back to the queue since the end of the last turn.
    requeued: Vec<usize>,
    limits: Limits,
    in_flight: usize,
    queued: usize,
    /// Connections to open.
    closed: usize,
    sent_ns: u64,
}

#[derive(Debug)]
struct StreamType {
    commands: Commands,
    recorder: Recorder,
    /// Requests that wait for a connection.
    queue: VecDeque<Waiting>,
    /// Connections that can take a request, in the order in which they became free.
    free: VecDeque<usize>,
    in_flight: usize,
    /// When the rest of a connection that failed ends, or ended.
    rest_end_ns: u64,
}

/// A request that waits for a connection.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    intended_ns: u64,
    /// Number of its command among those of the type.
    command: u32,
    /// Whether it was sent on a connection whose server did not read it.
    is_sent: bool,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its requests are lost.
    Broken,
    /// The server said so before: it did not read the requests in flight.
    Announced,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    outstanding_max: usize,
    pipeline: usize,
    timeout_ns: u64,
}

/// One type for [`StreamLane::connect`].
#[derive(Debug)]
pub(crate) struct StreamTypeSetup {
    pub(crate) commands: Commands,
    pub(crate) recorder: Recorder,
    pub(crate) connections: usize,
}

impl StreamType {
    /// Takes the request that has waited longest.
    fn take_queued(&mut self) -> Option<Waiting> {
        let taken = self.queue.pop_front()?;
        if taken.intended_ns < self.rest_end_ns {
            self.recorder.held_back(taken.intended_ns);
        }
        Some(taken)
    }

    /// Takes a reply that came on `connection`. Returns whether its request has ended.
    fn take_reply(&mut self, connection: &mut Connection, outcome: Outcome, now_ns: u64) -> Result<bool, End> {
        let answered = connection.in_flight.answered(connection.replies.id());
        if !matches!(answered, Answered::Nothing) {
            connection.answered();
        }
        let Connection { in_flight, replies, .. } = connection;
        let id = match answered {
            Answered::Pending(id) => id,
            Answered::Late => return Ok(false),
            Answered::Nothing => return Err(End::Broken),
        };
        let pending = in_flight.get_mut(id).ok_or(End::Broken)?;
        self.note(pending, outcome, replies.error_kind(outcome));
        if pending.expected.replies > 0 {
            return Ok(false);
        }
        if let Some(done) = in_flight.remove(id).filter(|done| !done.has_failed) {
            self.recorder.completed(done.intended_ns, now_ns, None);
        }
        self.in_flight -= 1;
        Ok(true)
    }

    /// Records one of the replies to `pending`. An error ends the request at once. Its further
    /// replies are read and forgotten.
    fn note(&mut self, pending: &mut Pending, outcome: Outcome, error_kind: Option<&str>) {
        let Pending { intended_ns, expected, has_failed, .. } = pending;
        expected.replies = expected.replies.saturating_sub(1);
        match error_kind {
            Some(kind) if !*has_failed => {
                *has_failed = true;
                self.recorder.failed(*intended_ns, Failure::Error(kind));
            }
            Some(_) => {}
            None => {
                let (hits, misses) = expected.lookup.hits_and_misses(outcome);
                self.recorder.looked_up(*intended_ns, hits, misses);
            }
        }
    }
}

impl StreamLane {
    /// Opens each type's first connection. Opens the others, too, or plans to with a ramp.
    pub(crate) fn connect(plan: &RunPlan, setups: Vec<StreamTypeSetup>, waiter: &Waiter) -> io::Result<Self> {
        // Far from the end of a u64 when multiplied by a number of connections.
        let ramp_ns = u64::try_from(plan.ramp.as_nanos()).map_or(RAMP_NS_MAX, |ns| ns.min(RAMP_NS_MAX));
        let mut planned = 0;
        let mut target = plan.target.clone();
        let mut connections: Vec<Connection> = Vec::new();
        let mut types = Vec::new();
        for (type_index, setup) in setups.into_iter().enumerate() {
            let first = connections.len();
            let count = setup.connections.max(1);
            let mut free = VecDeque::with_capacity(count);
            for position in 0..count {
                let index = first + position;
                let data = index as u64;
                let open_ns = ramp_ns * position as u64 / count as u64;
                let opened = connections.get(first).filter(|_| open_ns > 0);
                let mut connection = if let Some(opened) = opened {
                    planned += 1;
                    opened.planned(target.protocol, data, open_ns)
                } else {
                    free.push_back(index);
                    Connection::open(&target, type_index, data, waiter.epoll())?
                };
                // The address that accepts the first connection gets all others.
                if let Some(addr) = connection.inet_addr() {
                    target.endpoint = Endpoint::Inet(vec![addr]);
                }
                connection.is_listed = connection.is_open();
                connections.push(connection);
            }
            types.push(StreamType {
                commands: setup.commands,
                recorder: setup.recorder,
                queue: VecDeque::new(),
                free,
                in_flight: 0,
                rest_end_ns: 0,
            });
        }
        Ok(Self {
            types,
            connections,
            buffer: vec![0; READ_LEN],
            unwritten: Vec::new(),
            requeued: Vec::new(),
            limits: Limits {
                outstanding_max: plan.outstanding_max,
                pipeline: plan.pipeline.max(1),
                timeout_ns: u64::try_from(plan.timeout.as_nanos()).unwrap_or(u64::MAX),
            },
            in_flight: 0,
            queued: 0,
            closed: planned,
            sent_ns: 0,
        })
    }

    /// Takes a connection of the type that can take a request.
    fn take_free(&mut self, type_index: usize) -> Option<usize> {
        let index = self.types[type_index].free.pop_front()?;
        self.connections[index].is_listed = false;
        Some(index)
    }

    /// Lists the connection as free if it can take a request.
    fn list_free(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let is_free = connection.is_open() && connection.in_flight.len() < self.limits.pipeline;
        if is_free && !connection.is_listed {
            connection.is_listed = true;
            self.types[connection.type_index].free.push_back(index);
        }
    }

    fn send(&mut self, index: usize, request: Waiting, sent_ns: u64, waiter: &Waiter, clock: &RunClock) {
        let Waiting { intended_ns, command, is_sent } = request;
        let connection = &mut self.connections[index];
        let ty = &mut self.types[connection.type_index];
        // The rest of an earlier write continues when the socket is ready.
        let is_first = connection.out.is_empty();
        let id = connection.in_flight.next_id();
        let expected = ty.commands.write(command, id, &mut connection.out);
        connection.in_flight.push(intended_ns, command, expected);
        ty.in_flight += 1;
        self.in_flight += 1;
        if !is_sent {
            ty.recorder.sent(intended_ns, sent_ns);
        }
        if self.limits.pipeline > 1 {
            if is_first {
                self.unwritten.push(index);
            }
            self.list_free(index);
        } else if self.write(index, waiter, clock) {
            self.list_free(index);
        }
    }

    /// Writes the connection's unsent bytes. Returns whether the connection still works.
    fn write(&mut self, index: usize, waiter: &Waiter, clock: &RunClock) -> bool {
        let is_written = self.connections[index].flush(waiter.epoll()).is_ok();
        if !is_written {
            // The last reply may have announced the end.
            let end = self.read_replies(index, clock).err();
            self.end_connection(index, end.unwrap_or(End::Broken), clock.now_ns(), waiter);
        }
        is_written
    }

    /// Sends queued requests of the type while it has free connections.
    fn send_queued(&mut self, type_index: usize, waiter: &Waiter, clock: &RunClock) {
        while !self.types[type_index].queue.is_empty()
            && let Some(index) = self.take_free(type_index)
            && let Some(request) = self.types[type_index].take_queued()
        {
            self.queued -= 1;
            self.send(index, request, clock.now_ns(), waiter, clock);
        }
    }

    /// Closes the connection, and opens it again unless it rests. Its requests fail, or go back to
    /// the queue.
    fn end_connection(&mut self, index: usize, end: End, now_ns: u64, waiter: &Waiter) {
        let connection = &mut self.connections[index];
        let ty = &mut self.types[connection.type_index];
        connection.close(now_ns);
        if std::mem::take(&mut connection.is_listed) {
            ty.free.retain(|&free| free != index);
        }
        let lost = connection.in_flight.len();
        if end == End::Announced && lost > 0 {
            self.requeued.push(connection.type_index);
        }
        let pending = connection.in_flight.drain().rev();
        for pending in pending.filter(|pending| !pending.has_failed) {
            let intended_ns = pending.intended_ns;
            match end {
                End::Broken => {
                    let failure = Failure::Error(CONNECTION_LOST);
                    ty.recorder.failed(intended_ns, failure);
                }
                End::Announced => {
                    ty.queue.push_front(Waiting { intended_ns, command: pending.command, is_sent: true });
                    self.queued += 1;
                }
            }
        }
        ty.in_flight -= lost;
        self.in_flight -= lost;
        self.closed += 1;
        connection.reopen(now_ns, waiter.epoll());
    }

    /// Reads replies. `Err` when the connection takes no more requests.
    fn read_replies(&mut self, index: usize, clock: &RunClock) -> Result<(), End> {
        let connection = &mut self.connections[index];
        let ty = &mut self.types[connection.type_index];
        let mut reads = 0;
        while reads < READS_PER_TURN || connection.has_unread() {
            reads += 1;
            let count = match connection.read(&mut self.buffer) {
                Ok(Some(count)) => count,
                Ok(None) => break,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    let outcome = connection.replies.finish().ok_or(End::Broken)?;
                    let has_ended = ty.take_reply(connection, outcome, clock.now_ns())?;
                    self.in_flight -= usize::from(has_ended);
                    return Err(End::Announced);
                }
                Err(_) => return Err(End::Broken),
            };
            let now_ns = clock.now_ns();
            let mut input = &self.buffer[..count];
            while !input.is_empty() {
                let skipped = connection.replies.skip(input).map_err(|_| End::Broken)?;
                let Skipped::Reply { len, outcome } = skipped else {
                    break;
                };
                input = &input[len..];
                if connection.is_greeted() {
                    match connection.replies.error_kind(outcome) {
                        Some(_) => return Err(End::Broken),
                        None => continue,
                    }
                }
                let has_ended = ty.take_reply(connection, outcome, now_ns)?;
                self.in_flight -= usize::from(has_ended);
                if connection.replies.closes() {
                    return Err(End::Announced);
                }
            }
            if count < self.buffer.len() {
                break;
            }
        }
        Ok(())
    }
}

impl Lane for StreamLane {
    fn issue(&mut self, arrival: Arrival, waiter: &Waiter, clock: &RunClock) {
        let Arrival { index, command, intended_ns } = arrival;
        let request = Waiting { intended_ns, command, is_sent: false };
        let ty = &mut self.types[index];
        let taken_ns = clock.now_ns();
        let has_room = ty.in_flight + ty.queue.len() < self.limits.outstanding_max;
        let timeout_ns = self.limits.timeout_ns;
        let recorder = &mut ty.recorder;
        if !recorder.taken_up(intended_ns, taken_ns, has_room, timeout_ns) {
            return;
        }
        // Queued requests go first.
        let free = if ty.queue.is_empty() {
            self.take_free(index)
        } else {
            None
        };
        if let Some(connection) = free {
            self.sent_ns = taken_ns;
            self.send(connection, request, taken_ns, waiter, clock);
        } else {
            let ty = &mut self.types[index];
            ty.queue.push_back(request);
            ty.recorder.queued(intended_ns);
            self.queued += 1;
        }
    }

    fn arrivals_per_turn(&self) -> usize {
        if self.limits.pipeline > 1 {
            ARRIVALS_PER_WRITE
        } else {
            ARRIVALS_WRITTEN
        }
    }

    fn flush(&mut self, waiter: &Waiter, clock: &RunClock) {
        loop {
            while let Some(index) = self.unwritten.pop() {
                self.write(index, waiter, clock);
            }
            // A write that failed may have ended a connection, while others are free.
            match self.requeued.pop() {
                Some(type_index) => self.send_queued(type_index, waiter, clock),
                None => break,
            }
        }
    }

    fn ready(&mut self, data: u64, waiter: &Waiter, clock: &RunClock) {
        let Some(index) = usize::try_from(data).ok().filter(|index| *index < self.connections.len()) else {
            return;
        };
        let connection = &mut self.connections[index];
        let type_index = connection.type_index;
        if let Some(was_open) = connection.finish_connect(clock.now_ns(), waiter.epoll()) {
            self.closed -= 1;
            if was_open {
                self.types[type_index].recorder.reconnected();
            }
        }
        if connection.is_open() && self.write(index, waiter, clock) {
            if let Err(end) = self.read_replies(index, clock) {
                self.end_connection(index, end, clock.now_ns(), waiter);
            }
            if self.connections[index].has_unwritten() {
                self.write(index, waiter, clock);
            }
            self.list_free(index);
        }
        self.send_queued(type_index, waiter, clock);
    }

    fn expire(&mut self, waiter: &Waiter, clock: &RunClock) {
        let now_ns = clock.now_ns();
        let timeout_ns = self.limits.timeout_ns;
        let is_late = |intended_ns: u64| now_ns.saturating_sub(intended_ns) >= timeout_ns;
        let is_given_up = |pending: &Pending| is_late(pending.intended_ns);
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            connection.reopen(now_ns, waiter.epoll());
            let ty = &mut self.types[connection.type_index];
            if let Some(rest_end_ns) = connection.rest_end_ns() {
                ty.rest_end_ns = ty.rest_end_ns.max(rest_end_ns);
            }
            let mut given_up = 0;
            while let Some(pending) = connection.in_flight.pop_oldest_if(is_given_up) {
                if !pending.has_failed {
                    ty.recorder.failed(pending.intended_ns, Failure::Timeout);
                }
                given_up += 1;
            }
            ty.in_flight -= given_up;
            self.in_flight -= given_up;
            if given_up == 0 {
                continue;
            }
            if connection.replies.are_ordered() {
                // Without the reply to this request the later replies cannot come.
                self.end_connection(index, End::Broken, now_ns, waiter);
            } else {
                self.list_free(index);
            }
        }
        for ty in &mut self.types {
            ty.recorder.tick(now_ns);
            while ty.queue.front().is_some_and(|it| is_late(it.intended_ns))
                && let Some(late) = ty.take_queued()
            {
                ty.recorder.failed(late.intended_ns, Failure::Timeout);
                self.queued -= 1;
            }
        }
    }

    fn has_room(&self, index: usize) -> bool {
        let ty = &self.types[index];
        !ty.free.is_empty() && ty.queue.is_empty()
    }

    fn take_ended(&mut self, index: usize) -> u64 {
        self.types[index].recorder.take_ended()
    }

    fn types(&self) -> usize {
        self.types.len()
    }

    fn outstanding(&self) -> usize {
        self.in_flight + self.queued
    }

    fn sent_ns(&self) -> Option<u64> {
        (self.in_flight > 0).then_some(self.sent_ns)
    }

    fn is_broken(&self) -> bool {
        self.closed > 0
    }

    fn finish(self) -> Vec<Notes> {
        let mut types = self.types;
        for mut connection in self.connections {
            let recorder = &mut types[connection.type_index].recorder;
            for pending in connection.in_flight.drain() {
                if !pending.has_failed {
                    recorder.failed(pending.intended_ns, Failure::Unfinished);
                }
            }
        }
        types
            .into_iter()
            .map(|mut ty| {
                for waiting in &ty.queue {
                    ty.recorder.failed(waiting.intended_ns, Failure::Unfinished);
                }
                ty.recorder.into_notes()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Arc;
    use std::time::Instant;

    use crate::record::IntervalCollector;
    use crate::schedule::{RequestPlan, TypePlan, Waiting};
    use crate::wire::{CommandTemplate, Target};

    const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

    fn accept(listener: &UnixListener) -> UnixStream {
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    /// How many requests have come.
    fn requests(socket: &mut UnixStream) -> usize {
        let mut bytes = [0; 4096];
        let count = socket.read(&mut bytes).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..count]).matches("GET / ").count()
    }

    #[test]
    fn a_request_behind_an_announced_close_goes_to_a_free_connection_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let target: Target = format!("http+unix:{}", path.display()).parse().unwrap();
        let command = CommandTemplate::for_protocol("GET /", target.protocol).unwrap();
        let ty = TypePlan::new("/", 1.0, RequestPlan::Command(command));
        let mut plan = RunPlan::new(target, vec![ty]);
        plan.pipeline = 2;
        let intervals = IntervalCollector::default().add_type(0);
        let setup = StreamTypeSetup {
            commands: Commands::new(&plan, 0).unwrap(),
            recorder: Recorder::new(0..u64::MAX, Arc::default(), intervals, None),
            connections: 2,
        };
        let waiter = Waiter::new(Waiting::BusyPoll).unwrap();
        let clock = RunClock::starting_at(Instant::now());
        let mut lane = StreamLane::connect(&plan, vec![setup], &waiter).unwrap();
        let (mut first, mut second) = (accept(&listener), accept(&listener));
        let issue = |lane: &mut StreamLane| {
            let arrival = Arrival { index: 0, command: 0, intended_ns: clock.now_ns() };
            lane.issue(arrival, &waiter, &clock);
            lane.flush(&waiter, &clock);
        };
        issue(&mut lane);
        issue(&mut lane);
        assert_eq!([requests(&mut first), requests(&mut second)], [1, 1]);
        first.write_all(LAST).unwrap();
        drop(first);
        issue(&mut lane);
        assert_eq!(requests(&mut second), 1);
        assert_eq!((lane.in_flight, lane.queued), (2, 0));
    }
}
