//! Full queues, clients that leave, deadlines, panics, and a server that ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use psp_pool::policy::Policy;

use crate::{Fixture, clients, service};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_told_to_come_back_and_other_pages_are_served() {
    let fixture = Fixture::start(service::service()).await;
    let (gate, held) = fixture.hold();
    let get = |client: &reqwest::Client, path| tokio::spawn(client.get(fixture.url(path)).send());
    let [first, second] = clients().map(|(_, client)| client);
    let waiting: Vec<_> = (0..16).map(|_| get(&second, "/slow")).collect();
    crate::until("all wait", || fixture.queued() == 16).await;
    for client in [&first, &second] {
        let refused = get(client, "/slow").await.unwrap().unwrap();
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.headers()["retry-after"], "1");
    }
    let fast = get(&first, "/fast");
    crate::until("it waits", || fixture.queued() == 17).await;
    drop(gate);
    held.await.unwrap();
    assert_eq!(fast.await.unwrap().unwrap().status(), 200);
    for slow in waiting {
        assert_eq!(slow.await.unwrap().unwrap().status(), 200);
    }
    let slow = fixture.of_type("/slow");
    assert_eq!((slow.completed, slow.shed), (16, 2));
    drop((first, second));
    fixture.end().await;
}

/// A probe comes every ten seconds or so: what the layer would learn of it by measuring comes too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_health_check_needs_no_worker() {
    let pages = service::service().route("/healthz", get(async || "healthy"));
    let fixture = Fixture::start_with(pages, |layer| layer).await;
    let (gate, held) = fixture.hold();
    for (_, client) in clients() {
        let health = client.get(fixture.url("/healthz")).send().await.unwrap();
        assert_eq!(health.status(), 200);
    }
    let probes = fixture.of_type("probes");
    assert_eq!((probes.inline, probes.pooled), (2, 0));
    drop(gate);
    held.await.unwrap();
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_leave_take_their_requests_along() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counts = runs.clone();
    let page = get(async move || {
        counts.fetch_add(1, Ordering::SeqCst);
        "page"
    });
    let fixture = Fixture::start(Router::new().route("/page", page)).await;
    let (gate, held) = fixture.hold();
    for (_, client) in clients() {
        for _ in 0..20 {
            let asks = tokio::spawn(client.get(fixture.url("/page")).send());
            crate::until("it waits", || fixture.queued() == 1).await;
            asks.abort();
            crate::until("it is gone", || fixture.queued() == 0).await;
        }
    }
    drop(gate);
    held.await.unwrap();
    let page = fixture.of_type("/page");
    assert_eq!((page.cancelled, page.completed, page.shed), (40, 0, 0));
    fixture.end().await;
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_says_how_long_a_client_waits() {
    let wait = "wait-ms".parse().unwrap();
    let change = |layer: psp_tower::PspLayer<_>| layer.inline_below(Duration::ZERO).deadline_header(wait);
    let pages = service::service().route("/never", get(std::future::pending::<&str>));
    let fixture = Fixture::start_with(pages, change).await;
    let (gate, held) = fixture.hold();
    for (version, client) in clients() {
        let late = client.get(fixture.url("/fast")).header("wait-ms", "5");
        assert_eq!(late.send().await.unwrap().status(), 504, "{version}");
    }
    drop(gate);
    held.await.unwrap();
    for (version, client) in clients() {
        let in_time = client.get(fixture.url("/fast")).header("wait-ms", "30000");
        assert_eq!(in_time.send().await.unwrap().status(), 200, "{version}");
        let late = client.get(fixture.url("/never")).header("wait-ms", "5");
        assert_eq!(late.send().await.unwrap().status(), 504, "{version}");
    }
    let (fast, never) = (fixture.of_type("/fast"), fixture.of_type("/never"));
    assert_eq!((fast.expired, fast.completed, never.expired), (2, 2, 2));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_costs_its_connection_alone() {
    let fails = get(async || -> &'static str { panic!("the test asked for it") });
    let fixture = Fixture::start(service::service().route("/fails", fails)).await;
    let [(_, client), (_, other)] = clients();
    client.get(fixture.url("/fails")).send().await.unwrap_err();
    for client in [&client, &other] {
        let fast = client.get(fixture.url("/fast")).send().await.unwrap();
        assert_eq!(fast.status(), 200);
    }
    let failed = fixture.of_type("/fails");
    assert_eq!((failed.panicked, failed.cancelled), (1, 0));
    drop((client, other));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_policies_change_and_the_server_ends() {
    let fixture = Fixture::start(service::service()).await;
    let policies = [Policy::darc(), Policy::sjf(), Policy::edf(), Policy::c_fcfs()];
    let clients = clients();
    let mut asked = Vec::new();
    for request in 0..400 {
        let policy = &policies[request % policies.len()];
        fixture.pool.set_policy(policy).unwrap();
        let (_, client) = &clients[request % 2];
        let path = ["/fast", "/rows?n=100", "/rows?n=5", "/slow"][request % 4];
        asked.push(tokio::spawn(client.get(fixture.url(path)).send()));
    }
    let (gate, held) = fixture.hold();
    let (_, client) = &clients[0];
    let last = tokio::spawn(client.get(fixture.url("/fast")).send());
    let mut answers = [0_u64; 2];
    // The server ends under this load: it answers what it has begun to read.
    let pooled = || { fixture.layer.snapshot().types }.iter().map(|it| it.pooled).sum::<u64>();
    crate::until("all have arrived", || pooled() == 401).await;
    let Fixture { pool, layer, stop, server, .. } = fixture;
    stop.send(()).unwrap();
    drop(gate);
    held.await.unwrap();
    let all = asked.into_iter().chain([last]);
    for answer in all {
        let status = answer.await.unwrap().unwrap().status().as_u16();
        assert!(matches!(status, 200 | 503), "{status}");
        answers[usize::from(status == 503)] += 1;
    }
    drop(clients);
    server.await.unwrap().unwrap();
    assert_eq!(pool.close(crate::PATIENCE).abandoned, 0);
    let types = layer.snapshot().types;
    let completed: u64 = types.iter().map(|it| it.completed).sum();
    let shed: u64 = types.iter().map(|it| it.shed).sum();
    assert_eq!([completed, shed], answers);
}
