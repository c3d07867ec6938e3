//! The commands, one file per family. Each exports its rows of the table as `COMMANDS`.

use crate::command::CommandSpec;

mod connection;
mod counts;
mod expire;
mod hashes;
mod keys;
mod large;
mod lists;
mod scan;
mod sets;
mod sort;
mod sorted_set_operations;
mod sorted_set_ranges;
mod sorted_sets;
mod strings;
mod walk;

/// The rows of all families, under the names that `COMMAND DOCS` has for groups of commands.
pub(crate) const FAMILIES: &[(&str, &[CommandSpec])] = &[
    ("connection", connection::COMMANDS),
    ("generic", expire::COMMANDS),
    ("hash", hashes::COMMANDS),
    ("generic", keys::COMMANDS),
    ("list", lists::COMMANDS),
    ("set", sets::COMMANDS),
    ("generic", sort::COMMANDS),
    ("sorted-set", sorted_set_operations::COMMANDS),
    ("sorted-set", sorted_set_ranges::COMMANDS),
    ("sorted-set", sorted_sets::COMMANDS),
    ("string", strings::COMMANDS),
];
