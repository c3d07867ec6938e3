//! Properties of the skippers: the end of a reply does not depend on how its bytes arrive.

use proptest::prelude::*;
use psp_protocols::http::HttpSkipper;
use psp_protocols::memcached::MemcachedSkipper;
use psp_protocols::resp::RespSkipper;
use psp_protocols::skip::{LINE_LEN_MAX, ReplySkipper};

use crate::stream::replies::skip_all;

const RESP_REPLIES: &[&str] = &[
    "+OK\r\n",
    "-BUSY queue is full\r\n",
    ":-12\r\n",
    "$3\r\nabc\r\n",
    "$2\r\n\r\n\r\n",
    "$0\r\n\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "_\r\n",
    "*0\r\n",
    "*2\r\n:1\r\n*1\r\n$1\r\na\r\n",
    "*2\r\n-ERR inside\r\n+OK\r\n",
    "%1\r\n+k\r\n:1\r\n",
    "|1\r\n+ttl\r\n:3\r\n:7\r\n",
];

const MEMCACHED_REPLIES: &[&str] = &[
    "END\r\n",
    "VALUE k 0 5\r\nEND\r\n\r\nEND\r\n",
    "VALUE k 7 0 18446744073709551615\r\n\r\nVALUE l 0 1\r\n\n\r\nEND\r\n",
    "STORED\r\n",
    "NOT_FOUND\r\n",
    "12\r\n",
    "STAT pid 1\r\nSTAT uptime 2\r\nEND\r\n",
    "VERSION 1.6.18\r\n",
    "CLIENT_ERROR bad data chunk\r\n",
    "SERVER_ERROR busy: the queue of 'scan' is full\r\n",
    "HD t-1\r\n",
    "VA 4 f1\r\nMN\r\n\r\n",
    "EN\r\n",
    "MN\r\n",
];

const HTTP_RESPONSES: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nDate: today\r\n\r\n",
    "HTTP/1.0 503 \r\ncontent-length: 2\r\n\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\n0\r\n\r\nA\r\n0123456789\r\n0\r\nT: a\r\n\r\n",
];

fn check_replies<S: ReplySkipper + Default>(
    known: &[&str],
    picks: &[prop::sample::Index],
    pieces: &[usize],
) -> Result<(), TestCaseError> {
    let picked: Vec<&str> = picks.iter().map(|pick| *pick.get(known)).collect();
    let stream = picked.concat();
    let found = skip_all::<S>(stream.as_bytes(), pieces);
    let ends: Vec<usize> = found.0.iter().map(|(end, _)| *end).collect();
    let expected: Vec<usize> = picked
        .iter()
        .scan(0, |end, reply| {
            *end += reply.len();
            Some(*end)
        })
        .collect();
    prop_assert_eq!(ends, expected);
    prop_assert_eq!(&found, &skip_all::<S>(stream.as_bytes(), &[stream.len()]));
    Ok(())
}

fn check_garbage<S: ReplySkipper + Default>(stream: &[u8], pieces: &[usize]) -> Result<(), TestCaseError> {
    let whole = skip_all::<S>(stream, &[stream.len().max(1)]);
    prop_assert_eq!(skip_all::<S>(stream, pieces), whole);
    Ok(())
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..9, 1..5)
}

/// Pieces of replies among other bytes.
fn garbage(known: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let cut = (prop::sample::select(known), any::<prop::sample::Index>())
        .prop_map(|(reply, at)| reply.as_bytes()[..at.index(reply.len())].to_vec());
    let whole = prop::sample::select(known).prop_map(|reply| reply.as_bytes().to_vec());
    let bytes = prop::collection::vec(any::<u8>(), 0..6);
    let number = any::<u64>().prop_map(|number| number.to_string().into_bytes());
    fn all(piece: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }
    all(prop_oneof![cut, whole, bytes, number])
}

#[test]
fn errors_have_their_text_and_lines_a_limit() {
    let mut http = HttpSkipper::default();
    http.skip(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        .expect("a reply");
    assert_eq!(http.error_text(), "503 Service Unavailable");
    for (len, is_ok) in [(LINE_LEN_MAX, true), (LINE_LEN_MAX + 1, false)] {
        for piece_len in [LINE_LEN_MAX + 2, 1000] {
            let line = format!("CLIENT_ERROR {}\n", "x".repeat(len - "CLIENT_ERROR ".len()));
            let mut skipper = MemcachedSkipper::default();
            let skipped: Result<Vec<_>, _> =
                line.as_bytes().chunks(piece_len).map(|piece| skipper.skip(piece)).collect();
            assert_eq!(skipped.is_ok(), is_ok, "{len} {piece_len}");
            assert!(!is_ok || skipper.error_text().len() == 512 && !skipper.closes());
        }
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same_replies(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        pieces in pieces(),
    ) {
        check_replies::<RespSkipper>(RESP_REPLIES, &picks, &pieces)?;
        check_replies::<MemcachedSkipper>(MEMCACHED_REPLIES, &picks, &pieces)?;
        check_replies::<HttpSkipper>(HTTP_RESPONSES, &picks, &pieces)?;
    }

    #[test]
    fn any_split_of_garbage_gives_the_same_error(
        resp in garbage(RESP_REPLIES),
        memcached in garbage(MEMCACHED_REPLIES),
        http in garbage(HTTP_RESPONSES),
        pieces in pieces(),
    ) {
        check_garbage::<RespSkipper>(&resp, &pieces)?;
        check_garbage::<MemcachedSkipper>(&memcached, &pieces)?;
        check_garbage::<HttpSkipper>(&http, &pieces)?;
    }
}
