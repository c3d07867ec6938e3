//! The messages of `proto/psp_rpc_methods.proto`, written by hand, so that no build of the server needs a
//! protobuf compiler. A test compares them with structs that are generated from that file.

use prost::Message;

/// `psp.rpc.methods.v1.Work`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Work {
    /// Duration of the work, in microseconds.
    #[prost(uint64, tag = "1")]
    pub duration_us: u64,
}

/// `psp.rpc.methods.v1.Numbers`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Numbers {
    /// The numbers.
    #[prost(sfixed64, repeated, tag = "1")]
    pub values: Vec<i64>,
}

/// `psp.rpc.methods.v1.Total`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Total {
    /// The sum.
    #[prost(sint64, tag = "1")]
    pub value: i64,
}

/// `psp.rpc.methods.v1.Question`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Question {
    /// The name of the method that the upstreams are asked for.
    #[prost(string, tag = "1")]
    pub method: String,
    /// The message of that method.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
    /// For how long an upstream may take, in microseconds; 0: until the deadline of the request.
    #[prost(uint64, tag = "3")]
    pub timeout_us: u64,
    /// How many upstreams have to answer; 0 for all.
    #[prost(uint32, tag = "4")]
    pub answers_min: u32,
}

/// `psp.rpc.methods.v1.Answers`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Answers {
    /// One for each upstream, in the order of the server's configuration.
    #[prost(message, repeated, tag = "1")]
    pub answers: Vec<Answer>,
}

/// `psp.rpc.methods.v1.Answer`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Answer {
    /// The upstream's address.
    #[prost(string, tag = "1")]
    pub upstream: String,
    /// The number of a [`Status`](psp_protocols::rpc::Status).
    #[prost(int32, tag = "2")]
    pub status: i32,
    /// What went wrong, for people; empty when the status is `OK`.
    #[prost(string, tag = "3")]
    pub error: String,
    /// The method's own message; empty unless the status is `OK`.
    #[prost(bytes = "vec", tag = "4")]
    pub payload: Vec<u8>,
}

/// `psp.rpc.methods.v1.ServerStats`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ServerStats {
    /// The policy in force, with its settings.
    #[prost(string, tag = "1")]
    pub policy: String,
    /// Request types, `UNKNOWN` last.
    #[prost(message, repeated, tag = "2")]
    pub types: Vec<TypeStats>,
    /// Datagrams dropped because their source is the server's own address, or because they are responses.
    #[prost(uint64, tag = "3")]
    pub reflected_datagrams: u64,
    /// Datagrams dropped because responses have used up the bytes of their source.
    #[prost(uint64, tag = "4")]
    pub over_budget_datagrams: u64,
}

/// `psp.rpc.methods.v1.TypeStats`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TypeStats {
    /// The type's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Requests that arrived.
    #[prost(uint64, tag = "2")]
    pub arrivals: u64,
    /// Requests that were completed.
    #[prost(uint64, tag = "3")]
    pub completions: u64,
    /// Requests refused because the typed queue was full.
    #[prost(uint64, tag = "4")]
    pub rejections: u64,
    /// Mean service time in nanoseconds.
    #[prost(uint64, tag = "5")]
    pub service_ns_mean: u64,
    /// Longest service time in nanoseconds.
    #[prost(uint64, tag = "6")]
    pub service_ns_max: u64,
    /// Turns that workers began.
    #[prost(uint64, tag = "7")]
    pub turns: u64,
    /// Turns that ended before the request did.
    #[prost(uint64, tag = "8")]
    pub preemptions: u64,
    /// Requests that did not run because their clients had gone.
    #[prost(uint64, tag = "9")]
    pub abandoned: u64,
    /// Requests that did not run because their deadlines had passed.
    #[prost(uint64, tag = "10")]
    pub expired: u64,
    /// Requests that wait in their handlers.
    #[prost(uint64, tag = "11")]
    pub blocked: u64,
    /// How often a request began to wait in its handler.
    #[prost(uint64, tag = "12")]
    pub waits: u64,
    /// Time of all waits that have ended, in nanoseconds.
    #[prost(uint64, tag = "13")]
    pub wait_ns_total: u64,
}
