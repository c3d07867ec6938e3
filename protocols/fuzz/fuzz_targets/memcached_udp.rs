//! memcached's datagrams: a decoded header encodes to the same bytes, and the parts of a reply make the
//! reply in any order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::envelope::send_parts;
use psp_protocols::memcached::udp::{DATAGRAM_LEN_MAX, HEADER_LEN, Header, Reassembly};
use psp_protocols::memcached::MemcachedFraming;
use psp_protocols::{Envelope, Framing};

fuzz_target!(|datagram: &[u8]| {
    let framing = MemcachedFraming::default();
    let envelope: &dyn Envelope = framing.envelope();
    let Some((request_header, reply)) = datagram.split_at_checked(HEADER_LEN) else {
        assert_eq!(Header::decode(datagram), None);
        assert!(!envelope.accepts(datagram));
        return;
    };
    let request = Header::decode(datagram).expect("so many bytes are a header");
    assert_eq!(request.encode(), request_header);
    assert_eq!(envelope.accepts(request_header), request.count == 1);

    // Long enough for several parts, for an input of any length.
    let reply = reply.repeat(1 + usize::from(request.sequence % 64));
    let mut buffer = [&[0; HEADER_LEN][..], &reply].concat();
    let mut joined = Vec::new();
    let mut parts = Vec::new();
    let mut sequence = 0;
    send_parts(envelope, request_header, &mut buffer, |part| {
        assert!((HEADER_LEN + 1..=DATAGRAM_LEN_MAX).contains(&part.len()));
        let header = Header::decode(part).expect("each part has one");
        assert_eq!((header.request_id, header.sequence), (request.request_id, sequence));
        sequence += 1;
        joined.extend_from_slice(&part[HEADER_LEN..]);
        assert_eq!(header.count == sequence, joined.len() == reply.len());
        parts.push((header, part[HEADER_LEN..].to_vec()));
        true
    });
    assert_eq!(joined, reply);

    // The rest of the request's header determines the order of the parts. Some come twice.
    let mut reassembly = Reassembly::default();
    let mut reassembled = Vec::new();
    let mut take = |bytes: &[u8]| reassembled.extend_from_slice(bytes);
    if !parts.is_empty() {
        let first = usize::from(request.count) % parts.len();
        parts.rotate_left(first);
        let twice = usize::from(request.reserved) % parts.len();
        let (header, part) = parts[twice].clone();
        reassembly.push(header, &part, reply.len(), &mut take);
    }
    for (header, part) in &parts {
        reassembly.push(*header, part, reply.len(), &mut take);
        assert!(reassembly.early_bytes() <= reply.len());
    }
    assert_eq!(reassembly.early_bytes(), 0);
    assert_eq!(reassembled, reply);
    // Arbitrary bytes as the part of another reply are taken or ignored.
    Reassembly::default().push(request, &reply, reply.len() / 2, |bytes| assert_eq!(bytes, reply));
});
