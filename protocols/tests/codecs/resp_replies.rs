//! Properties of RESP replies: the parser measures what the encoder writes.

use bytes::Bytes;
use proptest::prelude::*;
use psp_protocols::resp::{Encoder, ReplyKind, ReplyParser, ReplyStep, Version};

#[derive(Debug, Clone)]
enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Shared(Vec<u8>),
    Null,
    NullArray,
    Double(f64),
    Boolean(bool),
    BigNumber(i128),
    Verbatim(String, Vec<u8>),
    Array(Vec<Value>),
    Set(Vec<Value>),
    Push(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Attributed(Vec<(Value, Value)>, Box<Value>),
}

impl Value {
    fn encode(&self, encoder: &mut Encoder<'_, Vec<u8>>) {
        match self {
            Self::Simple(text) => encoder.simple(text),
            Self::Error(line) => encoder.error(line),
            Self::Integer(value) => encoder.integer(*value),
            Self::Bulk(bytes) => encoder.bulk(bytes),
            Self::Shared(bytes) => encoder.bulk_shared(Bytes::copy_from_slice(bytes)),
            Self::Null => encoder.null(),
            Self::NullArray => encoder.null_array(),
            Self::Double(value) => encoder.double(*value),
            Self::Boolean(value) => encoder.boolean(*value),
            Self::BigNumber(value) => encoder.big_number(&value.to_string()),
            Self::Verbatim(format, text) => encoder.verbatim(format, text),
            Self::Array(values) => {
                encoder.array(values.len());
                encode_all(values, encoder);
            }
            Self::Set(values) => {
                encoder.set(values.len());
                encode_all(values, encoder);
            }
            Self::Push(values) => {
                encoder.push(values.len());
                encode_all(values, encoder);
            }
            Self::Map(pairs) => {
                encoder.map(pairs.len());
                encode_pairs(pairs, encoder);
            }
            Self::Attributed(pairs, value) => {
                if encoder.attribute(pairs.len()) {
                    encode_pairs(pairs, encoder);
                }
                value.encode(encoder);
            }
        }
    }

    fn kind(&self, version: Version) -> ReplyKind {
        let only_in_resp3 = |kind, otherwise| match version {
            Version::Resp2 => otherwise,
            Version::Resp3 => kind,
        };
        match self {
            Self::Simple(_) => ReplyKind::Simple,
            Self::Error(_) => ReplyKind::Error,
            Self::Integer(_) => ReplyKind::Integer,
            Self::Bulk(_) | Self::Shared(_) => ReplyKind::Bulk,
            Self::Null | Self::NullArray => ReplyKind::Null,
            Self::Double(_) => only_in_resp3(ReplyKind::Double, ReplyKind::Bulk),
            Self::Boolean(_) => only_in_resp3(ReplyKind::Boolean, ReplyKind::Integer),
            Self::BigNumber(_) => only_in_resp3(ReplyKind::BigNumber, ReplyKind::Bulk),
            Self::Verbatim(..) => only_in_resp3(ReplyKind::Verbatim, ReplyKind::Bulk),
            Self::Array(_) => ReplyKind::Array,
            Self::Set(_) => only_in_resp3(ReplyKind::Set, ReplyKind::Array),
            Self::Push(_) => only_in_resp3(ReplyKind::Push, ReplyKind::Array),
            Self::Map(_) => only_in_resp3(ReplyKind::Map, ReplyKind::Array),
            Self::Attributed(_, value) => value.kind(version),
        }
    }
}

fn encode_all(values: &[Value], encoder: &mut Encoder<'_, Vec<u8>>) {
    for value in values {
        value.encode(encoder);
    }
}

fn encode_pairs(pairs: &[(Value, Value)], encoder: &mut Encoder<'_, Vec<u8>>) {
    for (key, value) in pairs {
        key.encode(encoder);
        value.encode(encoder);
    }
}

fn value() -> impl Strategy<Value = Value> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::Simple),
        any::<String>().prop_map(Value::Error),
        any::<i64>().prop_map(Value::Integer),
        bytes().prop_map(Value::Bulk),
        prop::collection::vec(any::<u8>(), 4090..4100).prop_map(Value::Shared),
        Just(Value::Null),
        Just(Value::NullArray),
        any::<f64>().prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        any::<i128>().prop_map(Value::BigNumber),
        (".{0,4}", bytes()).prop_map(|(format, text)| Value::Verbatim(format, text)),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let values = || prop::collection::vec(inner.clone(), 0..4);
        let pairs = || prop::collection::vec((inner.clone(), inner.clone()), 0..3);
        prop_oneof![
            values().prop_map(Value::Array),
            values().prop_map(Value::Set),
            values().prop_map(Value::Push),
            pairs().prop_map(Value::Map),
            (pairs(), inner.clone()).prop_map(|(pairs, value)| Value::Attributed(pairs, Box::new(value))),
        ]
    })
}

proptest! {
    #[test]
    fn one_value_is_measured_as_one_reply(
        value in value(),
        version in prop::sample::select(vec![Version::Resp2, Version::Resp3]),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut encoded = Vec::new();
        value.encode(&mut Encoder::new(&mut encoded, version));
        let whole = Ok(ReplyStep::Reply { len: encoded.len(), kind: value.kind(version) });

        let mut parser = ReplyParser::new();
        let cut = cut.index(encoded.len());
        prop_assert_eq!(parser.next_reply(&encoded[..cut]), Ok(ReplyStep::NeedMore));
        prop_assert_eq!(parser.next_reply(&encoded), whole.clone());

        encoded.extend_from_slice(b":1\r\n");
        prop_assert_eq!(parser.next_reply(&encoded), whole);
    }

    #[test]
    fn garbage_is_measured_within_its_bounds(
        pieces in prop::collection::vec(prop_oneof![
            prop::sample::select(vec![
                "+", "-", ":", "$", "*", "%", "~", ">", "|", "_", "#", ",", "(", "=", "!", "0",
                "1", "2", "-1", "\r\n", "9223372036854775807", "*1\r\n", "|1\r\n", ":1\r\n",
            ]).prop_map(|piece| piece.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..3),
        ], 0..24),
    ) {
        let bytes = pieces.concat();
        let mut byte_by_byte = ReplyParser::new();
        let mut step = byte_by_byte.next_reply(&[]);
        let mut end = 0;
        while step == Ok(ReplyStep::NeedMore) && end < bytes.len() {
            end += 1;
            step = byte_by_byte.next_reply(&bytes[..end]);
        }
        if let Ok(ReplyStep::Reply { len, .. }) = step {
            prop_assert_eq!(len, end);
        }
        prop_assert_eq!(ReplyParser::new().next_reply(&bytes), step);
    }
}
