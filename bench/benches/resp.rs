//! Cost of RESP on the paths of the net worker and the worker.

use std::hint::black_box;

use bytes::BytesMut;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use psp_protocols::resp::{Args, CommandId, Encoder, ReplyParser, Resp, RespCursor, Version, encode_command};
use psp_protocols::{Framing, Sink, Step};

fn command(args: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_command(args, &mut out);
    out
}

/// Parses all frames of `stream` and returns their number of arguments.
fn count_args(resp: &Resp, stream: &[u8]) -> usize {
    let mut cursor = RespCursor::default();
    let mut unescaped = Vec::new();
    let mut rest = stream;
    let mut count = 0;
    while let Ok(Step::Frame { len, head }) = resp.next_frame(&mut cursor, rest) {
        let (frame, after) = rest.split_at(len);
        count += Args::new(frame, &head, &mut unescaped).len();
        rest = after;
    }
    count
}

fn requests(criterion: &mut Criterion) {
    let resp = Resp::default();
    let get = command(&[b"GET", b"key:0000012345"]);
    let set = command(&[b"SET", b"key:0000012345", &[b'v'; 100]]);
    let mget: Vec<&[u8]> = std::iter::once(&b"MGET"[..])
        .chain(std::iter::repeat_n(&b"key:0000012345"[..], 1000))
        .collect();
    let cases = [
        ("get", get.clone()),
        ("get_inline", b"GET key:0000012345\r\n".to_vec()),
        ("set_100B", set),
        ("pipeline_16_gets", get.repeat(16)),
        ("mget_1000_keys", command(&mget)),
    ];
    let mut group = criterion.benchmark_group("frame");
    for (name, stream) in &cases[..3] {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| resp.next_frame(&mut RespCursor::default(), black_box(stream)));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("frame_and_args");
    for (name, stream) in &cases {
        group.throughput(Throughput::Bytes(stream.len() as u64));
        group.bench_function(*name, |bencher| {
            bencher.iter(|| count_args(&resp, black_box(stream)));
        });
    }
    group.finish();
    for name in ["get", "ZREVRANGEBYSCORE", "nosuchcommand"] {
        criterion.bench_function(&format!("command_id/{name}"), |bencher| {
            bencher.iter(|| CommandId::of(black_box(name.as_bytes())));
        });
    }
}

fn encode_array<S: Sink + ?Sized>(sink: &mut S) {
    let mut encoder = Encoder::new(sink, Version::Resp2);
    encoder.array(100);
    for _ in 0..100 {
        encoder.bulk(black_box(b"element:00012345"));
    }
}

fn replies(criterion: &mut Criterion) {
    criterion.bench_function("encode/array_100", |bencher| {
        bencher.iter_batched_ref(|| BytesMut::with_capacity(8192), encode_array, BatchSize::SmallInput);
    });
    criterion.bench_function("encode/array_100_dyn", |bencher| {
        bencher.iter_batched_ref(
            || BytesMut::with_capacity(8192),
            |out| encode_array::<dyn Sink>(out),
            BatchSize::SmallInput,
        );
    });
    criterion.bench_function("encode/double", |bencher| {
        bencher.iter_batched_ref(
            || BytesMut::with_capacity(8192),
            |out| Encoder::new(out, Version::Resp3).double(black_box(1234.5678)),
            BatchSize::SmallInput,
        );
    });
    let mut array = Vec::new();
    encode_array(&mut array);
    criterion.bench_function("measure/array_100", |bencher| {
        bencher.iter(|| ReplyParser::new().next_reply(black_box(&array)));
    });
}

criterion_group!(benches, requests, replies);
criterion_main!(benches);
