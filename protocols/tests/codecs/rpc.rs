//! Properties of RPC frames, and a comparison of the structs with `proto/psp_rpc.proto`.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message;
use psp_protocols::Framing;
use psp_protocols::rpc::{
    Failure, Request, RequestRef, Response, ResponseRef, Rpc, RpcReply, RpcSkipper, Status, peek_id,
};
use psp_protocols::skip::{NotAReply, Outcome, ReplySkipper, Skipped};

use crate::stream;

fn request() -> impl Strategy<Value = Request> {
    let payload = prop::collection::vec(any::<u8>(), 0..200);
    (any::<u64>(), "[A-Za-z]{0,9}", any::<u64>(), payload).prop_map(|(id, method, deadline_us, payload)| Request {
        id,
        method,
        deadline_us,
        payload: payload.into(),
    })
}

fn response() -> impl Strategy<Value = Response> {
    let payload = prop::collection::vec(any::<u8>(), 0..200);
    // Some of the numbers have no status.
    (any::<u64>(), -1..20, "\\PC{0,20}", payload).prop_map(|(id, status, error, payload)| Response {
        id,
        status,
        error,
        payload: payload.into(),
    })
}

fn framed(request: &Request) -> Vec<u8> {
    let mut frame = Vec::new();
    request.encode_frame(&mut frame);
    frame
}

fn borrowed(request: &Request) -> RequestRef<'_> {
    RequestRef {
        id: request.id,
        method: &request.method,
        deadline_us: request.deadline_us,
        payload: &request.payload,
    }
}

