//! SAVE, BGSAVE, LASTSAVE, BGREWRITEAOF, WAITAOF and SHUTDOWN.

use std::time::{Duration, Instant};

use crate::blocking::{Blocking, deadline_ms};
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::parse::{self, Result};
use crate::persistence::{Gate, IN_PROGRESS, Refused};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("bgrewriteaof", bgrewriteaof),
    Row::new("bgsave", bgsave),
    Row::new("lastsave", lastsave),
    Row::new("save", save),
    Row::new("shutdown", shutdown),
    Row::new("waitaof", waitaof),
];

/// Time between two looks whether the disk has what a client waits for.
const SYNC_LOOK_INTERVAL: Duration = Duration::from_millis(1);

fn bgrewriteaof(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if !context.server.persistence.rewrite_log(context.server) {
        return Err(CommandError::line("ERR Background append only file rewriting already in progress"));
    }
    out.simple("Background append only file rewriting started");
    Ok(())
}

/// `WAITAOF numlocal numreplicas timeout`: waits until this server's disk has all that was written so far. There are no
/// replicas.
fn waitaof(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let number = |arg, most| {
        let number = parse::integer(arg)?;
        let is_possible = (0..=most).contains(&number);
        is_possible
            .then_some(number)
            .ok_or(CommandError::line("ERR value is out of range, must be positive"))
    };
    let (local, replicas) = (number(args[1], 1)?, number(args[2], i64::MAX)?);
    let deadline = deadline_ms(args[3])?;
    let log = &context.server.persistence.log;
    if local > 0 && !log.is_on() {
        return Err(CommandError::line(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    let end = context.server.databases.journal().end();
    let is_synced = || log.is_on() && log.is_synced(end);
    if local > 0 && context.may_block {
        while !is_synced() && log.is_on() && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            if psp_server::is_abandoned() {
                break;
            }
            log.want_sync(end);
            psp_server::sleep(SYNC_LOOK_INTERVAL);
        }
    }
    let is_local = is_synced();
    let write: fn(bool) -> fn(&mut ReplyEncoder<'_>) = |is_local| {
        if is_local {
            |out| pair(out, 1)
        } else {
            |out| pair(out, 0)
        }
    };
    if replicas > 0 && context.may_block {
        return Blocking::for_a_time(deadline, write(is_local)).run(context, out);
    }
    write(is_local)(out);
    Ok(())
}

fn pair(out: &mut ReplyEncoder<'_>, local: i64) {
    out.array(2);
    out.integer(local);
    out.integer(0);
}

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
