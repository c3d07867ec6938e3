//! A simulated client: what it sends, what it reads, and the model of what has to come.
//!
//! - Every reply is to a request that was sent and has no reply yet: the oldest one, where replies come in order.
//! - It says what the request asked for, or refuses it for a reason that the server's limits allow.
//! - A connection ends when its client or one of its requests ends it, when the server drains, or when a limit says so.
//!   Else, and before the replies that are due, the end is a failure.

use std::collections::VecDeque;
use std::fmt;

use super::ledger::{slot_of, with_ledger};
use super::plan::{Clients, Plan};
use super::protocol::{
    HEADER_LEN, Head, Kind, NO_NUMBER, REPLY_HEADER_LEN, ReplyHead, STATUSES, Status, UNKNOWN_TYPE, is_payload,
};
use crate::simulated::random::{Random, mix};
use crate::simulated::{ClientEnd, Found};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
/// What a client reads at once.
const READ_BYTES: usize = 64 * 1024;
/// What a slow client reads at once.
const SLOW_READ_BYTES: u64 = 3_000;
/// How long a slow client waits before it reads again.
const SLOW_WAIT_NS: u64 = 20 * MS;
/// How long a silent client stays, if no side closes its connection.
const SILENCE_NS: u64 = 4 * S;
/// For how long a turn of the server that began before a jump of the clock may go on.
pub(super) const TURN_NS: u64 = S;

/// A request without a reply.
#[derive(Debug, Clone, Copy)]
struct Sent {
    head: Head,
    /// When it was written, with others.
    at_ns: u64,
    /// Where it ends in the bytes of the connection.
    end: u64,
    /// The server had it all when its drain began.
    must_be_answered: bool,
}

/// The latest jump of the clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Jump {
    pub(super) to_ns: u64,
    pub(super) by_ns: u64,
}

/// What all clients know.
pub(super) struct Common<'a> {
    pub(super) plan: &'a Plan,
    pub(super) random: &'a mut Random,
    pub(super) counts: &'a mut Counts,
    /// No new requests are sent.
    pub(super) is_over: bool,
    /// When the server began to drain.
    pub(super) draining_ns: Option<u64>,
    /// A worker has died, or the server is gone: replies may be lost.
    pub(super) is_lost: bool,
    pub(super) jumped: Jump,
    /// Where clients read to.
    pub(super) room: &'a mut Vec<u8>,
}

/// What clients have seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    /// By status.
    pub(crate) replies: [u64; STATUSES.len()],
    pub(crate) connections: u64,
    pub(crate) left: u64,
    pub(crate) half_closed: u64,
    pub(crate) ended_by_server: u64,
    /// Endless requests that ran until another client's request killed them.
    pub(crate) killed: u64,
    /// Depends on all replies and their times.
    pub(crate) digest: u64,
}

/// What a client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// It sends something at this time.
    Send(u64),
    /// It reads.
    Read(u64),
    /// It leaves without a word.
    Leave(u64),
    /// It is gone.
    Gone,
}

/// See the [module](self).
pub(super) struct Client {
    pub(super) id: u32,
    pub(super) end: ClientEnd,
    /// Requests that it sends at most.
    limit: u32,
    depth: usize,
    is_slow: bool,
    writes_first: bool,
    /// It sends nothing but a request that kills others.
    is_operator: bool,
    half_closes: bool,
    is_silent: bool,
    /// The number of the request in whose place it sends something else.
    malformed_at: Option<u32>,
    sent: VecDeque<Sent>,
    next: u32,
    out: Vec<u8>,
    out_at: usize,
    /// Bytes that were written to the socket, and all that are for it.
    written: u64,
    composed: u64,
    received: Vec<u8>,
    /// It has ended its side.
    has_ended: bool,
    has_sent_malformed: bool,
    /// The number of a request that closes the connection.
    closing: Option<u32>,
    /// The server said why it closes the connection.
    was_told: bool,
    /// A reply has come.
    was_served: bool,
    written_ns: u64,
    /// When it wrote something before that.
    written_before_ns: u64,
    /// It is known when it sends, or reads, next.
    pub(super) sends_later: bool,
    pub(super) reads_later: bool,
    progress_ns: u64,
}

