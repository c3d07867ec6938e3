//! The handler that the runtime calls: it turns frames into commands.

use std::sync::Arc;

use psp_protocols::Sink;
use psp_protocols::resp::{Args, CommandId, RespHead};
use psp_server::sync::oneshot::Receiver;
use psp_server::{Foreseen, Handler, Peer, Refusal, Reply, Request, ServerHandle, WorkerId};

use crate::acl::Access;
use crate::admission;
use crate::client::Client;
use crate::dispatch::{Outcome, dispatch};
use crate::foresight::Foresight;
use crate::pause::Paused;
use crate::pubsub::Outlet;
use crate::replies::{Wanted, wanted_later};
use crate::size_class::{self, OtherDatabases, Sources};
use crate::state::ServerState;
use crate::stats::WorkerStats;

const EXEC: CommandId = CommandId::of(b"exec");

/// What a command does with subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subscribing {
    Nothing,
    /// It subscribes, at once or in a transaction.
    Begins,
    /// It unsubscribes.
    Ends,
    /// It monitors all commands.
    Monitors,
}

static SUBSCRIBING: [Subscribing; CommandId::COUNT] = {
    let mut by_id = [Subscribing::Nothing; CommandId::COUNT];
    by_id[CommandId::of(b"psubscribe").index()] = Subscribing::Begins;
    by_id[CommandId::of(b"ssubscribe").index()] = Subscribing::Begins;
    by_id[CommandId::of(b"subscribe").index()] = Subscribing::Begins;
    by_id[CommandId::of(b"monitor").index()] = Subscribing::Monitors;
    by_id[CommandId::of(b"punsubscribe").index()] = Subscribing::Ends;
    by_id[CommandId::of(b"reset").index()] = Subscribing::Ends;
    by_id[CommandId::of(b"sunsubscribe").index()] = Subscribing::Ends;
    by_id[CommandId::of(b"unsubscribe").index()] = Subscribing::Ends;
    by_id
};

/// Runs Redis commands.
#[derive(Debug)]
pub struct RedisHandler {
    server: Arc<ServerState>,
    other_databases: OtherDatabases,
    foresight: Foresight,
}

/// The state of one worker.
#[derive(Debug)]
pub struct Worker {
    stats: Arc<WorkerStats>,
    /// Quoted arguments of inline commands, with quotes and escapes removed.
    unescaped: Vec<u8>,
}

impl RedisHandler {
    /// A handler for the keys and connections of `server`.
    #[must_use]
    pub fn new(server: Arc<ServerState>) -> Self {
        let other_databases = OtherDatabases::new(Sources::of(&server));
        Self { server, other_databases, foresight: Foresight::new() }
    }
}

impl Handler<RespHead> for RedisHandler {
    type Worker = Worker;
    type Connection = Client;

    fn init(&self, runtime: ServerHandle) {
        self.server.persistence.announce(&self.server.settings.config);
        if self.server.runtime.set(runtime).is_err() {
            tracing::warn!("a second server runs on the same keys: INFO shows the first one's state");
        }
    }

    fn init_worker(&self, _worker: WorkerId) -> Worker {
        Worker { stats: self.server.add_worker(), unescaped: Vec::new() }
    }

    fn accept(&self, peer: &Peer) -> Result<(), Refusal> {
        let server = &self.server;
        admission::admit(peer, &server.settings, || server.acl.has_nopass())
    }

    fn connect(&self, peer: Peer) -> Client {
        self.server.connect(peer)
    }

    fn is_authenticated(&self, client: &Client) -> bool {
        client.account.access() != Access::None
    }

    fn replies_wait_for(&self, client: &Client) -> Option<Receiver<()>> {
        self.server.fence(client)
    }

    fn foresee(&self, client: &Client, commands: Foreseen<'_, RespHead>) {
        self.foresight.fetch(&self.server, client, commands);
    }

    fn handle(&self, worker: &mut Worker, request: Request<'_, Client, RespHead>, reply: &mut Reply<'_>) {
        let client = request.connection;
        if !client.has_closer() && client.set_closer(|| request.closer()) {
            return reply.close();
        }
        let head = request.head;
        let subscribing = SUBSCRIBING[head.command().index()];
        let longer = match subscribing {
            Subscribing::Ends if head.arg_count() == 1 => size_class::of_unsubscribing(client.subscriber.total()),
            _ if head.command() == EXEC => self.other_databases.of_exec(client),
            _ => {
                let is_queued = client.transaction.queued().is_some();
                let database = (client.next_database(), is_queued);
                let (frame, found) = (request.payload, request.request_type);
                self.other_databases.longer(database, frame, head, found)
            }
        };
        if let Some(request_type) = longer
            && request_type > request.request_type
            && reply.reclassify(request_type)
        {
            return;
        }
        let pusher = || Some(Box::new(request.pusher()?) as Box<dyn Outlet>);
        match subscribing {
            Subscribing::Begins => client.subscriber.attach(pusher),
            Subscribing::Monitors => client.offer_outlet(pusher()),
            Subscribing::Nothing | Subscribing::Ends => {}
        }
        let args = Args::new(request.payload, head, &mut worker.unescaped);
        let stats = &worker.stats;
        let command = (head.command(), request.request_type, request.body);
        // What tells of subscriptions is sent whatever the client has said of replies.
        let outcome = if subscribing == Subscribing::Nothing && !client.wants_all_replies() {
            let mut wanted = Wanted::of(client.info(), reply);
            dispatch(&self.server, client, stats, command, &args, &mut wanted)
        } else if subscribing == Subscribing::Ends {
            let mut text = Vec::new();
            let outcome = dispatch(&self.server, client, stats, command, &args, &mut text);
            if client.transaction.queued().is_none() {
                client.subscriber.detach();
            }
            // No message of a channel comes after the end of its subscription.
            reply.put_pushed();
            reply.put(&text);
            outcome
        } else {
            dispatch(&self.server, client, stats, command, &args, reply)
        };
        let server = &*self.server;
        match outcome {
            Outcome::Keep => {}
            Outcome::Close => {
                server.clients.leave(client.info());
                reply.close();
            }
            Outcome::Wait(command) => {
                let later = wanted_later(client.info(), reply.defer());
                let blocked = &server.clients.blocked;
                blocked.wait(server, stats, client.info(), *command, later);
            }
            Outcome::Pause => server.paused.add(Paused {
                client: Arc::clone(client.info()),
                command: (head.command(), request.request_type),
                args: args.iter().map(|arg| Box::from(*arg)).collect(),
                reply: wanted_later(client.info(), reply.defer()),
            }),
        }
        client.end_of_request();
    }
}
