//! The example of a protocol of one's own measures a server of that protocol.

#[path = "../../examples/own_protocol.rs"]
mod example;

use std::io::{BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

/// Replies with the request, and to `fail` with an error.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = BufReader::new(socket.unwrap());
            thread::spawn(move || {
                loop {
                    let mut len = [0];
                    // The end of the connection.
                    let Ok(()) = socket.read_exact(&mut len) else {
                        return;
                    };
                    let mut word = vec![0; len[0].into()];
                    socket.read_exact(&mut word).unwrap();
                    if word == b"fail" {
                        word[0] = b'!';
                    }
                    let reply = [&len[..], &word].concat();
                    socket.get_mut().write_all(&reply).unwrap();
                }
            });
        }
    });
    addr
}

#[test]
fn a_protocol_of_ones_own_is_measured() {
    let url = format!("blobs://{}", server());
    let mix = "ping@200/s,fail@100/s";
    let report = example::measure(&url, mix, Duration::from_millis(500)).unwrap();
    let [ping, fail] = &report.types[..] else {
        panic!("{report}");
    };
    assert_eq!((&*ping.name, &*fail.name), ("ping", "fail"));
    assert!(ping.summary.completed > 0 && ping.summary.errors.is_empty());
    assert_eq!(fail.summary.completed, 0);
    assert_eq!(fail.summary.errors.keys().collect::<Vec<_>>(), ["REFUSED"]);
    assert_eq!(fail.summary.errors["REFUSED"], fail.summary.scheduled);
    for (mix, reason) in [("two words@1/s", "one word"), ("ping:1", "a weight")] {
        let error = example::measure(&url, mix, Duration::ZERO).unwrap_err();
        assert!(format!("{error:#}").contains(reason), "{error:#}");
    }
    let error = example::measure("blobs://127.0.0.1", "ping@1/s", Duration::ZERO);
    assert!(error.unwrap_err().to_string().contains("port is missing"));
}
