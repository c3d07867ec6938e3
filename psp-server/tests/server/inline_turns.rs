//! Long requests on a net thread that is worker 0, and what else waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep as block;
use std::time::{Duration, Instant};

use psp_server::protocols::Sink;
use psp_server::{Config, Policy, RequestType, SpawnedServer, Topology, TypeSpec, checkpoint};

use crate::common::{Client, OfLines, PATIENCE, Spawned, classifier, handler, lines, until};

/// A request has its turn for as long, at least.
const STEP: Duration = Duration::from_millis(1);
/// A budget that each step takes longer than.
const SHORT_US: u64 = 100;
/// One hundred of these are longer than it takes until others ask a stuck request to yield.
const LONG_US: u64 = 5_000;
/// When a request is stuck.
const STUCK_MS: u64 = 50;

/// What requests do and wait for. A request that waits in vain answers `alone`.
#[derive(Default)]
struct Scene {
    /// Turns of requests that run until others are over.
    turns: AtomicUsize,
    others: AtomicUsize,
    /// Those that went on until another was served.
    outlasted: AtomicUsize,
}

impl Scene {
    fn serve(&self, request: &[u8]) -> String {
        let is_done = match request {
            b"endless" => goes_on_until(
                || self.others.load(Ordering::SeqCst) > 0,
                || {
                    self.turns.fetch_add(1, Ordering::SeqCst);
                    checkpoint_after_a_step();
                },
            ),
            b"spins" => goes_on_until(|| self.others.load(Ordering::SeqCst) > 0, checkpoint_after_a_while),
            b"outlasts" => {
                let is_done = goes_on_until(|| self.others.load(Ordering::SeqCst) > 0, checkpoint_after_a_step);
                self.outlasted.fetch_add(1, Ordering::SeqCst);
                is_done
            }
            b"keeps" => {
                self.turns.fetch_add(1, Ordering::SeqCst);
                goes_on_until(|| self.outlasted.load(Ordering::SeqCst) > 0, checkpoint_after_a_step)
            }
            _ => {
                self.others.fetch_add(1, Ordering::SeqCst);
                true
            }
        };
        if is_done { "done" } else { "alone" }.to_owned()
    }
}

/// Returns whether it is over.
fn goes_on_until(is_over: impl Fn() -> bool, step: impl Fn()) -> bool {
    let end = Instant::now() + PATIENCE / 2;
    while !is_over() && Instant::now() < end {
        step();
    }
    is_over()
}

/// Others have the core meanwhile.
fn checkpoint_after_a_step() {
    block(STEP);
    checkpoint();
}

/// Much shorter than a budget.
fn checkpoint_after_a_while() {
    for _ in 0..1_000 {
        std::hint::spin_loop();
    }
    checkpoint();
}

/// A server with one type, whose requests are long.
fn start(scene: &Arc<Scene>, workers: usize, budget_us: u64) -> SpawnedServer {
    let at = scene.clone();
    let config = Config::default().workers(workers).topology(Topology::Inline);
    lines()
        .types([TypeSpec::new("long").service_time(100 * STEP)])
        .policy(Policy::darc())
        .config(config.net_budget_us(budget_us).stuck_after_ms(STUCK_MS).stuck_after_means(1))
        .handler(handler(move |request, reply| {
            let line = at.serve(request.payload.trim_ascii_end());
            reply.put(format!("{line}\n").as_bytes());
        }))
        .spawned()
}

fn sent(server: &SpawnedServer, request: &str) -> Client {
    let mut client = server.connect();
    client.send(&format!("{request}\n"));
    client
}

/// Each of their turns takes longer than others wait for one of them.
#[test]
fn requests_that_take_turns_leave_the_net_thread_to_others() {
    let scene = Arc::new(Scene::default());
    let server = start(&scene, 1, SHORT_US);
    let mut endless = [sent(&server, "endless"), sent(&server, "endless")];
    until("they take turns", || scene.turns.load(Ordering::SeqCst) > 10);
    assert_eq!(sent(&server, "other").line(), "done");
    for client in &mut endless {
        assert_eq!(client.line(), "done");
    }
}

/// The net thread runs its own request all the time.
#[test]
fn a_request_that_made_room_on_another_worker_goes_on() {
    let scene = Arc::new(Scene::default());
    let server = start(&scene, 2, LONG_US);
    let mut keeps = sent(&server, "keeps");
    until("the net thread has it", || scene.turns.load(Ordering::SeqCst) > 0);
    let mut outlasts = sent(&server, "outlasts");
    let mut other = sent(&server, "other");
    for client in [&mut other, &mut outlasts, &mut keeps] {
        assert_eq!(client.line(), "done");
    }
}

/// Those without an end are of the type that comes first. They have the net thread and the other worker in turn.
#[test]
fn a_longer_type_has_a_turn_beside_requests_without_an_end() {
    let scene = Arc::new(Scene::default());
    let at = scene.clone();
    let config = Config::default().workers(2).topology(Topology::Inline);
    let server = lines()
        .types([TypeSpec::new("brief").service_time(STEP / 100), TypeSpec::new("long").service_time(STEP)])
        .classifier(classifier(|line| RequestType::new(u32::from(line == b"other\n"))))
        .policy(Policy::darc())
        .config(config.stuck_after_ms(STUCK_MS).stuck_after_means(1))
        .handler(handler(move |request, reply| {
            let line = at.serve(request.payload.trim_ascii_end());
            reply.put(format!("{line}\n").as_bytes());
        }))
        .spawned();
    for round in 0..10 {
        scene.others.store(0, Ordering::SeqCst);
        let endless = [(); 3].map(|()| sent(&server, "spins"));
        // Until they make room for each other.
        block(Duration::from_millis(STUCK_MS));
        assert_eq!(sent(&server, "other").line(), "done");
        for mut client in endless {
            assert_eq!(client.line(), "done", "round {round}");
        }
    }
}
