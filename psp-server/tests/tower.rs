//! Services of tower with its middleware, end to end over TCP.

mod common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use common::{Client, OfLines, PATIENCE, Spawned, lines};
use psp_server::protocols::Sink;
use psp_server::tower::{Failure, TowerHandler};
use psp_server::{Config, Policy, PreemptPolicy, Reply, Request, SpawnedServer, Topology, checkpoint};
use tower::util::BoxCloneService;
use tower::{Service, ServiceBuilder, service_fn};

/// Any service, as one type: the compiler makes the runtime anew for each type of handler, and needs seconds for it.
type AnyService = BoxCloneService<String, String, io::Error>;

/// Longer than the futures of these tests take.
const PENDING_MAX: Duration = Duration::from_secs(1);

struct Running(SpawnedServer);

impl Running {
    fn start(service: AnyService, pending_max: Duration, policy: impl Into<Policy>, config: Config) -> Self {
        let handler = TowerHandler::new(service, decode, encode).pending_max(pending_max);
        Self(lines().policy(policy).config(config).handler(handler).spawned())
    }

    fn connect(&self) -> Client {
        self.0.connect()
    }

    fn stop(self) {
        assert_eq!(self.0.stop().abandoned, 0);
    }
}

fn workers(workers: usize) -> Config {
    Config::default().workers(workers).topology(Topology::Dedicated)
}

fn decode(request: &Request<'_, ()>) -> Result<String, std::str::Utf8Error> {
    std::str::from_utf8(request.payload).map(|line| line.trim_end().to_owned())
}

fn encode<X: std::fmt::Display, E: std::fmt::Display>(
    outcome: Result<String, Failure<X, E>>,
    _request: &Request<'_, ()>,
    reply: &mut Reply<'_>,
) {
    match outcome {
        Ok(text) => reply.put(text.as_bytes()),
        Err(failure) => reply.put(format!("error: {failure}").as_bytes()),
    }
    reply.put(b"\n");
}

#[test]
fn middleware_and_service_answer_in_order() {
    let shout = service_fn(async |line: String| match line.as_str() {
        "fail" => Err(io::Error::other("asked to")),
        "panic" => panic!("the test asked for it"),
        _ => Ok(line.to_uppercase()),
    });
    let service = ServiceBuilder::new()
        .map_request(|line: String| line.replace("shout ", ""))
        .map_response(|line: String| line + "!")
        .concurrency_limit(8)
        .service(shout);
    for topology in [Topology::Inline, Topology::Dedicated] {
        let config = workers(2).topology(topology);
        let service = AnyService::new(service.clone());
        let server = Running::start(service, PENDING_MAX, Policy::c_fcfs(), config);
        let mut client = server.connect();
        client.send("shout a\nfail\npanic\nb\n");
        let replies = [(); 4].map(|()| client.line());
        let expected = ["A!", "error: asked to", "!failed panic", "B!"];
        assert_eq!(replies, expected, "{topology}");
        std::io::Write::write_all(&mut client.stream, b"\xff\n").unwrap();
        let refused = client.line();
        assert!(refused.starts_with("error: not a request"), "{refused}");
        assert_eq!(client.ask("c"), "C!");
        server.stop();
    }
}

/// A limit that all workers' clones share: a request without a permit waits on its worker until it is woken.
#[test]
fn workers_wait_for_the_permits_of_a_concurrency_limit() {
    const CLIENTS: usize = 4;
    const REQUESTS: usize = 200;
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let most_seen = Arc::clone(&most);
    let count = service_fn(move |line: String| {
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        async move {
            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            std::thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, io::Error>(line)
        }
    });
    let service = ServiceBuilder::new().concurrency_limit(1).service(count);
    let service = AnyService::new(service);
    let server = Running::start(service, PATIENCE, Policy::c_fcfs(), workers(3));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let mut connection = server.connect();
            scope.spawn(move || {
                for number in 0..REQUESTS {
                    let line = format!("{client} {number}");
                    assert_eq!(connection.ask(&line), line);
                }
            });
        }
    });
    assert_eq!(most_seen.load(Ordering::SeqCst), 1);
    server.stop();
}

#[test]
fn a_future_that_is_pending_for_too_long_is_an_error_of_its_request() {
    let service = service_fn(async |line: String| {
        if line == "wait" {
            std::future::pending::<()>().await;
        }
        Ok::<_, io::Error>(line)
    });
    let (service, pending_max) = (AnyService::new(service), Duration::from_millis(5));
    let server = Running::start(service, pending_max, Policy::c_fcfs(), workers(1));
    let mut client = server.connect();
    assert_eq!(client.ask("wait"), "error: the service was pending for more than 5ms");
    assert_eq!(client.ask("next"), "next");
    server.stop();
}

/// Breaks at its third request, and fails in `poll_ready` from then on, as connections do.
#[derive(Debug, Default)]
struct Fragile {
    served: usize,
    clones: Arc<AtomicUsize>,
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        self.clones.fetch_add(1, Ordering::SeqCst);
        Self { served: 0, clones: Arc::clone(&self.clones) }
    }
}

impl Service<String> for Fragile {
    type Response = String;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<String>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(if self.served < 2 {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        })
    }

    fn call(&mut self, line: String) -> Self::Future {
        self.served += 1;
        std::future::ready(Ok(line))
    }
}

#[test]
fn a_service_that_is_broken_is_replaced() {
    let service = Fragile::default();
    let clones = Arc::clone(&service.clones);
    let config = workers(1).preempt(PreemptPolicy::None);
    let service = AnyService::new(service);
    let server = Running::start(service, PENDING_MAX, Policy::c_fcfs(), config);
    let mut client = server.connect();
    for round in 0..3 {
        assert_eq!(client.ask("a"), "a");
        assert_eq!(client.ask("b"), "b");
        assert_eq!(client.ask("c"), "error: broken pipe", "round {round}");
    }
    assert_eq!(clones.load(Ordering::SeqCst), 4, "one clone, and one more a round");
    server.stop();
}

/// One worker: the request with the permit yields at checkpoints, and a request that waits for the permit
/// yields in turn. Otherwise neither would make progress.
#[test]
fn a_request_that_waits_yields_to_the_one_that_it_waits_for() {
    let spin = service_fn(async |line: String| {
        let rounds: usize = line.parse().unwrap_or(0);
        for _ in 0..rounds {
            (0..32).for_each(|_| std::hint::spin_loop());
            checkpoint();
        }
        Ok::<_, io::Error>(line)
    });
    let service = ServiceBuilder::new().concurrency_limit(1).service(spin);
    let policy = Policy::sq().quantum_us(1000);
    let server = Running::start(AnyService::new(service), PATIENCE, policy, workers(1));
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("200000\n");
    }
    for client in &mut clients {
        assert_eq!(client.line(), "200000");
    }
    server.stop();
}
