//! Lets clients talk to a server, and writes down what they see.
//!
//! ```text
//!   thread k ── draws requests ── session: send 1..8 ── reads all replies, or closes in the middle ──┐
//!      ▲                                                                            a new session ◄──┘
//!      └── shared counters: time, numbers of requests and sessions
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::history::{Call, PENDING};
use crate::model::{Key, Operation};

/// Requests that share their keys. The next round has other keys, so that a part of a history stays short, however
/// long the history is.
const ROUND_LEN: u64 = 200;
/// Distance between the first keys of two rounds.
const ROUND_KEYS: Key = 16;
/// One in so many exchanges ends with the end of its connection.
const EXCHANGES_PER_CLOSE: u32 = 100;
/// One in so many exchanges is a pipeline.
const EXCHANGES_PER_PIPELINE: u32 = 4;
/// Most requests of a pipeline.
const PIPELINE_MAX: usize = 4;

/// A client with its connection. Dropping it closes the connection.
pub trait Client<O: Operation> {
    /// The next request.
    fn draw(&mut self, draw: Draw<'_>) -> O;

    /// Sends requests at once.
    fn send(&mut self, operations: &[O]);

    /// Reads the reply to the oldest request without one.
    fn receive(&mut self, operation: &O) -> O::Reply;
}

/// What a request is made of.
#[derive(Debug)]
pub struct Draw<'a> {
    /// Decides what is not decided otherwise.
    pub random: &'a mut StdRng,
    /// The first of the 16 keys of this round.
    pub first_key: Key,
    /// A number that no other request gets.
    pub number: u64,
}

/// Counters that the clients of one server share.
pub(crate) struct Recorder {
    seed: u64,
    time: AtomicU64,
    requests: AtomicU64,
    sessions: AtomicU64,
    /// The number of the first request of this history, and its round.
    first: (u64, u64),
}

impl Recorder {
    /// A recorder whose clients draw by `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            time: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            sessions: AtomicU64::new(0),
            first: (0, 0),
        }
    }

    /// How many requests have been sent.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Lets so many clients send requests until all have sent `last` in sum. Returns the history. It begins with
    /// another round than the last one, whose keys have values.
    ///
    /// # Panics
    /// When a client panics.
    pub(crate) fn record<O, C>(&mut self, clients: usize, last: u64, connect: &(impl Fn() -> C + Sync)) -> Vec<Call<O>>
    where
        O: Operation + Send,
        O::Reply: Send,
        C: Client<O>,
    {
        let requests = self.requests();
        self.first = (requests, self.round(requests + ROUND_LEN - 1));
        let recorder = &*self;
        thread::scope(|scope| {
            let threads = (0..clients).map(|_| scope.spawn(|| recorder.client(last, connect)));
            let threads: Vec<_> = threads.collect();
            let calls = threads.into_iter().map(|thread| thread.join().expect("a client"));
            calls.flatten().collect()
        })
    }

    /// One client until `last` requests have been sent in sum.
    fn client<O: Operation, C: Client<O>>(&self, last: u64, connect: &impl Fn() -> C) -> Vec<Call<O>> {
        let mut calls = Vec::new();
        let mut session = self.session(connect());
        let random = &mut StdRng::seed_from_u64(self.seed ^ session.number << 32);
        while self.requests() < last {
            let len = match random.random_ratio(1, EXCHANGES_PER_PIPELINE) {
                true => random.random_range(2..=PIPELINE_MAX),
                false => 1,
            };
            let client = &mut session.client;
            let next = || client.draw(self.draw(random));
            let operations: Vec<O> = std::iter::repeat_with(next).take(len).collect();
            let closes = random.random_ratio(1, EXCHANGES_PER_CLOSE);
            let answered = if closes { random.random_range(0..len) } else { len };
            self.exchange(&mut session, operations, answered, &mut calls);
            if closes {
                session = self.session(connect());
            }
        }
        calls
    }

    /// Sends requests, and reads so many of their replies.
    fn exchange<O: Operation, C: Client<O>>(
        &self,
        session: &mut Session<C>,
        operations: Vec<O>,
        answered: usize,
        calls: &mut Vec<Call<O>>,
    ) {
        let begun = self.now();
        session.client.send(&operations);
        for (index, operation) in operations.into_iter().enumerate() {
            let is_answered = index < answered;
            let reply = is_answered.then(|| session.client.receive(&operation));
            let ended = if is_answered { self.now() } else { PENDING };
            session.sent += 1;
            calls.extend(operation.parts(reply).into_iter().map(|(operation, reply)| Call {
                session: session.number,
                sequence: session.sent,
                begun,
                ended: reply.as_ref().map_or(PENDING, |_| ended),
                operation,
                reply,
            }));
        }
    }

    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    /// The round of a request of this history.
    fn round(&self, number: u64) -> u64 {
        let (first, round) = self.first;
        round + (number - first) / ROUND_LEN
    }

    fn session<C>(&self, client: C) -> Session<C> {
        Session {
            client,
            number: self.sessions.fetch_add(1, Ordering::Relaxed),
            sent: 0,
        }
    }

    fn draw<'a>(&self, random: &'a mut StdRng) -> Draw<'a> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let round = Key::try_from(self.round(number)).expect("fewer rounds");
        Draw { random, first_key: round * ROUND_KEYS, number }
    }
}

/// A connection, and how many requests it has sent.
struct Session<C> {
    client: C,
    number: u64,
    sent: u64,
}
