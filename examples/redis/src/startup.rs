//! Builds a server that is ready to run from a configuration.

use std::sync::Arc;

use anyhow::Context as _;
use psp_classifiers::resp::RespClassifier;
use psp_program::{PidFile, Tls};
use psp_protocols::resp::Resp;
use psp_server::Server;
use psp_store::{ExpiryCycle, Periodic};

use crate::commands::set_at_start;
use crate::config::Config;
use crate::eviction;
use crate::handler::RedisHandler;
use crate::pause::PauseThread;
use crate::persistence::Saver;
use crate::scripts::control::STACK_BYTES_MIN;
use crate::settings::Settings;
use crate::size_class::{self, Sources};
use crate::state::ServerState;
use crate::tls::AUTH_CLIENTS;

/// A server that is bound to its addresses, and reads the data set that it begins with, if there is one.
pub struct RedisServer {
    /// The server. The caller runs it.
    pub server: Server<Resp, RespClassifier, RedisHandler>,
    /// What its TLS port has, if there is one.
    pub tls: Option<Tls>,
    /// The server's keys and connections.
    pub state: Arc<ServerState>,
    /// Removes expired keys until it is dropped.
    pub expiry: ExpiryCycle,
    /// Evicts keys until it is dropped.
    pub eviction: Periodic,
    /// Runs what CLIENT PAUSE held until it is dropped.
    pub pause: PauseThread,
    /// The file with the process's number, until it is dropped.
    pub pid_file: Option<PidFile>,
    /// Saves and loads. The caller ends it when the server has ended.
    pub saver: Saver,
}

/// Binds the addresses and sets everything up.
///
/// # Errors
/// A setting is out of range, an address is not available, or a thread cannot be started.
pub fn build(mut config: Config) -> anyhow::Result<RedisServer> {
    // A script may nest calls deeper than a request's usual stack.
    let stack_bytes = &mut config.server.stack_bytes;
    *stack_bytes = STACK_BYTES_MIN.max(*stack_bytes);
    let state = Arc::new(ServerState::new(Settings::new(config.clone())));
    set_at_start(&state)?;
    { state.acl.configure(&state.clients, &config) }
        .map_err(anyhow::Error::msg)
        .context("cannot set up the users")?;
    let pid_file = config.pidfile.as_deref().map(PidFile::write).transpose();
    let pid_file = pid_file.unwrap_or_else(|error| {
        // Redis serves all the same, and its own file names a folder that not everybody may write to.
        tracing::warn!("{error:#}");
        None
    });
    let expiry = ExpiryCycle::start(Arc::clone(&state.databases)).context("cannot start the expiry thread")?;
    let eviction = eviction::start(Arc::clone(&state)).context("cannot start the eviction thread")?;
    let pause = PauseThread::start(Arc::clone(&state)).context("cannot start the pause thread")?;
    let saver = Saver::start(Arc::clone(&state)).context("cannot start the saver's thread")?;
    let first = state.persistence.first(&config)?;
    let builder = Server::builder()
        .settings(
            psp_server::Settings::default()
                .policy(config.policy)
                .server(config.server)
                .types(config.types),
        )
        .framing(config.limits.framing())
        .classifier(size_class::classifier(&Sources::of(&state)))
        .handler(RedisHandler::new(Arc::clone(&state)));
    let plain = match (config.port, config.tls_port) {
        (0, Some(_)) => &[],
        _ => &config.bind[..],
    };
    let mut builder = config.sockets.listen(builder, plain, config.port);
    let mut tls = None;
    if let Some(port) = config.tls_port {
        let tls = tls.insert(Tls::load(&config.tls, AUTH_CLIENTS)?);
        builder = tls.listen(builder, &config.bind, port);
    }
    let server = builder.build()?;
    let addresses = state.listening(server.local_addrs().iter().copied());
    let _first = state.local_addresses.set(addresses);
    let handle = server.handle();
    state.persistence.load_first(&state, first, move || handle.shut_down());
    Ok(RedisServer { server, tls, state, expiry, eviction, pause, pid_file, saver })
}

/// Serves TLS connections from now on with what the certificates' files have by now.
pub fn reload_certificates(tls: &Tls, started: &mut Config, config: &Config) {
    tls.take_over(&mut started.tls, &config.tls, AUTH_CLIENTS);
}
