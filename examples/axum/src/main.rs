//! The pages of `service.rs` on 127.0.0.1:8080, or another address that is the first argument.

mod service;

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use axum::routing::get;
use psp_pool::Pool;
use psp_pool::policy::Policy;
use psp_tower::{ByRoute, PspLayer, decade};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long requests may take to end when the server is asked to.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> ExitCode {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    if ["-h", "--help"].contains(&&*address) {
        println!(
            "Usage: {} [ADDRESS]\n\nServes on ADDRESS, or else on 127.0.0.1:8080.",
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
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    println!("listening on {}", listener.local_addr()?);

    // A type for each route, and one for each decade of `n`.
    let routes = ByRoute::new().by("/rows", 8, |parts| decade(parts.number("n").unwrap_or(0)));
    let pool = Pool::builder()
        .types(routes.types())
        .policy(Policy::drr())
        .tokio(Handle::current())
        .build()?;
    let layer = PspLayer::new(pool.clone(), routes);
    let seen = layer.clone();

    let service = service::service()
        .layer(layer)
        .route("/psp", get(async move || format!("{:#?}\n", seen.snapshot())));
    let (drain, drains) = oneshot::channel::<()>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(async {
        let _ = drains.await;
    });
    let mut serving = pin!(serving.into_future());
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        _ = terminated.recv() => {}
        _ = ctrl_c() => {}
    }
    // No new connections; others are closed behind the reply that they wait for.
    drop(drain);
    let drained = timeout(DRAIN_TIME_MAX, &mut serving).await;
    // Requests that still wait in the pool are refused, and get a moment to tell their clients.
    pool.close(Duration::ZERO);
    if drained.is_err() {
        let _told = timeout(Duration::from_secs(1), serving).await;
    }
    Ok(())
}
