//! memcached's datagrams: the header survives being encoded again, and a reply's parts make the reply.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::envelope::send_parts;
use psp_protocols::memcached::udp::{DATAGRAM_LEN_MAX, HEADER_LEN, Header};
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

    // Long enough for several parts whatever the input's length.
    let reply = reply.repeat(1 + usize::from(request.sequence % 64));
    let mut buffer = [&[0; HEADER_LEN][..], &reply].concat();
    let mut joined = Vec::new();
    let mut sequence = 0;
    send_parts(envelope, request_header, &mut buffer, |part| {
        assert!((HEADER_LEN + 1..=DATAGRAM_LEN_MAX).contains(&part.len()));
        let header = Header::decode(part).expect("each part has one");
        assert_eq!((header.request_id, header.sequence), (request.request_id, sequence));
        sequence += 1;
        joined.extend_from_slice(&part[HEADER_LEN..]);
        assert_eq!(header.count == sequence, joined.len() == reply.len());
        true
    });
    assert_eq!(joined, reply);
});
