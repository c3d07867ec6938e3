//! Compares the structs with `proto/psp_kv.proto`, and tests responses that are written part by part.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message;
use psp_protocols::kv::{
    DeleteRequest, DeleteResponse, GetRequest, GetResponse, Pair, PutRequest, PutResponse, ScanRequest, ScanResponse,
    pair_len, put_pair, put_value,
};

/// By number: the type of each field of `message` in the contract.
fn declared(message: &str) -> BTreeMap<u32, String> {
    let contract = include_str!("../../proto/psp_kv.proto");
    let header = format!("message {message} {{");
    let (_, rest) = contract.split_once(&header).expect(message);
    let (block, _) = rest.split_once('}').expect("a closed block");
    let lines = block.lines().map(str::trim);
    let fields = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    fields
        .map(|line| {
            let (left, number) = line.trim_end_matches(';').split_once(" = ").expect(line);
            let (ty, _) = left.rsplit_once(' ').expect(line);
            (number.parse().expect(line), ty.to_owned())
        })
        .collect()
}

/// By number: the wire type of each field of `message`. All fields must be set.
fn encoded(message: &impl Message) -> BTreeMap<u32, u8> {
    let bytes = message.encode_to_vec();
    let mut rest = &bytes[..];
    let mut fields = BTreeMap::new();
    while !rest.is_empty() {
        let tag = prost::decode_length_delimiter(&mut rest).expect("a tag");
        match tag & 7 {
            0 => {
                prost::decode_length_delimiter(&mut rest).expect("a number");
            }
            2 => {
                let len = prost::decode_length_delimiter(&mut rest).expect("a length");
                rest = &rest[len..];
            }
            5 => rest = &rest[4..],
            other => panic!("no field of the contract has type {other}"),
        }
        fields.insert((tag >> 3) as u32, (tag & 7) as u8);
    }
    fields
}

fn assert_is_of_the_contract(name: &str, message: &impl Message) {
    let wire = |ty: &String| match ty.as_str() {
        "uint32" | "bool" => 0,
        "bytes" | "repeated Pair" => 2,
        "fixed32" => 5,
        other => panic!("the contract has no type {other}"),
    };
    let declared = declared(name);
    let expected: BTreeMap<u32, u8> = declared.iter().map(|(at, ty)| (*at, wire(ty))).collect();
    assert_eq!(encoded(message), expected, "{name}");
}

#[test]
fn structs_have_the_fields_of_the_contract() {
    let (key, value) = (vec![b'k'], vec![b'v']);
    let pair = Pair { key: key.clone(), value: value.clone() };
    assert_is_of_the_contract("Pair", &pair);
    assert_is_of_the_contract("GetRequest", &GetRequest { key: key.clone() });
    let value_of = value.clone();
    assert_is_of_the_contract("GetResponse", &GetResponse { value: value_of });
    let scan = ScanRequest { start: key.clone(), count: 1, summary: true };
    assert_is_of_the_contract("ScanRequest", &scan);
    let scanned = ScanResponse { count: 1, checksum: 1, pairs: vec![pair], truncated: true };
    assert_is_of_the_contract("ScanResponse", &scanned);
    let put = PutRequest { key: key.clone(), value };
    assert_is_of_the_contract("PutRequest", &put);
    assert_is_of_the_contract("PutResponse", &PutResponse {});
    assert_is_of_the_contract("DeleteRequest", &DeleteRequest { key });
    assert_is_of_the_contract("DeleteResponse", &DeleteResponse {});
}

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let pair = (bytes(), bytes()).prop_map(|(key, value)| Pair { key, value });
    prop::collection::vec(pair, 0..20)
}

proptest! {
    #[test]
    fn pairs_written_one_by_one_make_a_whole_response(
        pairs in pairs(),
        checksum: u32,
        truncated: bool,
    ) {
        let count = u32::try_from(pairs.len()).unwrap();
        let end = ScanResponse { count, checksum, truncated, pairs: Vec::new() };
        let mut payload = Vec::new();
        for Pair { key, value } in &pairs {
            let before = payload.len();
            put_pair(key, value, &mut payload);
            prop_assert_eq!(payload.len() - before, pair_len(key, value));
        }
        end.encode(&mut payload).unwrap();
        let whole = ScanResponse { pairs, ..end };
        prop_assert_eq!(payload.len(), whole.encoded_len());
        prop_assert_eq!(ScanResponse::decode(&payload[..]), Ok(whole));
    }

    #[test]
    fn a_written_value_is_a_whole_response(value in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut payload = Vec::new();
        put_value(&value, &mut payload);
        prop_assert_eq!(payload, GetResponse { value }.encode_to_vec());
    }
}
