//! The service of `service.rs` on 127.0.0.1:50051, or another address that is the first argument.

mod service;

use std::time::Duration;

use psp_pool::Pool;
use psp_pool::policy::Policy;
use psp_tower::{ByGrpcMethod, PspLayer};
use tokio::runtime::Handle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use service::Arithmetic;
use service::api::numbers_server::NumbersServer;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:50051").parse()?;
    let incoming = TcpIncoming::bind(address)?;
    println!("listening on {}", incoming.local_addr()?);

    // A type for each method.
    let methods = ["Double", "SumBelow", "Sums"].map(|it| format!("/psp.numbers.v1.Numbers/{it}"));
    let methods = ByGrpcMethod::new(methods);
    let pool = Pool::builder()
        .types(methods.types())
        .policy(Policy::sjf())
        .tokio(Handle::current())
        .build()?;
    let layer = PspLayer::new(pool.clone(), methods);

    Server::builder()
        .layer(layer)
        .add_service(NumbersServer::new(Arithmetic))
        .serve_with_incoming_shutdown(incoming, async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    pool.close(Duration::from_secs(5));
    Ok(())
}