impl Counts {
    /// Adds what the clients of another simulation have seen.
    pub(super) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        for (sum, count) in self.replies.iter_mut().zip(other.replies) {
            *sum += count;
        }
        self.connections += other.connections;
        self.left += other.left;
        self.half_closed += other.half_closed;
        self.ended_by_server += other.ended_by_server;
        self.killed += other.killed;
    }

    /// Replies with this status.
    pub(super) fn of(&self, status: Status) -> u64 {
        self.replies[status as usize]
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, connections, left, half_closed, killed, .. } = self;
        write!(
            f,
            "{sent} requests on {connections} connections, of which {left} were left and {half_closed} half closed; \
             {killed} were killed;"
        )?;
        let seen = { STATUSES.into_iter() }.filter(|&status| self.of(status) > 0);
        seen.map(|status| (status, self.of(status)))
            .try_for_each(|(status, count)| write!(f, " {status:?} {count}"))
    }
}

impl Client {
    pub(super) fn new(id: u32, end: ClientEnd, now_ns: u64, common: &mut Common<'_>) -> Self {
        let Clients {
            requests_max,
            depth_max,
            slow,
            writing_first,
            half_closing,
            malformed,
            idle,
            ..
        } = common.plan.clients;
        let grace = common.plan.config.half_close_grace_ms > 0;
        let random = &mut *common.random;
        let limit = random.between(1, requests_max) as u32;
        let writes_first = random.once_in(writing_first);
        // A server that has refused a request reads no more.
        let is_malformed = random.once_in(malformed) && !writes_first;
        common.counts.connections += 1;
        Self {
            id,
            end,
            limit,
            depth: random.between(1, depth_max) as usize,
            is_slow: random.once_in(slow) && !writes_first,
            writes_first,
            is_operator: false,
            half_closes: grace && random.once_in(half_closing),
            is_silent: random.once_in(idle),
            malformed_at: is_malformed.then(|| random.below(limit.into()) as u32),
            sent: VecDeque::new(),
            next: 0,
            out: Vec::new(),
            out_at: 0,
            written: 0,
            composed: 0,
            received: Vec::new(),
            has_ended: false,
            has_sent_malformed: false,
            closing: None,
            was_told: false,
            was_served: false,
            written_ns: now_ns,
            written_before_ns: now_ns,
            sends_later: false,
            reads_later: false,
            progress_ns: now_ns,
        }
    }

    /// A client that kills endless requests.
    pub(super) fn operator(id: u32, end: ClientEnd, now_ns: u64, common: &mut Common<'_>) -> Self {
        Self {
            limit: 1,
            is_slow: false,
            writes_first: false,
            is_operator: true,
            half_closes: false,
            is_silent: false,
            malformed_at: None,
            ..Self::new(id, end, now_ns, common)
        }
    }

    pub(super) fn is_operator(&self) -> bool {
        self.is_operator
    }

    /// Whether it waits for the server.
    pub(super) fn waits(&self) -> bool {
        !self.sent.is_empty()
            || self.out_at < self.out.len()
            || self.has_ended
            || self.closing.is_some()
            || self.has_sent_malformed
    }

    /// Since when nothing has moved.
    pub(super) fn waits_since_ns(&self) -> u64 {
        self.progress_ns.max(self.written_ns)
    }

    pub(super) fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Whether the next reply is to a request of no known type. Policies that rank types begin these last: as long as
    /// other clients keep all workers busy, none of them runs.
    pub(super) fn waits_for_unknown(&self) -> bool {
        let next = self.sent.front();
        next.is_some_and(|sent| sent.head.request_type == UNKNOWN_TYPE)
    }

    /// What it waits for, for people.
    pub(super) fn describe(&self) -> String {
        let Self { id, next, limit, has_ended, closing, .. } = self;
        let unsent = self.out.len() - self.out_at;
        let (unread, at_server) = (self.end.unread(), self.end.unread_by_server());
        let first = self.sent.front().map(|sent| (sent.head, sent.at_ns));
        format!(
            "client {id:#x}: {next} of {limit} requests sent, {} without a reply, the first {first:?}; {unsent} bytes \
             unsent, {at_server} in the server's socket, {unread} in its own; ended {has_ended}, closing {closing:?}",
            self.sent.len(),
        )
    }

    fn is_done(&self, common: &Common<'_>) -> bool {
        self.next >= self.limit
            || (common.is_over && !self.is_operator)
            || self.closing.is_some()
            || self.has_sent_malformed
    }

