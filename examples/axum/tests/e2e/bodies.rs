//! Bodies that stream, and connections that end.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::post;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{Fixture, clients, service};

/// `/count` reads a body, and `/echo` answers with it as it comes.
fn pages() -> Router {
    let count = async |request: Request| {
        let mut body = request.into_body();
        let (mut frames, mut bytes) = (0, 0);
        while let Some(frame) = body.frame().await {
            let data = frame.ok().and_then(|frame| frame.into_data().ok());
            frames += 1;
            bytes += data.map_or(0, |data| data.len());
        }
        format!("{bytes} bytes, {}", if frames > 1 { "some frames" } else { "a frame" })
    };
    let echo = async |request: Request| -> Body { request.into_body() };
    Router::new().route("/count", post(count)).route("/echo", post(echo))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_bodies_go_both_ways() {
    const LENGTH: usize = 1 << 20;
    let fixture = Fixture::start(pages()).await;
    let body: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    for (version, client) in clients() {
        let count = client.post(fixture.url("/count")).body(body.clone());
        let counted = count.send().await.unwrap().text().await.unwrap();
        assert_eq!(counted, format!("{LENGTH} bytes, some frames"), "{version}");
        let echo = client.post(fixture.url("/echo")).body(body.clone());
        let echoed = echo.send().await.unwrap().bytes().await.unwrap();
        assert!(echoed == body, "{version}");
    }
    fixture.end().await;
}

/// Reads until `end` has come.
async fn read_until(stream: &mut TcpStream, read: &mut String, end: &str) {
    while !read.contains(end) {
        let mut bytes = [0; 1024];
        let length = stream.read(&mut bytes).await.unwrap();
        assert!(length > 0, "the end, after {read:?}");
        read.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waits_for_its_body_has_no_worker() {
    let fixture = Fixture::start(pages().merge(service::service())).await;
    let head = "POST /count HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
    let mut waiting = TcpStream::connect(fixture.address).await.unwrap();
    waiting.write_all(head.as_bytes()).await.unwrap();
    let echo = head.replace("/count", "/echo");
    let mut echoing = TcpStream::connect(fixture.address).await.unwrap();
    echoing.write_all(echo.as_bytes()).await.unwrap();
    let mut echoed = String::new();
    read_until(&mut echoing, &mut echoed, "abc").await;
    // Both wait for their next chunks, and the one worker serves others.
    let [(_, client), _] = clients();
    let fast = client.get(fixture.url("/fast")).send().await.unwrap();
    assert_eq!(fast.text().await.unwrap(), "fast\n");
    let rest = b"4\r\ndefg\r\n0\r\n\r\n";
    waiting.write_all(rest).await.unwrap();
    echoing.write_all(rest).await.unwrap();
    read_until(&mut echoing, &mut echoed, "defg").await;
    let mut counted = String::new();
    read_until(&mut waiting, &mut counted, "7 bytes").await;
    drop((waiting, echoing, client));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_shall_close_does_behind_its_answer() {
    let fixture = Fixture::start(service::service()).await;
    let mut stream = TcpStream::connect(fixture.address).await.unwrap();
    let request = "GET /rows?n=5 HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n10\n"), "{answer}");
    fixture.end().await;
}
