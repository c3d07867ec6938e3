//! Cost of one classification on the net worker's path.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use psp_classifiers::{PspHeaderClassifier, RandomClassifier, RespClassifier};
use psp_protocols::psp_header::{Header, Kind};
use psp_protocols::resp::encode_command;
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

criterion_group!(benches, resp, others);
criterion_main!(benches);
