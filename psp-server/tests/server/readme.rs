//! The README's example, as it is written there, answers a request.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use psp_server::protocols::psp_header::{HEADER_LEN, Header, Kind};

mod example {
    include!("readme_example.rs");

    pub(super) fn serve() {
        main().unwrap();
    }
}

const README: &str = include_str!("../../../README.md");
const EXAMPLE: &str = include_str!("readme_example.rs");
/// The address in the example.
const SERVER: &str = "127.0.0.1:7000";

#[test]
fn the_example_of_the_readme_answers() {
    assert!(README.contains(&format!("```rust\n{EXAMPLE}```")));
    // It serves until this process ends.
    std::thread::spawn(example::serve);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(SERVER).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let request = Header {
        kind: Kind::Request,
        request_type: 1,
        id: 7,
        payload_len: 0,
        run_time_ns: 0,
    }
    .encode();
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut reply = [0; 64];
    // Before the server listens, the system refuses a datagram.
    let len = loop {
        match client.send(&request).and_then(|_| client.recv(&mut reply)) {
            Ok(len) => break len,
            Err(error) => assert!(Instant::now() < deadline, "no reply: {error}"),
        }
    };
    assert_eq!(len, HEADER_LEN);
    assert_eq!(reply[..len], request[..]);
}
