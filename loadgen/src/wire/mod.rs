//! Targets, commands, and their bytes in each protocol.
//!
//! ```text
//!   "MGET 100" ─► dialect ─► CommandTemplate ─► Arguments ─► RequestWriter ─► bytes
//!                 bare words                    drawn anew        └─► Expected
//!                                                                        │
//!                                   bytes ─► Replies ─► outcome, id ─────┴─► hits, misses
//! ```

mod arguments;
mod dialect;
mod expected;
mod greeting;
mod http;
mod http_header;
mod lines;
mod memcached;
mod own;
mod quotes;
mod replies;
mod rpc;
mod source;
mod target;
mod template;
mod tls;
mod writer;

pub use arguments::Arguments;
pub use http::give_body;
pub use http_header::{HttpHeader, HttpHeaderError};
pub use own::{ReadReplies, Wire, WireRequest};
pub use source::CommandSource;
pub use target::{Endpoint, Protocol, Target, TargetError, masked};
pub use template::{CommandTemplate, TemplateError};
pub use tls::{TlsError, TlsOptions};

pub(crate) use expected::{Expected, Lookup};
pub(crate) use greeting::Greeting;
pub(crate) use quotes::{Meaning, Quotes};
pub(crate) use replies::Replies;
pub(crate) use tls::Tls;
pub(crate) use writer::RequestWriter;
