//! An HTTP server: `/fast` answers at once, `/slow?ms=20` computes for as many milliseconds, and a `POST` to
//! `/echo` gets its body back.
//!
//! The framing finds requests, the classifier tells fast pages from slow ones, and the policy keeps the fast ones
//! fast. docs/http.md measures it.

use std::net::{IpAddr, Ipv4Addr};
use std::num::ParseIntError;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use psp_classifiers::HttpClassifier;
use psp_program::{ArbiterFlags, LogLevel, SocketConfig, fit_buffers, spin};
use psp_protocols::http::{Http, HttpHead, HttpRequest, Method, Response, Status};
use psp_server::{Config, Policy, Reply, Request, Server, Topology, TypeSpec, Workers, checkpoint, is_abandoned};

/// Most milliseconds of a slow page.
const SLOW_MS_MAX: u64 = 1000;

/// An HTTP server whose fast pages stay fast beside slow ones.
#[derive(Debug, Parser)]
#[command(name = "psp-http", version)]
struct Flags {
    /// Address to listen on.
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST.into())]
    bind: IpAddr,
    /// TCP port; 0 for any free port.
    #[arg(long, short, default_value_t = 8080)]
    port: u16,
    #[command(flatten)]
    sockets: SocketConfig,
    /// Scheduling policy, as in 'c-fcfs' or 'mq quantum-us=20'.
    #[arg(long, value_name = "NAME", default_value = "darc")]
    policy: Policy,
    /// Number of workers, or a range such as 2..8 [default: from the number of cores].
    #[arg(long, value_name = "N|MIN..MAX")]
    workers: Option<Workers>,
    #[command(flatten)]
    arbiter: ArbiterFlags,
    /// Serves health, figures and a live page over HTTP; a port alone is one of the loopback interface.
    #[arg(long, value_name = "[HOST:]PORT")]
    admin: Option<String>,
    /// Threads: auto, inline or dedicated.
    #[arg(long, value_name = "NAME", default_value = "auto")]
    topology: Topology,
    /// Milliseconds of a slow page without ms=N.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = slow_ms())]
    slow_ms: u64,
}

fn slow_ms() -> impl clap::builder::TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(..=SLOW_MS_MAX)
}

/// Answers one request. `slow_ms` is the time of a slow page that names none.
fn answer(slow_ms: u64, request: Request<'_, (), HttpHead>, reply: &mut Reply<'_>) {
    let page = HttpRequest::new(request.payload, request.head);
    let (status, text) = match (page.method(), page.path()) {
        (Method::Get | Method::Head, "/fast") => (Status::OK, "fast\n"),
        (Method::Get | Method::Head, "/slow") => slow_page(page.query_value("ms").map_or(Ok(slow_ms), str::parse)),
        (Method::Post, "/echo") => {
            return Response::new(reply, request.head, Status::OK).body(&page.body());
        }
        _ => (Status::NOT_FOUND, "no such page\n"),
    };
    Response::new(reply, request.head, status).text(text);
}

/// Computes for as many milliseconds, while the client waits.
fn slow_page(ms: Result<u64, ParseIntError>) -> (Status, &'static str) {
    match ms {
        Ok(ms @ 0..=SLOW_MS_MAX) => {
            let spun = spin(Duration::from_millis(ms), || {
                checkpoint();
                if is_abandoned() { Err(()) } else { Ok(()) }
            });
            match spun {
                Ok(()) => (Status::OK, "slow\n"),
                Err(()) => (Status::SERVICE_UNAVAILABLE, "nobody reads this\n"),
            }
        }
        _ => (Status::BAD_REQUEST, "ms is a number from 0 to 1000\n"),
    }
}

fn main() -> ExitCode {
    psp_program::end(serve)
}

fn serve() -> anyhow::Result<()> {
    let flags: Flags = psp_manual::parse();
    psp_program::descriptors::require_room()?;
    let _log = LogLevel::default().start_log()?;
    let fast = TypeSpec::new("fast").service_time(Duration::from_micros(2));
    let slow = TypeSpec::new("slow").service_time(Duration::from_millis(20));
    let mut config = Config::default().topology(flags.topology);
    config.workers = flags.workers;
    config.admin = flags.admin;
    flags.arbiter.apply_to(&mut config);
    fit_buffers(&mut config, 0);
    let server = flags
        .sockets
        .listen(Server::builder(), &[flags.bind], flags.port)
        .framing(Http::default())
        .classifier(HttpClassifier::new().route(slow, "*", "/slow*").route(fast, "*", "*"))
        .config(config)
        .policy(flags.policy)
        .handler(move |request: Request<'_, (), HttpHead>, reply: &mut Reply<'_>| {
            answer(flags.slow_ms, request, reply);
        })
        .build()?;
    psp_program::run(server)
}
