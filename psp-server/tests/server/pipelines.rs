//! A pipeline of short requests beside a longer request on another connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use psp_server::protocols::Sink;
use psp_server::{Config, Policy, RequestType, Topology, TypeSpec};

use crate::common::{Client, OfLines, Spawned, classifier, handler, lines, until};

/// Requests of the pipeline: enough for more than a second.
const PIPELINED: usize = 5_000;
/// A short request takes so long that it ends a turn of the net thread.
const SHORT: Duration = Duration::from_micros(300);

/// Each turn reads the next short requests of the pipeline, and the policy has them go first. The long request has its
/// turn nevertheless, long before the pipeline ends.
#[test]
fn a_pipeline_of_shorter_requests_does_not_hold_up_a_longer_one() {
    let shorts = Arc::new(AtomicUsize::new(0));
    let counted = shorts.clone();
    let server = lines()
        .types([TypeSpec::new("short").service_time(SHORT), TypeSpec::new("long").service_time(10 * SHORT)])
        .classifier(classifier(|line| RequestType::new(u32::from(line.starts_with(b"long")))))
        .policy(Policy::fixed_priority())
        .config(Config::default().workers(1).topology(Topology::Inline))
        .handler(handler(move |request, reply| {
            if request.payload.starts_with(b"long") {
                reply.put(format!("{}\n", counted.load(Ordering::SeqCst)).as_bytes());
                return;
            }
            let start = Instant::now();
            while start.elapsed() < SHORT {}
            counted.fetch_add(1, Ordering::SeqCst);
            reply.put(b"ok\n");
        }))
        .spawned();
    let connect = || TcpStream::connect(server.local_addrs()[0]).unwrap();
    let mut pipeline = connect();
    pipeline.write_all(&b"short\n".repeat(PIPELINED)).unwrap();
    until("the pipeline is under way", || shorts.load(Ordering::SeqCst) > 0);
    let before: usize = Client::new(connect()).ask("long").parse().unwrap();
    assert!(before < PIPELINED / 2, "{before} of {PIPELINED} short requests went first");
    pipeline.shutdown(Shutdown::Both).unwrap();
    server.stop();
}

/// To hand a request to a worker that sleeps, and to be told that it is done, takes longer than a brief request.
#[test]
fn brief_requests_of_several_types_travel_together() {
    const PAIRS: usize = 5_000;
    let names = Policy::names_to_completion().into_iter().chain(["sq", "mq"]);
    let policies = names.map(|name| name.parse::<Policy>().unwrap());
    for policy in policies.filter(|policy| policy.validate(1).is_ok()) {
        let name = policy.to_string();
        let server = lines()
            .types(["get", "set"].map(TypeSpec::new))
            .classifier(classifier(|line| RequestType::new(u32::from(line.starts_with(b"set")))))
            .policy(policy)
            .config(Config::default().workers(1).topology(Topology::Dedicated))
            .handler(handler(|_, reply| reply.put(b"ok\n")))
            .spawned();
        let mut pipeline = TcpStream::connect(server.local_addrs()[0]).unwrap();
        pipeline.write_all(&b"get\nset\n".repeat(PAIRS)).unwrap();
        let mut replies = vec![0; 2 * PAIRS * b"ok\n".len()];
        pipeline.read_exact(&mut replies).unwrap();
        let types = server.handle().snapshot().types;
        let turns: u64 = types.iter().map(|ty| ty.turns.turns).sum();
        assert!(turns < PAIRS as u64 / 2, "{turns} for {PAIRS} pairs, {name}");
        server.stop();
    }
}
