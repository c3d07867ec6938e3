//! What clients get, and where it was computed.

use std::time::Duration;

use psp_tower::Place;

use crate::{Fixture, PATIENCE, clients, service};

const PAGE: &str = include_str!("../../../../docs/tokio.md");
const SERVICE: &str = include_str!("../../src/service.rs");
const MAIN: &str = include_str!("../../src/main.rs");

#[test]
fn the_page_has_this_program() {
    for file in [SERVICE, MAIN] {
        assert!(PAGE.contains(&format!("```rust\n{file}```")), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_versions_of_http_get_every_page() {
    let fixture = Fixture::start(service::service()).await;
    for (version, client) in clients() {
        let pages = [
            ("/fast", 200, "fast\n"),
            ("/slow", 200, "1999999000000\n"),
            ("/rows?n=5", 200, "10\n"),
            ("/rows?n=101", 200, "5050\n"),
            ("/nothing", 404, ""),
        ];
        for (path, status, body) in pages {
            let response = client.get(fixture.url(path)).send().await.unwrap();
            assert_eq!(format!("{:?}", response.version()), version);
            assert_eq!(response.status(), status, "{path}");
            assert_eq!(response.text().await.unwrap(), body, "{path}");
        }
        let wrong = client.get(fixture.url("/rows?n=x")).send().await.unwrap();
        assert_eq!(wrong.status(), 400);
    }
    let completed = |name: &str| fixture.of_type(name).completed;
    // `n=x` counts as 0.
    let rows = [0, 1, 2].map(|class| completed(&format!("/rows class {class}")));
    assert_eq!(rows, [4, 0, 2]);
    assert_eq!([completed("/fast"), completed("/slow")], [2, 2]);
    assert_eq!(fixture.of_type("/slow").pooled, 2);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_page_moves_out_of_the_pool() {
    // Whatever the machine does meanwhile.
    let patient = |it: psp_tower::PspLayer<_>| it.inline_below(PATIENCE).long_poll(PATIENCE);
    let fixture = Fixture::start_with(service::service(), patient).await;
    let [(_, client), _] = clients();
    for _ in 0..20 {
        let page = client.get(fixture.url("/fast")).send().await.unwrap();
        assert_eq!(page.text().await.unwrap(), "fast\n");
    }
    let fast = fixture.of_type("/fast");
    assert_eq!((fast.place, fast.pooled, fast.inline), (Place::Inline, 16, 4));
    assert!(fast.service_ns_mean < Duration::from_secs(1).as_nanos() as u64);
    fixture.end().await;
}
