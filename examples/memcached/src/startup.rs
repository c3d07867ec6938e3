//! Builds a server that is ready to run from a configuration.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::Mutex;
use psp_classifiers::MemcachedClassifier;
use psp_program::{PidFile, Tls};
use psp_protocols::memcached::MemcachedFraming;
use psp_server::{Server, Settings, TypeSpec};

use crate::auth::Passwords;
use crate::cache::Reaper;
use crate::config::Config;
use crate::connections::{Address, Listening};
use crate::extended::AUTH_CLIENTS;
use crate::handler::MemcachedHandler;
use crate::state::ServerState;

/// Fewest keys of a request of the type `bulk`. Smaller multigets need not wait for such requests.
const BULK_KEYS_MIN: usize = 257;
/// The estimated service time of such a request.
const BULK_SERVICE_TIME: Duration = Duration::from_micros(500);

/// A server with an empty cache, bound to its addresses.
pub struct MemcachedServer {
    /// The server. The caller runs it.
    pub server: Server<MemcachedFraming, MemcachedClassifier, MemcachedHandler>,
    /// The server's items and counters.
    pub state: Arc<ServerState>,
    /// Removes expired items until it is dropped.
    pub reaper: Reaper,
    /// The file with the process id, if there is one.
    pub pid_file: Option<PidFile>,
}

/// Binds the addresses and sets everything up.
///
/// # Errors
/// A setting is out of range, an address is not available, or a thread cannot be started.
pub fn build(config: Config) -> anyhow::Result<MemcachedServer> {
    for name in &config.without_effect {
        tracing::warn!("{name} has no effect: it is a flag of memcached");
    }
    let tls = config.tls.as_ref();
    let tls = tls.map(|files| Tls::load(files, AUTH_CLIENTS));
    let passwords = config.auth_file.as_deref().map(Passwords::load);
    let state = Arc::new(ServerState {
        passwords: passwords.transpose()?.map(Mutex::new),
        tls: tls.transpose()?,
        ..ServerState::new(config.clone())
    });
    let reaper = Reaper::start(Arc::clone(&state.cache)).context("cannot start the reaper's thread")?;
    let bulk = TypeSpec::new("bulk").service_time(BULK_SERVICE_TIME);
    let serves_network = config.serves_network();
    let unix_mode = { config.sockets.unix.as_ref() }.map(|_| config.unix_mode().0);
    let builder = Server::builder()
        .framing(config.framing())
        .classifier(MemcachedClassifier::new().gets(BULK_KEYS_MIN, bulk))
        .settings(Settings::default().policy(config.policy).server(config.server).types(config.types))
        .handler(MemcachedHandler::new(Arc::clone(&state)));
    let builder = match unix_mode {
        Some(mode) => builder.unix_mode(mode),
        None => builder,
    };
    let mut builder = config.sockets.listen(builder, &[], config.port);
    let serves_tcp = serves_network && !config.sockets.listen_fds;
    for address in config.listen.iter().filter(|_| serves_tcp) {
        let port = address.port.unwrap_or(config.port);
        builder = match &state.tls {
            Some(tls) if !address.is_plain => tls.listen(builder, &[address.ip], port),
            _ => builder.tcp((address.ip, port)),
        };
    }
    let mut datagram_sockets = 0;
    if config.udp_port != 0 && serves_network {
        let mut addresses: Vec<IpAddr> = config.listen.iter().map(|it| it.ip).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let transport = &config.transport;
        datagram_sockets = match transport.is_polled() {
            true => 1,
            false => addresses.len(),
        };
        builder = transport.listen(builder, &addresses, config.udp_port);
    }
    let server = builder.build()?;
    let listening = listening(server.local_addrs(), datagram_sockets, server.unix_paths());
    state.sockets.listen(listening, state.cache.now_s());
    let pid_file = config.pid_file.as_deref().map(PidFile::write).transpose()?;
    Ok(MemcachedServer { server, pid_file, state, reaper })
}

/// Where a server listens. Of its addresses the last are those of datagrams.
fn listening(addresses: &[SocketAddr], datagram_sockets: usize, paths: &[PathBuf]) -> Listening {
    let streams = addresses.len().saturating_sub(datagram_sockets);
    let (streams, datagrams) = addresses.split_at(streams);
    let paths = paths.iter().cloned().map(Address::Unix);
    let streams = streams.iter().copied().map(Address::Ip);
    Listening {
        connections: streams.chain(paths).collect(),
        datagrams: datagrams.to_vec(),
    }
}

/// Asks new connections for the passwords that the file has by now.
pub fn reload_passwords(state: &ServerState, config: &Config) {
    let (Some(passwords), Some(file)) = (&state.passwords, &config.auth_file) else {
        return;
    };
    match Passwords::load(file) {
        Ok(loaded) => *passwords.lock() = loaded,
        Err(error) => tracing::error!("the passwords stay as they are: {error:#}"),
    }
}

/// Serves TLS connections from now on with what the certificates' files have by now.
pub fn reload_certificates(state: &ServerState, started: &mut Config, config: &Config) {
    if let (Some(tls), Some(started), Some(files)) = (&state.tls, &mut started.tls, &config.tls) {
        // A client may ask for the files to be read again meanwhile.
        let mut in_use = state.tls_files.lock();
        tls.take_over(started, files, AUTH_CLIENTS);
        *in_use = Some(started.clone());
    }
}
