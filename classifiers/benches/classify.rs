//! Cost of one classification on the net worker's path.

mod requests;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use psp_classifiers::prefix::{PrefixClassifier, memcached_key, resp_key};
use psp_classifiers::{
    ChainClassifier, MemcachedClassifier, RandomClassifier, RespClassifier, SizeClassifier,
};
use psp_protocols::resp::encode_command;
use psp_server::{Classifier, TypeSpec};

fn measure(criterion: &mut Criterion, name: &str, classifier: &impl Classifier, request: &[u8]) {
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| classifier.classify(black_box(request)));
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
        measure(criterion, &format!("resp/{name}"), &classifier, &frame);
    }
    measure(
        criterion,
        "resp/get_inline",
        &classifier,
        b"GET key:0000012345\r\n",
    );
}

fn rpc(criterion: &mut Criterion) {
    for (name, method, payload_len) in [
        ("get", "Get", 16),
        ("put_16k", "Put", 16 << 10),
        ("unknown", "NoSuchMethod", 16),
    ] {
        let (classifier, frame) = requests::rpc(method, payload_len);
        measure(criterion, &format!("rpc/{name}"), &classifier, &frame);
    }
}

fn memcached(criterion: &mut Criterion) {
    let classifier = MemcachedClassifier::new();
    let multiget = format!("get {}\r\n", "key:0000012345 ".repeat(1000));
    for (name, request) in [
        ("get", &b"get key:0000012345\r\n"[..]),
        ("set", b"set key:0000012345 0 0 5\r\nvalue\r\n"),
        ("meta_get", b"mg key:0000012345 v t\r\n"),
        (
            "get_8_keys",
            b"get key1 key2 key3 key4 key5 key6 key7 key8\r\n",
        ),
        ("get_1000_keys", multiget.as_bytes()),
        ("version", b"version\r\n"),
        ("unknown", b"nosuchcommand\r\n"),
    ] {
        measure(
            criterion,
            &format!("memcached/{name}"),
            &classifier,
            request,
        );
    }
    let (classifier, request) = requests::memcached_binary();
    measure(criterion, "memcached/binary_get", &classifier, &request);
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
    measure(criterion, "prefix/resp", &by_prefix, &get);
    measure(
        criterion,
        "prefix/memcached",
        &by_memcached_prefix,
        b"get key:0000012345\r\n",
    );
    measure(criterion, "size", &sizes(), &get);
    let first_names = ChainClassifier::new(by_prefix.clone(), sizes());
    measure(criterion, "chain/first", &first_names, &get);
    let second_names = ChainClassifier::new(sizes_above(1 << 20), by_prefix);
    measure(criterion, "chain/second", &second_names, &get);
}

/// Names large requests alone.
fn sizes_above(size_min: usize) -> SizeClassifier {
    SizeClassifier::new().at_least(size_min, TypeSpec::new("huge"))
}

fn others(criterion: &mut Criterion) {
    let (classifier, request) = requests::psp_header();
    measure(criterion, "psp_header", &classifier, &request);
    let random = RandomClassifier::new(requests::three_types(), 1);
    measure(criterion, "random", &random, b"");
}

criterion_group!(benches, resp, memcached, rpc, combined, others);
criterion_main!(benches);
