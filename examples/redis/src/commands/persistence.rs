//! SAVE, BGSAVE, LASTSAVE and SHUTDOWN.

use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::parse::{self, Result};
use crate::persistence::{Gate, IN_PROGRESS, Refused};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("bgsave", bgsave),
    Row::new("lastsave", lastsave),
    Row::new("save", save),
    Row::new("shutdown", shutdown),
];

/// Waits without a worker. Other clients are served meanwhile, and what they change is not in the file.
fn save(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let saved = context.server.persistence.save_and_wait(context.server);
    let saved = saved.map_err(|Refused::InProgress| IN_PROGRESS)?;
    saved.map_err(|error| CommandError::Other(format!("ERR {error}").into()))?;
    out.simple("OK");
    Ok(())
}

/// In a transaction there is no snapshot of what it does: the save begins after it.
fn bgsave(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    match args[1..] {
        [] => {}
        [schedule] if parse::is(schedule, "SCHEDULE") => {}
        _ => return Err(CommandError::Syntax),
    }
    let persistence = &context.server.persistence;
    if !context.databases.is_fork() {
        let begun = persistence.save_in_background(context.server);
        begun.map_err(|Refused::InProgress| IN_PROGRESS)?;
        out.simple("Background saving started");
    } else if persistence.is_saving() {
        return Err(IN_PROGRESS);
    } else {
        persistence.schedule();
        out.simple("Background saving scheduled");
    }
    Ok(())
}

fn lastsave(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let saved_s = context.server.persistence.last_save_s();
    out.integer(i64::try_from(saved_s).unwrap_or(i64::MAX));
    Ok(())
}

/// What SHUTDOWN is told.
#[derive(Debug, Default, Clone, Copy)]
struct End {
    saves: Option<bool>,
    is_forced: bool,
    is_aborted: bool,
}

impl End {
    fn parse(options: &[&[u8]]) -> Result<Self> {
        let mut end = Self::default();
        for option in options {
            let saves = parse::is(option, "SAVE");
            if saves || parse::is(option, "NOSAVE") {
                if end.saves.is_some_and(|other| other != saves) {
                    return Err(CommandError::Syntax);
                }
                end.saves = Some(saves);
            } else if parse::is(option, "FORCE") {
                end.is_forced = true;
            } else if parse::is(option, "ABORT") {
                end.is_aborted = true;
            } else if !parse::is(option, "NOW") {
                return Err(CommandError::Syntax);
            }
        }
        match end.is_aborted && options.len() > 1 {
            true => Err(CommandError::Syntax),
            false => Ok(end),
        }
    }
}

/// Drains the server, as SIGTERM does. A save before that shows whether it is possible; what changes until the last
/// client is gone is saved after that. As in Redis the end of the connection is the reply.
fn shutdown(context: &mut Context<'_>, args: &[&[u8]], _: &mut ReplyEncoder<'_>) -> Result<()> {
    let end = End::parse(&args[1..])?;
    if end.is_aborted {
        return Err(CommandError::line("ERR No shutdown in progress."));
    }
    let persistence = &context.server.persistence;
    let mut saves = end.saves.unwrap_or_else(|| persistence.saves_by_default());
    // What has not been read yet would be lost.
    saves &= persistence.gate() != Gate::Loading;
    // SIGTERM may come before the save has ended, and gives that one up.
    let at_end = persistence.set_saves_at_end(Some(saves));
    if saves && persistence.save_before_the_end(context.server).is_err() {
        if !end.is_forced {
            persistence.set_saves_at_end(at_end);
            return Err(CommandError::line("ERR Errors trying to SHUTDOWN. Check logs."));
        }
        persistence.set_saves_at_end(Some(false));
    }
    context.close = true;
    if let Some(runtime) = context.server.runtime.get() {
        runtime.shut_down();
    }
    Ok(())
}
