//! Cost of one classification on the net worker's path.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use psp_classifiers::{PspHeaderClassifier, RandomClassifier, RespClassifier, RpcClassifier};
use psp_protocols::psp_header::{Header, Kind};
use psp_protocols::resp::encode_command;
use psp_protocols::rpc::Request;
use psp_server::{Classifier, TypeSpec, TypeTable};

fn three_types() -> TypeTable {
    ["a", "b", "c"].map(TypeSpec::new).into_iter().collect()
}

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
    let classifier = RpcClassifier::new()
        .group(TypeSpec::new("short"), ["Get", "Put"])
        .group(TypeSpec::new("long"), ["Scan"]);
    for (name, method, payload_len) in [
        ("get", "Get", 16),
        ("put_16k", "Put", 16 << 10),
        ("unknown", "NoSuchMethod", 16),
    ] {
        let request = Request {
            id: 12_345,
            method: method.to_owned(),
            deadline_us: 100,
            payload: vec![0; payload_len].into(),
        };
        let mut frame = Vec::new();
        request.encode_frame(&mut frame);
        measure(criterion, &format!("rpc/{name}"), &classifier, &frame);
    }
}

fn others(criterion: &mut Criterion) {
    let header = Header {
        kind: Kind::Request,
        request_type: 1,
        id: 7,
        payload_len: 0,
        run_time_ns: 1000,
    };
    let by_header = PspHeaderClassifier::new(three_types());
    measure(criterion, "psp_header", &by_header, &header.encode());
    let random = RandomClassifier::new(three_types(), 1);
    measure(criterion, "random", &random, b"");
}

criterion_group!(benches, resp, rpc, others);
criterion_main!(benches);
