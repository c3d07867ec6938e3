//! From a configuration to a server that is ready to run.

use psp_program::rpc::RpcHandler;
use psp_protocols::rpc::Rpc;
use psp_server::{BuildError, Server};

use crate::classify::{PspRpcClassifier, classifier};
use crate::config::Config;
use crate::service::RpcService;

/// A server of psp-rpc's methods.
pub type RpcServer = Server<Rpc, PspRpcClassifier, RpcHandler<RpcService>>;

/// Binds the addresses and sets everything up.
///
/// # Errors
/// A setting out of its range, or an address that cannot be had.
pub fn build(config: Config) -> Result<RpcServer, BuildError> {
    let mut builder = Server::builder()
        .framing(Rpc {
            message_len_max: config.message_len_max,
        })
        .classifier(classifier())
        .policy(config.policy)
        .config(config.server)
        .handler(RpcHandler(RpcService::default()));
    for &address in &config.bind {
        builder = builder.tcp((address, config.port));
    }
    if config.udp {
        let transport = &config.transport;
        builder = transport.listen(builder, &config.bind, config.port);
    }
    builder.build()
}
