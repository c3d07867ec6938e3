//! Properties of memcached replies: the skipper reads what the encoders write.

use proptest::prelude::*;
use psp_protocols::memcached::binary::{self, HEADER_LEN, Header, MAGIC_REPLY, ReplyHead};
use psp_protocols::memcached::meta::{self, Code, Key};
use psp_protocols::memcached::text::{self, RequestError, Status};
use psp_protocols::memcached::{MemcachedFraming, MemcachedSkipper};
use psp_protocols::skip::Outcome;
use psp_protocols::{Framing, Rejection};

use crate::stream::replies::skip_all;

/// A reply as a server would write it.
#[derive(Debug, Clone)]
enum Reply {
    Values(Vec<(String, u32, Option<u64>, Vec<u8>)>),
    Status(Status),
    Number(u64),
    Version(String),
    Stats(Vec<(String, String)>),
    ClientError(String),
    ServerError(String),
    Busy(String),
    Refused(&'static str),
    Meta(Code, Option<i64>, String),
    MetaValue(Vec<u8>, String),
    MetaDebug(String),
}

impl Reply {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Values(values) => {
                for (index, (key, flags, cas, data)) in values.iter().enumerate() {
                    if index % 2 == 0 {
                        text::value(out, key.as_bytes(), *flags, *cas, data);
                    } else {
                        let data = data.clone().into();
                        text::value_shared(out, key.as_bytes(), *flags, *cas, data);
                    }
                }
                text::status(out, Status::End);
            }
            Self::Status(status) => text::status(out, *status),
            Self::Number(value) => text::number(out, *value),
            Self::Version(version) => text::version(out, version),
            Self::Stats(stats) => {
                for (name, value) in stats {
                    text::stat(out, name, value);
                }
                text::status(out, Status::End);
            }
            Self::ClientError(words) => text::client_error(out, words),
            Self::ServerError(words) => text::server_error(out, words),
            Self::Busy(type_name) => {
                MemcachedFraming::default().encode_rejection(&Rejection::Busy { type_name }, b"get k\r\n", out);
            }
            Self::Refused(text) => RequestError { text, noreply: false }.encode(out),
            Self::Meta(code, ttl, opaque) => {
                let mut reply = meta::Reply::new(out, *code);
                if let Some(ttl) = ttl {
                    reply = reply.number(b't', *ttl);
                }
                reply.flag(b'W').token(b'O', opaque.as_bytes()).end();
            }
            Self::MetaValue(data, key) => {
                let key = Key { text: key.as_bytes(), is_base64: true };
                meta::Reply::value(out, data.len()).key(key).data(data);
            }
            Self::MetaDebug(key) => {
                let key = Key { text: key.as_bytes(), is_base64: false };
                meta::debug(out, key, [("exp", "-1"), ("size", "7")]);
            }
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Values(values) if values.is_empty() => Outcome::Miss,
            Self::Values(values) => Outcome::Hit { values: values.len() as u64 },
            Self::Status(Status::End | Status::NotFound) | Self::Meta(Code::Miss | Code::NotFound, ..) => Outcome::Miss,
            Self::Status(Status::NotStored | Status::Exists) | Self::Meta(Code::NotStored | Code::Exists, ..) => {
                Outcome::NotStored
            }
            Self::MetaValue(..) | Self::MetaDebug(_) => Outcome::Hit { values: 1 },
            Self::Status(Status::Error) | Self::ClientError(_) | Self::ServerError(_) | Self::Refused(_) => {
                Outcome::Error
            }
            Self::Busy(_) => Outcome::Busy,
            Self::Status(_) | Self::Meta(..) | Self::Number(_) | Self::Version(_) | Self::Stats(_) => Outcome::Done,
        }
    }
}

fn reply() -> impl Strategy<Value = Reply> {
    let key = || "[!-~]{1,30}";
    let data = || prop::collection::vec(any::<u8>(), 0..50);
    let value = (key(), any::<u32>(), any::<Option<u64>>(), data());
    let status = prop::sample::select(vec![
        Status::Stored,
        Status::NotStored,
        Status::Exists,
        Status::NotFound,
        Status::Deleted,
        Status::Touched,
        Status::Ok,
        Status::Reset,
        Status::End,
        Status::Error,
    ]);
    let code =
        prop::sample::select(vec![Code::Done, Code::Miss, Code::NotFound, Code::NotStored, Code::Exists, Code::Noop]);
    prop_oneof![
        prop::collection::vec(value, 0..4).prop_map(Reply::Values),
        status.prop_map(Reply::Status),
        any::<u64>().prop_map(Reply::Number),
        any::<String>().prop_map(Reply::Version),
        prop::collection::vec((key(), any::<String>()), 1..4).prop_map(Reply::Stats),
        any::<String>().prop_map(Reply::ClientError),
        "[A-Z\\n\\r]{0,20}".prop_map(Reply::ServerError),
        any::<String>().prop_map(Reply::Busy),
        Just(Reply::Refused("CLIENT_ERROR bad data chunk")),
        (code, any::<Option<i64>>(), key()).prop_map(|(code, ttl, opaque)| Reply::Meta(code, ttl, opaque)),
        (data(), key()).prop_map(|(data, key)| Reply::MetaValue(data, key)),
        key().prop_map(Reply::MetaDebug),
    ]
}

proptest! {
    #[test]
    fn the_skipper_reads_what_the_encoders_write(
        replies in prop::collection::vec(reply(), 1..8),
        piece_len in 1_usize..40,
    ) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for reply in &replies {
            reply.encode(&mut bytes);
            expected.push((bytes.len(), reply.outcome()));
        }
        let found = skip_all::<MemcachedSkipper>(&bytes, &[piece_len]);
        prop_assert_eq!(found, (expected, None));
    }

    #[test]
    fn binary_replies_have_the_lengths_of_their_parts(
        opcode: u8,
        opaque: u32,
        cas: u64,
        extras in prop::collection::vec(any::<u8>(), 0..30),
        key in prop::collection::vec(any::<u8>(), 0..250),
        value in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let request = Header {
            magic: binary::MAGIC_REQUEST,
            opcode,
            key_len: 0,
            extras_len: 0,
            status: 0,
            body_len: 0,
            opaque,
            cas: 1,
        };
        let head = ReplyHead {
            status: binary::Status::KeyExists,
            cas,
            extras: &extras,
            key: &key,
        };
        let mut copied = Vec::new();
        binary::reply(&mut copied, &request, &head, &value);
        let mut shared = Vec::new();
        binary::reply_shared(&mut shared, &request, &head, value.clone().into());
        prop_assert_eq!(&copied, &shared);
        let header = Header::decode(&copied).expect("a header");
        prop_assert_eq!(header, Header {
            magic: MAGIC_REPLY,
            key_len: key.len() as u16,
            extras_len: extras.len() as u8,
            status: 2,
            body_len: (copied.len() - HEADER_LEN) as u32,
            cas,
            ..request
        });
        prop_assert_eq!(&copied[HEADER_LEN..], &[extras, key, value].concat()[..]);
    }
}
