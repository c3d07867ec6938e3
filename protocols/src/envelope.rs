//! The header that a protocol puts around its messages in datagrams.
//!
//! ```text
//!   received:   | header | one request |
//!
//!   a reply:    | room | reply ........................................ |     as written
//!               |header| 1st part |
//!                            |header| 2nd part |                              as sent: each header
//!                                         |header| 3rd part |                 overwrites bytes that
//!                                                                             were sent before
//! ```
//!
//! Sans-IO like the rest of the crate. A transport keeps [`Shape::header_len`] bytes of room in front of
//! a reply. [`send_parts`] passes it the datagrams one by one, in the buffer that holds the reply.

/// The datagrams of a protocol.
///
/// Each [`Framing`](crate::Framing) has an envelope, [`Bare`] by default. Classifiers and handlers see
/// requests without this header, the same as from a stream.
pub trait Envelope {
    /// The lengths that are the same for all messages.
    fn shape(&self) -> Shape;

    /// Whether the request behind `header` can be served. Otherwise the transport drops the datagram.
    /// `header` is [`Shape::header_len`] bytes long.
    fn accepts(&self, header: &[u8]) -> bool;

    /// Writes the header of one part of a reply to the request with `request_header`. Both headers
    /// are [`Shape::header_len`] bytes long.
    fn encode_header(&self, request_header: &[u8], part: Part, header: &mut [u8]);
}

/// Lengths of a protocol's datagrams, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The header of requests and replies.
    pub header_len: usize,
    /// Longest datagram of a reply, including its header. It is longer than the header.
    pub datagram_len_max: usize,
    /// Most datagrams of one reply.
    pub parts_max: u16,
}

/// One of the datagrams that carry a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 0.
    pub sequence: u16,
    /// Number of parts of the reply.
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
            // Longest payload of UDP over IPv4.
            datagram_len_max: 65_507,
            parts_max: 1,
        }
    }

    fn accepts(&self, _header: &[u8]) -> bool {
        true
    }

    fn encode_header(&self, _request_header: &[u8], _part: Part, _header: &mut [u8]) {}
}

/// Calls `send` with the datagrams of a reply in their order, until `send` fails.
///
/// `buffer` holds [`Shape::header_len`] bytes of room and the reply. Both are overwritten. Sends nothing
/// if the reply is empty or longer than [`Shape::reply_len_max`].
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

    /// At most three datagrams, each with three bytes of header and four of the reply.
    struct Small;

    impl Envelope for Small {
        fn shape(&self) -> Shape {
            Shape { header_len: 3, datagram_len_max: 7, parts_max: 3 }
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
    fn nothing_is_sent_after_a_datagram_that_fails() {
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
