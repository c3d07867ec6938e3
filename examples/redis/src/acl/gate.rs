//! The check of a command, and the errors of those that are denied.

use std::sync::Arc;

use super::account::Access;
use super::commands::Commands;
use super::log::{Denied, Place, Reason};
use super::selector::Denial;
use super::user::User;
use crate::client::{ClientInfo, RequestBytes};
use crate::command::CommandTable;
use crate::error::CommandError;
use crate::parse::Result;
use crate::state::ServerState;

/// Whether a client may run the command `args` now, whose index in the command table is `command`. A command that is
/// not checked costs one load.
///
/// # Errors
/// `-NOAUTH` or `-NOPERM`.
#[inline]
pub(crate) fn admit(server: &ServerState, client: &ClientInfo, command: usize, args: &[&[u8]]) -> Result<()> {
    match client.account.access() {
        Access::All => Ok(()),
        access => check_or_authenticate(access, server, client, command, args),
    }
}

#[cold]
fn check_or_authenticate(
    access: Access,
    server: &ServerState,
    client: &ClientInfo,
    command: usize,
    args: &[&[u8]],
) -> Result<()> {
    let entry = CommandTable::get().entry_of(command, args);
    let spec = Commands::get().row(entry);
    if spec.is_for_all {
        return Ok(());
    }
    if access == Access::None {
        return Err(CommandError::NoAuth);
    }
    let place = match client.transaction.queued() {
        None => Place::TopLevel,
        Some(_) => Place::Transaction,
    };
    check(server, client, entry, args, place).map_err(|denial| {
        let line = match denial {
            Denial::Command => {
                let name = spec.name;
                format!("NOPERM this user has no permissions to run the '{name}' command")
            }
            Denial::Key(_) => {
                "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
            }
            Denial::Channel(_) => {
                "NOPERM this user has no permissions to access one of the channels used as arguments".to_owned()
            }
        };
        CommandError::Other(line.into())
    })
}

/// Whether a client may still run a command that was queued.
///
/// # Errors
/// `-NOPERM`.
#[inline]
pub(crate) fn admit_queued(server: &ServerState, client: &ClientInfo, entry: usize, args: &[&[u8]]) -> Result<()> {
    let checked = check_unless_all(server, client, entry, args, Place::Transaction);
    checked.map_err(|denial| {
        let reason = match denial {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => "no permission to access one of the channels used as arguments",
        };
        let line = format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {reason}"
        );
        CommandError::Other(line.into())
    })
}

/// Whether a client's script may call a command.
///
/// # Errors
/// What the script gets.
#[inline]
pub(crate) fn admit_in_script(server: &ServerState, client: &ClientInfo, entry: usize, args: &[&[u8]]) -> Result<()> {
    let checked = check_unless_all(server, client, entry, args, Place::Script);
    checked.map_err(|denial| {
        CommandError::line(match denial {
            Denial::Command => "ERR The user executing the script can't run this command or subcommand",
            Denial::Key(_) => {
                "ERR The user executing the script can't access at least one of the keys mentioned in the command \
                 arguments"
            }
            Denial::Channel(_) => {
                "ERR The user executing the script can't publish to the channel mentioned in the command"
            }
        })
    })
}

/// Whether a client may run a command. One that may do everything costs one load.
#[inline]
fn check_unless_all(
    server: &ServerState,
    client: &ClientInfo,
    entry: usize,
    args: &[&[u8]],
    place: Place,
) -> Result<(), Denial> {
    match client.account.access() {
        Access::All => Ok(()),
        _ => check(server, client, entry, args, place),
    }
}

/// Whether the user of a client may run a command. What it may not do is logged.
#[cold]
fn check(server: &ServerState, client: &ClientInfo, entry: usize, args: &[&[u8]], place: Place) -> Result<(), Denial> {
    let user: Arc<User> = client.account.user();
    user.check(entry, args).inspect_err(|denial| {
        let (reason, object) = match *denial {
            Denial::Command => (Reason::Command, Commands::get().row(entry).name.as_bytes()),
            Denial::Key(index) => (Reason::Key, args[index]),
            Denial::Channel(index) => (Reason::Channel, args[index]),
        };
        note(server, client, (reason, place), object, user.name(), args);
    })
}

/// Logs a denial.
fn note(server: &ServerState, client: &ClientInfo, why: (Reason, Place), object: &[u8], user: &[u8], args: &[&[u8]]) {
    let shown = client.line(server.local_addresses(), RequestBytes::of(args));
    server.acl.log.add(Denied::new(why, object, user, shown));
}

/// Makes the client the user of this name. `args` is the command that asks for it.
///
/// # Errors
/// `-WRONGPASS`, which is logged.
pub(crate) fn authenticate(
    server: &ServerState,
    client: &ClientInfo,
    (name, password): (&[u8], &[u8]),
    (args, is_queued): (&[&[u8]], bool),
) -> Result<()> {
    if server.acl.authenticate(client, name, password) {
        return Ok(());
    }
    let place = match is_queued {
        true => Place::Transaction,
        false => Place::TopLevel,
    };
    let command = args.first().copied().unwrap_or_default();
    note(server, client, (Reason::Auth, place), command, name, args);
    Err(CommandError::WrongPass)
}