    /// Sends what is next, or ends its side.
    pub(super) fn send(&mut self, now_ns: u64, common: &mut Common<'_>) -> Next {
        if self.has_ended {
            return Next::Nothing;
        }
        if self.out_at == self.out.len() {
            self.out.clear();
            self.out_at = 0;
            if !self.is_done(common) {
                self.compose(now_ns, common);
            }
        }
        let plan = &common.plan.clients;
        let left = self.out.len() - self.out_at;
        if left > 0 {
            let mut count = left;
            if common.random.once_in(plan.partial) {
                count = common.random.between(1, left as u64) as usize;
            }
            let bytes = &self.out[self.out_at..self.out_at + count];
            let sent = self.end.send(bytes);
            self.out_at += sent;
            self.written += sent as u64;
            if sent > 0 {
                self.written_before_ns = std::mem::replace(&mut self.written_ns, now_ns);
            }
            if sent < count {
                // The socket tells when there is room.
                return Next::Nothing;
            }
            if self.out_at < self.out.len() {
                return Next::Send(now_ns + 1 + common.random.below(plan.latency_ns_max));
            }
            if self.writes_first {
                return Next::Read(now_ns + 1);
            }
        }
        // A server that has not read yet what came long before cannot know that something came with the end.
        let since_ns = self.written_ns.min(self.written_before_ns);
        let is_soon = now_ns - since_ns < common.plan.config.half_close_grace_ms * MS / 2;
        if self.is_done(common) && self.half_closes && is_soon {
            // Behind its last bytes.
            self.end_side(common);
            return Next::Nothing;
        }
        if self.is_done(common) && self.sent.is_empty() && !self.has_sent_malformed {
            return self.finish(now_ns, common);
        }
        if !self.is_done(common) && self.sent.len() < self.depth {
            return Next::Send(now_ns + 1 + common.random.below(plan.think_ns_max + 1));
        }
        Next::Nothing
    }

    /// Sends what there was no room for.
    pub(super) fn send_rest(&mut self, now_ns: u64, common: &mut Common<'_>) -> Next {
        match self.out_at < self.out.len() {
            true => self.send(now_ns, common),
            false => Next::Nothing,
        }
    }

