//! The admin port, end to end over TCP.

#[path = "../common/mod.rs"]
mod common;
mod slow;
mod slow_clients;
mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Client, Lines, PATIENCE, TestServer, handler, lines, start_tcp, until};
use metrics_exporter_prometheus::PrometheusBuilder;
use psp_server::protocols::Sink;
use psp_server::{BuildError, Config, Policy, Reply, Request, Server, Topology};
use serde_json::Value;

fn server() -> TestServer {
    let config = Config::default().workers(2).admin("0");
    start_tcp(Policy::darc(), Topology::Dedicated, config)
}

fn admin(server: &TestServer) -> SocketAddr {
    server.handle.admin_addr().unwrap()
}

/// Sends `request`, and returns the status and the body of the answer.
fn exchange(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.parse().unwrap(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    exchange(address, &request)
}

fn put(address: SocketAddr, path: &str, body: &str) -> (u16, String) {
    let len = body.len();
    let request =
        format!("PUT {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}");
    exchange(address, &request)
}

#[test]
fn a_server_is_ready_until_it_drains_and_lives_until_it_has_drained() {
    let server = server();
    let port = admin(&server);
    assert_eq!(get(port, "/livez"), (200, "alive\n".into()));
    assert_eq!(get(port, "/readyz"), (200, "ready\n".into()));
    let mut client = server.connect();
    client.send("wait 1\n");
    until("the request runs", || server.gate.waiting.load(std::sync::atomic::Ordering::SeqCst) == 1);
    server.handle.shut_down();
    assert_eq!(get(port, "/readyz"), (503, "draining\n".into()));
    assert_eq!(get(port, "/livez").0, 200);
    server.gate.open();
    assert_eq!(client.line(), "ok wait 1");
    assert_eq!(server.stop().abandoned, 0);
    until("the port is closed", || TcpStream::connect(port).is_err());
}

/// A request holds the net thread, and reaches no checkpoint.
#[test]
fn a_net_thread_that_stands_still_is_seen_until_it_turns_again() {
    for topology in [Topology::Inline, Topology::Distributed] {
        let config = Config::default().workers(1).admin("0");
        let server = start_tcp(Policy::d_fcfs(), topology, config);
        let port = admin(&server);
        let mut client = server.connect();
        assert_eq!(client.ask("short"), "ok short");
        assert_eq!(get(port, "/livez"), (200, "alive\n".into()));
        client.send("wait here\n");
        until("the net thread stands still", || get(port, "/livez").0 == 503);
        let (_, text) = get(port, "/livez");
        let begins = "a net thread has stood still for ";
        let ends = " ms: worker 0 in a request of type long\n";
        assert!(text.starts_with(begins) && text.ends_with(ends), "{text}");
        let figure = |name: &str| {
            let (_, text) = get(port, "/metrics");
            let samples = samples(&text);
            let is_it = |(named, _): &(&&str, &f64)| named.starts_with(name);
            let (_, figure) = samples.iter().find(is_it).unwrap();
            *figure
        };
        assert_eq!(figure("psp_net_threads_stalled"), 1.0);
        server.gate.open();
        assert_eq!(client.line(), "ok wait here");
        until("it turns again", || get(port, "/livez").0 == 200);
        assert_eq!(figure("psp_net_threads_stalled"), 0.0);
        assert_eq!(figure("psp_net_stalls_total"), 1.0);
        assert!(figure("psp_net_stalled_seconds_total") > 0.0);
    }
}

/// The samples of an exposition: names with labels, and values.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').unwrap());
    pairs.map(|(name, value)| (name, value.parse().unwrap())).collect()
}

#[test]
fn prometheus_gets_all_figures_with_their_meaning() {
    let server = server();
    let mut client = server.connect();
    for number in 0..100 {
        assert_eq!(client.ask(&format!("{number}")), format!("ok {number}"));
    }
    let (status, text) = get(admin(&server), "/metrics");
    assert_eq!(status, 200);
    let samples = samples(&text);
    let families: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "))
        .map(|line| line.split_once(' ').unwrap().0)
        .collect();
    for name in samples.keys() {
        assert!(name.contains("server=\"admin-"), "{name}");
        let family = name.split('{').next().unwrap();
        let parts = ["_bucket", "_sum", "_count"];
        let of_histogram = parts.iter().find_map(|part| family.strip_suffix(part));
        let is_described = [Some(family), of_histogram].into_iter().flatten().any(|family| families.contains(family));
        assert!(is_described, "{name}");
    }
    let sum = |family: &str, label: &str| -> f64 {
        let of_family = samples.iter().filter(|(name, _)| {
            name.strip_prefix(family).is_some_and(|rest| rest.starts_with('{')) && name.contains(label)
        });
        of_family.map(|(_, value)| value).sum()
    };
    let short = "type=\"short\"";
    assert_eq!(sum("psp_completions_total", short), 100.0);
    for histogram in ["psp_wait_seconds", "psp_service_seconds", "psp_sojourn_seconds"] {
        assert_eq!(sum(&format!("{histogram}_count"), short), 100.0);
        let buckets = samples
            .iter()
            .filter(|(name, _)| name.starts_with(&format!("{histogram}_bucket")) && name.contains(short));
        let last = buckets.map(|(_, count)| *count).fold(0.0, f64::max);
        assert_eq!(last, 100.0, "{histogram}");
    }
    let total = |histogram: &str| sum(&format!("{histogram}_sum"), short);
    assert!(total("psp_sojourn_seconds") >= total("psp_service_seconds"));
    for absent in ["psp_frames", "psp_arbiter", "psp_datagrams", "psp_handshakes", "psp_workers_came"] {
        assert!(!text.contains(absent), "{absent}");
    }
}

