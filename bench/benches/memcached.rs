//! Cost of memcached's protocol on the paths of the net worker and the worker.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use psp_protocols::memcached::binary::{self, RequestParts, encode_request};
use psp_protocols::memcached::text::{self, TextCursor};
use psp_protocols::memcached::{MemcachedFraming, MemcachedSkipper, is_binary};
use psp_protocols::skip::{ReplySkipper, Skipped};
use psp_protocols::{Framing, Step};

fn binary_get() -> Vec<u8> {
    let get = RequestParts { key: b"key:0000012345", ..RequestParts::default() };
    let mut request = Vec::new();
    encode_request(&get, &mut request);
    request
}

/// Parses all frames of `stream` and returns the number of valid requests.
fn parse_all(framing: &MemcachedFraming, stream: &[u8]) -> usize {
    let mut cursor = TextCursor::default();
    let mut rest = stream;
    let mut valid = 0;
    while let Ok(Step::Frame { len, .. }) = framing.next_frame(&mut cursor, rest) {
        let (frame, after) = rest.split_at(len);
        let is_valid = if is_binary(frame) {
            matches!(binary::Request::parse(frame), Some(Ok(_)))
        } else {
            text::Request::parse(frame).is_ok()
        };
        valid += usize::from(is_valid);
        rest = after;
    }
    valid
}

fn requests(criterion: &mut Criterion) {
    let framing = MemcachedFraming::default();
    let get = b"get key:0000012345\r\n".to_vec();
    let set = [b"set key:0000012345 0 0 100\r\n", &[b'v'; 100][..], b"\r\n"].concat();
    let multiget = format!("get {}\r\n", "key:0000012345 ".repeat(1000));
    let cases = [
        ("get", get.clone()),
        ("set_100B", set),
        ("meta_get", b"mg key:0000012345 v t O123\r\n".to_vec()),
        ("binary_get", binary_get()),
        ("pipeline_16_gets", get.repeat(16)),
        ("get_1000_keys", multiget.into_bytes()),
    ];
    let mut group = criterion.benchmark_group("memcached_frame");
    for (name, stream) in &cases[..4] {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| framing.next_frame(&mut TextCursor::default(), black_box(stream)));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("memcached_frame_and_request");
    for (name, stream) in &cases {
        group.throughput(Throughput::Bytes(stream.len() as u64));
        group.bench_function(*name, |bencher| {
            bencher.iter(|| parse_all(&framing, black_box(stream)));
        });
    }
    group.finish();
}

fn replies(criterion: &mut Criterion) {
    let mut stream = Vec::new();
    for _ in 0..16 {
        text::value(&mut stream, b"key:0000012345", 0, None, &[b'v'; 100]);
        text::status(&mut stream, text::Status::End);
    }
    let mut skipper = MemcachedSkipper::default();
    criterion.bench_function("memcached_skip/16_values_100B", |bencher| {
        bencher.iter(|| {
            let mut rest = black_box(&stream[..]);
            while let Ok(Skipped::Reply { len, .. }) = skipper.skip(rest) {
                rest = &rest[len..];
            }
            rest.len()
        });
    });
}

criterion_group!(benches, requests, replies);
criterion_main!(benches);
