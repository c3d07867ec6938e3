//! HTTP: frames do not depend on how a stream is cut, and the parts of a request lie within its frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::http::{Http, HttpRequest, Response, Status};
use psp_protocols::{Framing, Rejection};

#[path = "../../tests/stream/feed.rs"]
mod feed;

fuzz_target!(|stream: &[u8]| {
    for framing in [
        Http::default(),
        Http::default().head_bytes_max(80).headers_max(3).body_bytes_max(20),
    ] {
        let whole = feed::feed(&framing, stream, &[]);
        assert_eq!(feed::feed(&framing, stream, &feed::every_byte(stream)), whole);
        for frame in &whole.0 {
            let head = framing.head_of(frame).expect("a frame has a head");
            let request = HttpRequest::new(frame, &head);
            assert!(!request.path().is_empty() && !request.method_name().is_empty());
            assert!(request.headers().count() <= framing.headers_max);
            assert!(request.query_pairs().count() <= frame.len());
            assert!(request.body().len() <= framing.body_bytes_max);
            let mut response = Vec::new();
            Response::new(&mut response, &head, Status::OK).body(frame);
            assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
            // The head belongs to another frame here.
            let other = HttpRequest::new(stream, &head);
            assert!(other.headers().count() <= stream.len() && other.body().len() <= stream.len());
        }
        let mut refusal = Vec::new();
        let rejection = Rejection::Busy { type_name: "fuzz" };
        framing.encode_rejection(&rejection, stream, &mut refusal);
        assert!(refusal.starts_with(b"HTTP/1.1 503 "));
    }
});
