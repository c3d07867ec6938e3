//! The handler of the page that yields as it computes.

use std::hint::black_box;

use axum::Router;
use axum::routing::get;
use psp_pool::Pool;
use psp_pool::policy::Policy;
use psp_tower::{ByRoute, PspLayer};
use tokio::runtime::Handle;
use tower::ServiceExt;

include!("sum_of.rs");

#[tokio::test]
async fn the_page_has_this_handler_and_it_computes_in_a_pool() {
    assert!(include_str!("../../../../docs/tokio.md").contains(include_str!("sum_of.rs")));
    let routes = ByRoute::new();
    let pool = { Pool::builder().types(routes.types()) }
        .policy(Policy::mq().quantum_us(200))
        .tokio(Handle::current())
        .build()
        .unwrap();
    let service = Router::new()
        .route("/slow", get(async || sum_of(2_000_000)))
        .layer(PspLayer::new(pool, routes));
    let request = axum::extract::Request::get("/slow").body(axum::body::Body::empty());
    let response = service.oneshot(request.unwrap()).await.unwrap();
    let body = axum::body::to_bytes(response.into_body(), 64).await.unwrap();
    assert_eq!(body, "1999999000000\n");
}
