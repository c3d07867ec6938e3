//! The example of hyper, as docs/tokio.md has it.

#![allow(dead_code, reason = "its main function")]

#[path = "../examples/hyper.rs"]
mod example;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PAGE: &str = include_str!("../../../docs/tokio.md");
const EXAMPLE: &str = include_str!("../examples/hyper.rs");

#[test]
fn the_page_has_this_program() {
    assert!(PAGE.contains(&format!("```rust\n{EXAMPLE}```")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_pages_are_served() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { example::serve(listener).await.unwrap() });
    for (path, body) in [("/fast", "fast\n"), ("/slow", "1999999000000\n"), ("/other", "fast\n")] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).await.unwrap();
        let (head, found) = reply.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{reply}");
        assert_eq!(found, body);
    }
}
