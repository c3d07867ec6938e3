//! The protocol of the simulated clients: requests and replies that say whose they are, and whose bytes can be checked.
//!
//! ```text
//!   request   length u32 | magic u16 | type u8 | kind u8 | client u32 | number u32 | service ns u32 | reply bytes u32
//!             | deadline us u32 | payload
//!   reply     length u32 | status u8 | 3 unused | client u32 | number u32 | payload
//! ```
//!
//! A payload's bytes count up from a number of the request's.

use std::time::Duration;

use psp_policy::RequestType;
use psp_protocols::{FrameError, Framing, Rejection, Sink, Step};

use crate::classifier::Classifier;

pub(super) const HEADER_LEN: usize = 28;
pub(super) const REPLY_HEADER_LEN: usize = 16;
pub(super) const FRAME_LEN_MAX: usize = 512 * 1024;
/// Number in replies that answer no request.
pub(super) const NO_NUMBER: u32 = u32::MAX;
const MAGIC: u16 = 0x7053;
/// A magic that no request has.
pub(super) const NO_MAGIC: u16 = 0x6E6F;

/// What a request has the handler do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(super) enum Kind {
    /// Reply.
    #[default]
    Plain,
    /// Panic.
    Panic,
    /// Fail with a text.
    Fail,
    /// Reply later.
    Defer,
    /// Drop a reply that was deferred.
    DropDeferred,
    /// Reply, and close the connection.
    Close,
    /// The framing knows that it is the last one.
    Last,
    /// Say that the request is of the next type, and reply when it comes again.
    Reclassify,
    /// Reply in pieces.
    Pieces,
    /// The framing has so many bytes behind the request discarded, as many as the reply has.
    Discard,
    /// Take the longer the larger the values are when it runs, and reply.
    Sized,
    /// Run until it is killed, and reply.
    Endless,
    /// Kill all endless requests that run, and reply.
    Kill,
}

/// The type of requests that the classifier cannot name.
pub(super) const UNKNOWN_TYPE: u8 = u8::MAX;

const KINDS: [Kind; 13] = [
    Kind::Plain,
    Kind::Panic,
    Kind::Fail,
    Kind::Defer,
    Kind::DropDeferred,
    Kind::Close,
    Kind::Last,
    Kind::Reclassify,
    Kind::Pieces,
    Kind::Discard,
    Kind::Sized,
    Kind::Endless,
    Kind::Kill,
];

/// What a reply says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Status {
    Ok,
    Busy,
    Expired,
    Overloaded,
    HandlerFailed,
    Failed,
    Malformed,
    TooManyConnections,
    OutOfBuffers,
    TooLarge,
    Other,
}

pub(super) const STATUSES: [Status; 11] = [
    Status::Ok,
    Status::Busy,
    Status::Expired,
    Status::Overloaded,
    Status::HandlerFailed,
    Status::Failed,
    Status::Malformed,
    Status::TooManyConnections,
    Status::OutOfBuffers,
    Status::TooLarge,
    Status::Other,
];

/// A request's header.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Head {
    pub(super) len: u32,
    pub(super) request_type: u8,
    pub(super) kind: Kind,
    pub(super) client: u32,
    pub(super) number: u32,
    pub(super) service_ns: u32,
    pub(super) reply_len: u32,
    /// 0 for none.
    pub(super) deadline_us: u32,
}

impl Head {
    /// Appends the request. `magic` is [`NO_MAGIC`] for one that is none.
    pub(super) fn encode(&self, is_valid: bool, out: &mut Vec<u8>) {
        let magic = if is_valid { MAGIC } else { NO_MAGIC };
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&magic.to_le_bytes());
        out.extend_from_slice(&[self.request_type, self.kind as u8]);
        for word in [self.client, self.number, self.service_ns, self.reply_len, self.deadline_us] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let payload = self.len as usize - HEADER_LEN;
        for_pieces(self.client, self.number, payload, |piece| {
            out.extend_from_slice(piece);
        });
    }

    fn decode(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let word = |at: usize| {
            let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            u32::from_le_bytes(word)
        };
        let is_valid = u16::from_le_bytes([bytes[4], bytes[5]]) == MAGIC;
        is_valid.then_some(Self {
            len: word(0),
            request_type: bytes[6],
            kind: *KINDS.get(usize::from(bytes[7]))?,
            client: word(8),
            number: word(12),
            service_ns: word(16),
            reply_len: word(20),
            deadline_us: word(24),
        })
    }

    /// Whether the payload of `request` is as it was sent.
    pub(super) fn is_whole(&self, request: &[u8]) -> bool {
        let Some(payload) = request.get(HEADER_LEN..) else {
            return false;
        };
        self.len as usize == request.len() && is_payload(self.client, self.number, payload)
    }

    /// Writes the reply.
    pub(super) fn reply(&self, out: &mut dyn Sink) {
        self.reply_header(out);
        for_pieces(self.client, self.number, self.payload_len(), |piece| {
            out.put(piece);
        });
    }

    pub(super) fn reply_header(&self, out: &mut dyn Sink) {
        let len = REPLY_HEADER_LEN + self.payload_len();
        out.put(&reply_header(len, Status::Ok, self.client, self.number));
    }

    /// Length of the reply's payload.
    pub(super) fn payload_len(&self) -> usize {
        match self.kind {
            Kind::Discard => 0,
            _ => self.reply_len as usize,
        }
    }
}

