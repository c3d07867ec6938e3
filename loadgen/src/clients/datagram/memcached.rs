//! memcached's text protocol behind its frame header: replies may be several datagrams.
//!
//! ```text
//!   datagram ─► header: id ─► request ─┬─ the only part ─────────────────┬─► Replies ─► ending
//!                                      └─ one of several ─► Reassembly ──┘
//! ```
//!
//! Only the parts of a reply that arrive out of order are kept, up to a bounded number of bytes for
//! all requests together.

use super::exchange::{Ending, Exchange};
use crate::clients::commands::Commands;
use crate::wire::{Lookup, Protocol, Replies};
use psp_protocols::memcached::udp::{HEADER_LEN, Header, Reassembly};
use psp_protocols::skip::{NotAReply, Outcome, Skipped};

/// Longest datagram: what UDP over IPv4 can carry.
const DATAGRAM_LEN_MAX: usize = 65_507;

/// Bytes of parts that arrived out of order, of all requests together. Parts beyond this are
/// dropped, as if the network had lost them.
const EARLY_BYTES_MAX: usize = 16 << 20;

/// Error kinds: a request that does not fit a datagram; a malformed reply; a reply that ends in
/// another message than it began with, as memcached's reply to a get of several keys may.
const TOO_LONG: &str = "TOO_LONG";
const MALFORMED: &str = "MALFORMED";
const SPLIT: &str = "SPLIT";

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct MemcachedExchange {
    types: Vec<Commands>,
    /// Reads replies of one part.
    whole: Replies,
    early_bytes: usize,
}

/// A request that waits for its reply.
#[derive(Debug)]
pub(crate) struct Pending {
    lookup: Lookup,
    /// The state of a reply of several parts.
    parts: Option<Box<Parts>>,
}

#[derive(Debug)]
struct Parts {
    reassembly: Reassembly,
    reading: Reading,
}

/// A reply that is read part by part.
#[derive(Debug)]
struct Reading {
    replies: Replies,
    found: Result<Option<Outcome>, NotAReply>,
}

impl Reading {
    fn read(&mut self, bytes: &[u8]) {
        self.found = match self.found {
            Ok(None) => read(&mut self.replies, bytes),
            Ok(Some(_)) => Err(BEYOND),
            Err(error) => Err(error),
        };
    }
}

const BEYOND: NotAReply = NotAReply("bytes behind the end of the reply");

/// Reads the next bytes of a reply. Returns its outcome if it ends with them.
fn read(replies: &mut Replies, bytes: &[u8]) -> Result<Option<Outcome>, NotAReply> {
    match replies.skip(bytes)? {
        Skipped::NeedMore => Ok(None),
        Skipped::Reply { len, outcome } if len == bytes.len() => Ok(Some(outcome)),
        Skipped::Reply { .. } => Err(BEYOND),
    }
}

/// The ending of a reply whose last part has been read.
fn ending<'a>(found: Result<Option<Outcome>, NotAReply>, replies: &'a Replies, lookup: Lookup) -> Ending<'a> {
    match found {
        Err(_) => Ending::Failed(MALFORMED),
        Ok(None) => Ending::Failed(SPLIT),
        Ok(Some(outcome)) => match replies.error_kind(outcome) {
            Some(kind) => Ending::Failed(kind),
            None => Ending::Answered { hits_and_misses: lookup.hits_and_misses(outcome) },
        },
    }
}

impl MemcachedExchange {
    pub(crate) fn new(types: Vec<Commands>) -> Self {
        Self {
            types,
            whole: Replies::new(Protocol::MemcachedUdp),
            early_bytes: 0,
        }
    }
}

impl Exchange for MemcachedExchange {
    type Pending = Pending;
    type Header = Header;

    const NAMED: u32 = u16::MAX as u32;

