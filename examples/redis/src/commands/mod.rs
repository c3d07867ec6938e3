//! The commands, one file per family. Each exports its rows of the table as `COMMANDS`.

use crate::command::CommandSpec;

mod connection;
mod hashes;
mod lists;
mod sets;
mod sort;
mod sorted_sets;

/// The rows of all families.
pub(crate) const FAMILIES: &[&[CommandSpec]] = &[
    connection::COMMANDS,
    hashes::COMMANDS,
    lists::COMMANDS,
    sets::COMMANDS,
    sort::COMMANDS,
    sorted_sets::COMMANDS,
];