    fn end_side(&mut self, common: &mut Common<'_>) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.end.end();
            common.counts.half_closed += 1;
        }
    }

    /// All is answered, and nothing more is sent.
    fn finish(&mut self, now_ns: u64, common: &mut Common<'_>) -> Next {
        if self.closing.is_some() {
            // The server closes.
            return Next::Nothing;
        }
        if self.is_silent && !common.is_over {
            let until_ns = now_ns + SILENCE_NS + common.random.below(SILENCE_NS);
            return Next::Leave(until_ns);
        }
        match common.random.below(3) {
            0 => Next::Leave(now_ns),
            _ => {
                self.end_side(common);
                Next::Nothing
            }
        }
    }

    /// Writes some requests.
    fn compose(&mut self, now_ns: u64, common: &mut Common<'_>) {
        let room = self.depth.saturating_sub(self.sent.len()).min((self.limit - self.next) as usize);
        let burst = common.random.between(1, common.plan.clients.burst_max) as usize;
        let count = if self.writes_first { room } else { burst };
        for _ in 0..count.min(room) {
            if self.malformed_at == Some(self.next) {
                let head = Head { len: HEADER_LEN as u32, ..Head::default() };
                head.encode(false, &mut self.out);
                self.composed = self.written + (self.out.len() - self.out_at) as u64;
                self.has_sent_malformed = true;
                return;
            }
            let head = self.draw(common);
            head.encode(true, &mut self.out);
            if head.kind == Kind::Discard {
                self.out.resize(self.out.len() + head.reply_len as usize, 7);
            }
            self.composed = self.written + (self.out.len() - self.out_at) as u64;
            self.sent.push_back(Sent {
                head,
                at_ns: now_ns,
                end: self.composed,
                must_be_answered: false,
            });
            self.next += 1;
            common.counts.sent += 1;
            if matches!(head.kind, Kind::Close | Kind::Last) {
                self.closing = Some(head.number);
                return;
            }
        }
    }

    fn draw(&self, common: &mut Common<'_>) -> Head {
        let random = &mut *common.random;
        let plan = &common.plan.clients;
        let is_long = random.once_in(plan.long);
        let mut head = Head {
            len: HEADER_LEN as u32 + random.below(24) as u32,
            request_type: random.below(common.plan.types.len() as u64) as u8,
            kind: Kind::Plain,
            client: self.id,
            number: self.next,
            service_ns: random.between(100, 3_000) as u32,
            reply_len: random.below(48) as u32,
            deadline_us: 0,
        };
        if let Some(control) = common.plan.control.filter(|_| self.is_operator) {
            head.kind = Kind::Kill;
            head.request_type = control;
            return head;
        }
        // Control types are for short requests: a long one is of unknown type.
        let of_long = |request_type: u8| match common.plan.control == Some(request_type) {
            true => UNKNOWN_TYPE,
            false => request_type,
        };
        if random.once_in(plan.endless) {
            head.kind = Kind::Endless;
            head.request_type = of_long(head.request_type);
            return head;
        }
        if random.once_in(plan.sized) {
            head.kind = Kind::Sized;
            head.request_type = of_long(head.request_type);
            return head;
        }
        if is_long {
            head.service_ns = random.between(3_000, plan.long_ns_max) as u32;
            // The last type has most of the long ones.
            head.request_type = of_long((common.plan.types.len() - 1) as u8);
        } else if random.once_in(64) {
            // A type that the server does not have.
            head.request_type = UNKNOWN_TYPE;
        }
        if random.once_in(plan.large) {
            head.len = HEADER_LEN as u32 + random.below(plan.large_max) as u32;
        }
        if random.once_in(plan.large) {
            head.reply_len = random.below(plan.large_max) as u32;
        }
        if random.once_in(plan.deadlines) {
            head.deadline_us = random.between(1, 2_000) as u32;
        }
        if random.once_in(plan.odd) {
            head.kind = *random.pick(&[
                Kind::Panic,
                Kind::Fail,
                Kind::Defer,
                Kind::Defer,
                Kind::DropDeferred,
                Kind::Reclassify,
                Kind::Pieces,
                Kind::Discard,
            ]);
            if random.once_in(20) && !self.writes_first {
                head.kind = *random.pick(&[Kind::Close, Kind::Last]);
            }
        }
        head
    }

    /// Reads what has come.
    ///
    /// # Errors
    /// When the model allows no such reply, or no such end.
    pub(super) fn read(&mut self, now_ns: u64, common: &mut Common<'_>) -> Result<Next, String> {
        let mut room = std::mem::take(common.room);
        room.resize(READ_BYTES, 0);
        // What was to happen while the net thread did something does so behind that, and finds what that wrote.
        let now_ns = now_ns.max(self.end.stirred_ns());
        let next = self.read_into(&mut room, now_ns, common);
        *common.room = room;
        next
    }

    fn read_into(&mut self, room: &mut [u8], now_ns: u64, common: &mut Common<'_>) -> Result<Next, String> {
        if self.writes_first && self.out_at < self.out.len() {
            return Ok(Next::Nothing);
        }
        let most = match self.is_slow {
            true => common.random.between(1, SLOW_READ_BYTES) as usize,
            false => READ_BYTES,
        };
        loop {
            match self.end.read(&mut room[..most]) {
                Found::Bytes(count) => {
                    self.progress_ns = now_ns;
                    let whole = match self.received.is_empty() {
                        // Most replies come whole.
                        true => self.accept(&room[..count], now_ns, common)?,
                        false => {
                            self.received.extend_from_slice(&room[..count]);
                            let received = std::mem::take(&mut self.received);
                            let whole = self.accept(&received, now_ns, common)?;
                            self.received = received;
                            self.received.drain(..whole);
                            count
                        }
                    };
                    self.received.extend_from_slice(&room[whole..count]);
                    if self.is_slow {
                        let wait_ns = common.random.below(SLOW_WAIT_NS);
                        return Ok(Next::Read(now_ns + 1 + wait_ns));
                    }
                    if count < most {
                        // There may be an end.
                        continue;
                    }
                }
                Found::Nothing => break,
                Found::End | Found::Reset => {
                    common.counts.ended_by_server += 1;
                    self.check_end(now_ns, common)?;
                    self.end.close(false);
                    return Ok(Next::Gone);
                }
            }
        }
        let may_send = !self.has_ended && self.out_at == self.out.len() && self.sent.len() < self.depth;
        Ok(match may_send {
            true => Next::Send(now_ns + 1 + common.random.below(common.plan.clients.think_ns_max + 1)),
            false => Next::Nothing,
        })
    }

    /// Checks the replies at the start of `bytes`. Returns how many bytes these are.
    fn accept(&mut self, bytes: &[u8], now_ns: u64, common: &mut Common<'_>) -> Result<usize, String> {
        let mut at = 0;
        while let Some(head) = ReplyHead::decode(&bytes[at..]) {
            let head = head?;
            if bytes.len() - at < head.len {
                break;
            }
            let payload = &bytes[at + REPLY_HEADER_LEN..at + head.len];
            self.check(head, payload, now_ns, common)
                .map_err(|why| format!("{why}: {head:?}; {}", self.describe()))?;
            at += head.len;
            let seen = u64::from(head.number) << 32 | u64::from(head.client);
            common.counts.replies[head.status as usize] += 1;
            common.counts.digest = mix(common.counts.digest ^ seen ^ mix(now_ns ^ head.status as u64));
        }
        Ok(at)
    }

    fn check(&mut self, head: ReplyHead, payload: &[u8], now_ns: u64, common: &Common<'_>) -> Result<(), &'static str> {
        let plan = common.plan;
        if self.was_told && plan.in_order {
            return Err("a reply behind the connection's last one");
        }
        if head.number == NO_NUMBER {
            self.was_told = true;
            return match head.status {
                Status::Malformed if !self.has_sent_malformed => Err("a request was well formed"),
                Status::Malformed if plan.in_order && !self.sent.is_empty() => Err("earlier requests have no reply"),
                Status::Malformed => Ok(()),
                Status::TooManyConnections if plan.may_refuse() => Ok(()),
                Status::OutOfBuffers if plan.has_little_memory() => Ok(()),
                _ => Err("a reply to no request"),
            };
        }
        if head.client != self.id {
            return Err("the reply to another client's request");
        }
        let at = match plan.in_order {
            true => self.sent.front().filter(|sent| sent.head.number == head.number).map(|_| 0),
            false => { self.sent.iter() }.position(|sent| sent.head.number == head.number),
        };
        let Some(sent) = at.and_then(|at| self.sent.remove(at)) else {
            return Err("the reply is not to the next request, or to one that was answered");
        };
        self.was_served = true;
        let (waited_ns, kind) = (now_ns.saturating_sub(sent.at_ns), sent.head.kind);
        if kind == Kind::Close && head.status != Status::Ok {
            // Its handler did not close the connection.
            self.closing = None;
        }
        let ran = self.take_ran(head.number, plan.in_order);
        match head.status {
            Status::Ok if matches!(kind, Kind::Panic | Kind::Fail | Kind::DropDeferred) => {
                Err("the request was to fail")
            }
            Status::Ok if payload.len() != sent.head.payload_len() => Err("a reply of another length"),
            Status::Ok if !is_payload(self.id, head.number, payload) => Err("a reply of other bytes"),
            Status::Ok if !ran => Err("a reply to a request that did not run"),
            Status::Ok => Ok(()),
            _ if !payload.is_empty() => Err("a refusal with a payload"),
            Status::HandlerFailed if !matches!(kind, Kind::Panic | Kind::DropDeferred) => {
                Err("the handler did not fail")
            }
            Status::Failed if kind != Kind::Fail => Err("the request did not fail"),
            Status::HandlerFailed | Status::Failed if !ran => Err("it failed and did not run"),
            Status::HandlerFailed | Status::Failed => Ok(()),
            Status::OutOfBuffers if plan.has_little_memory() => Ok(()),
            Status::TooLarge if REPLY_HEADER_LEN + sent.head.payload_len() > plan.reply_bytes_max() => Ok(()),
            Status::TooLarge => Err("the reply has room"),
            Status::Busy | Status::Expired | Status::Overloaded if ran => Err("a request ran that was refused"),
            Status::Busy if !plan.queues_may_be_full() => Err("no queue can be full"),
            Status::Busy if waited_ns < plan.config.backpressure_ms * MS && !plan.has_little_memory() => {
                Err("it was refused before its time")
            }
            Status::Busy => Ok(()),
            Status::Overloaded | Status::Expired if plan.has_admission() => Ok(()),
            Status::Expired => self.check_expired(&sent.head, waited_ns, plan),
            _ => Err("no such refusal"),
        }
    }

    fn check_expired(&self, head: &Head, waited_ns: u64, plan: &Plan) -> Result<(), &'static str> {
        let specs = plan.types.specs().iter();
        let of_types = specs.filter_map(|spec| spec.max_wait).map(|wait| wait.as_nanos() as u64);
        let own = (head.deadline_us > 0).then(|| u64::from(head.deadline_us) * 1_000);
        match of_types.chain(own).min() {
            None => Err("it has no deadline"),
            Some(after_ns) if waited_ns < after_ns => Err("it expired before its time"),
            Some(_) => Ok(()),
        }
    }

    /// Whether a request ran whose reply has come.
    fn take_ran(&self, number: u32, in_order: bool) -> bool {
        with_ledger(|ledger| {
            let unread = &mut ledger.slots[slot_of(self.id)].unread;
            if in_order {
                let ran = unread.front() == Some(&number);
                if ran {
                    unread.pop_front();
                }
                return ran;
            }
            let at = unread.iter().position(|&ran| ran == number);
            at.is_some_and(|at| unread.remove(at).is_some())
        })
    }

    /// Whether the connection may end now.
    fn check_end(&self, now_ns: u64, common: &Common<'_>) -> Result<(), String> {
        let plan = common.plan;
        /// By how much the server's clock may be ahead when it decides.
        const AHEAD_NS: u64 = 100 * MS;
        /// How long a draining server waits for one that reads nothing.
        const UNREAD_DRAIN_S: u64 = 2;
        let mut active_ns = self.progress_ns.max(self.written_ns.min(self.asked_ns()));
        if self.is_slow {
            // The server may have written long ago what it reads now.
            active_ns = active_ns.min(self.end.used_ns());
        }
        let Jump { to_ns, by_ns } = common.jumped;
        let jumped_ns = if active_ns < to_ns + TURN_NS { by_ns } else { 0 };
        let is_over =
            |since_ns: u64, timeout_s: u64| timeout_s > 0 && now_ns + AHEAD_NS + jumped_ns >= since_ns + timeout_s * S;
        let jumps = plan.stands_still();
        // A draining server reads no more: who has more to write reads nothing.
        let reads_late = self.is_slow || (self.writes_first && common.draining_ns.is_some());
        if self.was_told || common.is_lost || plan.has_little_memory() {
            return Ok(());
        }
        // A reset may overtake the reason.
        if plan.may_refuse() && !self.was_served {
            return Ok(());
        }
        if is_over(active_ns, plan.config.idle_timeout_s)
            || ((reads_late || jumps) && is_over(self.end.used_ns(), plan.config.output_timeout_s))
            // The end seems late to a server that stood still.
            || (self.has_ended && jumps)
        {
            return Ok(());
        }
        if let Some(since_ns) = common.draining_ns {
            let is_overdue = now_ns >= since_ns + plan.config.drain_timeout_ms * MS;
            let owed = self.sent.iter().find(|sent| sent.must_be_answered);
            // It has yet to read what the server sent, which waited for that for long enough.
            let reads_late = self.writes_first && (jumps || is_over(since_ns, UNREAD_DRAIN_S));
            return match owed {
                Some(owed) if !is_overdue && !reads_late => Err(format!(
                    "the drain, since {since_ns}, left out request {:?} at {now_ns}; {}",
                    owed.head,
                    self.describe()
                )),
                _ => Ok(()),
            };
        }
        let is_answered = self.sent.iter().all(|sent| {
            let beyond = |closing| sent.head.number > closing;
            self.closing.is_some_and(beyond)
        });
        let was_asked = self.has_ended || self.closing.is_some();
        match (is_answered, was_asked) {
            (true, true) => Ok(()),
            (true, false) => Err(format!("the server ended a connection for no reason; {}", self.describe())),
            (false, _) => Err(format!("a connection ended before its replies; {}", self.describe())),
        }
    }

    /// When it wrote the last request that the server may have.
    fn asked_ns(&self) -> u64 {
        self.sent.back().map_or(0, |sent| sent.at_ns)
    }

    /// The server begins to drain: what it has has to be answered.
    pub(super) fn note_drain(&mut self, is_accepted: bool) {
        /// What a connection may still read then.
        const DRAIN_BYTES: u64 = 256 * 1024;
        let first = self.sent.front().map_or(0, |sent| sent.end);
        for sent in &mut self.sent {
            // One that reads slowly may be cut off while it does.
            sent.must_be_answered =
                is_accepted && !self.is_slow && sent.end <= self.written && sent.end - first < DRAIN_BYTES;
        }
    }
}
