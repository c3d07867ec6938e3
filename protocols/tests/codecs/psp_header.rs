//! Properties of the psp header.

use proptest::prelude::*;
use psp_protocols::psp_header::{HEADER_LEN, Header, Kind, PspFraming, decode_wait, encode_wait};
use psp_protocols::{Framing, Rejection};

use crate::stream;

fn header(payload_len: u32) -> impl Strategy<Value = Header> {
    (any::<u16>(), any::<u32>(), any::<u32>()).prop_map(move |(request_type, id, run_time_ns)| Header {
        kind: Kind::Request,
        request_type,
        id,
        payload_len,
        run_time_ns,
    })
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    (0_u32..60).prop_flat_map(|payload_len| {
        let payload = prop::collection::vec(any::<u8>(), payload_len as usize);
        (header(payload_len), payload).prop_map(|(header, payload)| [&header.encode()[..], &payload].concat())
    })
}

#[test]
fn replies_are_told_apart_by_their_ids() {
    assert!(!PspFraming::default().replies_in_order());
}

proptest! {
    #[test]
    fn headers_survive_encoding(header in header(7), kind in 0..3) {
        let kind = [Kind::Request, Kind::Reply, Kind::Error][kind as usize];
        let header = Header { kind, ..header };
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn waits_survive_encoding(wait_ns in any::<u32>(), other in prop::collection::vec(any::<u8>(), 0..12)) {
        prop_assert_eq!(decode_wait(&encode_wait(wait_ns)), wait_ns);
        let asked_ns = decode_wait(&other);
        prop_assert!(asked_ns == 0 || encode_wait(asked_ns)[..] == other);
    }

    #[test]
    fn any_split_of_messages_gives_the_same_frames(
        (messages, splits) in prop::collection::vec(message(), 1..6).prop_flat_map(|messages| {
            let len = messages.concat().len();
            (Just(messages), stream::cuts(len))
        })
    ) {
        let bytes = messages.concat();
        let framing = PspFraming::default();
        let expected = (messages, None);
        prop_assert_eq!(&stream::feed(&framing, &bytes, &splits), &expected);
        prop_assert_eq!(&stream::feed(&framing, &bytes, &stream::every_byte(&bytes)), &expected);
    }

    #[test]
    fn any_split_of_garbage_gives_the_same_error(
        (bytes, splits) in stream::with_cuts(prop::collection::vec(0_u8..3, 0..80))
    ) {
        let framing = PspFraming::default().payload_len_max(300);
        let whole = stream::feed(&framing, &bytes, &[]);
        prop_assert_eq!(stream::feed(&framing, &bytes, &splits), whole);
    }

    #[test]
    fn refusals_carry_the_id_of_their_request(request in message()) {
        let asked = Header::decode(&request).expect("an encoded header");
        let mut refusal = Vec::new();
        PspFraming::default().encode_rejection(&Rejection::HandlerFailed, &request, &mut refusal);
        let answered = Header::decode(&refusal).expect("an encoded header");
        prop_assert_eq!(
            answered,
            Header { kind: Kind::Error, payload_len: answered.payload_len, ..asked }
        );
        prop_assert_eq!(refusal.len(), HEADER_LEN + answered.payload_len as usize);
    }
}
