//! What a request on a port that is polled costs, and how many a server takes, over `net_null`: a device
//! that receives the same request over and over and swallows replies.
//!
//! ```text
//!   cycles of each stage       one thread, both ends of the rings
//!   requests of whole servers  inline and dedicated, with their threads
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use psp_server::dpdk::{DpdkConfig, Mac};
use psp_server::protocols::Sink;
use psp_server::protocols::packet::udp::HEADERS_LEN;
use psp_server::protocols::packet::{Checksums, End, Flow, MacAddr};
use psp_server::protocols::psp_header::{HEADER_LEN, Header, Kind, PspFraming};
use psp_server::{
    Classifier, Config, Handler, Policy, Reply, Request, RequestType, Server, Shutdown, Topology,
    TypeSpec,
};

const EAL: &str = "--no-huge -m 512 --no-pci --no-shconf --no-telemetry --file-prefix=psp-bench";

const SERVER: End = End {
    mac: MacAddr([2, 0, 0, 0, 0, 1]),
    ip: Ipv4Addr::new(10, 78, 0, 1),
    port: 9000,
};
const CLIENT: End = End {
    mac: MacAddr([2, 0, 0, 0, 0, 2]),
    ip: Ipv4Addr::new(10, 78, 0, 2),
    port: 40_000,
};

/// A request of psp in a frame.
fn request() -> Vec<u8> {
    let header = Header {
        kind: Kind::Request,
        request_type: 1,
        id: 7,
        payload_len: 0,
        run_time_ns: 0,
    };
    let mut frame = vec![0; HEADERS_LEN];
    frame.extend(header.encode());
    let flow = Flow {
        source: CLIENT,
        destination: SERVER,
    };
    flow.write_headers(&mut frame, Checksums::Software);
    frame
}

/// The type is in the header, at a fixed place.
fn classify(request: &[u8]) -> RequestType {
    RequestType::new(u32::from(request[3]))
}

/// Does nothing but answer.
fn answer(request: Request<'_, ()>, reply: &mut Reply<'_>) {
    reply.put(&request.payload[..HEADER_LEN]);
}

fn server(
    number: usize,
    policy: &Policy,
    topology: Topology,
    workers: usize,
) -> Server<PspFraming, impl Classifier, impl Handler> {
    let frame = request();
    let port = DpdkConfig {
        virtual_device: Some(format!("net_null{number},size={}", frame.len())),
        mac: Mac::Address(SERVER.mac),
        queues: Some(1),
        initial_frame: frame,
        ..DpdkConfig::new(SocketAddrV4::new(SERVER.ip, SERVER.port), EAL)
    };
    Server::builder()
        .listen_dpdk(port)
        .framing(PspFraming::default())
        .types([TypeSpec::new("short"), TypeSpec::new("long")])
        .classifier(classify)
        .policy(policy.clone())
        .config(Config {
            topology,
            workers: Some(workers),
            ..Config::default()
        })
        .handler(answer)
        .build()
        .expect("a server on net_null")
}

fn main() {
    // `cargo test` asks for one round.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let (requests, period) = if quick {
        (10_000, Duration::from_millis(50))
    } else {
        (2_000_000, Duration::from_secs(5))
    };
    let policies = [Policy::c_fcfs(), Policy::darc()];
    let mut number = 0;
    for policy in &policies {
        let server = server(number, policy, Topology::Dedicated, 1);
        number += 1;
        let stages = server.measure_stages(requests).expect("it has a port");
        println!("{}, {} requests:", policy.spelled(), stages.requests);
        let mut sum = 0.0;
        for (stage, cycles) in &stages.cycles {
            sum += cycles;
            println!("  {stage:<9}{cycles:>8.1} cycles");
        }
        let rate = stages.cycles_per_second / sum / 1e6;
        println!("  {:<9}{sum:>8.1} cycles, {rate:.2} M requests/s", "all");
    }
    for (topology, workers) in [(Topology::Inline, 1), (Topology::Dedicated, 1)] {
        for policy in &policies {
            let server = server(number, policy, topology, workers);
            number += 1;
            let (handle, shutdown) = (server.handle(), Shutdown::new());
            let until = shutdown.clone();
            let thread = std::thread::spawn(move || server.run_until(&until));
            let completed = || -> u64 {
                let types = handle.snapshot().types;
                types.iter().map(|ty| ty.completions).sum()
            };
            while completed() == 0 {
                std::thread::yield_now();
            }
            let (before, frames_before) = (completed(), handle.snapshot().net.packets.frames);
            let started = Instant::now();
            std::thread::sleep(period);
            let seconds = started.elapsed().as_secs_f64();
            let rate = |count: u64| count as f64 / seconds / 1e6;
            let frames = handle.snapshot().net.packets.frames - frames_before;
            println!(
                "{topology}, {workers} worker, {}: {:.2} M frames/s taken, {:.2} M requests/s answered",
                policy.spelled(),
                rate(frames),
                rate(completed() - before)
            );
            shutdown.trigger();
            thread.join().expect("no panic").expect("a clean end");
        }
    }
}
