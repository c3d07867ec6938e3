//! The pages of `service.rs` on 127.0.0.1:8080, or another address that is the first argument.

mod service;

use std::time::Duration;

use axum::routing::get;
use psp_pool::Pool;
use psp_pool::policy::Policy;
use psp_tower::{ByRoute, PspLayer, decade};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:8080")).await?;
    println!("listening on {}", listener.local_addr()?);

    // A type for each route, and one for each decade of `n`.
    let routes = ByRoute::new().by("/rows", 8, |parts| decade(parts.number("n").unwrap_or(0)));
    let pool = Pool::builder()
        .types(routes.types())
        .policy(Policy::sjf())
        .tokio(Handle::current())
        .build()?;
    let layer = PspLayer::new(pool.clone(), routes);
    let seen = layer.clone();

    let service = service::service().layer(layer).route(
        "/psp",
        get(async move || format!("{:#?}\n", seen.snapshot())),
    );
    axum::serve(listener, service)
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    pool.close(Duration::from_secs(5));
    Ok(())
}