#[test]
fn the_status_is_the_snapshot() {
    let server = server();
    assert_eq!(server.connect().ask("one"), "ok one");
    let (status, text) = get(admin(&server), "/status");
    assert_eq!(status, 200);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["ready"], true);
    assert_eq!(report["topology"], "dedicated");
    assert!(report["policy"].as_str().unwrap().starts_with("darc "));
    let short = &report["types"][0];
    assert_eq!((&short["name"], &short["completions"]), (&"short".into(), &1.into()));
    let (p50, max) = (&short["service"]["p50_ns"], &short["service_ns_max"]);
    assert!(p50.as_u64().unwrap() >= max.as_u64().unwrap() * 7 / 8);
    assert_eq!(short["service"]["buckets"].as_array().unwrap().len(), 1);
    assert_eq!(report["workers"].as_array().unwrap().len(), 2);
}

#[test]
fn the_policy_is_read_and_changed() {
    let server = server();
    let port = admin(&server);
    assert_eq!(put(port, "/policy", "c-fcfs"), (200, "c-fcfs\n".into()));
    assert_eq!(server.handle.policy(), Policy::c_fcfs());
    assert_eq!(get(port, "/policy"), (200, "c-fcfs\n".into()));
    let (status, error) = put(port, "/policy", "no-such");
    assert_eq!(status, 400);
    assert!(error.contains("no-such"), "{error}");
    assert_eq!(put(port, "/policy", &"x".repeat(5000)).0, 413);
    let changed = put(port, "/policy", "darc delta=3.0\n");
    assert!(changed.1.contains("delta=3"), "{changed:?}");
}

#[test]
fn a_policy_of_the_programs_own_is_changed_to_by_its_name() {
    let own = Policy::custom("own", |setup| Policy::c_fcfs().scheduler(setup));
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .framing(Lines)
        .config(Config::default().admin("0"))
        .policies([own.clone()])
        .handler(handler(|_, _| {}))
        .build()
        .unwrap()
        .spawn()
        .unwrap();
    let port = server.handle().admin_addr().unwrap();
    assert_eq!(put(port, "/policy", "own\n"), (200, "own\n".into()));
    assert_eq!(server.handle().policy(), own);
    assert_eq!(put(port, "/policy", "own quantum-us=3").0, 400, "it has no settings");
    assert_eq!(put(port, "/policy", "darc").0, 200);
}

/// A figure of a handler's own, by way of the recorder of the process.
#[test]
fn figures_of_the_programs_own_are_served_behind_the_servers() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let (prometheus, recorder) = (recorder.handle(), Arc::new(recorder));
    let panics = Arc::new(AtomicBool::new(false));
    let panicking = panics.clone();
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .framing(Lines)
        .config(Config::default().admin("0"))
        .metrics(move || match panicking.load(Ordering::SeqCst) {
            false => prometheus.render(),
            true => panic!("of the program's function"),
        })
        .handler(handler(move |_, reply| {
            metrics::with_local_recorder(&*recorder, || metrics::counter!("lines_total", "of" => "mine").increment(1));
            reply.put(b"ok\n");
        }))
        .build()
        .unwrap()
        .spawn()
        .unwrap();
    let mut client = Client::new(TcpStream::connect(server.local_addrs()[0]).unwrap());
    assert_eq!([client.ask("one"), client.ask("two")], ["ok", "ok"]);
    let port = server.handle().admin_addr().unwrap();
    let completions = |samples: &BTreeMap<&str, f64>| {
        let of_server = samples.iter().filter(|(name, _)| name.starts_with("psp_completions_total"));
        of_server.map(|(_, figure)| figure).sum::<f64>()
    };
    let (status, text) = get(port, "/metrics");
    let both = samples(&text);
    assert_eq!((status, both["lines_total{of=\"mine\"}"], completions(&both)), (200, 2.0, 2.0));
    panics.store(true, Ordering::SeqCst);
    let (status, text) = get(port, "/metrics");
    let one = samples(&text);
    assert_eq!(
        (status, one.len(), completions(&one)),
        (200, both.len() - 1, 2.0),
        "the others are served"
    );
}

