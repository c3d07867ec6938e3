//! The service of `service.rs` on 127.0.0.1:50051, or another address that is the first argument.

mod service;

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use psp_pool::Pool;
use psp_pool::policy::Policy;
use psp_tower::{ByGrpcMethod, PspLayer};
use tokio::runtime::Handle;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use service::Arithmetic;
use service::api::numbers_server::NumbersServer;

/// How long calls may take to end when the server is asked to.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> ExitCode {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:50051".to_owned());
    if ["-h", "--help"].contains(&&*address) {
        println!(
            "Usage: {} [ADDRESS]\n\nServes on ADDRESS, or else on 127.0.0.1:50051.",
            env!("CARGO_PKG_NAME")
        );
        return ExitCode::SUCCESS;
    }
    let served = serve(&address).await;
    served.map_or_else(
        |error| {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

/// Serves until SIGTERM or SIGINT.
async fn serve(address: &str) -> anyhow::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let listen = || anyhow::Ok(TcpIncoming::bind(address.parse()?)?);
    let incoming = listen().with_context(|| format!("cannot listen on {address}"))?;
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

    let (drain, drains) = oneshot::channel::<()>();
    let serving = Server::builder()
        .layer(layer)
        .add_service(NumbersServer::new(Arithmetic))
        .serve_with_incoming_shutdown(incoming, async {
            let _ = drains.await;
        });
    let mut serving = pin!(serving);
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        _ = terminated.recv() => {}
        _ = ctrl_c() => {}
    }
    // No new connections; others are told to make no more calls.
    drop(drain);
    let drained = timeout(DRAIN_TIME_MAX, &mut serving).await;
    // Requests that still wait in the pool are refused, and get a moment to tell their clients.
    pool.close(Duration::ZERO);
    if drained.is_err() {
        let _told = timeout(Duration::from_secs(1), serving).await;
    }
    Ok(())
}
