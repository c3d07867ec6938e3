//! Properties of the HTTP framing: any split of a stream gives the same frames, and a request is read as
//! it was written.

use proptest::prelude::*;
use psp_protocols::http::{Http, HttpRequest};
use psp_protocols::{Framing, Rejection};

use crate::stream;

/// A request as a client writes it, and the parts that a handler should see.
#[derive(Debug, Clone)]
struct Written {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    frame: Vec<u8>,
}

/// How a client frames a body.
#[derive(Debug, Clone)]
enum Framed {
    Length,
    /// Chunks that end at these places, and whether they have extensions and trailers.
    Chunks(Vec<prop::sample::Index>, bool),
}

fn framed() -> impl Strategy<Value = Framed> {
    let chunks = prop::collection::vec(any::<prop::sample::Index>(), 0..5);
    prop_oneof![
        Just(Framed::Length),
        (chunks, any::<bool>()).prop_map(|(places, extended)| Framed::Chunks(places, extended)),
    ]
}

fn written() -> impl Strategy<Value = Written> {
    let header = ("X-[A-Za-z]{1,8}", "[!-~]([ -~]{0,20}[!-~])?");
    (
        prop::sample::select(vec!["GET", "POST", "PUT", "HEAD", "BREW"]),
        "/[a-z0-9/%.*]{0,20}",
        "[a-z=&%?/]{0,12}",
        prop::collection::vec(header, 0..5),
        prop::collection::vec(any::<u8>(), 0..60),
        framed(),
        any::<bool>(),
    )
        .prop_map(|(method, path, query, headers, body, framed, empty_line)| {
            let mut frame = Vec::new();
            if empty_line {
                frame.extend_from_slice(b"\r\n");
            }
            let mark = if query.is_empty() { "" } else { "?" };
            let line = format!("{method} {path}{mark}{query} HTTP/1.1\r\nHost: test\r\n");
            frame.extend_from_slice(line.as_bytes());
            for (name, value) in &headers {
                frame.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
            write_body(&body, &framed, &mut frame);
            Written { method: method.to_owned(), path, query, headers, body, frame }
        })
}

fn write_body(body: &[u8], framed: &Framed, frame: &mut Vec<u8>) {
    let Framed::Chunks(places, extended) = framed else {
        frame.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        return frame.extend_from_slice(body);
    };
    frame.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    let mut places: Vec<usize> = places.iter().map(|place| place.index(body.len() + 1)).chain([body.len()]).collect();
    places.sort_unstable();
    places.dedup();
    let mut start = 0;
    for end in places.into_iter().filter(|end| *end > 0) {
        let extension = if *extended { " ;name=\"value\"" } else { "" };
        let size = format!("{:X}{extension}\r\n", end - start);
        frame.extend_from_slice(size.as_bytes());
        frame.extend_from_slice(&body[start..end]);
        frame.extend_from_slice(b"\r\n");
        start = end;
    }
    let trailers = if *extended { "T: a\r\nU: b\r\n" } else { "" };
    frame.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
}

/// Pieces of requests more often than chance allows.
fn http_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => written().prop_map(|written| written.frame),
        4 => prop::sample::select(vec![
            "GET / HTTP/1.1\r\n", "GET /?a HTTP/1.0\r\n", "POST http://a HTTP/1.1\r\n",
            "OPTIONS * HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n", "Host: a\r\n", "Content-Length: 3\r\n",
            "Content-Length: 5, 5\r\n", "Content-Length: 999\r\n", "Transfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip\r\n", "Connection: close\r\n", "Expect: 100-continue\r\n",
            "Expect: magic\r\n", " folded\r\n", "no colon\r\n", "\r\n", "\n", "\r", "\r\n\r\n",
            "3\r\nabc\r\n", "0\r\n\r\n", "0\r\n", "ffffffffffffffff\r\n", "1;a=b\r\n",
        ]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_of_requests_gives_the_same_frames(
        (requests, splits) in prop::collection::vec(written(), 1..6).prop_flat_map(|requests| {
            let len = requests.iter().map(|request| request.frame.len()).sum();
            (Just(requests), stream::cuts(len))
        })
    ) {
        let frames: Vec<_> = requests.iter().map(|request| request.frame.clone()).collect();
        let bytes = frames.concat();
        let expected = (frames, None);
        let http = Http::default();
        prop_assert_eq!(&stream::feed(&http, &bytes, &splits), &expected);
        prop_assert_eq!(&stream::feed(&http, &bytes, &stream::every_byte(&bytes)), &expected);
    }

    #[test]
    fn any_split_of_garbage_ends_the_same((bytes, splits) in stream::with_cuts(http_like())) {
        let small = Http::default().head_bytes_max(60).headers_max(2).body_bytes_max(8);
        for http in [Http::default(), small] {
            let whole = stream::feed(&http, &bytes, &[]);
            prop_assert_eq!(&stream::feed(&http, &bytes, &splits), &whole);
            prop_assert_eq!(&stream::feed(&http, &bytes, &stream::every_byte(&bytes)), &whole);
        }
    }

    #[test]
    fn a_request_is_read_as_it_was_written(written in written()) {
        let head = Http::default().head_of(&written.frame).expect("a whole request");
        let request = HttpRequest::new(&written.frame, &head);
        prop_assert_eq!(request.method_name(), written.method);
        prop_assert_eq!(request.path(), written.path);
        prop_assert_eq!(request.query(), written.query);
        prop_assert_eq!(&*request.body(), &written.body[..]);
        let headers: Vec<_> = request
            .headers()
            .filter(|(name, _)| name.starts_with("X-"))
            .map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        prop_assert_eq!(headers, written.headers);
    }

    #[test]
    fn heads_of_other_frames_do_no_harm(
        written in written(),
        other in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let head = Http::default().head_of(&written.frame).expect("a whole request");
        let request = HttpRequest::new(&other, &head);
        prop_assert!(request.headers().count() <= other.len());
        prop_assert!(request.query_pairs().count() <= other.len());
        prop_assert!(request.body().len() <= other.len());
        prop_assert!(request.path().len() + request.method_name().len() <= other.len() + 1);
    }

    #[test]
    fn any_bytes_can_be_refused(bytes in http_like()) {
        let mut out = Vec::new();
        Http::default().encode_rejection(&Rejection::HandlerFailed, &bytes, &mut out);
        prop_assert!(out.starts_with(b"HTTP/1.1 500 "));
    }
}
