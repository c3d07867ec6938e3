//! The commands, one file per family. Each exports its rows of the table as `COMMANDS`.

use crate::command::Row;

mod acl;
mod bitfield;
mod bits;
mod blocking;
mod bytes;
mod client;
mod client_kill;
mod client_tracking;
mod config;
mod connection;
mod counts;
pub(crate) mod databases;
mod debug;
mod digest;
mod dump;
mod expire;
mod field_times;
pub(crate) mod functions;
pub(crate) mod geo;
mod hashes;
mod hyperloglog;
mod info;
mod introspection;
mod keys;
mod large;
mod latency;
mod lcs;
mod lists;
mod memory;
mod pace;
mod persistence;
mod pubsub;
mod scan;
mod script_call;
mod scripting;
mod server;
mod sets;
mod slowlog;
mod sort;
mod sorted_set_operations;
mod sorted_set_ranges;
mod sorted_sets;
mod standalone;
pub(crate) mod streams;
mod strings;
pub(crate) mod subcommand;
mod transactions;
mod walk;

pub(crate) use config::{is_parameter, set_at_start};

/// The rows of all families.
pub(crate) const FAMILIES: &[&[Row]] = &[
    acl::COMMANDS,
    bitfield::COMMANDS,
    bits::COMMANDS,
    blocking::LIST_COMMANDS,
    blocking::SORTED_SET_COMMANDS,
    client::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    databases::COMMANDS,
    debug::COMMANDS,
    dump::COMMANDS,
    expire::COMMANDS,
    field_times::COMMANDS,
    geo::COMMANDS,
    hashes::COMMANDS,
    hyperloglog::COMMANDS,
    info::COMMANDS,
    introspection::COMMANDS,
    latency::COMMANDS,
    slowlog::COMMANDS,
    keys::COMMANDS,
    lcs::COMMANDS,
    lists::COMMANDS,
    memory::COMMANDS,
    persistence::COMMANDS,
    pubsub::COMMANDS,
    functions::COMMANDS,
    scripting::COMMANDS,
    server::COMMANDS,
    sets::COMMANDS,
    sort::COMMANDS,
    sorted_set_operations::COMMANDS,
    sorted_set_ranges::COMMANDS,
    sorted_sets::COMMANDS,
    standalone::COMMANDS,
    streams::COMMANDS,
    streams::claim::COMMANDS,
    streams::groups::COMMANDS,
    streams::info::COMMANDS,
    streams::pending::COMMANDS,
    streams::read::COMMANDS,
    strings::COMMANDS,
    transactions::COMMANDS,
];
