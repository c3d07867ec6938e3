//! What a protocol puts around its messages when they travel in datagrams.
//!
//! ```text
//!   received:   | header | one request |
//!
//!   a reply:    | room | reply ........................................ |     as it is written
//!               |header| 1st part |
//!                            |header| 2nd part |                              as it is sent: each
//!                                         |header| 3rd part |                 header lies over bytes
//!                                                                             that have left already
//! ```
//!
//! Sans-IO like the rest: a transport keeps [`Shape::header_len`] bytes of room in front of a reply, and
//! [`send_parts`] gives it the datagrams one by one, in the buffer that the reply was written to.

/// The datagrams of a protocol.
///
/// A [`Framing`](crate::Framing) has one; [`Bare`] unless it says otherwise. Classifiers and handlers
/// see requests without their header, so that they need not know how a request came.
pub trait Envelope {
    /// What does not change from one message to another.
    fn shape(&self) -> Shape;

    /// Whether the request behind `header`, of [`Shape::header_len`] bytes, can be served. Otherwise the
    /// datagram is dropped.
    fn accepts(&self, header: &[u8]) -> bool;

    /// Writes the header of one part of a reply. `request_header` is that of its request; both are
    /// [`Shape::header_len`] bytes long.
    fn encode_header(&self, request_header: &[u8], part: Part, header: &mut [u8]);
}

/// Lengths of a protocol's datagrams, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The header, of requests and replies alike.
    pub header_len: usize,
    /// Longest datagram of a reply, its header included; longer than the header.
    pub datagram_len_max: usize,
    /// Most datagrams of one reply.
    pub parts_max: u16,
}

/// One of the datagrams that carry a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 0.
    pub sequence: u16,
    /// How many there are.
    pub count: u16,
}

impl Shape {
    /// Longest reply.
    #[must_use]
    pub fn reply_len_max(&self) -> usize {
        usize::from(self.parts_max) * self.part_len_max()
    }

    fn part_len_max(&self) -> usize {
        self.datagram_len_max - self.header_len
    }
}

/// No envelope: a request and its reply are one datagram each.
#[derive(Debug, Clone, Copy)]
pub struct Bare;

impl Envelope for Bare {
    fn shape(&self) -> Shape {
        Shape {
            header_len: 0,
            // What UDP over IPv4 can carry.
            datagram_len_max: 65_507,
            parts_max: 1,
        }
    }

    fn accepts(&self, _header: &[u8]) -> bool {
        true
    }

    fn encode_header(&self, _request_header: &[u8], _part: Part, _header: &mut [u8]) {}
}

/// Calls `send` with the datagrams of a reply in their order, until it says that one did not leave.
///
/// `buffer` is [`Shape::header_len`] bytes of room and the reply, which is overwritten. Nothing is sent
/// of an empty reply, or of one that is longer than [`Shape::reply_len_max`].
pub fn send_parts(
    envelope: &dyn Envelope,
    request_header: &[u8],
    buffer: &mut [u8],
    mut send: impl FnMut(&[u8]) -> bool,
) {
    let shape = envelope.shape();
    let reply_len = buffer.len().saturating_sub(shape.header_len);
    let count = match u16::try_from(reply_len.div_ceil(shape.part_len_max())) {
        Ok(count) if count <= shape.parts_max => count,
        _ => return,
    };
    for sequence in 0..count {
        let start = usize::from(sequence) * shape.part_len_max();
        let end = buffer.len().min(start + shape.datagram_len_max);
        let datagram = &mut buffer[start..end];
        let header = &mut datagram[..shape.header_len];
        envelope.encode_header(request_header, Part { sequence, count }, header);
        if !send(datagram) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three bytes of header, and four of a reply in each of at most three datagrams.
    struct Small;

    impl Envelope for Small {
        fn shape(&self) -> Shape {
            Shape {
                header_len: 3,
                datagram_len_max: 7,
                parts_max: 3,
            }
        }

        fn accepts(&self, _header: &[u8]) -> bool {
            true
        }

        fn encode_header(&self, request_header: &[u8], part: Part, header: &mut [u8]) {
            let digit = |number: u16| b'0' + u8::try_from(number).unwrap();
            header.copy_from_slice(&[request_header[0], digit(part.sequence), digit(part.count)]);
        }
    }

    fn sent(envelope: &dyn Envelope, reply: &str, most: usize) -> Vec<String> {
        let room = "_".repeat(envelope.shape().header_len);
        let mut buffer = format!("{room}{reply}").into_bytes();
        let mut datagrams = Vec::new();
        send_parts(envelope, b"r..", &mut buffer, |datagram| {
            datagrams.push(String::from_utf8(datagram.to_vec()).unwrap());
            datagrams.len() < most
        });
        datagrams
    }

    #[test]
    fn replies_are_cut_where_datagrams_are_full() {
        for (reply, datagrams) in [
            ("", &[][..]),
            ("a", &["r01a"]),
            ("abcd", &["r01abcd"]),
            ("abcde", &["r02abcd", "r12e"]),
            ("abcdefghijkl", &["r03abcd", "r13efgh", "r23ijkl"]),
            ("abcdefghijklm", &[]),
        ] {
            assert_eq!(sent(&Small, reply, usize::MAX), datagrams, "{reply:?}");
        }
        assert_eq!(Small.shape().reply_len_max(), 12);
    }

    #[test]
    fn what_follows_a_datagram_that_did_not_leave_is_not_sent() {
        assert_eq!(sent(&Small, "abcdefghijkl", 2), ["r03abcd", "r13efgh"]);
    }

    #[test]
    fn a_bare_reply_is_one_datagram() {
        assert_eq!(sent(&Bare, "abc", usize::MAX), ["abc"]);
        assert_eq!(sent(&Bare, "", usize::MAX), [""; 0]);
        let longest = "x".repeat(65_507);
        assert_eq!(sent(&Bare, &longest, usize::MAX), [&*longest]);
        assert_eq!(sent(&Bare, &format!("{longest}x"), usize::MAX), [""; 0]);
    }
}
