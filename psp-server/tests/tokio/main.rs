//! Futures of tokio in handlers that wait, end to end over TCP.

#[path = "../common/mod.rs"]
mod common;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::{Client, OfLines, PATIENCE, lines};
use psp_server::protocols::Sink;
use psp_server::tower::{Failure, TowerHandler};
use psp_server::{Config, Handler, Policy, Reply, Request, SpawnedServer, Topology, task, wait};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tower::{ServiceBuilder, service_fn};

/// A runtime of one thread, and a server in it that serves each connection as `serve` does.
fn upstream<S>(serve: fn(TcpStream) -> S) -> (Runtime, SocketAddr)
where
    S: Future<Output = io::Result<()>> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    (runtime, address)
}

/// Answers each line after the milliseconds that it names.
async fn answer_lines(stream: TcpStream) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        tokio::time::sleep(Duration::from_millis(line.parse().unwrap())).await;
        writer.write_all(format!("after {line}\n").as_bytes()).await?;
    }
    Ok(())
}

/// Answers each request of HTTP after the milliseconds that its path names.
async fn answer_http(stream: TcpStream) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(request) = lines.next_line().await? {
        while lines.next_line().await?.is_some_and(|field| !field.is_empty()) {}
        let path = request.split(' ').nth(1).unwrap();
        let (status, page) = match path[1..].parse() {
            Ok(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                ("200 OK", format!("after {ms}\n"))
            }
            Err(_) => ("404 Not Found", String::new()),
        };
        let len = page.len();
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\n\r\n{page}");
        writer.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

async fn ask(address: SocketAddr, line: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("{line}\n").as_bytes()).await?;
    stream.shutdown().await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text.trim_end().to_owned())
}

fn start(runtime: &Runtime, topology: Topology, handler: impl Handler) -> SpawnedServer {
    let server = lines()
        .policy(Policy::c_fcfs())
        .config(Config::default().workers(2).topology(topology))
        .tokio(runtime.handle().clone())
        .handler(handler)
        .build()
        .unwrap();
    server.spawn().unwrap()
}

