//! Cost of one classification on the net worker's path.

#[path = "../../classifiers/benches/requests/mod.rs"]
mod requests;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use psp_classifiers::prefix::{PrefixClassifier, memcached_key, resp_key};
use psp_classifiers::{ChainClassifier, MemcachedClassifier, RandomClassifier, RespClassifier, SizeClassifier};
use psp_protocols::Framing;
use psp_protocols::memcached::MemcachedFraming;
use psp_protocols::psp_header::PspFraming;
use psp_protocols::resp::{Resp, encode_command};
use psp_protocols::rpc::Rpc;
use psp_server::{Classifier, TypeSpec};

/// Of `request` as `framing` hands it over.
fn measure<F: Framing>(
    criterion: &mut Criterion,
    name: &str,
    (framing, classifier): (&F, &impl Classifier<F::Head>),
    request: &[u8],
) {
    let head = framing.head_of(request).expect("a whole frame");
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| classifier.classify(black_box(request), black_box(&head)));
    });
}

fn resp(criterion: &mut Criterion) {
    let classifier = RespClassifier::redis();
    let commands: [(&str, &[&[u8]]); 6] = [
        ("get", &[b"GET", b"key:0000012345"]),
        ("set", &[b"SET", b"key:0000012345", b"value"]),
        ("mget_3", &[b"MGET", b"a", b"b", b"c"]),
        ("lrange", &[b"LRANGE", b"list", b"0", b"99"]),
        ("command_docs", &[b"COMMAND", b"DOCS"]),
        ("unknown", &[b"NOSUCHCOMMAND"]),
    ];
    for (name, args) in commands {
        let mut frame = Vec::new();
        encode_command(args, &mut frame);
        let resp = Resp::default();
        measure(criterion, &format!("resp/{name}"), (&resp, &classifier), &frame);
    }
    measure(criterion, "resp/get_inline", (&Resp::default(), &classifier), b"GET key:0000012345\r\n");
}

fn rpc(criterion: &mut Criterion) {
    for (name, method, payload_len) in
        [("get", "Get", 16), ("put_16k", "Put", 16 << 10), ("unknown", "NoSuchMethod", 16)]
    {
        let (classifier, frame) = requests::rpc(method, payload_len);
        let rpc = Rpc::default();
        measure(criterion, &format!("rpc/{name}"), (&rpc, &classifier), &frame);
    }
}

fn memcached(criterion: &mut Criterion) {
    let framing = MemcachedFraming::default();
    let classifier = MemcachedClassifier::new();
    let multiget = format!("get {}\r\n", "key:0000012345 ".repeat(1000));
    for (name, request) in [
        ("get", &b"get key:0000012345\r\n"[..]),
        ("set", b"set key:0000012345 0 0 5\r\nvalue\r\n"),
        ("meta_get", b"mg key:0000012345 v t\r\n"),
        ("get_8_keys", b"get key1 key2 key3 key4 key5 key6 key7 key8\r\n"),
        ("get_1000_keys", multiget.as_bytes()),
        ("version", b"version\r\n"),
        ("unknown", b"nosuchcommand\r\n"),
    ] {
        measure(criterion, &format!("memcached/{name}"), (&framing, &classifier), request);
    }
    let (classifier, request) = requests::memcached_binary();
    measure(criterion, "memcached/binary_get", (&framing, &classifier), &request);
}

fn prefixes() -> [(&'static str, TypeSpec); 4] {
    ["session:", "user:", "report:", "key:"].map(|prefix| (prefix, TypeSpec::new(prefix)))
}

fn sizes() -> SizeClassifier {
    SizeClassifier::new()
        .at_least(0, TypeSpec::new("small"))
        .at_least(1024, TypeSpec::new("middle"))
        .at_least(64 * 1024, TypeSpec::new("large"))
}

fn combined(criterion: &mut Criterion) {
    let mut get = Vec::new();
    encode_command(&[b"GET", b"key:0000012345"], &mut get);
    let mut by_prefix = PrefixClassifier::new(resp_key);
    let mut by_memcached_prefix = PrefixClassifier::new(memcached_key);
    for (prefix, spec) in prefixes() {
        by_prefix = by_prefix.prefix(prefix, spec.clone());
        by_memcached_prefix = by_memcached_prefix.prefix(prefix, spec);
    }
    let resp = Resp::default();
    measure(criterion, "prefix/resp", (&resp, &by_prefix), &get);
    measure(
        criterion,
        "prefix/memcached",
        (&MemcachedFraming::default(), &by_memcached_prefix),
        b"get key:0000012345\r\n",
    );
    measure(criterion, "size", (&resp, &sizes()), &get);
    let first_names = ChainClassifier::new(by_prefix.clone(), sizes());
    measure(criterion, "chain/first", (&resp, &first_names), &get);
    let second_names = ChainClassifier::new(sizes_above(1 << 20), by_prefix);
    measure(criterion, "chain/second", (&resp, &second_names), &get);
}

/// A classifier that knows only requests of at least `size_min` bytes.
fn sizes_above(size_min: usize) -> SizeClassifier {
    SizeClassifier::new().at_least(size_min, TypeSpec::new("huge"))
}

fn others(criterion: &mut Criterion) {
    let (classifier, request) = requests::psp_header();
    measure(criterion, "psp_header", (&PspFraming::default(), &classifier), &request);
    let random = RandomClassifier::new(requests::three_types(), 1);
    measure(criterion, "random", (&PspFraming::default(), &random), &request);
}

criterion_group!(benches, resp, memcached, rpc, combined, others);
criterion_main!(benches);
