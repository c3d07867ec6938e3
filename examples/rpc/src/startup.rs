//! Builds a server from a configuration.

use anyhow::Context as _;
use psp_protocols::rpc::Rpc;
use psp_rpc_service::RpcHandler;
use psp_server::{Server, Settings};

use crate::classify::{PspRpcClassifier, classifier};
use crate::config::Config;
use crate::service::RpcService;
use crate::upstreams::Upstreams;

/// A server with psp-rpc's methods.
pub type RpcServer = Server<Rpc, PspRpcClassifier, RpcHandler<RpcService>>;

/// Binds the addresses and sets everything up.
///
/// # Errors
/// When a setting is out of its range, an address cannot be bound, or no thread can be started for the upstreams.
pub fn build(config: Config) -> anyhow::Result<RpcServer> {
    let upstreams =
        Upstreams::new(&config.upstreams, config.message_len_max).context("no runtime for the upstreams")?;
    let runtime = upstreams.runtime().cloned();
    let mut builder = Server::builder()
        .framing(Rpc::default().message_len_max(config.message_len_max))
        .classifier(classifier())
        .settings(Settings::default().policy(config.policy).server(config.server).types(config.types))
        .handler(RpcHandler(RpcService { upstreams }));
    if let Some(runtime) = runtime {
        builder = builder.tokio(runtime);
    }
    builder = config.sockets.listen(builder, &config.bind, config.port);
    if config.udp {
        let transport = &config.transport;
        builder = transport.listen(builder, &config.bind, config.port);
    }
    Ok(builder.build()?)
}