/// Each request asks the upstream once for each word of its line, at once.
#[test]
fn requests_ask_other_servers_and_leave_their_workers() {
    const CLIENTS: u32 = 80;
    let (runtime, address) = upstream(answer_lines);
    for topology in [Topology::Inline, Topology::Dedicated] {
        let server = start(&runtime, topology, move |request: Request<'_, ()>, reply: &mut Reply<'_>| {
            let line = std::str::from_utf8(request.payload).unwrap().trim_end();
            let answers = wait(task::join_all(line.split(' ').map(|word| ask(address, word))));
            let answers: Vec<String> = answers.into_iter().map(Result::unwrap).collect();
            reply.put(answers.join(", ").as_bytes());
            reply.put(b"\n");
        });
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
        let started = Instant::now();
        for client in &mut clients {
            client.send("100 20 60\n");
        }
        for client in &mut clients {
            assert_eq!(client.line(), "after 100, after 20, after 60", "{topology}");
        }
        let held = Duration::from_millis(100) * CLIENTS / 2;
        assert!(started.elapsed() < held / 2, "{topology}: {:?}", started.elapsed());
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn services_of_tower_use_the_timers_of_tokio() {
    let (runtime, address) = upstream(answer_lines);
    let service = service_fn(move |line: String| async move {
        let limit = Duration::from_secs(1);
        match tokio::time::timeout(limit, ask(address, &line)).await {
            Ok(answer) => answer,
            Err(_) => Ok("late".to_owned()),
        }
    });
    let service = ServiceBuilder::new().concurrency_limit(64).service(service);
    for topology in [Topology::Inline, Topology::Dedicated] {
        let handler = TowerHandler::new(
            service.clone(),
            |request: &Request<'_, ()>| std::str::from_utf8(request.payload).map(|line| line.trim_end().to_owned()),
            |outcome: Result<String, Failure<_, io::Error>>, _: &Request<'_, ()>, reply: &mut Reply<'_>| {
                reply.put(outcome.unwrap_or_else(|failure| failure.to_string()).as_bytes());
                reply.put(b"\n");
            },
        );
        let server = start(&runtime, topology, handler.pending_max(PATIENCE));
        let mut clients = ["1", "60000", "2"].map(|line| {
            let mut client = server.connect();
            client.send(&format!("{line}\n"));
            client
        });
        let replies = clients.each_mut().map(Client::line);
        assert_eq!(replies, ["after 1", "late", "after 2"], "{topology}");
        server.stop();
    }
}

/// Eight clients ask for `3`. Then the server stops, and has answered all.
fn many_ask_at_once(server: SpawnedServer, topology: Topology) {
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("3\n");
    }
    for client in &mut clients {
        assert_eq!(client.line(), "after 3", "{topology}");
    }
    assert_eq!(server.stop().abandoned, 0);
}

#[allow(unreachable_pub)]
mod example {
    include!("page_example.rs");
}

const PAGE: &str = include_str!("../../../docs/waiting.md");
const EXAMPLE: &str = include_str!("page_example.rs");

#[test]
fn the_example_of_the_page_answers() {
    assert!(PAGE.contains(&format!("```rust\n{EXAMPLE}```")));
    let (runtime, address) = upstream(answer_lines);
    for topology in [Topology::Inline, Topology::Dedicated] {
        let [upstreams, soon] = [PATIENCE, Duration::from_millis(50)].map(|patience| example::Upstreams {
            servers: vec![address; 3],
            patience,
            last: psp_server::sync::Mutex::default(),
        });
        let server = start(&runtime, topology, move |request: Request<'_, ()>, reply: &mut Reply<'_>| {
            match request.payload {
                b"1\n" => upstreams.forward(&request, reply),
                b"60000\n" => soon.forward(&request, reply),
                b"2\n" => upstreams.gather(&request, reply),
                b"4\n" => upstreams.quorum(&request, reply),
                _ => upstreams.refresh(&request, reply),
            }
        });
        let mut client = server.connect();
        assert_eq!(client.ask("1"), "after 1", "{topology}");
        assert_eq!(client.ask("60000"), "!the time is over 60000", "{topology}");
        client.send("2\n");
        assert_eq!([(); 3].map(|()| client.line()), ["after 2"; 3], "{topology}");
        client.send("4\n");
        assert_eq!([(); 2].map(|()| client.line()), ["after 4"; 2], "{topology}");
        many_ask_at_once(server, topology);
    }
}

#[allow(unreachable_pub)]
mod reqwest_example {
    include!("page_reqwest.rs");
}

const REQWEST_EXAMPLE: &str = include_str!("page_reqwest.rs");

#[test]
fn the_example_of_the_page_fetches_with_reqwest() {
    assert!(PAGE.contains(&format!("```rust\n{REQWEST_EXAMPLE}```")));
    let (runtime, address) = upstream(answer_http);
    for topology in [Topology::Inline, Topology::Dedicated] {
        let client = reqwest::Client::new();
        let [pages, soon] = [PATIENCE, Duration::from_millis(50)].map(|patience| reqwest_example::Pages {
            client: client.clone(),
            origin: format!("http://{address}"),
            patience,
        });
        let server = start(&runtime, topology, move |request: Request<'_, ()>, reply: &mut Reply<'_>| {
            match request.payload {
                b"60000\n" => soon.answer(&request, reply),
                _ => pages.answer(&request, reply),
            }
        });
        let mut client = server.connect();
        assert_eq!(client.ask("1"), "after 1", "{topology}");
        assert_eq!(client.ask("60000"), "!the time is over 60000", "{topology}");
        let missing = client.ask("missing");
        assert!(missing.contains("404 Not Found"), "{topology}: {missing}");
        many_ask_at_once(server, topology);
    }
}
