//! RPC: frames and responses do not depend on how a stream is cut. A head agrees with decoding the message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::rpc::{
    Request, RequestRef, Response, Rpc, RpcReply, RpcSkipper,
};
use psp_protocols::Framing;
use psp_protocols::skip::{NotAReply, ReplySkipper, Skipped};

#[path = "../../tests/stream/feed.rs"]
mod feed;

/// The responses in `stream`, which arrives in pieces of `piece` bytes.
fn replies(stream: &[u8], piece: usize) -> (Vec<RpcReply>, Option<NotAReply>) {
    let mut skipper = RpcSkipper::default();
    let mut found = Vec::new();
    for mut input in stream.chunks(piece) {
        while !input.is_empty() {
            match skipper.skip(input) {
                Ok(Skipped::Reply { len, .. }) => {
                    found.push(skipper.reply());
                    input = &input[len..];
                }
                Ok(Skipped::NeedMore) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fuzz_target!(|stream: &[u8]| {
    let framing = Rpc::default();
    let whole = feed::feed(&framing, stream, &[]);
    assert_eq!(feed::feed(&framing, stream, &feed::every_byte(stream)), whole);
    for frame in &whole.0 {
        let head = framing.head_of(frame).expect("the framing found it");
        assert_eq!(head.request(frame), RequestRef::from_frame(frame));
        if let Ok(borrowed) = RequestRef::from_frame(frame) {
            let mut canonical = Vec::new();
            borrowed.encode_frame(&mut canonical);
            let request = Request::from_frame(frame).expect("both decode it");
            let mut expected = Vec::new();
            request.encode_frame(&mut expected);
            assert_eq!(canonical, expected);
        }
        if let Ok(request) = Request::from_frame(frame) {
            let mut canonical = Vec::new();
            request.encode_frame(&mut canonical);
            let method = (!request.method.is_empty()).then_some(request.method.as_bytes());
            let head = framing.head_of(&canonical).expect("a frame");
            assert_eq!(head.method(&canonical), method);
        }
    }
    let whole = replies(stream, stream.len().max(1));
    assert_eq!(replies(stream, 1), whole);
    if let (Ok(response), [reply]) = (Response::from_frame(stream), &whole.0[..]) {
        let decoded = RpcReply {
            id: response.id,
            status: response.status,
        };
        assert_eq!(*reply, decoded);
    }
});
