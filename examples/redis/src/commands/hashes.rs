//! Commands on hashes.

use crate::command::CommandSpec;

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[];
