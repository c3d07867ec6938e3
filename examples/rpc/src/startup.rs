//! Builds a server from a configuration.

use psp_protocols::rpc::Rpc;
use psp_rpc_service::RpcHandler;
use psp_server::{BuildError, Server};

use crate::classify::{PspRpcClassifier, classifier};
use crate::config::Config;
use crate::service::RpcService;

/// A server with psp-rpc's methods.
pub type RpcServer = Server<Rpc, PspRpcClassifier, RpcHandler<RpcService>>;

/// Binds the addresses and sets everything up.
///
/// # Errors
/// When a setting is out of its range, or an address cannot be bound.
pub fn build(config: Config) -> Result<RpcServer, BuildError> {
    let builder = Server::builder()
        .framing(Rpc::default().message_len_max(config.message_len_max))
        .classifier(classifier())
        .policy(config.policy)
        .config(config.server)
        .handler(RpcHandler(RpcService));
    let mut builder = config.sockets.listen(builder, &config.bind, config.port);
    if config.udp {
        let transport = &config.transport;
        builder = transport.listen(builder, &config.bind, config.port);
    }
    builder.build()
}