fn reply_header(len: usize, status: Status, client: u32, number: u32) -> [u8; REPLY_HEADER_LEN] {
    let mut header = [0; REPLY_HEADER_LEN];
    header[..4].copy_from_slice(&(len as u32).to_le_bytes());
    header[4] = status as u8;
    header[8..12].copy_from_slice(&client.to_le_bytes());
    header[12..].copy_from_slice(&number.to_le_bytes());
    header
}

/// A reply as a client reads it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplyHead {
    pub(super) len: usize,
    pub(super) status: Status,
    pub(super) client: u32,
    pub(super) number: u32,
}

impl ReplyHead {
    /// `None` if there are too few bytes yet.
    pub(super) fn decode(bytes: &[u8]) -> Option<Result<Self, &'static str>> {
        let header = bytes.first_chunk::<REPLY_HEADER_LEN>()?;
        let word = |at: usize| {
            let word = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_le_bytes(word)
        };
        let len = word(0) as usize;
        let Some(&status) = STATUSES.get(usize::from(header[4])) else {
            return Some(Err("a reply has an unknown status"));
        };
        if !(REPLY_HEADER_LEN..=2 * FRAME_LEN_MAX).contains(&len) || header[5..8] != [0; 3] {
            return Some(Err("a reply has a wrong length"));
        }
        Some(Ok(Self { len, status, client: word(8), number: word(12) }))
    }
}

const PIECE: usize = 256;

/// Bytes that count up, twice.
const RAMP: [u8; 2 * PIECE] = {
    let mut ramp = [0; 2 * PIECE];
    let mut at = 0;
    while at < ramp.len() {
        ramp[at] = at as u8;
        at += 1;
    }
    ramp
};

fn ramp_of(client: u32, number: u32) -> &'static [u8] {
    let first = client.wrapping_mul(31).wrapping_add(number.wrapping_mul(7)) as u8;
    &RAMP[usize::from(first)..usize::from(first) + PIECE]
}

/// Calls `put` with the payload of so many bytes, piece by piece.
pub(super) fn for_pieces(client: u32, number: u32, len: usize, mut put: impl FnMut(&[u8])) {
    let ramp = ramp_of(client, number);
    let mut left = len;
    while left > 0 {
        let count = left.min(PIECE);
        put(&ramp[..count]);
        left -= count;
    }
}

pub(super) fn is_payload(client: u32, number: u32, payload: &[u8]) -> bool {
    let ramp = ramp_of(client, number);
    payload.chunks(PIECE).all(|piece| *piece == ramp[..piece.len()])
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct SimFraming {
    /// Whether clients expect replies in the order of their requests.
    pub(super) in_order: bool,
}

impl Framing for SimFraming {
    type Cursor = ();
    type Head = Head;

    fn next_frame(&self, _cursor: &mut (), input: &[u8]) -> Result<Step<Head>, FrameError> {
        let Some(header) = input.first_chunk::<HEADER_LEN>() else {
            return Ok(Step::NeedMore { len_min: HEADER_LEN });
        };
        let head = Head::decode(header).ok_or(FrameError::new("no request"))?;
        let len = head.len as usize;
        if !(HEADER_LEN..=FRAME_LEN_MAX).contains(&len) {
            return Err(FrameError::new("too long"));
        }
        Ok(match input.len() < len {
            true => Step::NeedMore { len_min: len },
            false => Step::Frame { len, head },
        })
    }

    fn discard_after(&self, _frame: &[u8], head: &Head) -> u64 {
        match head.kind {
            Kind::Discard => head.reply_len.into(),
            _ => 0,
        }
    }

    fn closes_after(&self, _frame: &[u8], head: &Head) -> bool {
        head.kind == Kind::Last
    }

    fn deadline(&self, head: &Head) -> Option<Duration> {
        (head.deadline_us > 0).then(|| Duration::from_micros(head.deadline_us.into()))
    }

    fn replies_in_order(&self) -> bool {
        self.in_order
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        let head = request.first_chunk().and_then(Head::decode);
        let (client, number) = head.map_or((0, NO_NUMBER), |head| (head.client, head.number));
        let status = match rejection {
            Rejection::Busy { .. } => Status::Busy,
            Rejection::Overloaded { .. } => Status::Overloaded,
            Rejection::Expired => Status::Expired,
            Rejection::HandlerFailed => Status::HandlerFailed,
            Rejection::Failed(_) => Status::Failed,
            Rejection::Malformed(_) => Status::Malformed,
            Rejection::TooManyConnections => Status::TooManyConnections,
            Rejection::OutOfBuffers => Status::OutOfBuffers,
            Rejection::ReplyTooLarge { .. } => Status::TooLarge,
            _ => Status::Other,
        };
        out.put(&reply_header(REPLY_HEADER_LEN, status, client, number));
    }
}

/// Takes the type that the request names; another one is unknown.
#[derive(Debug)]
pub(super) struct SimClassifier;

impl Classifier<Head> for SimClassifier {
    fn classify(&self, _request: &[u8], head: &Head) -> RequestType {
        RequestType::new(head.request_type.into())
    }
}
