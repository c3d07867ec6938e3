//! The pages in their layer, and real clients: HTTP/1.1, HTTP/2, and bytes by hand.

mod arguments;
mod bodies;
mod ending;
mod pages;
mod pressure;
#[path = "../../src/service.rs"]
mod service;
mod yielding;

use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::time::Duration;

use axum::Router;
use psp_harness::{hold, until};
use psp_pool::{Pool, RequestType, Running, TypeSpec};
use psp_tower::{ByRoute, PspLayer, TypeSnapshot, decade};
use reqwest::Client;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server on a pool of one worker.
struct Fixture {
    pool: Pool,
    layer: PspLayer<ByRoute>,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Fixture {
    /// Every request goes to the pool.
    async fn start(pages: Router) -> Self {
        Self::start_with(pages, |layer| layer.inline_below(Duration::ZERO)).await
    }

    async fn start_with(pages: Router, change: impl FnOnce(PspLayer<ByRoute>) -> PspLayer<ByRoute>) -> Self {
        let routes = ByRoute::new().by("/rows", 8, |parts| decade(parts.number("n").unwrap_or(0)));
        let small = |spec: TypeSpec| spec.queue_capacity(16);
        let pool = Pool::builder().types(routes.types().into_iter().map(small));
        let pool = { pool }.workers(1).spare_threads(0).tokio(Handle::current());
        let pool = pool.build().unwrap();
        let layer = change(PspLayer::new(pool.clone(), routes));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let pages = pages.layer(layer.clone());
        let serving = axum::serve(listener, pages)
            .with_graceful_shutdown(async { drop(stopped.await) })
            .into_future();
        Self { pool, layer, address, stop, server: tokio::spawn(serving) }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What the layer has counted of requests with this name.
    fn of_type(&self, name: &str) -> TypeSnapshot {
        let types = self.layer.snapshot().types.into_iter();
        { types }.find(|it| it.name == name).unwrap()
    }

    /// How many wait in the pool.
    fn queued(&self) -> usize {
        self.pool.snapshot().types.iter().map(|it| it.queued).sum()
    }

    /// Holds the worker until the gate is dropped.
    fn hold(&self) -> (Sender<()>, Running<()>) {
        hold(&self.pool, RequestType::UNKNOWN)
    }

    /// Ends the server, which has answered everything.
    async fn end(self) {
        let _ = self.stop.send(());
        self.server.await.unwrap().unwrap();
        assert_eq!(self.pool.close(PATIENCE).abandoned, 0);
    }
}

/// One that speaks HTTP/1.1, and one that speaks HTTP/2.
fn clients() -> [(&'static str, Client); 2] {
    let builder = || Client::builder().timeout(PATIENCE);
    let first = { builder() }.http1_only().build().unwrap();
    let second = { builder() }.http2_prior_knowledge().build().unwrap();
    [("HTTP/1.1", first), ("HTTP/2.0", second)]
}
