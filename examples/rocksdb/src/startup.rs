//! Builds a server that is ready to run from a configuration.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use psp_classifiers::RpcClassifier;
use psp_protocols::kv;
use psp_protocols::rpc::Rpc;
use psp_rpc_service::RpcHandler;
use psp_server::{Server, Settings, TypeSpec};

use crate::config::Config;
use crate::engine::Engine;
use crate::preload::preload;
use crate::service::KeyValue;

/// Estimated service time of a lookup, which policies use until they have measured it.
const GET_SERVICE_TIME: Duration = Duration::from_micros(3);
/// Estimated service time of a scan of some thousand entries.
const SCAN_SERVICE_TIME: Duration = Duration::from_millis(1);
/// Estimated service time of a write. Time for which it waits for the medium is none.
const WRITE_SERVICE_TIME: Duration = Duration::from_micros(6);

/// A key-value server, bound to its addresses.
pub struct KeyValueServer {
    /// The server. The caller runs it.
    pub server: Server<Rpc, RpcClassifier, RpcHandler<KeyValue>>,
    /// Its entries, to be [closed](crate::closing::close) after the server has run.
    pub engine: Arc<dyn Engine>,
}

/// Opens the store, fills it, binds the addresses and sets everything up.
///
/// # Errors
/// The store cannot be opened, a setting is out of range, or an address is not available.
pub fn build(config: Config) -> anyhow::Result<KeyValueServer> {
    let engine = config.storage()?.open().context("cannot open the store")?;
    preload(&*engine, config.preload, config.preload_value_len).context("cannot preload")?;
    serve(engine, config)
}

/// Binds the addresses and sets everything up, on a store that is open.
///
/// # Errors
/// A setting is out of range, or an address is not available.
pub fn serve(engine: Arc<dyn Engine>, config: Config) -> anyhow::Result<KeyValueServer> {
    let builder = Server::builder()
        .framing(config.limits.framing())
        .classifier(classifier())
        .settings(Settings::default().policy(config.policy).server(config.server).types(config.types))
        .handler(RpcHandler(KeyValue::new(engine.clone(), config.limits)));
    let mut builder = config.sockets.listen(builder, &config.bind, config.port);
    if config.udp {
        builder = config.transport.listen(builder, &config.bind, config.port);
    }
    Ok(KeyValueServer { server: builder.build()?, engine })
}

/// The classifier: each method is a request type of the same name.
fn classifier() -> RpcClassifier {
    [
        (kv::GET, GET_SERVICE_TIME),
        (kv::SCAN, SCAN_SERVICE_TIME),
        (kv::PUT, WRITE_SERVICE_TIME),
        (kv::DELETE, WRITE_SERVICE_TIME),
    ]
    .into_iter()
    .fold(RpcClassifier::new(), |classifier, (method, time)| {
        classifier.group(TypeSpec::new(method).service_time(time), [method])
    })
}
