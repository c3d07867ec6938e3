//! Running a command, with what surrounds it.
//!
//! ```text
//!   dispatch, EXEC, scripts ─► run ─► CLIENT NO-TOUCH ─► tracking ─► keyspace events ─► the command
//! ```

use psp_store::AccessMark;

use crate::command::{CommandSpec, Context, ReplyEncoder};
use crate::parse::Result;
use crate::tracking;

/// Runs a command.
///
/// # Errors
/// Those of the command.
#[inline]
pub(crate) fn run(
    spec: &CommandSpec,
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    if context.client.is_no_touch() && spec.name != "touch" {
        return untouched(spec, context, args, out);
    }
    tracking::run(spec, context, args, out)
}

/// Runs a command that leaves its keys as recently and as often used as they were. What it overwrites is new.
#[cold]
fn untouched(spec: &CommandSpec, context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let keys = tracking::named(spec, args, |flags| !flags.contains(&"OW")).unwrap_or_default();
    let store = context.store;
    let marks: Vec<Option<AccessMark>> = keys.iter().map(|key| store.access(key)).collect();
    let result = tracking::run(spec, context, args, out);
    for (key, mark) in keys.iter().zip(marks) {
        if let Some(mark) = mark {
            store.set_access(key, mark);
        }
    }
    result
}
