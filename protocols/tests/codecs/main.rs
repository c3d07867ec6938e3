//! The codecs against arbitrary bytes, streams in arbitrary pieces, and real servers.

mod framings;
mod http_requests;
mod kv;
mod memcached_replies;
mod memcached_requests;
mod memcached_server;
mod packet;
mod psp_header;
mod reply_skippers;
mod resp_replies;
mod resp_requests;
mod rpc;
mod seams;
#[path = "../stream/mod.rs"]
mod stream;
