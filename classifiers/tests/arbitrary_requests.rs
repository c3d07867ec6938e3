//! For any bytes of a peer, a classifier answers one of its types or `UNKNOWN`.

use proptest::prelude::*;
use psp_classifiers::prefix::{PrefixClassifier, memcached_key, resp_key};
use psp_classifiers::{
    ChainClassifier, MemcachedClassifier, PspHeaderClassifier, RandomClassifier, RespClassifier, RpcClassifier,
    SizeClassifier,
};
use psp_protocols::Framing;
use psp_protocols::resp::{Resp, RespHead, encode_command};
use psp_protocols::rpc::{Request, Rpc};
use psp_server::{Classifier, RequestType, TypeSpec, TypeTable};

fn three_types() -> TypeTable {
    ["a", "b", "c"].map(TypeSpec::new).into_iter().collect()
}

fn rpc() -> RpcClassifier {
    RpcClassifier::new()
        .group(TypeSpec::new("a"), ["Get"])
        .group(TypeSpec::new("b"), ["Scan", ""])
}

fn is_known_or_unknown<H>(classifier: &impl Classifier<H>, request: &[u8], head: &H) -> bool {
    let answer = classifier.classify(request, head);
    answer == RequestType::UNKNOWN || answer.index().is_some_and(|index| index < classifier.types().len())
}

/// Arguments that the rules of the RESP classifier look at, and others.
fn argument() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::sample::select(vec![
            "MGET",
            "LRANGE",
            "ZRANGE",
            "SPOP",
            "SCAN",
            "ZRANGEBYSCORE",
            "COMMAND",
            "COUNT",
            "LIMIT",
            "BYSCORE",
            "0",
            "-1",
            "9223372036854775807",
            "-9223372036854775808",
            "",
        ])
        .prop_map(|word| word.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..60),
    ]
}

/// All classifiers of memcached requests that can be put together, in one.
fn combined() -> impl Classifier {
    let [a, b, c] = ["a", "b", "c"].map(TypeSpec::new);
    let by_prefix = PrefixClassifier::new(memcached_key).prefix("k", b.clone()).prefix("key", a);
    ChainClassifier::new(by_prefix, MemcachedClassifier::new())
        .then(SizeClassifier::new().at_least(10, c).at_least(20, b))
}

/// All classifiers of RESP requests that can be put together, in one.
fn combined_resp() -> impl Classifier<RespHead> {
    let [a, b, c] = ["a", "b", "c"].map(TypeSpec::new);
    let by_prefix = PrefixClassifier::new(resp_key).prefix("M", a);
    ChainClassifier::new(by_prefix, RespClassifier::redis()).then(SizeClassifier::new().at_least(10, c).at_least(20, b))
}

/// Words of memcached requests, and the binary protocol's first byte.
fn memcached_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => prop::sample::select(vec![
            &b"get"[..], b"gat", b"set", b"mg", b"stats", b" ", b" ", b" key", b"\r\n", b"\n",
            b"0", b"\x80", b"\x80\x10\x00\x02", b"\0\0\0\0",
        ]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn requests_like_those_of_memcached(request in memcached_like()) {
        prop_assert!(is_known_or_unknown(&MemcachedClassifier::new(), &request, &()));
        prop_assert!(is_known_or_unknown(&combined(), &request, &()));
    }

    #[test]
    fn bytes_without_form(request in prop::collection::vec(any::<u8>(), 0..100)) {
        let head = Resp::default().head_of(&request).unwrap_or_default();
        prop_assert!(is_known_or_unknown(&RespClassifier::redis(), &request, &head));
        prop_assert!(is_known_or_unknown(&combined_resp(), &request, &head));
        prop_assert!(is_known_or_unknown(&PspHeaderClassifier::new(three_types()), &request, &()));
        let head = Rpc::default().head_of(&request).unwrap_or_default();
        prop_assert!(is_known_or_unknown(&rpc(), &request, &head));
        prop_assert!(is_known_or_unknown(&RandomClassifier::new(three_types(), 1), &request, &()));
        prop_assert!(is_known_or_unknown(&combined(), &request, &()));
    }

    #[test]
    fn commands_whole_and_cut(
        args in prop::collection::vec(argument(), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let classifier = RespClassifier::redis();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let mut frame = Vec::new();
        encode_command(&args, &mut frame);
        let head = Resp::default().head_of(&frame).expect("a whole frame");
        prop_assert!(is_known_or_unknown(&classifier, &frame, &head));
        prop_assert!(is_known_or_unknown(&classifier, &frame[..cut.index(frame.len())], &head));
    }

    #[test]
    fn rpc_requests_whole_and_cut(
        method in "Get|Scan|[a-z]{0,3}",
        id: u64,
        payload in prop::collection::vec(any::<u8>(), 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let payload = payload.into();
        let is_known = ["Get", "Scan"].contains(&method.as_str());
        let mut frame = Vec::new();
        Request { id, method, deadline_us: 0, payload }.encode_frame(&mut frame);
        let head = Rpc::default().head_of(&frame).expect("a whole frame");
        prop_assert_eq!(rpc().classify(&frame, &head) != RequestType::UNKNOWN, is_known);
        prop_assert!(is_known_or_unknown(&rpc(), &frame[..cut.index(frame.len())], &head));
    }

    #[test]
    fn headers_of_all_types(request_type: u16) {
        let mut request = [0; 16];
        request[0] = psp_protocols::psp_header::VERSION;
        request[2..4].copy_from_slice(&request_type.to_be_bytes());
        prop_assert!(is_known_or_unknown(&PspHeaderClassifier::new(three_types()), &request, &()));
    }
}
