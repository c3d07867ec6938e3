//! Commands on lists.

use crate::command::CommandSpec;

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[];
