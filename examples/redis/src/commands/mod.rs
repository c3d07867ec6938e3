//! The commands, one file per family. Each exports its rows of the table as `COMMANDS`.

use crate::command::CommandSpec;

mod bitfield;
mod bits;
mod blocking;
mod bytes;
mod client;
mod config;
mod connection;
mod counts;
pub(crate) mod databases;
mod dump;
mod expire;
mod functions;
pub(crate) mod geo;
mod hashes;
mod hyperloglog;
mod info;
mod introspection;
mod keys;
mod large;
mod lcs;
mod lists;
mod pace;
mod pubsub;
mod scan;
mod script_call;
mod scripting;
mod server;
mod sets;
mod sort;
mod sorted_set_operations;
mod sorted_set_ranges;
mod sorted_sets;
pub(crate) mod streams;
mod strings;
pub(crate) mod subcommand;
mod transactions;
mod walk;

/// The rows of all families, under the group names that `COMMAND DOCS` uses.
pub(crate) const FAMILIES: &[(&str, &[CommandSpec])] = &[
    ("bitmap", bitfield::COMMANDS),
    ("bitmap", bits::COMMANDS),
    ("list", blocking::LIST_COMMANDS),
    ("sorted-set", blocking::SORTED_SET_COMMANDS),
    ("connection", client::COMMANDS),
    ("server", config::COMMANDS),
    ("connection", connection::COMMANDS),
    ("generic", databases::COMMANDS),
    ("generic", dump::COMMANDS),
    ("generic", expire::COMMANDS),
    ("geo", geo::COMMANDS),
    ("hash", hashes::COMMANDS),
    ("hyperloglog", hyperloglog::COMMANDS),
    ("server", info::COMMANDS),
    ("server", introspection::COMMANDS),
    ("generic", keys::COMMANDS),
    ("string", lcs::COMMANDS),
    ("list", lists::COMMANDS),
    ("pubsub", pubsub::COMMANDS),
    ("scripting", functions::COMMANDS),
    ("scripting", scripting::COMMANDS),
    ("server", server::COMMANDS),
    ("set", sets::COMMANDS),
    ("generic", sort::COMMANDS),
    ("sorted-set", sorted_set_operations::COMMANDS),
    ("sorted-set", sorted_set_ranges::COMMANDS),
    ("sorted-set", sorted_sets::COMMANDS),
    ("stream", streams::COMMANDS),
    ("stream", streams::claim::COMMANDS),
    ("stream", streams::groups::COMMANDS),
    ("stream", streams::info::COMMANDS),
    ("stream", streams::pending::COMMANDS),
    ("stream", streams::read::COMMANDS),
    ("string", strings::COMMANDS),
    ("transactions", transactions::COMMANDS),
];
