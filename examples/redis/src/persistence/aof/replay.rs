//! Runs the commands of the log again, on the thread that loads. No client is served meanwhile.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use psp_protocols::resp::{CommandId, Encoder};
use psp_server::Body;
use psp_store::Now;

use super::log_reader::Command;
use crate::client::Client;
use crate::command::{CommandTable, Context, Flag};
use crate::parse;
use crate::state::ServerState;
use crate::stats::WorkerStats;

/// What was run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::persistence) struct Replayed {
    pub(in crate::persistence) commands: u64,
    /// Commands that failed: they had failed before, too.
    pub(in crate::persistence) failed: u64,
}

/// One after the other, commands of the log.
pub(super) struct Replay<'s> {
    server: &'s ServerState,
    client: Client,
    stats: Arc<WorkerStats>,
    database: usize,
    /// Commands behind MULTI.
    transaction: Option<Vec<Command>>,
    done: Replayed,
}

impl<'s> Replay<'s> {
    pub(super) fn new(server: &'s ServerState) -> Self {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            server,
            client: server.connect(peer.into()),
            stats: Arc::default(),
            database: 0,
            transaction: None,
            done: Replayed::default(),
        }
    }

    /// What has been run so far.
    pub(super) const fn done(&self) -> Replayed {
        self.done
    }

    /// Whether the last commands are part of a transaction whose end has not come.
    pub(super) const fn is_within_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// A part of the log begins.
    pub(super) const fn begin_part(&mut self) {
        self.database = 0;
    }

    /// Runs a command, or keeps it until EXEC.
    ///
    /// # Errors
    /// It is none that this server knows, or none of a log.
    pub(super) fn run(&mut self, command: Command) -> Result<(), String> {
        let is = |name| parse::is(&command[0], name);
        if is("MULTI") {
            self.transaction = Some(Vec::new());
            return Ok(());
        }
        if is("EXEC") {
            let commands = self.transaction.take().ok_or("EXEC without MULTI")?;
            return commands.iter().try_for_each(|command| self.run_one(command));
        }
        match &mut self.transaction {
            Some(commands) => {
                commands.push(command);
                Ok(())
            }
            None => self.run_one(&command),
        }
    }

    fn run_one(&mut self, command: &Command) -> Result<(), String> {
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let name = String::from_utf8_lossy(args[0]);
        let spec = CommandTable::get().find(CommandId::of(args[0]));
        let spec = spec.ok_or_else(|| format!("Unknown command '{name}' reading the append only file"))?;
        let flags = spec.facts_of(&args).flags;
        let is_of_log = flags.contains(Flag::Write) || matches!(spec.name, "select" | "function" | "publish" | "ping");
        if !is_of_log {
            return Err(format!("'{name}' is no command of a log"));
        }
        spec.check(&args).map_err(|error| error.to_string())?;
        let mut context = Context {
            body: Body::default(),
            may_block: false,
            // Streams tell the time. No key expires.
            now: Now::default(),
            ..Context::new(self.server, &self.client, &self.stats)
        };
        context.select(self.database);
        let mut reply = Vec::new();
        let result = (spec.run)(&mut context, &args, &mut Encoder::new(&mut reply, self.client.version()));
        self.database = context.database;
        self.done.commands += 1;
        if let Err(error) = result {
            if spec.name == "select" {
                return Err(format!("the log has a database that is not there: {error}"));
            }
            tracing::debug!("a command of the log fails: {name}: {error}");
            self.done.failed += 1;
        }
        Ok(())
    }
}
