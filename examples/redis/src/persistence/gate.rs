//! What commands may not do while the data set is read, or cannot be saved.

use crate::client::ClientInfo;
use crate::command::{CommandSpec, Flag};
use crate::error::CommandError;
use crate::parse::Result;
use crate::state::ServerState;

/// What commands may not do for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Gate {
    /// All are served.
    Open,
    /// Writes are not: the last save has failed.
    Misconfigured,
    /// Writes are not: the append-only file cannot take them.
    Unlogged,
    /// Only those that need no keys are: the data set is being read.
    Loading,
}

/// The error for commands while the data set is read.
pub(super) const LOADING: CommandError = CommandError::line("LOADING Redis is loading the dataset in memory");
/// The error for writes after a save has failed.
pub(super) const MISCONFIGURED: CommandError = CommandError::line(
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may \
     modify the data set are disabled, because this instance is configured to report errors during writes if RDB \
     snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
     error.",
);

impl Gate {
    pub(super) const fn of(byte: u8) -> Self {
        match byte {
            0 => Self::Open,
            1 => Self::Misconfigured,
            2 => Self::Unlogged,
            _ => Self::Loading,
        }
    }

    /// The error for writes.
    pub(crate) fn refusal(self, server: &ServerState) -> CommandError {
        match self {
            Self::Unlogged => {
                let why = server.persistence.log.failure();
                CommandError::Other(format!("MISCONF Errors writing to the AOF file: {why}").into())
            }
            _ => MISCONFIGURED,
        }
    }

    /// Whether writes are refused for now, though others are served.
    pub(crate) const fn refuses_writes(self) -> bool {
        matches!(self, Self::Misconfigured | Self::Unlogged)
    }

    /// Whether the command may run.
    ///
    /// # Errors
    /// It may not.
    #[cold]
    pub(crate) fn check(
        self,
        server: &ServerState,
        spec: &CommandSpec,
        client: &ClientInfo,
        args: &[&[u8]],
    ) -> Result<()> {
        let has = |flag| spec.facts_of(args).flags.contains(flag);
        match self {
            Self::Loading if !has(Flag::Loading) => Err(LOADING),
            Self::Misconfigured | Self::Unlogged
                if has(Flag::Write)
                    || spec.name == "ping"
                    || (spec.name == "exec" && client.transaction.is_held_by_pause()) =>
            {
                Err(self.refusal(server))
            }
            Self::Open | Self::Misconfigured | Self::Unlogged | Self::Loading => Ok(()),
        }
    }
}
