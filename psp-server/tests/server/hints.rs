//! A server whose types have no hints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use psp_server::protocols::Sink;
use psp_server::{Config, Policy, RequestType, Topology, TypeSpec};

use crate::common::{Client, OfLines, Spawned, classifier, handler, lines};

/// Slow requests that clients keep in flight.
const IN_FLIGHT: usize = 4;
/// Slow requests after which fast ones are timed.
const LEARNING: usize = 30;
/// Fast requests that are timed.
const TIMED: usize = 41;

/// What the handlers of slow requests measured.
#[derive(Default)]
struct Slow {
    ended: AtomicUsize,
    shortest_ns: AtomicU64,
}

impl Slow {
    fn handle(&self) {
        let start = Instant::now();
        std::thread::sleep(Duration::from_millis(50));
        let served_ns = u64::try_from(start.elapsed().as_nanos()).unwrap();
        self.shortest_ns.fetch_min(served_ns, Ordering::SeqCst);
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// The README's shape, on a net thread that is worker 0. Without the lengths of its types a server has both
/// workers full of slow requests, and a fast one waits for one of them or two.
#[test]
fn fast_requests_stop_waiting_for_slow_ones() {
    let slow = Arc::new(Slow { shortest_ns: u64::MAX.into(), ..Slow::default() });
    let at = slow.clone();
    let server = lines()
        .types([TypeSpec::new("fast"), TypeSpec::new("slow")])
        .classifier(classifier(|line| RequestType::new(u32::from(line.starts_with(b"slow")))))
        .policy(Policy::darc())
        .config(Config::default().workers(2).topology(Topology::Inline))
        .handler(handler(move |request, reply| {
            if request.payload.starts_with(b"slow") {
                at.handle();
            }
            reply.put(request.payload);
        }))
        .spawned();
    let connect = || {
        let stream = std::net::TcpStream::connect(server.local_addrs()[0]).unwrap();
        Client::new(stream)
    };
    let stop = AtomicBool::new(false);
    let mut waits_ns: Vec<u128> = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..IN_FLIGHT {
            let mut client = connect();
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    assert_eq!(client.ask("slow"), "slow");
                }
            });
        }
        let mut client = connect();
        while waits_ns.len() < TIMED {
            let learned = slow.ended.load(Ordering::SeqCst) >= LEARNING;
            let start = Instant::now();
            assert_eq!(client.ask("fast"), "fast");
            if learned {
                waits_ns.push(start.elapsed().as_nanos());
            }
            // A pause, lest fast requests take all the time of a small machine.
            std::thread::sleep(Duration::from_millis(2));
        }
        stop.store(true, Ordering::SeqCst);
    });
    server.stop();
    waits_ns.sort_unstable();
    let median_ns = waits_ns[TIMED / 2];
    let service_ns = u128::from(slow.shortest_ns.load(Ordering::SeqCst));
    assert!(
        2 * median_ns < service_ns,
        "fast requests took {median_ns} ns, slow ones run for {service_ns} ns"
    );
}