/// Random bytes with many lengths and varints among them.
fn rpc_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => request().prop_map(|request| framed(&request)),
        3 => response().prop_map(|response| response.encode_length_delimited_to_vec()),
        2 => prop::sample::select(vec![
            &b"\0"[..], b"\x80", b"\xff\xff\xff\xff\x0f", b"\x08", b"\x10", b"\x12\x01M", b"\x1a",
            b"\x39", b"\x45", b"\x05\x08\x01\x10\x02", b"\x02\x1a\x05",
        ]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// Messages that are almost requests: fields in any order and number, of wrong types, or cut off.
fn request_like() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        request().prop_map(|request| request.encode_to_vec()),
        prop::sample::select(vec![
            &b"\x08\x07"[..],
            b"\x12\x01M",
            b"\x12\x01\xff",
            b"\x18\x80\x01",
            b"\x22\x02ab",
            b"\x0a\x01a",
            b"\x10\x01",
            b"\x21\0\0\0\0\0\0\0\0",
            b"\x2d\0\0\0\0",
            b"\x28\x01",
            b"\x39\0\0\0\0\0\0\0\0",
            b"\x7a\x01x",
            b"\x08",
            b"\x12\x05M",
            b"\x07",
            b"\0\0",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(field, 0..8).prop_map(|fields| fields.concat())
}

/// A response that a skipper found: its length, its id and status, and its outcome.
type Found = (usize, RpcReply, Outcome);

/// The responses in `stream`, which is cut at `cuts`, and the error that ends it.
fn skipped(stream: &[u8], cuts: &[usize]) -> (Vec<Found>, Option<NotAReply>) {
    let mut skipper = RpcSkipper::default();
    let (mut found, mut start, mut open) = (Vec::new(), 0, 0);
    for end in cuts.iter().copied().chain([stream.len()]) {
        while start < end {
            match skipper.skip(&stream[start..end]) {
                Ok(Skipped::Reply { len, outcome }) => {
                    found.push((std::mem::take(&mut open) + len, skipper.reply(), outcome));
                    start += len;
                }
                Ok(Skipped::NeedMore) => {
                    open += end - start;
                    start = end;
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

proptest! {
    #[test]
    fn any_split_of_requests_gives_the_same_frames(
        (requests, splits) in prop::collection::vec(request(), 1..6).prop_flat_map(|requests| {
            let len = requests.iter().map(|request| framed(request).len()).sum();
            (Just(requests), stream::cuts(len))
        })
    ) {
        let frames: Vec<_> = requests.iter().map(framed).collect();
        let bytes = frames.concat();
        let expected = (frames, None);
        let rpc = Rpc::default();
        prop_assert_eq!(&stream::feed(&rpc, &bytes, &splits), &expected);
        prop_assert_eq!(&stream::feed(&rpc, &bytes, &stream::every_byte(&bytes)), &expected);
    }

    #[test]
    fn any_split_of_garbage_gives_the_same_error((bytes, splits) in stream::with_cuts(rpc_like())) {
        for rpc in [Rpc::default(), Rpc::default().message_len_max(20)] {
            let whole = stream::feed(&rpc, &bytes, &[]);
            prop_assert_eq!(&stream::feed(&rpc, &bytes, &splits), &whole);
            prop_assert_eq!(&stream::feed(&rpc, &bytes, &stream::every_byte(&bytes)), &whole);
        }
        let whole = skipped(&bytes, &[]);
        prop_assert_eq!(&skipped(&bytes, &splits), &whole);
        prop_assert_eq!(&skipped(&bytes, &stream::every_byte(&bytes)), &whole);
    }

    #[test]
    fn messages_survive_encoding_and_decoding(request in request(), response in response()) {
        let frame = framed(&request);
        let method = (!request.method.is_empty()).then_some(request.method.as_bytes());
        let head = Rpc::default().head_of(&frame).expect("a whole frame");
        prop_assert_eq!(head.method(&frame), method);
        prop_assert_eq!(head.request(&frame), Ok(borrowed(&request)));
        prop_assert_eq!(peek_id(&frame).unwrap_or_default(), request.id);
        prop_assert_eq!(&request.encode_length_delimited_to_vec(), &frame);
        prop_assert_eq!(RequestRef::from_frame(&frame), Ok(borrowed(&request)));
        prop_assert_eq!(Request::from_frame(&frame), Ok(request));
        let mut frame = Vec::new();
        response.encode_frame(&mut frame);
        prop_assert_eq!(&response.encode_length_delimited_to_vec(), &frame);
        prop_assert_eq!(Response::from_frame(&frame), Ok(response));
        frame.push(0);
        prop_assert!(Response::from_frame(&frame).is_err());
    }

    #[test]
    fn responses_are_skipped_with_their_ids_and_outcomes(
        responses in prop::collection::vec(response(), 1..6),
        cuts in stream::cuts(300),
    ) {
        let frames: Vec<_> = responses.iter().map(Message::encode_length_delimited_to_vec).collect();
        let bytes = frames.concat();
        let cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        let expected: Vec<_> = responses.iter().zip(&frames).map(|(response, frame)| {
            let outcome = match Status::try_from(response.status) {
                Ok(Status::Ok) => Outcome::Done,
                Ok(Status::NotFound) => Outcome::Miss,
                Ok(Status::ResourceExhausted) => Outcome::Busy,
                _ => Outcome::Error,
            };
            (frame.len(), RpcReply { id: response.id, status: response.status }, outcome)
        }).collect();
        prop_assert_eq!(skipped(&bytes, &cuts), (expected, None));
    }

    #[test]
    fn reading_a_request_in_place_agrees_with_decoding(message in request_like()) {
        let mut frame = Vec::new();
        prost::encode_length_delimiter(message.len(), &mut frame).expect("a Vec grows");
        frame.extend_from_slice(&message);
        let head = Rpc::default().head_of(&frame).expect("a whole frame");
        prop_assert_eq!(head.request(&frame), RequestRef::from_frame(&frame));
        match (RequestRef::from_frame(&frame), Request::from_frame(&frame)) {
            (Ok(lying), decoded) => prop_assert_eq!(decoded.as_ref().map(borrowed), Ok(lying)),
            // Only decoding skips groups, whose tags have wire type 3.
            (Err(_), Ok(_)) => prop_assert!(message.iter().any(|byte| byte & 7 == 3)),
            (Err(_), Err(_)) => {}
        }
    }

    #[test]
    fn borrowed_responses_have_the_same_encoding(
        id: u64, error in "[a-z]{0,20}", payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let failure = Failure::new(Status::NotFound, error.clone());
        let owned = Response { id, payload: payload.clone().into(), ..Response::default() };
        for (borrowed, owned) in [
            (ResponseRef::ok(id, &payload), owned),
            (ResponseRef::failed(id, &failure), Response::failed(id, Status::NotFound, error)),
        ] {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            borrowed.encode_frame(&mut one);
            owned.encode_frame(&mut other);
            prop_assert_eq!(one, other);
        }
    }

    /// If a response can be both skipped and decoded, the results agree.
    #[test]
    fn skipping_agrees_with_decoding(bytes in rpc_like()) {
        let (found, _) = skipped(&bytes, &[]);
        let mut rest = &bytes[..];
        for (len, reply, _) in found {
            if let Ok(response) = Response::from_frame(&rest[..len]) {
                prop_assert_eq!(reply, RpcReply { id: response.id, status: response.status });
            }
            rest = &rest[len..];
        }
    }
}

#[test]
fn errors_are_named_by_their_status() {
    let mut unknown = Response::failed(1, Status::Internal, "");
    unknown.status = 99;
    let long = "x".repeat(5_000);
    for (response, text_start, kind) in [
        (
            Response::failed(1, Status::ResourceExhausted, "typed queue of 'a' is full"),
            "RESOURCE_EXHAUSTED typed queue of 'a' is full",
            "RESOURCE_EXHAUSTED",
        ),
        (Response::failed(1, Status::Internal, ""), "INTERNAL", "INTERNAL"),
        (Response::failed(1, Status::Aborted, long), "ABORTED xxx", "ABORTED"),
        (unknown, "STATUS_99", "STATUS_99"),
    ] {
        let mut skipper = RpcSkipper::default();
        let frame = response.encode_length_delimited_to_vec();
        let (last, pieces) = frame.chunks(100).collect::<Vec<_>>().split_last().map(|(l, p)| (*l, p.to_vec())).unwrap();
        assert!(pieces.iter().all(|piece| skipper.skip(piece) == Ok(Skipped::NeedMore)));
        assert!(matches!(skipper.skip(last), Ok(Skipped::Reply { .. })));
        assert!(skipper.error_text().starts_with(text_start));
        assert!(skipper.error_text().len() < 400);
        assert_eq!(skipper.error_kind(), kind);
        assert!(!skipper.closes());
    }
}

#[test]
fn of_a_field_that_comes_twice_the_last_counts() {
    let mut skipper = RpcSkipper::default();
    let reply = b"\x08\x10\x0d\x1a\x01a\x1a\x01b";
    assert!(matches!(skipper.skip(reply), Ok(Skipped::Reply { .. })));
    assert!(skipper.error_text().ends_with(" b"), "{}", skipper.error_text());
}

#[test]
fn requests_say_how_long_their_clients_wait() {
    for (deadline_us, deadline) in [(0, None), (7, Some(std::time::Duration::from_micros(7)))] {
        let request = Request { deadline_us, ..Request::default() };
        let frame = framed(&request);
        let head = Rpc::default().head_of(&frame).expect("a frame");
        assert_eq!(Rpc::default().deadline(&head), deadline);
    }
    assert!(!Rpc::default().replies_in_order(), "they have ids");
}

#[test]
fn malformed_responses_are_refused() {
    assert_eq!(skipped(b"\xff\xff\xff\xff\x0f", &[]).1, None, "a length of 32 bits");
    for bytes in [
        &b"\xff\xff\xff\xff\x10"[..],
        b"\x02\x00\x00",
        b"\x02\x0c\x00",
        b"\x01\x08",
        b"\x01\x80",
        b"\x02\x08\x80",
        b"\x03\x1a\x05a",
        b"\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
    ] {
        assert!(skipped(bytes, &[]).1.is_some(), "{bytes:x?}");
    }
}

/// By name: type and number of the fields of a message, or of the values of an enumeration.
type Declared = BTreeMap<String, (String, u32)>;

/// The block `kind name { ... }` of the contract.
fn declared(header: &str) -> Declared {
    let contract = include_str!("../../proto/psp_rpc.proto");
    let start = contract.find(&format!("{header} {{\n")).expect(header);
    let block = contract[start..].split_once('}').expect("a closed block").0;
    let lines = block.lines().skip(1).map(str::trim);
    let declarations = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    declarations
        .map(|line| {
            let (left, number) = line.trim_end_matches(';').split_once(" = ").expect(line);
            let (ty, name) = left.rsplit_once(' ').unwrap_or(("", left));
            (name.to_owned(), (ty.to_owned(), number.parse().expect(line)))
        })
        .collect()
}

/// Numbers and wire types of the fields in an encoded message.
fn wire_fields(message: &impl Message) -> Vec<(u32, u8)> {
    let bytes = message.encode_to_vec();
    let mut rest = &bytes[..];
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let tag = prost::decode_length_delimiter(&mut rest).expect("a tag");
        let value = prost::decode_length_delimiter(&mut rest).expect("a value");
        if tag & 7 == 2 {
            rest = &rest[value..];
        }
        fields.push(((tag >> 3) as u32, (tag & 7) as u8));
    }
    fields
}

/// Numbers and wire types of `fields` in the contract, in their order.
fn contract_fields(header: &str, fields: &[&str]) -> Vec<(u32, u8)> {
    let declared = declared(header);
    assert_eq!(declared.len(), fields.len(), "{header}");
    let wire = |name: &&str| {
        let (ty, number) = &declared[*name];
        let wire_type = match ty.as_str() {
            "uint64" | "Status" => 0,
            "string" | "bytes" => 2,
            other => panic!("the contract has no type {other}"),
        };
        (*number, wire_type)
    };
    fields.iter().map(wire).collect()
}

#[test]
fn structs_have_the_fields_of_the_contract() {
    let request = Request {
        id: 1,
        method: "m".to_owned(),
        deadline_us: 1,
        payload: vec![1].into(),
    };
    let fields = ["id", "method", "deadline_us", "payload"];
    assert_eq!(wire_fields(&request), contract_fields("message Request", &fields));
    let response = Response {
        payload: vec![1].into(),
        ..Response::failed(1, Status::Internal, "e")
    };
    let fields = ["id", "status", "error", "payload"];
    assert_eq!(wire_fields(&response), contract_fields("message Response", &fields));
    let statuses = Status::ALL.iter().map(|status| {
        let number = u32::try_from(*status as i32).expect("none is negative");
        (status.name().to_owned(), (String::new(), number))
    });
    assert_eq!(statuses.collect::<Declared>(), declared("enum Status"));
}
