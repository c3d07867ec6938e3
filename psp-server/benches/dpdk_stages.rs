//! The cost of a request on a polled port, and the rate of a server, over `net_null`: a device that receives
//! the same request over and over and swallows replies.
//!
//! ```text
//!   the scheduler alone        arrivals, decisions and completions, no server around them
//!   cycles of each stage       one thread, both ends of the rings; those of the net thread and of the worker apart
//!   requests of whole servers  inline and dedicated, with their threads
//! ```
//!
//! Arguments that are not options select some: `scheduler`, `stages`, `servers`.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use psp_server::dpdk::{DpdkConfig, Mac};
use psp_server::internal::{Side, measure_stages};
use psp_server::policy::{Action, Event, RequestId, Sample, SchedulerSetup};
use psp_server::protocols::Sink;
use psp_server::protocols::packet::udp::HEADERS_LEN;
use psp_server::protocols::packet::{Checksums, End, Flow, MacAddr};
use psp_server::protocols::psp_header::{HEADER_LEN, Header, Kind, PspFraming};
use psp_server::{
    Classifier, Config, Handler, Policy, Reply, Request, RequestType, Server, Shutdown, Topology, TypeSpec, TypeTable,
    WorkerId,
};
use quanta::Clock as Tsc;

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

/// Perséphone's machine has 14 workers.
const WORKERS: usize = 14;
/// Requests that arrive together, as a burst of a port.
const BURST: u32 = 32;

/// Requests per second of Perséphone's dispatcher if the type is in the header (SOSP 2021, 4.2).
const PAPER_RATE: f64 = 7e6;

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
    let flow = Flow { source: CLIENT, destination: SERVER };
    flow.write_headers(&mut frame, Checksums::Software);
    frame
}

/// The type is in the header, at a fixed place.
fn classify(request: &[u8]) -> RequestType {
    RequestType::new(u32::from(request[3]))
}

fn types() -> [TypeSpec; 2] {
    [TypeSpec::new("short"), TypeSpec::new("long")]
}

/// Only answers.
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
    let port = DpdkConfig::new(SocketAddrV4::new(SERVER.ip, SERVER.port), EAL)
        .virtual_device(Some(format!("net_null{number},size={}", frame.len())))
        .mac(Mac::Address(SERVER.mac))
        .queues(Some(1))
        .initial_frame(frame);
    Server::builder()
        .listen_dpdk(port)
        .framing(PspFraming::default())
        .types(types())
        .classifier(classify)
        .policy(policy.clone())
        .config(Config::default().topology(topology).workers(workers))
        .handler(answer)
        .build()
        .expect("a server on net_null")
}

/// How long to measure.
struct Extent {
    requests: u64,
    period: Duration,
}

/// The middle one.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

fn print_rate(what: &str, cycles: f64, cycles_per_second: f64) {
    let rate = cycles_per_second / cycles;
    println!(
        "  {what:<24}{cycles:>8.1} cycles, {:.2} M requests/s, {:.2} of the paper's dispatcher",
        rate / 1e6,
        rate / PAPER_RATE
    );
}

/// Arrivals in bursts, decisions while workers are idle, completions of all: cycles for one request.
fn scheduler_alone(policy: &Policy, extent: &Extent) {
    let types: TypeTable = types().into_iter().collect();
    let mut scheduler = policy.scheduler(&SchedulerSetup::new(WORKERS, &types));
    let tsc = Tsc::new();
    let started = (tsc.raw(), Instant::now());
    let mut running: Vec<(WorkerId, RequestType)> = Vec::with_capacity(WORKERS);
    let bursts = extent.requests / u64::from(BURST);
    let cycles = (0..bursts).map(|burst| {
        let now_ns = burst * 10_000;
        let before = tsc.raw();
        for number in 0..BURST {
            let arrived = Event::Arrived {
                request: RequestId(number),
                request_type: RequestType::new(number % 2),
                deadline_ns: None,
            };
            scheduler.on_event(now_ns, arrived);
        }
        loop {
            while let Some(action) = scheduler.poll(now_ns) {
                if let Action::Run { worker, request_type, .. } = action {
                    running.push((worker, request_type));
                }
            }
            if running.is_empty() {
                break;
            }
            for (worker, request_type) in running.drain(..) {
                let sample = Sample { request_type, count: 1, service_ns: 1_000 };
                let completed = Event::Completed { worker, samples: &[sample], dropped: false };
                scheduler.on_event(now_ns, completed);
            }
        }
        (tsc.raw() - before) as f64 / f64::from(BURST)
    });
    let cycles = median(cycles.collect());
    let passed = (tsc.raw() - started.0) as f64;
    let cycles_per_second = passed / started.1.elapsed().as_secs_f64();
    println!("{}, the scheduler alone, {WORKERS} workers:", policy.spelled());
    print_rate("arrive, poll, complete", cycles, cycles_per_second);
}

fn stages(number: usize, policy: &Policy, workers: usize, extent: &Extent) {
    let server = server(number, policy, Topology::Dedicated, workers);
    let stages = measure_stages(server, extent.requests).expect("the server has a port");
    println!("{}, {workers} workers, {} requests:", policy.spelled(), stages.requests);
    let mut sum = 0.0;
    for (side, name) in [(Side::NetThread, "the net thread"), (Side::Worker, "a worker")] {
        let of_side = stages.cycles.iter().filter(|(_, of, _)| *of == side);
        let mut sum_of_side = 0.0;
        for (stage, _, cycles) in of_side {
            sum_of_side += cycles;
            println!("  {stage:<24}{cycles:>8.1} cycles");
        }
        print_rate(name, sum_of_side, stages.cycles_per_second);
        sum += sum_of_side;
    }
    print_rate("both on one core", sum, stages.cycles_per_second);
}

/// The rates at which a server with its threads takes and answers requests.
fn whole(number: usize, policy: &Policy, topology: Topology, workers: usize, extent: &Extent) {
    let server = server(number, policy, topology, workers);
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
    std::thread::sleep(extent.period);
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

fn main() {
    let (options, selected): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let is_selected = |part: &str| selected.is_empty() || selected.iter().any(|name| name == part);
    // `cargo test` runs one round.
    let extent = if options.iter().any(|option| option == "--bench") {
        Extent { requests: 2_000_000, period: Duration::from_secs(5) }
    } else {
        Extent { requests: 10_000, period: Duration::from_millis(50) }
    };
    let policies = [Policy::c_fcfs(), Policy::darc()];
    if is_selected("scheduler") {
        for policy in &policies {
            scheduler_alone(policy, &extent);
        }
    }
    let mut numbers = 0..;
    let mut number = || numbers.next().expect("there are more numbers");
    if is_selected("stages") {
        for policy in &policies {
            stages(number(), policy, WORKERS, &extent);
        }
    }
    if is_selected("servers") {
        for topology in [Topology::Inline, Topology::Dedicated] {
            for policy in &policies {
                whole(number(), policy, topology, 1, &extent);
            }
        }
    }
}