#[test]
fn a_policy_that_the_server_cannot_run_is_refused() {
    let config = Config::default().workers(2).admin("0");
    let server = start_tcp(Policy::darc(), Topology::Inline, config);
    let port = admin(&server);
    let (status, error) = put(port, "/policy", "sq");
    assert_eq!(status, 409, "{error}");
    assert!(get(port, "/policy").1.starts_with("darc "));
}

#[test]
fn other_paths_methods_and_hosts_get_errors() {
    let server = server();
    let port = admin(&server);
    let (status, text) = get(port, "/nowhere");
    assert_eq!(status, 404);
    assert!(text.contains("/metrics"), "{text}");
    assert_eq!(put(port, "/status", "").0, 405);
    let foreign = "GET /status HTTP/1.1\r\nhost: example.org\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(port, foreign).0, 421);
    let two = "GET /status HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n";
    assert_eq!(exchange(port, two).0, 400);
    let none = "GET /status HTTP/1.1\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(port, none).0, 400);
    let of_1_0 = "GET /status HTTP/1.0\r\n\r\n";
    assert_eq!(exchange(port, of_1_0).0, 200);
    let from_page = "PUT /policy HTTP/1.1\r\nhost: localhost\r\norigin: http://example.org\r\n\r\n";
    assert_eq!(exchange(port, from_page).0, 403);
    let long = format!("GET / HTTP/1.1\r\nhost: {port}\r\nx: {}\r\n\r\n", "y".repeat(40_000));
    assert_eq!(exchange(port, &long).0, 431);
    assert_eq!(exchange(port, "nonsense\r\n\r\n").0, 400);
    let (status, page) = get(port, "/");
    assert_eq!(status, 200);
    assert!(page.contains("Busy workers") && !page.contains("http"), "the page is one file");
}

/// Beyond the loopback interface, which 0.0.0.0 counts as, strangers see health and figures.
#[test]
fn who_has_the_token_may_have_everything() {
    let folder = std::env::temp_dir().join(format!("psp-admin-{}", std::process::id()));
    std::fs::write(&folder, " secret\n").unwrap();
    let config = Config::default().workers(2).admin("0.0.0.0:0");
    let with_token = config.clone().admin_token_file(&folder);
    for (config, refused, allowed) in [(with_token, 401, 200), (config, 403, 403)] {
        let server = start_tcp(Policy::darc(), Topology::Dedicated, config);
        let port = SocketAddr::from(([127, 0, 0, 1], admin(&server).port()));
        assert_eq!([get(port, "/livez").0, get(port, "/metrics").0], [200, 200]);
        for path in ["/", "/status", "/policy", "/trace?ms=1", "/slow"] {
            assert_eq!(get(port, path).0, refused, "{path}");
            let path = format!("{path} HTTP/1.1\r\nhost: {port}\r\nauthorization: Bearer secret");
            let asked = format!("GET {path}\r\nconnection: close\r\n\r\n");
            assert_eq!(exchange(port, &asked).0, allowed, "{path}");
        }
        assert_eq!(put(port, "/policy", "c-fcfs").0, refused);
        assert_eq!(server.handle.policy().name(), "darc");
    }
    std::fs::remove_file(folder).unwrap();
}

#[test]
fn a_token_that_cannot_be_read_is_an_error() {
    let built = lines()
        .config(Config::default().admin("0").admin_token_file("/no/such"))
        .handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {})
        .build();
    let Err(error @ BuildError::AdminToken { .. }) = built.map(|_| ()) else {
        panic!("there is no such file");
    };
    assert!(error.to_string().contains("/no/such"), "{error}");
}

#[test]
fn clients_that_say_nothing_stop_neither_requests_nor_the_server() {
    let server = server();
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(admin(&server)).unwrap()).collect();
    assert_eq!(server.connect().ask("one"), "ok one");
    assert_eq!(server.stop().abandoned, 0);
    drop(silent);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let built = lines()
        .config(Config::default().admin(address.clone()))
        .handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {})
        .build();
    let Err(error @ BuildError::Admin { .. }) = built.map(|_| ()) else {
        panic!("the address is taken");
    };
    assert!(error.to_string().contains(&address), "{error}");
}