    fn write(
        &mut self,
        type_index: usize,
        command: u32,
        id: u32,
        _intended_ns: u64,
        out: &mut Vec<u8>,
    ) -> Result<Pending, &'static str> {
        let request_id = u16::try_from(id).expect("ids are cut to the bits that replies repeat");
        out.extend_from_slice(&Header::request(request_id).encode());
        let expected = self.types[type_index].write(command, id.into(), out);
        if out.len() > DATAGRAM_LEN_MAX {
            return Err(TOO_LONG);
        }
        Ok(Pending { lookup: expected.lookup, parts: None })
    }

    fn open(datagram: &[u8]) -> Option<(u32, Header, &[u8])> {
        let header = Header::decode(datagram)?;
        Some((header.request_id.into(), header, &datagram[HEADER_LEN..]))
    }

    fn take<'a>(&'a mut self, pending: &'a mut Pending, header: Header, part: &'a [u8]) -> Option<Ending<'a>> {
        let lookup = pending.lookup;
        if header.count == 1 && header.sequence == 0 && pending.parts.is_none() {
            let found = read(&mut self.whole, part);
            if !matches!(found, Ok(Some(_))) {
                self.whole.restart();
            }
            return Some(ending(found, &self.whole, lookup));
        }
        let parts = pending.parts.get_or_insert_with(|| {
            Box::new(Parts {
                reassembly: Reassembly::default(),
                reading: Reading {
                    replies: Replies::new(Protocol::MemcachedUdp),
                    found: Ok(None),
                },
            })
        });
        let Parts { reassembly, reading } = &mut **parts;
        let kept = reassembly.early_bytes();
        let room_bytes = EARLY_BYTES_MAX - (self.early_bytes - kept);
        let is_last = reassembly.push(header, part, room_bytes, |bytes| reading.read(bytes));
        self.early_bytes = self.early_bytes - kept + reassembly.early_bytes();
        is_last.then(|| ending(reading.found, &reading.replies, lookup))
    }

    fn give_up(&mut self, pending: Pending) {
        let parts = pending.parts.as_ref();
        self.early_bytes -= parts.map_or(0, |parts| parts.reassembly.early_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use psp_protocols::envelope::send_parts;
    use psp_protocols::memcached::udp::UdpEnvelope;

    use super::*;
    use crate::schedule::{RequestPlan, RunPlan, TypePlan};
    use crate::wire::CommandTemplate;

    fn exchange(command: &str) -> MemcachedExchange {
        let template = CommandTemplate::for_protocol(command, Protocol::MemcachedUdp).unwrap();
        let types = vec![TypePlan::new("", 1.0, RequestPlan::Command(template))];
        let plan = RunPlan::new("memcached+udp://127.0.0.1".parse().unwrap(), types);
        MemcachedExchange::new(vec![Commands::new(&plan, 0).unwrap()])
    }

    fn requested(exchange: &mut MemcachedExchange) -> Pending {
        exchange.write(0, 0, 7, 0, &mut Vec::new()).unwrap()
    }

    /// The datagrams of a reply.
    fn parts_of(reply: &[u8]) -> Vec<Vec<u8>> {
        let mut buffer = [&[0; HEADER_LEN][..], reply].concat();
        let mut parts = Vec::new();
        let request = Header::request(7).encode();
        send_parts(&UdpEnvelope, &request, &mut buffer, |part| {
            parts.push(part.to_vec());
            true
        });
        parts
    }

    /// How the request ends with this datagram: hits and misses, or the error kind.
    fn taken(
        exchange: &mut MemcachedExchange,
        pending: &mut Pending,
        datagram: &[u8],
    ) -> Option<Result<(u64, u64), String>> {
        let (id, header, part) = MemcachedExchange::open(datagram).unwrap();
        assert_eq!(id, 7);
        exchange.take(pending, header, part).map(|ending| match ending {
            Ending::Answered { hits_and_misses } => Ok(hits_and_misses),
            Ending::Failed(kind) => Err(kind.to_owned()),
            Ending::Served { .. } => panic!("memcached serves no service times"),
        })
    }

    #[test]
    fn requests_are_text_behind_a_header() {
        let mut out = Vec::new();
        exchange("MGET a b").write(0, 0, 0x0102, 0, &mut out).unwrap();
        assert_eq!(out, b"\x01\x02\0\0\0\x01\0\0get a b\r\n");
    }

    #[test]
    fn what_no_datagram_holds_is_not_sent() {
        // Header, command, two line ends.
        let room = DATAGRAM_LEN_MAX - HEADER_LEN - "set k 0 0 65480\r\n\r\n".len();
        for (len, expected) in [(room, None), (room + 1, Some(TOO_LONG))] {
            let mut exchange = exchange(&format!("SET k {}", "x".repeat(len)));
            let written = exchange.write(0, 0, 7, 0, &mut Vec::new());
            assert_eq!(written.err(), expected, "{len}");
        }
    }

    #[test]
    fn replies_tell_how_their_requests_fared() {
        let mut exchange = exchange("MGET a b");
        let value = "VALUE a 0 1\r\nx\r\n";
        for (reply, expected) in [
            ("END\r\n", Ok((0, 2))),
            (&format!("{value}END\r\n"), Ok((1, 1))),
            ("SERVER_ERROR busy: the queue of 'read' is full\r\n", Err("BUSY")),
            ("CLIENT_ERROR bad\r\n", Err("CLIENT_ERROR")),
            ("+OK\r\n", Err(MALFORMED)),
            ("END\r\nEND\r\n", Err(MALFORMED)),
            (value, Err(SPLIT)),
            ("VAL", Err(SPLIT)),
            // None of these replies leaves bytes behind.
            ("END\r\n", Ok((0, 2))),
        ] {
            let mut pending = requested(&mut exchange);
            let [datagram] = &parts_of(reply.as_bytes())[..] else {
                panic!("one datagram");
            };
            let expected = expected.map_err(str::to_owned);
            assert_eq!(taken(&mut exchange, &mut pending, datagram), Some(expected), "{reply}");
        }
    }

    /// The bytes kept for incomplete replies are bounded, and released when their requests are
    /// given up.
    #[test]
    fn parts_that_wait_have_a_bounded_room_together() {
        const PART_LEN: usize = 60_000;
        let mut exchange = exchange("GET k");
        let fit = EARLY_BYTES_MAX / PART_LEN;
        let part = |sequence| {
            let header = Header { sequence, count: 3, ..Header::request(7) };
            [&header.encode()[..], &[b'x'; PART_LEN]].concat()
        };
        let mut waiting = Vec::new();
        for _ in 0..fit + 10 {
            let mut pending = requested(&mut exchange);
            assert_eq!(taken(&mut exchange, &mut pending, &part(2)), None);
            waiting.push(pending);
        }
        assert_eq!(exchange.early_bytes, fit * PART_LEN);
        // A finished reply makes room again.
        exchange.give_up(waiting.swap_remove(0));
        assert_eq!(exchange.early_bytes, (fit - 1) * PART_LEN);
        let mut pending = requested(&mut exchange);
        assert_eq!(taken(&mut exchange, &mut pending, &part(1)), None);
        assert_eq!(exchange.early_bytes, fit * PART_LEN);
        // The parts of this reply are malformed together, so they are no longer kept.
        assert_eq!(taken(&mut exchange, &mut pending, &part(0)), None);
        let ending = taken(&mut exchange, &mut pending, &part(2));
        assert_eq!(ending, Some(Err(MALFORMED.to_owned())));
        waiting.into_iter().for_each(|each| exchange.give_up(each));
        assert_eq!(exchange.early_bytes, 0);
    }

    /// Numbers of `count` parts in order of arrival, each at least once.
    fn disorder(count: usize) -> impl Strategy<Value = Vec<usize>> {
        let again = prop::collection::vec(0..count, 0..8);
        let order = again.prop_map(move |again| (0..count).chain(again).collect::<Vec<_>>());
        order.prop_shuffle()
    }

    /// A number of values, the parts of a reply with them, and the order in which they come.
    fn parts_in_disorder() -> impl Strategy<Value = (u64, Vec<Vec<u8>>, Vec<usize>)> {
        (0..3_usize, 0..9_000_usize).prop_flat_map(|(values, len)| {
            let value = format!("VALUE a 0 {len}\r\n{}\r\n", "x".repeat(len));
            let parts = parts_of((value.repeat(values) + "END\r\n").as_bytes());
            let count = parts.len();
            (Just(values as u64), Just(parts), disorder(count))
        })
    }

    proptest! {
        #[test]
        fn parts_in_any_order_end_a_request((hits, parts, order) in parts_in_disorder()) {
            let mut exchange = exchange("MGET a b");
            let mut pending = requested(&mut exchange);
            let mut to_come: Vec<_> = (0..parts.len()).collect();
            for index in order {
                to_come.retain(|other| *other != index);
                let ending = taken(&mut exchange, &mut pending, &parts[index]);
                prop_assert_eq!(ending, to_come.is_empty().then_some(Ok((hits, 2 - hits))));
                if to_come.is_empty() {
                    break;
                }
            }
            prop_assert_eq!((to_come.len(), exchange.early_bytes), (0, 0));
        }

        #[test]
        fn a_request_that_lacks_a_part_goes_on(
            (_, parts, order) in parts_in_disorder(),
            lost in any::<prop::sample::Index>(),
        ) {
            let lost = lost.index(parts.len());
            let mut exchange = exchange("MGET a b");
            let mut pending = requested(&mut exchange);
            for index in order.into_iter().filter(|index| *index != lost) {
                prop_assert_eq!(taken(&mut exchange, &mut pending, &parts[index]), None);
            }
            exchange.give_up(pending);
            prop_assert_eq!(exchange.early_bytes, 0);
        }

        #[test]
        fn any_datagrams_end_a_request_or_do_not(
            datagrams in prop::collection::vec(
                (0..5_u16, 0..5_u16, prop::collection::vec(any::<u8>(), 0..40)),
                0..20,
            ),
        ) {
            let mut exchange = exchange("GET k");
            let mut pending = requested(&mut exchange);
            for (sequence, count, part) in datagrams {
                let header = Header { sequence, count, ..Header::request(7) };
                let datagram = [&header.encode()[..], &part].concat();
                if taken(&mut exchange, &mut pending, &datagram).is_some() {
                    pending = requested(&mut exchange);
                }
            }
            exchange.give_up(pending);
            prop_assert_eq!(exchange.early_bytes, 0);
        }
    }
}
