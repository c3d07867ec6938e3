//! Connections and threads that send a plan's requests and read the replies.

mod arrival;
mod channel;
mod closed_loop;
mod commands;
mod connection;
mod datagram;
mod datagram_socket;
mod drive;
mod error;
mod generator;
mod in_flight;
mod lane;
mod link;
mod pacer;
mod preload;
mod run;
mod server;
mod services;
mod stream;
mod waiter;

pub use error::RunError;
pub use preload::{Collection, CollectionKind, PreloadError, PreloadPlan, preload};
pub use run::{Observer, RunResult, run};
pub use server::{PORT_PLACEHOLDER, Server, ServerError, free_port};
