//! Requests whose headers have a fixed place, and their classifiers.

use psp_classifiers::{MemcachedClassifier, PspHeaderClassifier, RpcClassifier};
use psp_protocols::memcached::binary::{RequestParts, encode_request};
use psp_protocols::psp_header::{Header, Kind};
use psp_protocols::rpc::Request;
use psp_server::{TypeSpec, TypeTable};

/// Three types without hints.
pub(crate) fn three_types() -> TypeTable {
    ["a", "b", "c"].map(TypeSpec::new).into_iter().collect()
}

/// A request with a psp header, which names the type.
pub(crate) fn psp_header() -> (PspHeaderClassifier, Vec<u8>) {
    let header = Header {
        kind: Kind::Request,
        request_type: 1,
        id: 7,
        payload_len: 0,
        run_time_ns: 1000,
    };
    let classifier = PspHeaderClassifier::new(three_types());
    (classifier, header.encode().to_vec())
}

/// A get of memcached's binary protocol.
pub(crate) fn memcached_binary() -> (MemcachedClassifier, Vec<u8>) {
    let get = RequestParts { key: b"key:0000012345", ..RequestParts::default() };
    let mut frame = Vec::new();
    encode_request(&get, &mut frame);
    (MemcachedClassifier::new(), frame)
}

/// A request for `method`.
pub(crate) fn rpc(method: &str, payload_len: usize) -> (RpcClassifier, Vec<u8>) {
    let request = Request {
        id: 12_345,
        method: method.to_owned(),
        deadline_us: 100,
        payload: vec![0; payload_len].into(),
    };
    let mut frame = Vec::new();
    request.encode_frame(&mut frame);
    let classifier = RpcClassifier::new()
        .group(TypeSpec::new("short"), ["Get", "Put"])
        .group(TypeSpec::new("long"), ["Scan"]);
    (classifier, frame)
}
